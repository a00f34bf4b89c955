import gzip
import json
import sys
import warnings

import pytest

from hf_gile.data import ReadReport
from hf_gile.data.skos import DESCRIPTIONS, load_skos

rdflib = pytest.importorskip("rdflib", reason="SKOS is read by rdflib: pip install 'hf-gile[data]'")

HEAD = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xl: <http://www.w3.org/2008/05/skos-xl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix ex: <http://example.org/> .
"""
HEART = """
ex:organs a skos:ConceptScheme ; skos:prefLabel "Organs"@en ; skos:hasTopConcept ex:2 .
ex:2 a skos:Concept ; skos:prefLabel "organ"@en, "Organ"@de ; skos:narrower ex:10 .
ex:10 a skos:Concept ; skos:inScheme ex:organs ; skos:prefLabel "heart"@en, "Herz"@de, "cœur"@fr ;
    skos:altLabel "pump"@en, "cor"@en, "Pumpe"@de ; skos:hiddenLabel "haert"@en ; skos:scopeNote "Of all animals."@en .
ex:11 a skos:Concept ; skos:inScheme ex:organs ; skos:broader ex:10 ; skos:prefLabel "heart valve"@en, "Herzklappe"@de ;
    skos:definition "Keeps blood from\\n flowing back."@en ; skos:scopeNote "Not of veins."@en .
"""
FORMATS = {".nt": "nt", ".nq": "nquads", ".ttl": "turtle", ".n3": "n3", ".trig": "trig"}
FORMATS |= {".rdf": "xml", ".owl": "xml", ".jsonld": "json-ld", ".json": "json-ld"}


def in_format(turtle, kind):
    """Converts statements to another format."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        dataset = rdflib.Dataset(default_union=True)
        graph = dataset.graph("http://example.org/graph") if kind in ("trig", "nquads") else rdflib.Graph()
        graph.parse(data=turtle, format="turtle")
        return (dataset if kind in ("trig", "nquads") else graph).serialize(format=kind)


@pytest.fixture
def labels_of(write):
    """Reads the labels of statements in Turtle."""
    return lambda turtle, *arguments, **options: load_skos(write("a.ttl", HEAD + turtle), *arguments, **options)


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_labels(write, suffix):
    expected = load_skos(write("a.ttl", HEAD + HEART), "en", DESCRIPTIONS)
    content = in_format(HEAD + HEART, FORMATS[suffix]).encode()
    marked = b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n")
    files = {f"b{suffix}": content, f"b{suffix.upper()}.GZ": gzip.compress(content), f"d{suffix}": marked}
    for name, data in files.items():
        assert load_skos(write(name, data), "en", DESCRIPTIONS) == expected


def test_labels_are_concepts_sorted_by_uri_in_natural_order(labels_of, report):
    labels = labels_of(HEART, describe=(), report=report)
    assert [uri.rpartition("/")[2] for uri in labels.ids] == ["2", "10", "11"]
    assert labels.texts == ["organ", "heart", "heart valve"]
    assert str(report) == "3 records from 1 file; left out: none"
    numbers = ["007", "7", "11", "9" * 5003, "a", "a1b3", "a1b20"]
    concepts = [f'<http://example.org/{number}> a skos:Concept ; skos:prefLabel "{number}"@en .' for number in numbers]
    assert labels_of("".join(reversed(concepts))).names == numbers


NAMES = """ex:1 a skos:Concept ; skos:prefLabel "plain" , "colour"@en-GB , "color"@en-US , "Farbe"@DE ;
    skos:altLabel "hue", "dye"@en-US , "paint"@en , "Ton"@de-AT ."""
XL = """ex:1 a skos:Concept ; xl:prefLabel ex:1en, ex:1de ; xl:altLabel [a xl:Label ; xl:literalForm "cor"@en] ;
    xl:hiddenLabel [xl:literalForm "haert"@en] ;
    skos:definition [rdf:value "A pump."@en ; ex:source ex:book], ex:none .
ex:1en xl:literalForm "heart"@en . ex:1de xl:literalForm "Herz"@de .
ex:2 a skos:Concept ; xl:prefLabel ex:none ."""
CIRCLE = """ex:1 a skos:Concept ; skos:prefLabel "a"@en ; skos:broader ex:2 ; skos:narrower ex:3 .
ex:2 a skos:Concept ; skos:prefLabel "b"@en ; skos:broader ex:3 . ex:3 a skos:Concept ; skos:prefLabel "c"@en ."""


