"""Hooks of mkdocs: pages outside docs/, such as README.md and the model cards, become pages of the site."""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from griffe import Extension, Object
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = ["*.md", "model_cards/**/*.md", "model_cards/**/*.png"]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the files outside docs/ under their paths in the repository."""
    for pattern in OUTSIDE:
        for path in ROOT.glob(pattern):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites links, which follow the repository, to the layout of the site, where docs/ is the root."""
    uri = page.file.src_uri
    if uri == "README.md":
        page.meta["hide"] = ["navigation"]  # it would be empty
    folder = dirname(uri if (ROOT / uri).is_file() else f"docs/{uri}")

    def rewrite(link: re.Match[str]) -> str:
        target = normpath(join(folder, link[1])).removeprefix("docs/")
        return f"]({relpath(target, dirname(uri) or '.')}"

    return re.sub(r"\]\((?!https?:)([^)#\s]+\.(?:md|png))", rewrite, markdown)


class Examples(Extension):
    """Reads the section "Example:" of docstrings as code, which griffe does only for "Examples:"."""

    def on_object(self, *, obj: Object, **kwargs: object) -> None:
        """Renames the section."""
        if obj.docstring:
            obj.docstring.value = re.sub("^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
