"""Tables of labels: every format gives the same result, and errors name file and line."""

import json

import pytest

from hf_gile import Label, LabelSet
from hf_gile.data import ReadReport, save_labels
from hf_gile.data.label_files import load_labels

MICE, RATS = Label("3", "Mice"), Label("5", "Rats")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.jsonl.gz"])
def test_label_tables_may_have_any_format_and_columns(write, name):
    synonyms = ["Mouse", "House Mouse", "Mouse"]
    mice = {"ui": "D3", "name_en": "Mice", "name_de": "Mäuse", "synonyms": synonyms, "note": "Small."}
    rats = {"ui": "D5", "name_en": None, "name_de": "Ratten", "synonyms": [], "note": None}
    path = write(name, rows=[mice, rats])
    labels = load_labels(path, id="ui", name=["name_en", "name_de"], description=["synonyms", "note"])
    mouse = "Mouse; House Mouse" if name not in ("a.csv", "a.tsv") else "Mouse; House Mouse; Mouse"
    assert labels == LabelSet([Label("D3", "Mice", f"{mouse}; Small."), Label("D5", "Ratten")])
    labels = load_labels(path, id="ui", name="name_de", description="note", synonyms=["name_en", "synonyms"])
    assert [label.synonyms for label in labels] == [("Mice", "Mouse", "House Mouse", "Mouse"), ()]
    assert labels.texts == ["Mäuse: Small.", "Ratten"]
    with pytest.raises(ValueError, match="no column 'others', only "):
        load_labels(path, id="ui", name="name_de", synonyms="others")


FOREIGN = {
    "count": ["many", -1, 0.5],
    "seen": ["yes"],
    "threshold": ["low", 7],
    "language": [["en"]],
    "synonyms": [7, [{"name": "mouse"}]],
    "broader": [{"name": "rodents"}, True],
    "description": [{"en": "small"}, 7],
    "definition": [{"en": "small"}],
    "more": [{"a": 1}],
}


@pytest.mark.parametrize(("column", "value"), [(name, value) for name in FOREIGN for value in FOREIGN[name]])
def test_a_column_of_another_type_is_left_out_with_a_note(write, column, value, report):
    rows = [{"id": "3", "name": "Mice", column: None}, {"id": "5", "name": "Rats", column: value}]
    assert load_labels(write("a.json", rows=rows), report=report) == LabelSet([MICE, RATS])
    assert report.notes == [f"columns not read: {column!r}" + (f" (with {value!r})" if column != "more" else "")]


GERMAN, ENGLISH = {"@language": "de", "@value": "Mäuse"}, {"@language": "en", "@value": "Mice"}
BY_LANGUAGE = {
    "texts": ({"en": "Mice", "de": "Mäuse"}, {"de": "Ratten"}),
    "objects with a value": ({"en": ENGLISH, "de": "Mäuse"}, {"de": {"@value": "Ratten"}}),
    "objects with their language": ([GERMAN, ENGLISH], [{"language": "de", "value": "Ratten"}]),
}


@pytest.mark.parametrize("names", BY_LANGUAGE.values(), ids=BY_LANGUAGE)
def test_texts_by_language_are_read_where_they_are_asked_for(write, names, report):
    rows = [
        {"id": f"u:{number}", "name": name, "description": {"mul": "klein"}, "also": {"de": ["m", {"value": "n"}]}}
        for number, name in enumerate(names)
    ]
    path = write("a.jsonl", rows=rows)
    chosen = {"description": "description", "synonyms": "also"}
    assert load_labels(path, **chosen, languages=["de", "en"]) == LabelSet(
        Label(f"u:{number}", name, "klein", synonyms=("m", "n")) for number, name in enumerate(["Mäuse", "Ratten"])
    )
    assert load_labels(path, **chosen, report=report) == LabelSet([Label("u:0", "Mice", "klein")])
    assert report.left_out == {"without a name in en": 1}
    assert report.ids_left_out == {"u:1": "without a name in en"}


