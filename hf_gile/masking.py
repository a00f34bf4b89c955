"""Masks secrets in cards, reports, settings and error messages."""

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

MASK = "<secret>"
"""Replacement for a secret."""

_SHORTEST = 8  # shorter values of secrets may occur in any text by chance

_KINDS = "token|key|apikey|secret|password|passwd|passphrase"
_NAME = re.compile(rf"(?:\w+[_-])?(?:{_KINDS})", re.IGNORECASE)
_LONG_NAME = re.compile(
    rf"[\w-]+_(?:{_KINDS})|(?:api|access|auth|private|client|x-[\w-]+)-?(?:{_KINDS})", re.IGNORECASE
)
_VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\",;)}\]]+)+"
_CONSTANT = r"(?!(?:true|false|none|null)\b)"
_CREDENTIAL = r"(?=[^\s'\"]*[\d=])[\w.~+/=-]"  # with a digit or padding, so no word

# A value that a name, a flag or a scheme before it makes a secret. Only names of several words may end in a colon:
# "Password:" and "Low-key:" are ordinary text.
_IN_CONTEXT = (
    rf"(?i)(--(?:[\w-]+[_-])?(?:{_KINDS})(?:=|\s+)(?!--)){_VALUE}",  # a flag
    rf"(?i)((?<![?&\w-])(?:{_LONG_NAME.pattern})['\"]?\s*[=:]\s*){_CONSTANT}{_VALUE}",  # a variable, a header
    rf"(?i)((?<![?&\w-])(?:[\w-]+-)?(?:{_KINDS})['\"]?\s*=\s*){_CONSTANT}{_VALUE}",
    rf"(?i)([?&](?:[\w-]+[_-])?(?:{_KINDS}|signature|sig|credential)=)[^&\s#'\"]+",  # in a URL
    r"(\b\w[\w+.-]*://)[^/\s'\"?#]+(?=@)",  # credentials in a URL
    r"(?i)(Authorization['\"]?\s*[:=]\s*['\"]?(?:Bearer|Token)\s+)[\w.~+/=-]{8,}",
    r"(?i)(Authorization['\"]?\s*[:=]\s*['\"]?Basic\s+)(?-i:(?=\w*[a-z\d]\w*[A-Z])|(?=\S*[\d=]))[\w+/=-]{6,}",
    rf"(?i)(\b(?:Bearer|Basic)\s+){_CREDENTIAL}{{12,}}",
)

# Credentials that their form tells apart from words.
_BY_FORM = (
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|.*)",
    r"(?:hf|api_org)_[A-Za-z0-9]{20,}",
    r"(?:gh[pousr]|npm|r8|gsk|dop_v1|[srp]k_live|[srp]k_test)_(?=[A-Za-z]*\d)[A-Za-z0-9]{16,}",
    r"(?:github_pat|dckr_pat)_[\w-]{16,}",
    r"(?:gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt|oas)|xox[a-z]|xapp|nvapi|pypi)-(?=[\w-]*\d)[\w-]{10,}",
    r"sk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{20,}",  # also a word in a hyphenated name
    r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"AIza[\w-]{35}",
    r"(?:SG|hvs|ya29)\.(?=[\w.-]*\d)[\w.-]{20,}",
    r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",  # a JSON web token
)

_PATTERNS = [
    *(re.compile(pattern) for pattern in _IN_CONTEXT),
    *(re.compile(rf"(?s)(?<![A-Za-z0-9])(){pattern}") for pattern in _BY_FORM),
]


def is_secret(name: str) -> bool:
    """Checks whether a flag, setting or environment variable of this name, without dashes, is secret.

    Example:
        >>> [is_secret(name) for name in ("hub_token", "WANDB_API_KEY", "max_tokens", "average_tokens")]
        [True, True, False, False]
    """
    return _NAME.fullmatch(name) is not None


def masked(text: str) -> str:
    """Masks the secrets in a text.

    Secrets are the values of flags, settings and environment variables with names such as `hub_token` or
    `WANDB_API_KEY`, their values in this process, credentials in URLs and headers, private keys, and tokens with the
    form of those of the Hub, GitHub, GitLab, Slack, AWS and others. Each becomes `<secret>`.

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


def masked_in(value: object) -> Any:
    """Returns a copy of nested lists, tuples and dictionaries with the secrets in all texts masked.

    Example:
        >>> masked_in({"tags": ["news", "glpat-aB3dE6gH9aB3dE6gH9"], "hub_token": "abc", "epochs": 3})
        {'tags': ['news', '<secret>'], 'hub_token': '<secret>', 'epochs': 3}
    """
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {
            masked_in(name): MASK if isinstance(item, str) and _names_secret(name) else masked_in(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [masked_in(item) for item in value]
    if type(value) is tuple:
        return tuple(masked_in(item) for item in value)
    return value


def _names_secret(name: object) -> bool:
    """Checks whether the value of a name is secret: a single word, such as "password", may be a label."""
    return isinstance(name, str) and _LONG_NAME.fullmatch(name) is not None


def _secrets() -> list[str]:
    """Returns the values of secret flags and environment variables of this process, longest first."""
    values = [value for name, value in os.environ.items() if is_secret(name)]
    for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.startswith("--") and is_secret(name[2:]):
            values.append(value if equals else following)
    return sorted({value for value in values if len(value) >= _SHORTEST}, key=len, reverse=True)
