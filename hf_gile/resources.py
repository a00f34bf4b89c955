"""Data files of the package: recipes and model card templates."""

from pathlib import Path

_HERE = Path(__file__).parent
_PACKAGED = {"recipes": _HERE / "recipes", "model_cards": _HERE / "publishing" / "model_cards"}


def resource(name: str) -> Path:
    """Locates a file of `recipes` or `model_cards`, in an installed package or in a checkout of the repository.

    Raises:
        FileNotFoundError: If the file does not exist or is not packaged.

    Example:
        >>> resource("recipes/train_table.py").name
        'train_table.py'
    """
    root, _, rest = name.partition("/")
    if root in _PACKAGED:
        # In a wheel, these folders are inside the package; in a checkout, next to it.
        for folder in (_PACKAGED[root], _HERE.parent / root):
            if (folder / rest).is_file():
                return folder / rest
    raise FileNotFoundError(f"no file {name!r} in {' or '.join(_PACKAGED)}")
