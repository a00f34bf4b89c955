"""Keeps secrets out of what is written: cards, reports, settings, errors."""

import os
import re
import sys

MASK = "<secret>"
"""Stands where a secret was."""

_SHORTEST = 8  # a shorter value of a secret flag or variable may stand in any text by chance

_KINDS = "token|key|secret|password|passwd"
_NAME = re.compile(rf"(?:\w+[_-])?(?:{_KINDS})", re.IGNORECASE)
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\",;)}\]]+)+"
_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        rf"(?i)(--(?:[\w-]+[_-])?(?:{_KINDS})(?:=|\s+)(?!--)){_VALUE}",  # a flag
        rf"(?i)((?<![?&\w-])[\w-]+[_-](?:{_KINDS})['\"]?\s*[=:]\s*){_VALUE}",  # a variable, a setting
        rf"(?i)([?&](?:[\w-]+[_-])?(?:{_KINDS}|signature|sig|credential)=)[^&\s#'\"]+",  # of an address
        r"(\b\w[\w+.-]*://)[^/\s@'\"]+(?=@)",  # a user of an address
        r"(\bBearer\s+)[\w.~+/-]{16,}",
        r"(\b)hf_[A-Za-z0-9]{20,}\b",
    )
]


def is_secret(name: str) -> bool:
    """Tells whether a flag, a setting or an environment variable of this name holds a secret.

    Args:
        name: The name, without dashes in front.

    Example:
        >>> [is_secret(name) for name in ("hub_token", "WANDB_API_KEY", "max_tokens", "average_tokens")]
        [True, True, False, False]
    """
    return _NAME.fullmatch(name) is not None


def masked(text: str) -> str:
    """Masks the secrets in a text that is to be written or shown.

    These are the values of flags, settings and environment variables with names such as `hub_token` or
    `WANDB_API_KEY`, those of this process in any place, tokens of the Hub, and credentials in addresses.

    Args:
        text: A command line, a message, a setting.

    Returns:
        The text with `<secret>` for each.

    Example:
        >>> masked("train.py --hub_token hf_abc --learning_rate 1e-3")
        'train.py --hub_token <secret> --learning_rate 1e-3'
        >>> masked("https://ada:lovelace@example.org/data.csv?api_key=1815&year=2004")
        'https://<secret>@example.org/data.csv?api_key=<secret>&year=2004'
    """
    for value in _secrets():
        text = text.replace(value, MASK)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text


def _secrets() -> list[str]:
    """The values of the secret flags and environment variables of this process, the longest first."""
    values = [value for name, value in os.environ.items() if is_secret(name)]
    for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.startswith("--") and is_secret(name[2:]):
            values.append(value if equals else following)
    return sorted({value for value in values if len(value) >= _SHORTEST}, key=len, reverse=True)
