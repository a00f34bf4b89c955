"""Fuzz targets: every reader, on damaged files of its format and on random bytes."""

# ruff: noqa: E501 (literal files)

import atexit
import io
import json
import pickle
import shutil
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzzing import Crash, Target
from hypothesis import strategies as st
from mutations import mutated
from papers import xmc
from papers.binary_vectors import load_binary_vectors
from papers.bioasq import read_bioasq
from papers.pickled_vectors import load_pickled_vectors
from papers.records import read_records
from papers.safe_pickle import load_pickle

from hf_gile import Label, LabelSet
from hf_gile.data import (
    ReadReport,
    load_annif,
    load_annif_vocabulary,
    load_labels,
    load_mesh,
    load_skos,
    load_table,
    load_word_vectors,
    read_documents,
    save_labels,
)
from hf_gile.data.loading import Piece
from hf_gile.yaml_files import read_yaml

FOLDER = Path(tempfile.mkdtemp(prefix="hf-gile-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

_LABELS = LabelSet(
    [
        Label("D1", "Heart Failure", 'the heart, pumps less; "blood"', "en", True, 7, 0.25, ("weak heart", "a;b")),
        Label("D2", "Herzschwäche", "", "de", synonyms=("schwaches Herz",)),
        Label("D3", "Iron"),
    ]
)


def reading(name, file, files, read, tokens=()):
    """Creates the target of a reader of a whole file, whose errors must name the file.

    Files are valid; tokens mean something in their format.
    """
    return Target(name, "Readers", mutated(files, tokens), partial(_attempt, file=f"{name}-{file}", read=read))


def _attempt(data, file, read):
    path = FOLDER / file
    path.write_bytes(data)
    try:
        read(path)
    except (ValueError, OSError) as error:
        if file not in str(error):
            raise Crash(f"a refusal that does not name the file: {error}") from error
        raise


def _saved(suffix):
    path = FOLDER / f"saved{suffix}"
    (save_labels if suffix == ".csv" else LabelSet.save)(_LABELS, path)
    return path.read_bytes()


_TEXTS = st.text(max_size=20) | st.sampled_from(
    [";", "\\;", "a;b", '"', "\r", "\n", "\0", "\ufeff", " a ", "x" * 200_000]
)
_DRAWN = st.builds(
    Label,
    id=_TEXTS | st.uuids().map(str),
    name=_TEXTS | st.uuids().map(str),
    description=_TEXTS,
    language=st.none() | st.just("en"),
    seen=st.booleans(),
    count=st.integers(0, 1 << 70),
    threshold=st.none() | st.floats(0, 1),
    synonyms=st.lists(_TEXTS.map(str.strip), max_size=3).map(tuple),
)


def _round_trip(labels):
    path = FOLDER / "round-trip.jsonl"
    label_set = LabelSet(labels)
    label_set.save(path)
    if LabelSet.load(path) != label_set:
        raise Crash("a label set that comes back otherwise")


_ROWS = [
    {"id": "1", "text": "On mice, and rats.", "labels": ["mice", "rats"]},
    {"id": "2", "text": "Über Mäuse", "labels": ["mice"]},
]
_CSV = 'id,text,labels\r\n1,"On ""mice"", and\nrats.",mice; rats\r\n2,Über Mäuse,mice\r\n'.encode()
_JSONL = "\n".join(json.dumps(row, ensure_ascii=False) for row in _ROWS).encode()
_ARTICLES = """{"articles": [
{"pmid": "5", "title": "On mice.", "abstractText": "Mice.", "year": "1976", "meshMajor": ["Animals", "Mice"]},
{"pmid": 7, "title": null, "abstractText": "Rats ü.", "year": 1977, "meshUI": ["D1"], "meshMajor": ["Rats"]}]}""".encode()
_RECORDS = b"\n".join(_ARTICLES.splitlines()[1:]).replace(b"},", b"}").removesuffix(b"]}")
_MEDLINE = b"""<?xml version="1.0" encoding="utf-8"?><PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">5</PMID>
<Article><Journal><JournalIssue><PubDate><Year>1976</Year></PubDate></JournalIssue></Journal><ArticleTitle>On <i>mice</i>.</ArticleTitle>
<Abstract><AbstractText Label="AIM">Mice &amp; rats.</AbstractText><AbstractText>Seen.</AbstractText></Abstract></Article>
<MeshHeadingList><MeshHeading><DescriptorName UI="D051379">Mice</DescriptorName></MeshHeading></MeshHeadingList></MedlineCitation>
</PubmedArticle><DeleteCitation><PMID Version="1">7</PMID></DeleteCitation></PubmedArticleSet>"""
_MESH_XML = b"""<?xml version="1.0"?><DescriptorRecordSet><DescriptorRecord><DescriptorUI>D1</DescriptorUI><DescriptorName><String>Heart
</String></DescriptorName><TreeNumberList><TreeNumber>C14.280</TreeNumber></TreeNumberList><ConceptList><Concept PreferredConceptYN="Y">
<ScopeNote>A pump.</ScopeNote><TermList><Term IsPermutedTermYN="N"><String>Hearts</String></Term></TermList></Concept></ConceptList>
</DescriptorRecord></DescriptorRecordSet>"""
_MESH_ASCII = b"*NEWRECORD\nRECTYPE = D\nMH = Heart\nENTRY = Hearts|T1|NON\nMN = A07.541\nMS = A pump.\nUI = D1\n\n*NEWRECORD\nMH = B\nUI = D2\n"
_MESH_JSON = (
    b'{"ui": "D1", "name": "Heart", "synonyms": ["Hearts"], "tree": ["A07.541"], "definition": "A <b>pump</b>."}\n'
)
_TURTLE = b"""@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix ex: <http://example.org/> .
ex:1 a skos:Concept ; skos:prefLabel "Heart"@en , "Herz"@de ; skos:broader ex:2 ; skos:altLabel "Hearts"@en .
ex:2 a skos:Concept ; skos:prefLabel "Organ"@en ; skos:definition [ <http://www.w3.org/1999/02/22-rdf-syntax-ns#value> "A part."@en ] .
"""
_NTRIPLES = b"""<http://example.org/1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/2004/02/skos/core#Concept> .
<http://example.org/1> <http://www.w3.org/2004/02/skos/core#prefLabel> "Heart"@en .
"""
_RDF = b"""<?xml version="1.0"?><!DOCTYPE r [<!ENTITY ex "http://example.org/">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="http://www.w3.org/2004/02/skos/core#">
<skos:Concept rdf:about="&ex;1"><skos:prefLabel xml:lang="en">Heart</skos:prefLabel></skos:Concept></rdf:RDF>"""
_JSONLD = b"""[{"@id": "http://example.org/1", "@type": ["http://www.w3.org/2004/02/skos/core#Concept"],
"http://www.w3.org/2004/02/skos/core#prefLabel": [{"@value": "Heart", "@language": "en"}]}]"""
_VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)
_WORDS = ["the", "heart", "žižek"]
_XMC = {
    "trn_X.txt": "a->On mice\nb->On rätten\n".encode(),
    "trn_X_Y.txt": b"2 2\n0:1.0 1:1.0\n1:1.0\n",
    "Y.txt": b"Mice\nRats\n",
    "trn_filter_labels.txt": b"0 1\n",
}


def _pickles():
    values = [(_WORDS, _VECTORS.tolist()), (np.array(_WORDS), list(_VECTORS)), [{"a": {1, 2}}, (None, 1.5)]]
    return [pickle.dumps(value, protocol) for value in values for protocol in (0, 2, 4, 5)]


def _npz(**arrays):
    sink = io.BytesIO()
    np.savez_compressed(sink, **arrays)
    return sink.getvalue()


def _parquet():
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(_ROWS), sink)
    return sink.getvalue()


