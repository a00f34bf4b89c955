"""Annif's corpora and vocabularies: every format gives the same documents and subjects."""

import gzip
import json

import pytest

from hf_gile import Label, LabelSet
from hf_gile.data import annif, table_files
from hf_gile.data.annif import load_annif, load_annif_vocabulary

MICE, RATS = "http://example.org/mice", "http://example.org/rats"
TEXTS = ['"Mice" were seen.', "Über Ratten\u2028und Mäuse, 7 cm."]
SUBJECTS = [[MICE, RATS], [RATS]]
CORPUS = f"{TEXTS[0]}\t<{MICE}> <{RATS}>\n{TEXTS[1]}\t<{RATS}>\n"


@pytest.fixture
def write(tmp_path):
    def write_files(**contents):
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        for name, content in contents.items():
            name = name.replace("__", ".")
            data = content if isinstance(content, bytes) else content.encode()
            (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        return folder.resolve() / name

    return write_files


@pytest.fixture
def load(tmp_path):
    def load_all(paths, streaming=True, **options):
        dataset, report = load_annif(paths, streaming=streaming, cache_dir=tmp_path / "cache", **options)
        return list(dataset), report

    return load_all


def forms():
    subjects = [[{"uri": uri} for uri in uris] for uris in SUBJECTS]
    rows = [{"text": text, "subjects": uris} for text, uris in zip(TEXTS, subjects, strict=True)]
    table = f'text,subject_uris\n"""Mice"" were seen.",<{MICE}> <{RATS}>\n"{TEXTS[1]}",<{RATS}>\n'
    long = {
        "a__txt__gz": TEXTS[0] + "\n",
        "a__tsv": f"<{MICE}>\tMice\tmore\r\n{RATS}\n\n",
        "b__txt": "\ufeff" + TEXTS[1],
        "b__tsv__gz": f"<{RATS}>\tRats",
        "b__key": "Rats",
    }
    return {
        "short texts": ({"a__tsv": CORPUS}, ["a.tsv:1", "a.tsv:2"]),
        "line ends of Windows": ({"a__tsv": "\ufeff" + CORPUS.replace("\n", "\r\n\r\n")}, ["a.tsv:1", "a.tsv:3"]),
        "bare URIs, repeated": ({"a__tsv": CORPUS.replace("<", "").replace(">", f" {RATS}")}, ["a.tsv:1", "a.tsv:2"]),
        "csv": ({"a__csv": table}, ["a.csv:2", "a.csv:3"]),
        "jsonl": ({"a__jsonl": "\n".join(map(json.dumps, rows))}, ["a.jsonl:1", "a.jsonl:2"]),
        "long texts": (long, ["a", "b"]),
    }


@pytest.mark.parametrize("form", forms())
def test_every_corpus_format_gives_the_same_documents(write, load, form):
    contents, ids = forms()[form]
    documents, report = load(write(**contents).parent)
    rows = zip(ids, TEXTS, SUBJECTS, strict=True)
    assert documents == [{"id": name, "text": text, "labels": uris} for name, text, uris in rows]
    assert (report.records, report.left_out) == (2, {})


def test_key_files_name_subjects_as_labels(write, load):
    documents, report = load(write(a__txt="On mice.", a__key="Mice\n\nRats and others \nMice", b__txt="x").parent)
    assert [row["labels"] for row in documents] == [["Mice", "Rats and others"], []]
    assert (report.files, report.records, report.without_labels) == (2, 2, 1)


def test_subject_ids_and_names_are_read_from_json_lines_and_csv(write, load):
    row = {"document_id": 7, "text": "On mice.", "subjects": [{"label": "Mice"}, {"uri": RATS, "label": "Rats"}]}
    assert load(write(a__jsonl=json.dumps(row)))[0] == [{"id": "7", "text": "On mice.", "labels": ["Mice", RATS]}]
    table = f"document_id,text,subject_uris\nd7,On mice.,<{MICE}>\n"
    assert load(write(a__csv=table))[0] == [{"id": "d7", "text": "On mice.", "labels": [MICE]}]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("a__tsv", "On mice.", "expected a text, a tab and URIs, got 'On mice.'"),
        ("a__tsv", "On mice.\tmice", "expected a URI as <http://example.org/mice>, got 'mice'"),
        ("a__tsv", f"On mice.\t<{MICE}><{RATS}>", "expected a URI as "),
        ("a__tsv", f"On\0mice.\t<{MICE}>", "text contains a NUL"),
        ("a__tsv", "On mice \udcfc.\t<a:b>", "byte 9 of the line is not utf-8"),
        ("a__jsonl", '{"text": "x", "subjects": ["mice"]}', r"subjects must be a list of objects, got \['mice'\]"),
        ("a__jsonl", '{"text": 7, "subjects": [{"uri": "a:b"}]}', "text must be text, got 7"),
        ("a__jsonl", "7", "expected an object, got 7"),
    ],
)
def test_malformed_lines_are_named_or_left_out(write, load, name, line, message):
    good = "x\t<a:b>\n" if name == "a__tsv" else '{"text": "x", "subjects": [{"uri": "a:b"}]}\n'
    path = write(**{name: f"{good}{line}\n{good}".encode(errors="surrogateescape")})
    with pytest.raises(ValueError, match=rf"{path.name}: line 2: {message}"):
        load(path)
    documents, report = load(path, on_error="skip")
    assert [row["labels"] for row in documents] == [["a:b"], ["a:b"]]
    assert sum(report.left_out.values()) == 1


