"""Data files of the package: recipes and model card templates."""

from pathlib import Path

_HERE = Path(__file__).parent
_PACKAGED = {"recipes": _HERE / "recipes", "model_cards": _HERE / "publishing" / "model_cards"}


def resource(name: str) -> Path:
    """Locates a file of the project, in an installed package or in a checkout of the repository.

    Args:
        name: Path in the repository, such as `recipes/train_table.py`.

    Returns:
        Path of the file.

    Raises:
        FileNotFoundError: If the file does not exist or is not packaged; the message lists similar files.

    Example:
        >>> resource("recipes/train_table.py").name
        'train_table.py'
    """
    root, _, rest = name.partition("/")
    if root not in _PACKAGED or not rest:
        raise FileNotFoundError(
            f"{name!r} is not a resource: resources are in {', '.join(f'{folder}/' for folder in _PACKAGED)}"
        )
    # In a wheel, these folders are inside the package; in a checkout, next to it.
    folder = _PACKAGED[root] if _PACKAGED[root].is_dir() else _HERE.parent / root
    path = folder / rest
    if not path.is_file():
        existing = sorted(f"{root}/{file.name}" for file in folder.glob(f"*{path.suffix}")) if folder.is_dir() else []
        raise FileNotFoundError(f"no file {name!r} in {folder}; it has {', '.join(existing) or 'none'}")
    return path