@pytest.mark.parametrize("word", ["NULL", "\\N"])
def test_cells_that_programs_write_without_a_name_are_no_names(write, word):
    path = write("a.csv", f"id,name,description\n1,mice,{word}\n2,{word},rodents\n")
    with pytest.raises(ValueError, match="line 3: the label '2' has no name"):
        load_labels(path)
    assert load_labels(path, report=ReadReport("skip")).texts == ["mice"]


@pytest.mark.parametrize("name", ["labels.txt", "labels"])
def test_a_text_has_a_label_on_each_line(write, name, report):
    path = write(name, "delivery\n\n invoice, late\r\ncafe\u0301\ncaf\xe9\npass\u00a0word\ndelivery\nDelivery\n")
    assert load_labels(path, report=report).names == ["delivery", "invoice, late", "caf\xe9", "pass word", "Delivery"]
    assert report.left_out == {"repeated": 2}
    note = "2 labels differ from others in case, spaces or punctuation only, such as 'delivery' and 'Delivery'"
    assert report.notes == [note]


LINES_THAT_ARE_NAMES = {
    "mice\u2028red rats": ["mice", "red rats"],
    "# small\nmice\n#\nred rats\n": ["mice", "red rats"],
    "#mice\n#rats\n1 star\n2 stars\n": ["#mice", "#rats", "1 star", "2 stars"],
    "0-17\n18-25\n": ["0-17", "18-25"],
    "grade 1\ngrade 2\n": ["grade 1", "grade 2"],
    "1 Samuel\n2 Samuel\n1 Kings\n2 Kings\n": ["1 Samuel", "2 Samuel", "1 Kings", "2 Kings"],
    "A. Mus\nB. Rat\nA. Cat\n": ["A. Mus", "B. Rat", "A. Cat"],
    "1984\n2001\n": ["1984", "2001"],
    "404: not found\nhello\n": ["404: not found", "hello"],
    "label\ntext\ncategory\n": ["label", "text", "category"],
    "__label__mice\n__label__red_rats\n": ["mice", "red_rats"],
    '["mice", "rats"]': ["mice", "rats"],
    '{"names": ["mice", "rats"], "_type": "ClassLabel"}': ["mice", "rats"],
    '{"labels": ["mice", "rats"]}': ["mice", "rats"],
}


def name_of(content, usual):
    """Returns the usual name of the file, or another if the content is JSON."""
    return "labels.json" if content[0] in "[{" else usual


@pytest.mark.parametrize("content", LINES_THAT_ARE_NAMES)
def test_unusual_lines_and_lists_are_names(write, content):
    labels = load_labels(write(name_of(content, "labels.txt"), content))
    assert labels == LabelSet.from_names(LINES_THAT_ARE_NAMES[content])


