"""Reads settings in YAML safely."""

import os
from pathlib import Path
from typing import Any

_MAX_BYTES = 1 << 20
_MAX_DEPTH = 100


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """Reads a YAML file of settings, in UTF-8 and of at most 1 MiB.

    Raises:
        ValueError: If it is not YAML, too long, or has an alias (`*name`): a few lines of these expand to any size.
    """
    import yaml

    with Path(path).open("rb") as stream:
        data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{path} is longer than {_MAX_BYTES:,} bytes, too long for a settings file")
    try:
        text = data.decode("utf-8-sig")
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:  # at each level, the parser takes more time
                raise ValueError("nested too deeply")
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1
                raise ValueError(f"line {line}: aliases are not allowed, replace *{event.anchor[:40]} by its value")
        return yaml.safe_load(text)
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1:,} is not UTF-8"
    except Exception as error:  # an invalid date raises ValueError, a mapping as a key TypeError
        problem = " ".join(str(error).split())[:300]
    raise ValueError(f"{path} is not YAML: {problem}")
