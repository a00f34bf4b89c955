r"""Fetch the Deutsche Welle news of the paper, and convert them to training data.

    git clone https://github.com/idiap/mhan                              # the published lists of addresses
    python recipes/crawl_dw.py --urls mhan/data_urls/dw_general --languages english german \
        --output_dir dw_pages --contact you@example.org                  # after Ctrl-C, the same command resumes
    python recipes/crawl_dw.py --output_dir dw_pages --export text       # dw_pages/text/general/train/german.jsonl
    python recipes/crawl_dw.py --output_dir dw_pages --export ids --word_vectors word_vectors
    python recipes/train_dw.py --data dw_pages/ids/general --word_vectors word_vectors

At a second or more per address, the general lists of English and German (245,526 addresses) take three days, and all
lists more than a week. `--max_pages 5000` fetches a sample of all lists, and repeating the command fetches more. Pages
are stored as received, so that another export needs no crawl.

The crawl obeys robots.txt. Read the terms of use of the site; the texts may not be redistributed. In Python,
`hf_gile.data.load_dw_pages("dw_pages", "german", min_count=20)` returns datasets with texts and labels, and the labels.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from transformers import HfArgumentParser

from hf_gile.data import ReadReport, crawl_dw, load_dw_pages, write_dw
from hf_gile.data.deutsche_welle.crawl import read_lists
from hf_gile.data.deutsche_welle.ids import read_word_vectors
from hf_gile.writing import whole_file


@dataclass
class Recipe:
    """Settings of the crawl and of the export."""

    output_dir: str = field(default="dw_pages", metadata={"help": "Folder of the crawl."})
    urls: list[str] = field(default_factory=list, metadata={"help": "Folders of lists: dw_general, dw_specific."})
    languages: list[str] = field(default_factory=list, metadata={"help": "Languages; by default all."})
    contact: str = field(default="", metadata={"help": "Your e-mail address or web page, shown to the site."})
    delay: float = field(
        default=1.0, metadata={"help": "Minimum number of seconds to wait after each answer of a host."}
    )
    max_pages: int | None = field(
        default=None, metadata={"help": "Maximum number of addresses to fetch in this run; by default all."}
    )
    export: Literal["none", "text", "ids"] = field(default="none", metadata={"help": "ids: the published format."})
    labels: Literal["general", "specific"] = field(default="general", metadata={"help": "Sections or keywords."})
    min_count: int = field(default=1, metadata={"help": "Minimum number of training documents per label."})
    word_vectors: str | None = field(
        default=None, metadata={"help": "Folder with word vectors such as LANGUAGE.pkl.gz, for ids."}
    )


def main() -> None:
    parser = HfArgumentParser(Recipe)
    (recipe,) = parser.parse_args_into_dataclasses()
    if recipe.export == "ids" and recipe.word_vectors is None:
        parser.error("--export ids needs --word_vectors")
    if recipe.urls and not recipe.contact:
        parser.error("--contact: identify yourself to the site with your e-mail address or web page")
    if not recipe.urls and recipe.export == "none":
        parser.error("nothing to do: pass --urls to crawl, or --export to convert crawled pages")

    # 1. Fetch pages and store them as received.
    if recipe.urls:
        limits = {"delay": recipe.delay, "max_pages": recipe.max_pages}
        print(crawl_dw(recipe.urls, recipe.output_dir, recipe.contact, recipe.languages, **limits))

    # 2. Export articles with labels, one language at a time, because a large language takes a gigabyte.
    if recipe.export != "none":
        lists = read_lists(Path(recipe.output_dir) / "lists" / recipe.labels, recipe.languages)
        folder = Path(recipe.output_dir) / recipe.export / recipe.labels
        for language in dict.fromkeys(language for *_, language in lists):
            report, limits = ReadReport("skip"), {"min_count": recipe.min_count}
            documents, label_set = load_dw_pages(recipe.output_dir, language, recipe.labels, report, **limits)
            sizes = {split: len(rows) for split, rows in documents.items()}
            print(f"{language}: {sizes}, {len(label_set):,} labels; {report}")
            if recipe.export == "ids":
                vectors, report = read_word_vectors(recipe.word_vectors, language), ReadReport()
                write_dw(documents, label_set, folder, language, vectors, report)
                print(f"  as word ids: {report}")
                continue
            for split, rows in documents.items():  # in the format of datasets.load_dataset("json", ...)
                with whole_file(folder / split / f"{language}.jsonl") as path:
                    rows.to_json(path, force_ascii=False)
            (folder / "labels").mkdir(parents=True, exist_ok=True)
            label_set.save(folder / "labels" / f"{language}.jsonl")
        print(f"written to {folder}")


if __name__ == "__main__":
    main()
