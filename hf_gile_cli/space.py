"""`hf-gile space`: shows a demo page of a model, on this machine or as a Space on the Hub."""

import json
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, LabelColumns, LabelFile, ModelOrGeneral, Revision
from .running import check_new_folder, note
from .saved_model import GENERAL, is_general, is_hub_name, load

if TYPE_CHECKING:
    from hf_gile import LabelSet


@dataclass(kw_only=True)
class Space(LabelColumns):
    """Options of `hf-gile space`."""

    model: ModelOrGeneral = GENERAL
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a folder for a Space on the Hub instead.")
    ] = None
    label_file: LabelFile = None
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="NUMBER", help="Port.  [default: 7860 or the next free port]"),
    ] = None
    device: Device = None
    revision: Revision = None


def space(options: Space) -> None:
    """Show a page to try a model: enter a text and any labels.

    The page is available on this machine only. Without typed labels, it scores those of the model.

        hf-gile space
        hf-gile space runs/mesh/auto/model
        hf-gile space MODEL --label-file thesaurus.ttl
        hf-gile space user/model --output page && hf upload user/page page --repo-type space
    """
    out = options.output
    if out is not None:
        check_new_folder(out)
    from hf_gile.default_pipeline import DefaultPipeline
    from hf_gile.extras import needs_extra
    from hf_gile.space import make_space

    with needs_extra("space", "hf-gile space"):
        gradio = version("gradio")
    labels = options.read(options.label_file) if options.label_file else None
    general = is_general(options.model)
    title = f"Score text with {'labels' if general else Path(options.model).resolve().name}"
    if out is not None and general:
        model_arguments = {}
    elif out is not None and is_hub_name(options.model):
        model_arguments = {"model": repr(options.model), "revision": repr(options.revision or "main")}
    else:
        model, processor = load(options.model, options.revision, options.device, labels.names if labels else ())
        pipe = DefaultPipeline(model=model, processor=processor, device=model.device, chooses_encoder=general)
        if out is None:
            page = make_space(pipe, labels, title)
            settings: dict[str, Any] = {"share": False, "ssr_mode": False, "footer_links": [], "quiet": True}
            settings |= {"server_name": "127.0.0.1", "server_port": options.port, "prevent_thread_lock": True}
            _, address, _ = page.launch(**settings)
            note(f"the page is at {address}; press Ctrl-C to stop")
            page.block_thread()
            return
        pipe.save_pretrained(out / "model")
        model_arguments = {"model": 'str(HERE / "model")'}
    _write(out, title, gradio, model_arguments, labels)
    note(f"{out} is ready: hf upload USER/NAME {out} --repo-type space")


def _write(folder: Path, title: str, gradio: str, model_arguments: dict[str, str], labels: "LabelSet | None") -> None:
    """Writes the files of a Space, except those of its model."""
    folder.mkdir(parents=True, exist_ok=True)
    page_arguments = {"title": repr(title)}
    if labels is not None:
        labels.save(folder / "labels.jsonl")
        page_arguments["labels"] = 'LabelSet.load(HERE / "labels.jsonl")'
    arguments = ({"task": '"label-scoring"'} | model_arguments, page_arguments)
    pipeline, page = (", ".join(f"{name}={value}" for name, value in group.items()) for group in arguments)
    (folder / "app.py").write_text(_APP.format(pipeline=pipeline, page=page), "utf-8")
    (folder / "requirements.txt").write_text(f"hf-gile[space]=={version('hf-gile')}\n", "utf-8")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    settings = {"title": title, "sdk": "gradio", "sdk_version": gradio, "python_version": python, "app_file": "app.py"}
    lines = [f"{name}: {json.dumps(value)}" for name, value in settings.items()]  # JSON is YAML
    (folder / "README.md").write_text("\n".join(["---", *lines, "---", "", _README]), "utf-8")


_APP = """\
from pathlib import Path

from hf_gile import LabelSet
from hf_gile.space import make_space
from transformers import pipeline

HERE = Path(__file__).parent

pipe = pipeline({pipeline})
make_space(pipe, {page}).launch()
"""

_README = """\
Enter a text, and a label per line: each label gets a probability. Written by `hf-gile space`.
"""