@pytest.mark.parametrize(
    ("statements", "language", "describe", "texts"),
    [
        (HEART, "en", "definition", ["organ", "heart: Of all animals", "heart valve: Keeps blood from flowing back"]),
        (HEART, "en", ["alt_labels", "broader"], ["organ", "heart: cor; pump. organ", "heart valve: organ > heart"]),
        (NAMES, "en", "alt_labels", ["colour: paint; dye"]),
        (NAMES, "EN-us", "alt_labels", ["color: dye"]),
        (NAMES, ("fr", "en-US", "de"), "alt_labels", ["color: dye"]),
        (NAMES, "fr", "alt_labels", ["plain: hue"]),
        (NAMES, ["de-AT", "en"], "alt_labels", ["colour: Ton"]),
        (XL, "en", DESCRIPTIONS, ["heart: cor. A pump"]),
        (XL, "de", DESCRIPTIONS, ["Herz"]),
        (CIRCLE, "en", "broader", ["a: c > b", "b: a > c", "c: b > a"]),
        ("ex:1 a skos:Concept ; skos:prefLabel 'a'@en ; skos:broader ex:1 .", "en", "broader", ["a"]),
    ],
)
def test_descriptions_have_the_chosen_parts_in_the_best_language(labels_of, statements, language, describe, texts):
    assert labels_of(statements, language, describe).texts == texts


def test_alternative_and_hidden_labels_become_synonyms_and_broader_concepts_parents(labels_of):
    assert [label.synonyms for label in labels_of(HEART)] == [(), ("cor", "pump", "haert"), ()]
    assert [label.synonyms for label in labels_of(HEART, language="de")] == [(), ("Pumpe",), ()]
    organ, heart = "http://example.org/2", "http://example.org/10"
    labels = labels_of(f"{HEART}\nex:11 skos:broader ex:2, ex:11 .")
    assert [label.broader for label in labels] == [(), (organ,), (organ, heart)]


def test_a_vocabulary_may_span_several_files_and_folders(write, tmp_path, report):
    write("organs/a.ttl", HEAD + HEART)
    write("organs/README.md", "not read")
    more = write("dutch.ttl", HEAD + "ex:10 skos:prefLabel 'hart'@nl . ex:2 skos:prefLabel 'orgaan'@nl .")
    labels = load_skos([tmp_path / "organs", more, str(more)], "nl", "broader", report=report)
    assert labels.texts == ["orgaan", "hart: orgaan"]
    assert str(report) == "2 records from 2 files; left out: without a name in nl (1)"
    assert load_skos(str(tmp_path / "organs")).names == ["organ", "heart", "heart valve"]


def test_unusable_concepts_are_skipped_and_counted(labels_of, report):
    statements = """
    [] a skos:Concept ; skos:prefLabel "nameless"@en .
    ex:1 a skos:Concept ; skos:prefLabel "old"@en ; owl:deprecated true .
    ex:2 a skos:Concept ; skos:prefLabel "new"@en ; owl:deprecated false .
    ex:3 a skos:Concept ; skos:prefLabel "neu"@de .
    ex:4 a skos:Collection ; skos:prefLabel "collection"@en .
    """
    assert labels_of(statements, report=report).names == ["new"]
    assert report.left_out == {"without a URI": 1, "deprecated": 1, "without a name in en": 1}
    with pytest.raises(ValueError, match="no concept has a URI, the id of a label: write it, as rdf:about"):
        labels_of('[] a skos:Concept ; skos:prefLabel "nameless"@en .')
    assert report.examples["deprecated"][0].endswith("a.ttl: http://example.org/1")


RETIRED = [
    "owl:deprecated 'true'",
    "owl:deprecated 1",
    "<http://publications.europa.eu/ontology/euvoc#status> <http://a.org/concept-status/DEPRECATED>",
    "<http://www.w3.org/2003/06/sw-vocab-status/ns#term_status> 'archaic'",
    "<http://purl.org/dc/terms/isReplacedBy> ex:2",
    "a owl:DeprecatedClass",
]


