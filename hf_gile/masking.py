"""Masks secrets in cards, reports, settings and error messages."""

import os
import re
import sys

MASK = "<secret>"
"""Replacement for a secret."""

_SHORTEST = 8  # shorter values of secrets may occur in any text by chance

_KINDS = "token|key|secret|password|passwd"
_NAME = re.compile(rf"(?:\w+[_-])?(?:{_KINDS})", re.IGNORECASE)
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\",;)}\]]+)+"
_PATTERNS = [
    re.compile(pattern)
    for pattern in (
        rf"(?i)(--(?:[\w-]+[_-])?(?:{_KINDS})(?:=|\s+)(?!--)){_VALUE}",  # a flag
        rf"(?i)((?<![?&\w-])[\w-]+[_-](?:{_KINDS})['\"]?\s*[=:]\s*){_VALUE}",  # a variable, a setting
        rf"(?i)([?&](?:[\w-]+[_-])?(?:{_KINDS}|signature|sig|credential)=)[^&\s#'\"]+",  # in a URL
        r"(\b\w[\w+.-]*://)[^/\s@'\"]+(?=@)",  # credentials in a URL
        r"(\bBearer\s+)[\w.~+/-]{16,}",
        r"(\b)hf_[A-Za-z0-9]{20,}\b",
    )
]


def is_secret(name: str) -> bool:
    """Checks whether a flag, setting or environment variable of this name is secret.

    Args:
        name: The name, without leading dashes.

    Example:
        >>> [is_secret(name) for name in ("hub_token", "WANDB_API_KEY", "max_tokens", "average_tokens")]
        [True, True, False, False]
    """
    return _NAME.fullmatch(name) is not None


def masked(text: str) -> str:
    """Masks the secrets in a text.

    Secrets are the values of flags, settings and environment variables with names such as `hub_token` or
    `WANDB_API_KEY`, their values in this process, tokens of the Hub, and credentials in URLs.

    Args:
        text: Command line, message or setting.

    Returns:
        The text with `<secret>` in place of each secret.

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
    """Returns the values of secret flags and environment variables of this process, longest first."""
    values = [value for name, value in os.environ.items() if is_secret(name)]
    for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.startswith("--") and is_secret(name[2:]):
            values.append(value if equals else following)
    return sorted({value for value in values if len(value) >= _SHORTEST}, key=len, reverse=True)