def _xmc(name):
    def read(path):
        folder = FOLDER / f"xmc-{name}"
        folder.mkdir(exist_ok=True)
        for other, content in _XMC.items():
            (folder / other).write_bytes(content)
        shutil.copy(path, folder / name)
        report = ReadReport()
        labels = xmc._read_labels(folder / "Y.txt", "utf-8", report)
        gold, excluded = folder / "trn_X_Y.txt", str(folder / "trn_filter_labels.txt")
        if name.endswith(".npz"):
            gold = folder / name
        options = {"gold": str(gold), "excluded": excluded, "num_labels": len(labels), "encoding": "utf-8"}
        for _ in xmc._read_documents(Piece(str(folder / "trn_X.txt")), report, **options):
            pass

    return read


def _all(read, **options):
    def run(path):
        result = read(path, **options)
        for _ in result[0] if options else result:
            pass

    return run


_table = _all(load_table, separator=";", streaming=True)
_annif = _all(load_annif, streaming=True)


_INDEXES = {"indptr": np.array([0, 2, 3]), "indices": np.array([0, 1, 1])}
_CSR = {"format": np.array("csr"), "shape": np.array([2, 2]), **_INDEXES}
_MARKUP = [b"<PubmedArticle>", b"</Article>", b"<PMID>", b"<!DOCTYPE r [", b"<!ENTITY a 'b'>", b"&a;", b"<![CDATA["]
_RDF_TOKENS = [b"@prefix", b"skos:", b"@en", b"ex:1", b"_:a", b"[ ", b" ]", b'"""', b"<http://a.org/1>", b"^^", b"( "]
_OPCODES = [
    bytes([code])
    for code in b"NKMJGXUVCB(t]})e.uRbcrqhj0\x80\x85\x86\x87\x88\x89\x8a\x8c\x8d\x8e\x8f\x90\x91\x93\x94\x95\x96"
]