@pytest.mark.parametrize("statement", [*RETIRED, "owl:deprecated 0"])
def test_retired_concepts_are_left_out_with_their_ids(labels_of, statement, report):
    labels = labels_of(f"ex:1 a skos:Concept ; skos:prefLabel 'a'@en ; {statement} . {CONCEPT_2}", report=report)
    is_retired = statement in RETIRED
    assert labels.names == ["a", "b"][is_retired:]
    assert report.ids_left_out == ({"http://example.org/1": "deprecated"} if is_retired else {})


CONCEPT_2 = "ex:2 a skos:Concept ; skos:prefLabel 'b'@en ."
UNTYPED = {
    "in a scheme": "ex:1 skos:inScheme ex:s . ex:2 skos:inScheme ex:s .",
    "linked": "ex:2 skos:broader ex:1 .",
    "of a subclass": "ex:A rdfs:subClassOf ex:B . ex:B rdfs:subClassOf skos:Concept . ex:1 a ex:A . ex:2 a ex:B .",
    "members of a collection": "",
}


@pytest.mark.parametrize("links", UNTYPED.values(), ids=UNTYPED)
def test_concepts_may_be_without_their_class(labels_of, links):
    others = """
    ex:s a skos:ConceptScheme ; skos:prefLabel "things"@en .
    ex:c a skos:Collection ; skos:prefLabel "both"@en ; skos:inScheme ex:s ; skos:member ex:1, ex:2 .
    ex:d skos:prefLabel "untyped collection"@en ; skos:inScheme ex:s ; skos:member ex:1 .
    ex:e a <http://purl.org/iso25964/skos-thes#ThesaurusArray> ; skos:prefLabel "array"@en ; skos:inScheme ex:s .
    """
    labels = labels_of(f"{PREFIXES} {others} ex:1 skos:prefLabel 'heart'@en . ex:2 skos:prefLabel 'valve'@en . {links}")
    assert labels.names == ["heart", "valve"]


@pytest.mark.parametrize(
    "link",
    [
        "ex:2 skos:broaderTransitive ex:1 .",
        "ex:2 <http://purl.org/iso25964/skos-thes#broaderGeneric> ex:1 .",
        "ex:1 <http://purl.org/iso25964/skos-thes#narrowerPartitive> ex:2 .",
        "ex:2 <http://vocab.getty.edu/ontology#broaderPreferred> ex:1 .",
    ],
)
def test_all_kinds_of_hierarchical_links_lead_to_parents(labels_of, link):
    labels = labels_of(f"{CONCEPT_2} ex:1 a skos:Concept ; skos:prefLabel 'a'@en . {link}")
    assert [label.broader for label in labels] == [(), ("http://example.org/1",)]