OBJECTS = """{"id": 1, "name": "a"} {"id": 2, "name": "b", "broader": [{"id": "1", "name": "a"}]}
{"id": 3, "name": "c", "broader": {"uri": "1"}} {"id": 4, "name": "d", "broader": {"@id": "1"}}
{"id": 5, "name": "e", "broader": [7, "1"]}""".replace("} {", "}\n{")
BROADER = [Label("007", "Mice"), Label("http://a.org/1", "Rats", broader=("007",))]
SYNONYMS = Label("3", "Mice", synonyms=("b", "c, d", "e;f", "g\\", "h\\i"))
TABLES = {
    'id,name\n3,"Cats &amp; <i>mice</i>"\n5,<guide> R&D;': [Label("3", "Cats & mice"), Label("5", "<guide> R&D;")],
    "id,name,description\n3,Mice,10<sup>3</sup> a&nbsp;year;<br/>x < y\n": [Label("3", "Mice", "10^3 a year; x < y")],
    "id,name,description,note,count\n3,Mice,small,fast,\n5,Rats,,fast,\n": [Label("3", "Mice", "small"), RATS],
    "id,name,note,note\n3,Mice,a,b\n5,Rats,a,b\n": [MICE, RATS],
    "id,name\n\u201c3\u201d,\u201cMice\u201d\n": [MICE],
    "id,name\n\u201e3\u201c,\u201eMice\u201c\n": [MICE],
    "id,name\n\xab3\xbb,\xabMice\xbb\n": [MICE],
    "name\tid\tnote\nMice\t3\tsmall\n": [MICE],
    '"id";"name"\n3;Mice\n': [MICE],
    "| id | name |\n|----|:---|\n| 3 | Mice |\n": [MICE],
    "+----+------+\n| id | name |\n+----+------+\n|  3 | Mice |\n+----+------+\n": [MICE],
    "id,name\n3.0,Mice\n5.0,Rats\n": [MICE, RATS],
    "id,name\n3.0,Mice\n5.1,Rats\n": [Label("3.0", "Mice"), Label("5.1", "Rats")],
    "id,name,broader\n3,Mice,\n5,Rats,3.0\n": [MICE, Label("5", "Rats", broader=("3",))],
    'id,name,broader\n="007",Mice,\n<http://a.org/1>,Rats,="007"\n,,\n,,\n': BROADER,
    'id,name,synonyms\n3,Mice,"b; c, d ;; e\\;f;g\\\\;h\\i"\n5,Rats,\n': [SYNONYMS, RATS],
    OBJECTS: [
        Label("1", "a"),
        *(Label(number, name, broader=("1",)) for number, name in ["2b", "3c", "4d"]),
        Label("5", "e", broader=("7", "1")),
    ],
    '[{"id": "3", "name": {"en-GB": "Mice", "fr": "souris"}}]': [MICE],
    '[{"id": "5", "name": {"en_US": "Rat", "en": "Rats"}}]': [RATS],
    '{"3": "Mice", "5": "Rats"}': [MICE, RATS],
    '{"Mice": 1, "Rats": 0}': [Label("1", "Mice"), Label("0", "Rats")],
    '{"hidden_size": 7, "id2label": {"3": "Mice", "5": "Rats"}}': [MICE, RATS],
    '{"label2id": {"Mice": 0, "Rats": 1}}': [Label("0", "Mice"), Label("1", "Rats")],
}


@pytest.mark.parametrize("content", TABLES)
@pytest.mark.parametrize("name", ["labels.txt", "labels.csv"])
def test_tables_of_labels_are_read_as_they_are_written(write, name, content):
    assert load_labels(write(name_of(content, name), content)) == LabelSet(TABLES[content])


def test_columns_of_labels_can_be_chosen(write):
    path = write("a.csv", "id,name,description,note\n3,Mice,small,fast\n5,Rats,,fast\n")
    assert load_labels(path, description="note").texts == ["Mice: fast", "Rats: fast"]
    assert load_labels(path, synonyms="description").texts == ["Mice", "Rats"]
    assert load_labels(write("b.txt", "3;Mice\n5;Rats\n"), columns=["id", "name"]) == LabelSet([MICE, RATS])
    binding = {"item": {"type": "uri", "value": "3"}, "itemLabel": {"xml:lang": "en", "value": "Mice"}}  # of SPARQL
    assert load_labels(write("c.json", rows=[binding]), id="item", name="itemLabel") == LabelSet([MICE])


