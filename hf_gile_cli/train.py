"""`hf-gile train` and `hf-gile demo`: run the recipes of the package."""

import runpy
import sys
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer

from .running import note

RECIPES = {
    "table": "a table of texts and labels, with descriptions of the labels if available",
    "bioasq": "MEDLINE abstracts with MeSH headings",
    "dw": "Deutsche Welle news in one or more languages",
    "xmc": "a dataset of the Extreme Classification Repository",
    "units": "a table, with the output layers of the paper, trained in steps; all their settings are options",
}


SETTINGS: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    "options_metavar": "[--recipe NAME] [RECIPE OPTIONS]...",
}
"""Settings of the command `train`, which passes unknown options on."""


def demo(
    output_dir: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the model.")] = Path("runs/demo"),
    epochs: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="Number of epochs; 14 epochs are better.")] = 4,
    overwrite_output_dir: Annotated[
        bool, typer.Option("--overwrite-output-dir", help="Replace the model of an earlier run.")
    ] = False,
) -> None:
    """Train a small model on real abstracts and score unseen labels. Takes a minute or two.

    Nothing is downloaded: the abstracts come with the extra `medline-gpl`. Runs the recipe `bioasq` with fewer
    epochs and a higher learning rate.

        hf-gile demo
        hf-gile demo --epochs 14 --output-dir runs/bioasq
    """
    # With a higher learning rate than the recipe and twice as many steps per epoch, fewer epochs suffice.
    settings = {
        "output_dir": str(output_dir),
        "units": "gile",
        "hidden_act": "tanh",
        "num_train_epochs": str(epochs),
        "per_device_train_batch_size": "32",
        "learning_rate": "1e-2",
        "num_negatives": "500",
        "word_dropout": "0.3",
    }
    flags = [part for name, value in settings.items() for part in (f"--{name}", value)]
    run_recipe("bioasq", [*flags, *(["--overwrite_output_dir"] if overwrite_output_dir else [])])
    model = output_dir / "gile" / "model"
    note(
        f"""
The model is in {model}. Next steps:
  echo "Rats were fed a diet low in iron." | hf-gile score {model}
  echo "Rats were fed a diet low in iron." | hf-gile score {model} --label Anemia --label Toothache
  hf-gile labels show {model} --unseen
  hf-gile train notes.csv --text text --labels tags --separator ";"     train on your own table
  """
    )


def train(
    context: typer.Context,
    recipe: Annotated[str, typer.Option(metavar="|".join(RECIPES), help="Recipe to run.")] = "table",
    help: Annotated[bool, typer.Option("--help", "-h", help="Show the options of the recipe.")] = False,
    help_all: Annotated[
        bool, typer.Option("--help-all", help="Also show the options of transformers.TrainingArguments.")
    ] = False,
    where: Annotated[
        bool, typer.Option("--where", help="Print the path of the recipe, for `accelerate launch`.")
    ] = False,
) -> None:
    """Train a model with a recipe. All other options are passed to it; `--help-all` lists them.

    Files before the options are those of `--train_files`.

    hf-gile train notes.csv --text text --labels tags --separator ";"
    hf-gile train --recipe bioasq --train_files 'medline/*.xml.gz' --label_file desc2024.xml --train_until 2004
    hf-gile train --config mine.yaml --output_dir runs/mine
    accelerate launch $(hf-gile train --where) --config mine.yaml
    """
    from hf_gile.resources import resource

    from .flag_names import unknown_flag

    if recipe not in RECIPES:
        raise typer.BadParameter(f"must be one of {', '.join(RECIPES)}, got {recipe!r}", param_hint="--recipe")
    if where:
        sys.stdout.write(f"{resource(f'recipes/train_{recipe}.py')}\n")
    elif help or help_all:
        about = "\n".join(f"  {name:9}  {words}" for name, words in RECIPES.items())
        sys.stdout.write(f"{context.get_usage()}\n\n{cleandoc(train.__doc__ or '')}\n\nRecipes:\n{about}\n\n")
        sys.stdout.write(f"Options of the recipe {recipe}:\n\n")
        run_recipe(recipe, ["--help_all" if help_all else "--help"])
    else:
        if recipe == "table" and (error := unknown_flag(context.args)):
            note(error)
            raise typer.Exit(2)
        starts_with_files = bool(context.args) and not context.args[0].startswith("-")
        run_recipe(recipe, ["--train_files", *context.args] if starts_with_files else context.args)


def run_recipe(name: str, arguments: list[str]) -> None:
    """Runs one of `RECIPES` in the current process; raises Exit if it exits, ImportError without an extra."""
    from hf_gile.extras import needs_extra

    with needs_extra("train", "training"):
        import accelerate  # noqa: F401
        import datasets  # noqa: F401
        import matplotlib  # noqa: F401
    from hf_gile.resources import resource

    path = resource(f"recipes/train_{name}.py")
    original = sys.argv, sys.path
    sys.argv = [str(path), *arguments]
    sys.path = [str(path.parent), *sys.path]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as error:  # from argparse, or with an error message
        if isinstance(error.code, str):
            raise ValueError(error.code) from None
        if error.code:
            raise typer.Exit(error.code) from None
    finally:
        sys.argv, sys.path = original
