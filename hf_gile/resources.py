"""The files that travel with the package and are no code of it: recipes and templates of model cards."""

from pathlib import Path

_HERE = Path(__file__).parent
_CARRIED = {"recipes": _HERE / "recipes", "model_cards": _HERE / "publishing" / "model_cards"}


def resource(name: str) -> Path:
    """Finds a file of the project, in an installed package as in a checkout of the repository.

    Args:
        name: Its path in the repository, such as `recipes/train_table.py`.

    Returns:
        Where it is.

    Raises:
        FileNotFoundError: There is no such file, or the package does not carry it; the message names the ones near.

    Example:
        >>> resource("recipes/train_table.py").name
        'train_table.py'
    """
    room, _, rest = name.partition("/")
    if room not in _CARRIED or not rest:
        raise FileNotFoundError(
            f"{name!r} is no resource: these are files of {', '.join(f'{one}/' for one in _CARRIED)}"
        )
    # A wheel carries them within the package; a checkout has them beside it.
    folder = _CARRIED[room] if _CARRIED[room].is_dir() else _HERE.parent / room
    path = folder / rest
    if not path.is_file():
        there = sorted(f"{room}/{file.name}" for file in folder.glob(f"*{path.suffix}")) if folder.is_dir() else []
        raise FileNotFoundError(f"no file {name!r} in {folder}; there are {', '.join(there) or 'none'}")
    return path