OTHER_KINDS = {
    "rdfs:label": (
        """ex:1 a skos:Concept ; rdfs:label 'heart'@en .
        ex:2 a skos:Concept ; rdfs:label 'lung'@en ; skos:broader ex:1 .""",
        "2 names are from rdfs:label",
    ),
    "GND": (
        """ex:1 a gndo:SubjectHeadingSensoStricto ; gndo:preferredNameForTheSubjectHeading "heart" .
        ex:2 a gndo:SubjectHeading ; gndo:preferredName "lung" ; gndo:variantNameForTheSubjectHeading "pulmo" ;
            gndo:broaderTermGeneral ex:1 ; gndo:definition "It breathes." .""",
        "read as GND",
    ),
    "MeSH RDF": (
        """ex:1 a meshv:TopicalDescriptor ; rdfs:label "heart"@en ; meshv:active true .
        ex:2 a meshv:TopicalDescriptor ; rdfs:label "lung"@en ; meshv:broaderDescriptor ex:1 ;
            meshv:preferredConcept ex:M .
        ex:3 a meshv:TopicalDescriptor ; rdfs:label "old"@en ; meshv:active false .
        ex:M a meshv:Concept ; rdfs:label "lung"@en ; meshv:scopeNote "It breathes."@en ; meshv:term ex:T .
        ex:T a meshv:Term ; meshv:prefLabel "pulmo"@en .""",
        "read as MeSH RDF",
    ),
    "MADS": (
        """ex:1 a madsrdf:Topic, madsrdf:Authority ; madsrdf:authoritativeLabel "heart"@en .
        ex:2 a madsrdf:Topic, madsrdf:Authority ; madsrdf:authoritativeLabel "lung"@en ;
            madsrdf:definitionNote "It breathes."@en ; madsrdf:hasBroaderAuthority ex:1 ;
            madsrdf:hasVariant [a madsrdf:Topic, madsrdf:Variant ; madsrdf:variantLabel "pulmo"@en] .""",
        "read as MADS/RDF",
    ),
    "OWL": (
        """ex:1 a owl:Class ; rdfs:label "heart" .
        ex:2 a owl:Class ; rdfs:label "lung"@en ; rdfs:subClassOf ex:1, [a owl:Restriction] ;
            <http://www.geneontology.org/formats/oboInOwl#hasExactSynonym> "pulmo" ; rdfs:comment "It breathes."@en .
        ex:3 a owl:Class ; rdfs:label "old" ; owl:deprecated true .""",
        "read as OWL",
    ),
    "OWL with names of SKOS": (
        """ex:1 a owl:Class ; rdfs:label "heart" ; skos:prefLabel "heart"@en .
        ex:2 a owl:Class ; rdfs:label "lung"@mul ; skos:prefLabel "lung"@en ; rdfs:subClassOf ex:1 .
        ex:p a owl:ObjectProperty ; skos:prefLabel "part of"@en . ex:3 skos:prefLabel "other"@en .""",
        "read as OWL",
    ),
    "schema.org": (
        """ex:1 a schema:DefinedTerm ; schema:name "heart" .
        ex:2 a schema:DefinedTerm ; schema:name "lung" ; schema:alternateName "pulmo" ; schema:broader ex:1 ;
            schema:description "It breathes." .""",
        "read as schema.org",
    ),
}
PREFIXES = """
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix gndo: <https://d-nb.info/standards/elementset/gnd#> .
@prefix meshv: <http://id.nlm.nih.gov/mesh/vocab#> .
@prefix madsrdf: <http://www.loc.gov/mads/rdf/v1#> .
@prefix schema: <https://schema.org/> .
"""


@pytest.mark.parametrize(("statements", "note"), OTHER_KINDS.values(), ids=OTHER_KINDS)
def test_other_kinds_of_vocabularies_are_read(labels_of, statements, note, report):
    heart, lung = labels_of(PREFIXES + statements, report=report)
    assert (heart.name, lung.name, lung.broader) == ("heart", "lung", ("http://example.org/1",))
    if "pulmo" in statements:
        assert (lung.synonyms, lung.description) == (("pulmo",), "It breathes")
    assert report.notes == [note]


def test_names_of_properties_may_start_with_https(write):
    content = (HEAD + HEART).replace("http://www.w3.org/2004", "https://www.w3.org/2004")
    assert load_skos(write("a.ttl", content)).names == ["organ", "heart", "heart valve"]


@pytest.mark.parametrize("root", ['Ontology xmlns="http://www.w3.org/2002/07/owl#"', "thesaurus"])
def test_xml_that_is_no_rdf_is_refused_with_what_to_do(write, root):
    message = rf"a\.xml: .* root <{root.split()[0]}> is not of RDF: convert it to SKOS, or"
    for space in ("", "\n"):
        content = f"<{root}>{space}<term>{space}heart</term></{root.split()[0]}>"
        with pytest.raises(ValueError, match=message):
            load_skos(write("a.xml", content))


def test_unknown_kinds_name_their_classes_and_texts(labels_of):
    statements = "ex:1 a ex:Topic ; ex:title 'heart' . ex:2 a ex:Topic ; ex:title 'lung' ; rdfs:label 'lung' ."
    message = r"classes http://example.org/Topic \(2\) and texts in http://example.org/title \(2\), rdfs:label \(1\)"
    with pytest.raises(ValueError, match=message):
        labels_of(PREFIXES + statements)