def test_lines_without_subjects_are_negatives_and_those_without_text_are_counted(write, load):
    documents, report = load(write(a__tsv="x\t<a:b>\n \t<a:b>\ny\t\n"))
    assert [row["text"] for row in documents] == ["x", "y"]
    assert (report.without_labels, report.left_out) == (1, {"without text": 1})
    with pytest.raises(ValueError, match=r"a\.tsv: no document has a subject"):
        load(write(a__tsv="x\t\ny\t\n"), streaming=False)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"b__tsv": "<a:b>\tA\nmice\n"}, r"b\.tsv: line 2: expected a URI"),
        ({"b__txt": b"\xfc", "b__key": "B"}, r"b\.txt: byte 1 is not UTF-8"),
        ({"b__key": b"\xfc"}, r"b\.key: byte 1 is not UTF-8"),
        ({"b__txt": gzip.compress(b"mice" * 100)[:-9], "b__key": "B"}, r"b\.txt: damaged compressed file: "),
    ],
)
def test_malformed_long_texts_are_named_or_left_out(write, load, contents, message):
    folder = write(**{"a__txt": "x", "a__tsv": "<a:b>", "b__txt": "y"} | contents).parent
    with pytest.raises(ValueError, match=rf"b\.txt: .*{message}"):
        load(folder)
    documents, report = load(folder, on_error="skip")
    assert [row["id"] for row in documents] == ["a"]
    assert report.left_out == {"malformed document": 1}


def test_a_subject_file_is_refused_as_a_corpus(write, load):
    path = write(a__txt="x", a__tsv="<a:b>\tA")
    with pytest.raises(ValueError, match=r"a\.tsv contains the subjects of .*a\.txt: pass their folder"):
        load(path)


def test_long_texts_and_large_files_are_split_among_processes(write, load, monkeypatch):
    monkeypatch.setattr(annif, "_CHUNK", 2)
    monkeypatch.setattr(table_files, "_PIECE", 100)
    texts = {f"d{number}__txt": f"text {number}" for number in range(5)}
    keys = {f"d{number}__key": "A" for number in range(5)}
    lines = "".join(f"line {number}\t<a:b>\n" for number in range(30))
    folder = write(**texts, **keys, corpus__tsv=lines).parent
    documents, report = load(folder, streaming=False, num_proc=3)
    expected = [f"line {number}" for number in range(30)] + [f"text {number}" for number in range(5)]
    assert [row["text"] for row in documents] == expected
    assert (report.files, report.records) == (6, 35)
    assert load(folder)[0] == documents


def test_the_cache_notices_changed_texts_and_subjects(write, load):
    contents = {"a__txt": "x", "a__key": "A", "b__txt": "y", "b__key": "B"}
    assert [row["labels"] for row in load(write(**contents).parent, streaming=False)[0]] == [["A"], ["B"]]
    assert [row["labels"] for row in load(write(b__key="B\nC").parent, streaming=False)[0]] == [["A"], ["B", "C"]]
    assert [row["text"] for row in load(write(b__txt="yz").parent, streaming=False)[0]] == ["x", "yz"]


VOCABULARY = LabelSet([Label(MICE, "Mice"), Label(RATS, "Rats, Ratten")])


@pytest.mark.parametrize(
    ("name", "content", "language"),
    [
        ("v__tsv", f"<{MICE}>\tMice\n<{RATS}>\tRats, Ratten\t599.35\n", None),
        ("v__tsv", f"\ufeff{MICE}\tMice\t\r\n\r\n<{RATS}>\tRats, Ratten\r\n", None),
        ("v__csv", f'uri,notation,label_en\n{MICE},,Mice\n{RATS},599,"Rats, Ratten"\n', None),
        ("v__csv", f'uri,label_fi,label_en\n{MICE},,Mice\n{RATS},"Rats, Ratten",\n', ["fi", "en"]),
    ],
)
def test_vocabularies_are_read_in_every_format(write, name, content, language, report):
    assert load_annif_vocabulary(write(**{name: content}), language, report) == VOCABULARY
    assert (report.files, report.records) == (1, 2)


def test_subjects_with_the_same_name_are_distinguished_by_notation_or_uri(write):
    path = write(v__tsv="<a:1>\tMercury\t523.41\n<a:2>\tMercury\t661\n<a:3>\tVenus\n<a:4>\tVenus\n")
    assert load_annif_vocabulary(path).texts == ["Mercury: 523.41", "Mercury: 661", "Venus: a:3", "Venus: a:4"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<a:2>", "expected a URI, a tab and a name, got '<a:2>'"),
        ("mice\tMice", "expected a URI as .*, got 'mice'"),
        ("<a:1>\tMice again", "the id 'a:1' is already used in .*: line 1"),
    ],
)
def test_malformed_subjects_are_named_or_left_out(write, lenient, line, message):
    path = write(v__tsv=f"<a:1>\tMice\n{line}\n")
    with pytest.raises(ValueError, match=rf"v\.tsv: line 2: {message}"):
        load_annif_vocabulary(path)
    assert load_annif_vocabulary(path, report=lenient).ids == ["a:1"]
    assert lenient.left_out == {"malformed label": 1}


def test_subjects_without_a_name_are_skipped_and_available_languages_listed(write, report):
    path = write(v__csv="uri,label_en,label_fi\na:1,Mice,\na:2,,Rotat\n")
    assert load_annif_vocabulary(path, "en", report).names == ["Mice"]
    assert report.left_out == {"without name": 1}
    with pytest.raises(ValueError, match=r"v\.csv: choose a language from en, fi"):
        load_annif_vocabulary(path)
    with pytest.raises(ValueError, match=r"v\.csv: no column 'label_de', only uri, label_en, label_fi"):
        load_annif_vocabulary(path, "de")
    write(w__csv="uri\n")
    with pytest.raises(ValueError, match="expected a single file of subjects, got 2"):
        load_annif_vocabulary(path.parent)