TARGETS = [
    reading("label set .jsonl", "labels.jsonl", [_saved(".jsonl")], LabelSet.load),
    reading("label set .csv", "labels.csv", [_saved(".csv")], load_labels),
    Target("label set saved", "Readers", st.lists(_DRAWN, min_size=1, max_size=3), _round_trip),
    reading("table .csv", "rows.csv", [_CSV], _table),
    reading("table .jsonl", "rows.jsonl", [_JSONL], _table),
    reading("table .json", "rows.json", [json.dumps(_ROWS).encode()], _table),
    reading("table .parquet", "rows.parquet", [_parquet()], _table),
    reading("labels of any file", "labels.jsonl", [_saved(".jsonl"), _MESH_JSON], load_labels),
    reading("documents .csv", "texts.csv", [_CSV], _all(read_documents)),
    reading("documents .txt", "texts.txt", [_CSV, _JSONL], _all(read_documents)),
    reading("BioASQ .json", "articles.json", [_ARTICLES], _all(read_bioasq)),
    reading("records .jsonl", "records.jsonl", [_RECORDS], _all(read_records)),
    reading("MEDLINE", "citations.xml", [_MEDLINE], _all(read_records), _MARKUP),
    reading("MeSH XML", "mesh.xml", [_MESH_XML], load_mesh, _MARKUP),
    reading("MeSH ASCII", "mesh.bin", [_MESH_ASCII], load_mesh, [b"*NEWRECORD\n", b"MH = ", b"|"]),
    reading("MeSH JSON lines", "mesh.jsonl", [_MESH_JSON], load_mesh),
    reading("SKOS Turtle", "skos.ttl", [_TURTLE], load_skos, _RDF_TOKENS),
    reading("SKOS N-Triples", "skos.nt", [_NTRIPLES], load_skos, _RDF_TOKENS),
    reading("SKOS RDF in XML", "skos.rdf", [_RDF], load_skos, _MARKUP),
    reading("SKOS JSON-LD", "skos.jsonld", [_JSONLD], load_skos, [b'"@id"', b'"@context"', b'"@list"', b'"@graph"']),
    reading("word vectors .vec", "words.vec", [b"3 2\nthe 0.5 1\nheart -1 2e3\n. . 1 2\n"], load_word_vectors),
    reading("word vectors .bin", "words.bin", [b"2 2\nthe " + bytes(8) + b"\na " + bytes(8) + b"\n"], load_binary_vectors),
    reading("word vectors .npz", "words.npz", [_npz(words=np.array(_WORDS), vectors=_VECTORS)], load_word_vectors, [b"PK\1\2"]),
    reading("pickles", "words.pkl", _pickles(), load_pickle, _OPCODES),
    reading("word vectors .pkl", "words.pkl", _pickles(), load_pickled_vectors, _OPCODES),
    *(
        Target(f"XMC {name}", "Readers", mutated([content]), partial(_attempt, file=name, read=_xmc(name)))
        for name, content in {**_XMC, "Y.trn.npz": _npz(**_CSR, data=np.ones(3))}.items()
    ),
    reading("Annif .tsv", "corpus.tsv", [b"On mice.\t<http://example.org/1> <http://example.org/2>\n"], _annif),
    reading("Annif .csv", "corpus.csv", [b"text,subject_uris\nOn mice.,<http://example.org/1>\n"], _annif),
    reading("Annif vocabulary", "vocabulary.tsv", [b"<http://example.org/1>\tMice\t599.35\n"], load_annif_vocabulary),
    reading("settings in YAML", "settings.yaml", [b"a: [1, b]\nc: {d: 2001-01-01, e: 1e-3}\n"], read_yaml, [b"&a ", b"*a", b"<<: ", b"- ", b"!!python/name:os.system", b"? "]),
]  # fmt: skip