def test_homonyms_are_distinguished_by_their_descriptions(labels_of, report):
    statements = """
    ex:1 a skos:Concept ; skos:prefLabel "planet"@en . ex:2 a skos:Concept ; skos:prefLabel "metal"@en .
    ex:3 a skos:Concept ; skos:prefLabel "mercury"@en ; skos:broader ex:1 .
    ex:4 a skos:Concept ; skos:prefLabel "mercury"@en ; skos:broader ex:2 .
    ex:7 a skos:Concept ; skos:prefLabel "seal"@en ; skos:notation "Z7" .
    ex:8 a skos:Concept ; skos:prefLabel "seal"@en ; skos:notation "A8", "B8" .
    ex:9 a skos:Concept ; skos:prefLabel "bat"@en .
    <http://example.org/b#bat/> a skos:Concept ; skos:prefLabel "bat"@en .
    <http://other.org/9> a skos:Concept ; skos:prefLabel "bat"@en .
    """
    assert labels_of(HEART).texts == labels_of(HEART, "en", "definition").texts
    texts = labels_of(statements, describe=(), report=report).texts
    assert texts[:6] == ["planet", "metal", "mercury: planet", "mercury: metal", "seal: Z7", "seal: A8"]
    assert texts[6:] == ["bat: 9. http://example.org/9", "bat: bat", "bat: 9. http://other.org/9"]
    assert not report.left_out
    assert report.homonyms == 7


def test_blank_nodes_of_two_files_are_not_confused(write, tmp_path):
    statements = "ex:{0} a skos:Concept ; xl:prefLabel _:a . _:a xl:literalForm '{0}'@en ."
    for number in "35":
        write(f"{number}.ttl", HEAD + statements.format(number))
    assert load_skos(tmp_path).names == ["3", "5"]