REFUSED_TABLES = {
    "Kennung;Bezeichnung\n1;M\xe4use\n": r"no column 'id', only .*choose columns with id=.* \(--label_id and",
    "1,Mice\n2,Rats\n": r'no header: add it, or pass id="1", name="2" \(--label_id 1',
    "id,name,name\n3,Mice,M\xe4use\n": r"no column 'name', only id, name\.1, name\.2",
    '[{"id": {"q": 1}, "name": "Mice"}]': r"id must be text, got \{'q': 1\}",
    '[{"id": "1", "name": "rodents", "children": [{"id": "2", "name": "mice"}]}]': (
        "'children' has labels within labels: write a row for each, with"
    ),
    '{"detail": "Not found."}': "expected ",
    '{"labels": []}': "expected ",
    '["mice", ["rats"]]': "expected ",
    '[["1", "mice"]]': 'expected an object, got .*, or a label as {"id": "D3", "name": "mice"}',
    '[{"id": "1", "name": "rodents", "members": {"id": "2", "name": "mice"}}]': "'members' has labels within labels",
    "id,lang,name\n1,en,Mice\n1,de,M\xe4use\n": "line 3: the id '1' is already used in .*: write a row for each label",
}


@pytest.mark.parametrize("content", REFUSED_TABLES)
def test_tables_that_cannot_be_read_are_refused(write, content):
    with pytest.raises(ValueError, match=rf"labels\.\w+: .*{REFUSED_TABLES[content]}"):
        load_labels(write(name_of(content, "labels.csv"), content))


def test_yaml_is_no_text_of_labels(write):
    with pytest.raises(ValueError, match=r"labels\.yml is YAML: .*labels as a JSON list of names"):
        load_labels(write("labels.yml", "D3: mice\nD5: rats\n"))


LISTED = "(a|each) line has a number, a bullet, quotes or other signs, such as .*(mice|rats|---|}|{|\\[)"
REFUSED = {
    "# a comment\n": "no line has a label",
    "D3\tMice\n": "line 1: a label has a tab; if it is a table, name its columns",
    "PK\5\6\n": "line 1 has a control character: the file is neither a text nor of another known format",
    "3;Mice\n5;Rats\n": "each line has ';', such as '3;Mice'; if it is a table, name its",
    "mice, rats, cats": ".*such as .*mice.*; (a text has a label|if it is a table)",
    "- mice\n- rats\n": LISTED,
    "1. mice\n2. rats\n": LISTED,
    '"mice"\n"rats"\n': LISTED,
    "1 - mice\n27 - mice > red\n": LISTED,
    "A00 mice\nA01.1 rats\n": LISTED,
    "D3: mice\nD5: rats\n": LISTED,
    "3,mice\n5,rats\n": LISTED,
    "000 mice\n010 rats\n020 cats\n030 mice\n[040] unused\n": LISTED,
    "A - mice\nA1 - rats\nB - cats\n": LISTED,
    "I. mice\nII. rats\n": LISTED,
    "(1) mice\n(2) rats\n": LISTED,
    "mice->0\nrats->1\n": LISTED,
    "     12 mice\n     12 rats\n      3 cats\n": LISTED,  # of uniq -c
    "gid://a/1   : mice\ngid://a/2   : mice > red\n": LISTED,
    "mice=3\nrats=5\n": LISTED,
    "animals\n-------\nmice\n": LISTED,
    ".\n├── mice\n└── rats\n": LISTED,
    'cats\n"mice, red"\n': LISTED,
    'item {\n  name: "mice"\n}\n': LISTED,
    "labels = [\n  'mice',\n  'rats',\n];\n": LISTED,
    '[labels]\nmice = "Mice"\n': LISTED,
    "[entities]\nmice\nrats\n[relations]\n": LISTED,
    'msgid "mice"\nmsgstr "rats"\n': LISTED,
    "rodents:\n  mice:\n  rats:\n": "a line has .* other signs, such as 'rodents:'",
    "proc format;\nvalue topic\n  0 = 'mice'\n  1 = 'red rats'\n  2 = 'cats'\n;\n": LISTED,
    "names:\n  '0': mice\n  '1': red rats\n  '2': cats\n": LISTED,
    "ID & Name\n0 & mice\n1 & rats\n2 & cats\n": LISTED,
    "label precision recall\n\nmice 0.9 0.8 20\nrats 0.9 0.8 20\n": LISTED,
    "label.1=mice\nlabel.2=rats\n": "each line has '=', such as 'label.1=mice'; if it is a table, name its",
}