CONCEPT = "<http://example.org/1> a skos:Concept ; skos:prefLabel 'a'@en .\n"
TRIPLES = in_format(HEAD + CONCEPT, "nt")
RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">\n'
ENTITIES = "<?xml version='1.0'?><!DOCTYPE r [<!ENTITY a '{}'>{}]>" + RDF + "<a>{}</a></rdf:RDF>"
LAUGHS = "".join(f'<!ENTITY {chr(ord(name) + 1)} "{f"&{name};" * 10}">' for name in "abcdefgh")
LONG_ENTITY = ENTITIES.format("x" * 50_000, "", "&a;" * 5_000)
BOMB = gzip.compress((HEAD + CONCEPT).encode() + b"#" * (17 << 20), 1)
DAMAGED = {
    "empty": ("a.ttl", "", "expected RDF .*, got empty"),
    "Turtle cut off": ("a.ttl", HEAD + CONCEPT + "<http://example.org/2> a [", r"at line 8 of <>: Bad syntax \(EOF"),
    "Turtle with Latin-1": ("a.ttl", (HEAD + CONCEPT + "# ü").encode("latin-1"), "can't decode byte 0xfc"),
    "nested deeply": ("a.ttl", HEAD + CONCEPT + "ex:1 ex:2 " + "[ ex:3 " * 5003, "recursion"),
    "triples cut off": ("a.nt", TRIPLES + '<http://example.org/1> <http://example.org/2> "a', 'Invalid line .*"a'),
    "XML cut off": ("a.rdf", RDF + "<rdf:Description>", ":2:17: no element found"),
    "a table": ("a.csv", "id,name\n1,heart\n", "expected RDF .*, got csv"),
    "a web page": ("a.ttl", "<!DOCTYPE html><html><body>Sign in</body></html>", "is a web page"),
    "a pointer": ("a.nt", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS"),
    "JSON nested deeply": ("a.json", "[" * 100_003, "recursion"),
    "other JSON": ("a.json", '{"articles": []}', "no statements: convert it to SKOS, or to a table"),
    "nested entities": ("a.rdf", ENTITIES.format("lol", LAUGHS, "&i;"), "the entity 'b' is not a short text"),
    "a long entity": ("a.rdf", LONG_ENTITY, "the entity 'a' is not a short text"),
    "a long line": ("a.nt", TRIPLES + "x" * 300_000, "N-Triples: a line is longer than 262,144 bytes"),
    "packed and long": ("a.ttl.gz", BOMB, r"expands to more than 32 times .* decompress it \(gunzip\)"),
    "packed and cut off": ("a.nt.gz", gzip.compress(TRIPLES.encode() * 9)[:-9], "Compressed file ended before the end"),
}


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named_or_skipped(write, name, content, message, lenient):
    good = write("good.ttl", f"{HEAD} ex:7 a skos:Concept ; skos:prefLabel 'good'@en .")
    bad = write(name, content)
    with pytest.raises(ValueError, match=rf'{name}: .*{message}.*; fix it, or pass on_error="skip"'):
        load_skos([good, bad])
    assert "good" in load_skos([good, bad], report=lenient).names
    assert lenient.left_out == {"damaged file": 1}


def test_skip_mode_keeps_concepts_before_the_damage(write):
    for name, content in (
        ("a.ttl", HEAD + CONCEPT + "damage"),
        ("a.rdf", in_format(HEAD + CONCEPT, "xml").replace("</rdf:RDF>", "")),
        ("a.nt.gz", gzip.compress((TRIPLES + "# comment\n" * 1009).encode(), compresslevel=0)[:-99]),
    ):
        assert load_skos(write(name, content), report=ReadReport(on_error="skip")).names == ["a"]


@pytest.mark.parametrize("text", ["'a\\u0000b'@en", "'a'@en ; skos:notation '\\uD83D'"])
def test_invalid_characters_are_reported_with_the_concept(labels_of, text, lenient):
    statements = f"ex:3 a skos:Concept ; skos:prefLabel {text} . {CONCEPT_2}"
    with pytest.raises(ValueError, match=r"/3: a text contains (a NUL character|a lone surrogate)"):
        labels_of(statements)
    assert labels_of(statements, report=lenient).names == ["b"]
    assert lenient.left_out == {"malformed label": 1}


def test_empty_results_name_the_available_choices(labels_of):
    message = r"a\.ttl: 3 concepts; names requested in nl or es, available in en \(4\), de \(3\), fr \(1\); choose"
    with pytest.raises(ValueError, match=message):
        labels_of(HEART, ["nl", "es"])
    with pytest.raises(ValueError, match="0 concepts; names requested in en, available in none; expected SKOS, GND"):
        labels_of("ex:1 ex:2 ex:3 .")


def test_external_resources_are_not_loaded(write, tmp_path):
    skos = "http://www.w3.org/2004/02/skos/core#"
    names = {"name": f"{skos}prefLabel"}
    context = write("context.jsonld", json.dumps({"@context": names}))
    concept = {"@id": "http://example.org/1", "@type": f"{skos}Concept", "name": "a"}
    message = r"a\.jsonld: read as JSON-LD: @(context|import) is the URL '.*', which is not fetched"
    for reference in (context.as_uri(), ["http://127.0.0.1:1/context", {}], {"@import": context.as_uri()}):
        data = [{"@graph": [{"@context": reference, **concept}]}]
        with pytest.raises(ValueError, match=message):
            load_skos(write("a.jsonld", json.dumps(data)))
    assert load_skos(write("a.jsonld", json.dumps({"@context": names, **concept}))).names == ["a"]

    write("secret", "SECRET")
    entity = f'<!DOCTYPE rdf:RDF [<!ENTITY leak SYSTEM "file://{tmp_path}/secret">]>\n'
    content = in_format(HEAD + CONCEPT.replace("'a'", "'a leak'"), "xml").replace("?>", f"?>{entity}")
    assert load_skos(write("a.rdf", content.replace("a leak", "a &leak;"))).names == ["a"]


def test_invalid_choices_and_a_missing_parser_are_named(labels_of, monkeypatch):
    with pytest.raises(ValueError, match='language must be a tag such as "en", or several, got'):
        labels_of(HEART, [""])
    with pytest.raises(ValueError, match=r"expected names among alt_labels, .*, got \['entry_terms'\]"):
        labels_of(HEART, "en", "entry_terms")
    monkeypatch.setitem(sys.modules, "rdflib", None)
    with pytest.raises(ImportError, match=r"pip install 'hf-gile\[data\]'"):
        labels_of(HEART)


def test_json_ld_may_have_a_document_on_each_line(write):
    context = {"skos": "http://www.w3.org/2004/02/skos/core#"}
    name = {"@language": "en", "@value": "Cats &amp; <i>mice</i>"}
    concepts = [{"@id": f"http://a.org/{number}", "@type": "skos:Concept", "skos:prefLabel": name} for number in (3, 5)]
    lines = [json.dumps({"@context": context, "@graph": [concept]}) for concept in concepts]
    labels = load_skos(write("a.jsonld", "\n".join(lines)))
    assert (labels.ids, labels.names) == (["http://a.org/3", "http://a.org/5"], ["Cats & mice"] * 2)


def test_rules_of_notation_3_are_passed_over(write):
    concept = CONCEPT_2.replace("'", '"')
    assert load_skos(write("a.n3", f"{HEAD} {concept} {{ ?a a ?b }} => {{ ?b a ?a }} .")).names == ["b"]