@pytest.mark.parametrize("content", REFUSED)
def test_lines_that_are_no_labels_are_refused(write, content):
    with pytest.raises(ValueError, match=rf"labels\.txt:? {REFUSED[content]}"):
        load_labels(write("labels.txt", content))


@pytest.mark.parametrize("content", ["mice\nrats\n", '["mice", "rats"]'])
@pytest.mark.parametrize("chosen", [{"id": "ui"}, {"name": "term"}, {"description": "note"}])
def test_columns_of_names_alone_are_refused(write, content, chosen):
    with pytest.raises(ValueError, match=r"labels\.txt has names alone, and is not a table with columns to choose"):
        load_labels(write("labels.txt", content), **chosen)


@pytest.mark.parametrize("name", ["labels.csv", "labels.tsv", "labels.txt"])
def test_the_only_column_of_a_table_without_a_header_is_named(write, name, report):
    path = write(name, "mice\nred rats\n")
    message = r"first line is a label, rename the file to \.txt, or pass --columns name"
    if name != "labels.txt":
        with pytest.raises(ValueError, match=message):
            load_labels(path)
    assert load_labels(path, columns=["name"], report=report).ids == ["mice", "red rats"]
    assert report.notes == []


@pytest.mark.parametrize("header", ["Labels", "NAME:", "Label name", "id", "Class_Names", "Schlagwort", "Категория"])
@pytest.mark.parametrize("name", ["labels.txt", "labels.csv"])
def test_the_name_of_the_only_column_is_no_label(write, name, header, report):
    assert load_labels(write(name, f"{header}\nmice\nred rats\n"), report=report).ids == ["mice", "red rats"]
    assert report.records == 2
    assert report.notes == [f"the first line, {header!r}, names the only column: it is no label"]


NOTED = {
    "lines are indented, as of a tree: parents are read from a table with a column broader": "rodents\n  mice\n",
    "a single label, '404: Not Found': a text has a label on each line": "404: Not Found",
    "the id '1E+05' looks like a number that a spreadsheet has changed: format ids as text": "id,name\n1E+05,mice\n",
    "the id '01. Mär' looks like a number that a spreadsheet has changed: format ids as text": "id,name\n01. Mär,a\n",
    "'a, b' is a single synonym: they are separated by semicolons": 'id,name,synonyms\n1,mice,"a, b"\n3,rats,\n',
    "columns not read: 'status' (with Deprecated), 'note'": "id,name,note,status\n1,Mice,a,\n2,Rats,b,Deprecated\n",
    "1 of 2 parents are no ids of labels in this file, such as 'Mus'": "id,name,broader\n1,Mice,Mus\n2,Rats,1\n",
}


@pytest.mark.parametrize("note", NOTED)
def test_unusual_content_is_noted(write, note, report):
    load_labels(write("labels.txt", NOTED[note]), report=report)
    assert report.notes == [note]


def test_markup_of_saved_labels_remains(tmp_path):
    labels = LabelSet([Label("3", "R &amp; D", "<p>small</p>", synonyms=("a &lt; b",)), Label("5", "<i>Mus</i>")])
    save_labels(labels, tmp_path / "a.csv")
    assert load_labels(tmp_path / "a.csv") == labels


WRITTEN_LISTS = {
    "JSON": ('["mouse", "house mouse"]', '["rat"]', '["1"]'),
    "NumPy": ("['mouse' 'house mouse']", "['rat']", "['1']"),
    "pipes": ("mouse|house mouse", "rat", "1"),
}


@pytest.mark.parametrize("cells", WRITTEN_LISTS.values(), ids=WRITTEN_LISTS)
def test_lists_written_as_text_are_lists(write, cells):
    rows = [
        {"id": "1", "name": "Mice", "also": cells[0], "broader": ""},
        {"id": "2", "name": "Rats", "also": cells[1], "broader": cells[2]},
    ]
    labels = load_labels(write("a.csv", rows=rows), synonyms="also")
    assert [label.synonyms for label in labels] == [("mouse", "house mouse"), ("rat",)]
    assert [label.broader for label in labels] == [(), ("1",)]
    assert load_labels(write("a.csv", rows=rows), description="also")[1].description == "rat"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_further_names_in_a_cell_are_synonyms(write, name, report):
    names = [["Mice", "Mouse"], ["Rats"]]
    rows = [{"id": str(row), "name": json.dumps(cell) if name == "a.csv" else cell} for row, cell in enumerate(names)]
    labels = load_labels(write(name, rows=rows), report=report)
    assert [(label.name, label.synonyms) for label in labels] == [("Mice", ("Mouse",)), ("Rats", ())]
    assert report.notes == ["names after the first in a cell are read as synonyms"]


def test_names_that_differ_only_in_form_are_one_name(write, report):
    rows = [{"id": "1", "name": "cafe\u0301"}, {"id": "2", "name": "caf\xe9"}, {"id": "1", "name": "caf\xe9"}]
    assert load_labels(write("a.json", rows=rows), report=report).texts == ["caf\xe9: 1", "caf\xe9: 2"]
    assert (report.homonyms, report.left_out) == (2, {"repeated": 1})


def test_labels_with_the_same_name_are_distinguished_by_synonyms_or_ids(write, report):
    rows = "D3,Mercury,Merkur\nD5,Mercury,Quecksilber\nD7,Venus,Venus\nD11,Venus,\n"
    labels = load_labels(write("a.csv", f"id,en,de\n{rows}"), name=["en", "de"], report=report)
    assert labels.texts == ["Mercury: Merkur", "Mercury: Quecksilber", "Venus: D7", "Venus: D11"]
    assert (report.records, report.homonyms, report.left_out) == (4, 4, {})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"id": "D3", "name": "Rats"}', "the id 'D3' is already used in .*: line 1"),
        ('{"name": "Rats"}', "id must not be empty, got None"),
        ('{"id": "D5", "name": " "}', "the label 'D5' has no name"),
        ('{"id": "D5", "name": 7}', "name must be text, got 7"),
        ('{"id": "D5", "name": "Rats", "more": {"a b": 1}}', "more must be text, got {'a b': 1}"),
        ("no JSON", "not JSON"),
    ],
)
def test_malformed_labels_are_named_or_skipped(write, row, message, lenient):
    path = write("a.jsonl", f'{{"id": "D3", "name": "Mice", "more": "x"}}\n{row}\n')
    with pytest.raises(ValueError, match=rf"a\.jsonl: line 2: {message}"):
        load_labels(path, description="more")
    assert load_labels(path, description="more", report=lenient).texts == ["Mice: x"]
    assert sum(lenient.left_out.values()) == lenient.records == 1


def test_label_tables_without_labels_and_several_files_are_refused(write):
    path = write("a.csv", "id,name\n")
    with pytest.raises(ValueError, match=r"a\.csv: no labels"):
        load_labels(path)
    write("b.csv")
    with pytest.raises(ValueError, match="expected a single label file, got 2"):
        load_labels(path.parent)
    with pytest.raises(FileNotFoundError):
        load_labels(path.with_name("absent.csv"))


@pytest.mark.slow
def test_a_library_catalogue_and_its_homonymous_subjects_are_read(shared_data, report):
    labels = load_labels(shared_data / "tibkat" / "gnd_labels.jsonl.gz", name=["name_en", "name_de"], report=report)
    assert len(labels) == report.records == 26_250
    assert report.homonyms > 500
    assert labels[labels.column("gnd:1021591971")].name == "Plug-in hybrid"
