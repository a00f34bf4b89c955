"""Tables of labels: every format gives the same result, and errors name file and line."""

import pytest

from hf_gile import Label, LabelSet
from hf_gile.data import ReadReport, save_labels
from hf_gile.data.label_files import load_labels

SYNONYMS = ["Mouse", "House Mouse", "Mouse"]
LABELS = [
    {"ui": "D3", "name_en": "Mice", "name_de": "Mäuse", "synonyms": SYNONYMS, "note": "Small."},
    {"ui": "D5", "name_en": None, "name_de": "Ratten", "synonyms": [], "note": None},
]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.jsonl.gz"])
def test_label_tables_may_have_any_format_and_columns(write, name):
    path = write(name, rows=LABELS)
    labels = load_labels(path, id="ui", name=["name_en", "name_de"], description=["synonyms", "note"])
    mouse = "Mouse; House Mouse" if name not in ("a.csv", "a.tsv") else "Mouse; House Mouse; Mouse"
    assert labels == LabelSet([Label("D3", "Mice", f"{mouse}; Small."), Label("D5", "Ratten")])
    assert load_labels(path, id="ui", name="name_de").names == ["Mäuse", "Ratten"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_synonyms_may_be_a_list_or_a_semicolon_separated_cell(write, name):
    path = write(name, rows=LABELS)
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


@pytest.mark.parametrize(
    ("column", "value"), [(column, value) for column, values in FOREIGN.items() for value in values]
)
def test_a_column_of_another_type_is_left_out_with_a_note(write, column, value):
    rows = [{"id": "u:1", "name": "Mice", column: None}, {"id": "u:2", "name": "Rats", column: value}]
    report = ReadReport()
    assert load_labels(write("a.json", rows=rows), report=report) == LabelSet(
        [Label("u:1", "Mice"), Label("u:2", "Rats")]
    )
    assert report.notes == [f"columns not read: {column!r}" + (f" (with {value!r})" if column != "more" else "")]


def test_parents_may_be_objects_with_an_id(write):
    broader = [None, [{"id": "u:1", "name": "stars"}], {"uri": "u:1"}, {"@id": "u:1"}, [7, "u:1"]]
    rows = [{"id": f"u:{number}", "name": str(number), "broader": cell} for number, cell in enumerate(broader, 1)]
    labels = load_labels(write("a.json", rows=rows))
    assert [label.broader for label in labels] == [(), ("u:1",), ("u:1",), ("u:1",), ("7", "u:1")]


GERMAN, ENGLISH = {"@language": "de", "@value": "Mäuse"}, {"@language": "en", "@value": "Mice"}
BY_LANGUAGE = {
    "texts": ({"en": "Mice", "de": "Mäuse"}, {"de": "Ratten"}),
    "objects with a value": ({"en": ENGLISH, "de": "Mäuse"}, {"de": {"@value": "Ratten"}}),
    "objects with their language": ([GERMAN, ENGLISH], [{"language": "de", "value": "Ratten"}]),
}


@pytest.mark.parametrize("names", BY_LANGUAGE.values(), ids=BY_LANGUAGE)
def test_texts_by_language_are_read_where_they_are_asked_for(write, names):
    rows = [
        {"id": f"u:{number}", "name": name, "description": {"mul": "klein"}, "also": {"de": ["m", {"value": "n"}]}}
        for number, name in enumerate(names)
    ]
    path = write("a.jsonl", rows=rows)
    chosen = {"description": "description", "synonyms": "also"}
    assert load_labels(path, **chosen, languages=["de", "en"]) == LabelSet(
        Label(f"u:{number}", name, "klein", synonyms=("m", "n")) for number, name in enumerate(["Mäuse", "Ratten"])
    )
    report = ReadReport()
    assert load_labels(path, **chosen, report=report) == LabelSet([Label("u:0", "Mice", "klein")])
    assert report.left_out == {"without a name in en": 1}
    assert report.ids_left_out == {"u:1": "without a name in en"}


@pytest.mark.parametrize("word", ["NULL", "\\N"])
def test_cells_that_programs_write_without_a_name_are_no_names(write, word):
    path = write("a.csv", f"id,name,description\n1,mice,{word}\n2,{word},rodents\n")
    with pytest.raises(ValueError, match="line 3: the label '2' has no name"):
        load_labels(path)
    assert load_labels(path, report=ReadReport("skip")).texts == ["mice"]


def test_columns_of_the_same_name_may_be_left_unread(write):
    assert load_labels(write("a.csv", "id,name,note,note\n1,mice,a,b\n2,rats,a,b\n")).names == ["mice", "rats"]
    with pytest.raises(ValueError, match=r"no column 'name', only id, name\.1, name\.2"):
        load_labels(write("b.csv", "id,name,name\n1,mice,Mäuse\n"))


@pytest.mark.parametrize("quotes", ["\u201c\u201d", "\u201e\u201c", "\xab\xbb"])
def test_typographic_quotes_are_no_part_of_names(write, quotes):
    rows = [
        f"{quotes[0]}{number}{quotes[1]},{quotes[0]}{name}{quotes[1]}\n" for number, name in enumerate(["mice", "rats"])
    ]
    labels = load_labels(write("a.csv", f"id,name\n{''.join(rows)}"))
    assert (labels.ids, labels.names) == (["0", "1"], ["mice", "rats"])


def test_a_text_of_labels_may_have_the_prefix_of_fasttext(write):
    assert load_labels(write("labels.txt", "__label__mice\n__label__red_rats\n")).names == ["mice", "red_rats"]


@pytest.mark.parametrize("name", ["labels.txt", "labels"])
def test_a_text_has_a_label_on_each_line(write, name):
    report = ReadReport()
    path = write(name, "delivery\n\n invoice, late\r\ncafe\u0301\ncaf\xe9\npass\u00a0word\ndelivery\nDelivery\n")
    assert load_labels(path, report=report).names == ["delivery", "invoice, late", "caf\xe9", "pass word", "Delivery"]
    assert report.left_out == {"repeated": 2}
    assert report.notes == [
        "2 labels differ from others in case, spaces or punctuation only, such as 'delivery' and 'Delivery'"
    ]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("mice\u2028red rats", ["mice", "red rats"]),
        ("# small\nmice\n#\nred rats\n", ["mice", "red rats"]),
        ("#mice\n#rats\n1 star\n2 stars\n", ["#mice", "#rats", "1 star", "2 stars"]),
        ("0-17\n18-25\n", ["0-17", "18-25"]),
        ("grade 1\ngrade 2\n", ["grade 1", "grade 2"]),
        ("1 Samuel\n2 Samuel\n1 Kings\n2 Kings\n", ["1 Samuel", "2 Samuel", "1 Kings", "2 Kings"]),
        ("A. Mus\nB. Rat\nA. Cat\n", ["A. Mus", "B. Rat", "A. Cat"]),
        ("1984\n2001\n", ["1984", "2001"]),
        ("404: not found\nhello\n", ["404: not found", "hello"]),
        ("label\ntext\ncategory\n", ["label", "text", "category"]),
    ],
)
def test_unusual_lines_are_names(write, content, names):
    assert load_labels(write("labels.txt", content)) == LabelSet.from_names(names)


@pytest.mark.parametrize(
    "content",
    [
        "id,name\n3,Mice\n",
        "name\tid\tnote\nMice\t3\tsmall\n",
        '"id";"name"\n3;Mice\n',
        "| id | name |\n|----|:---|\n| 3 | Mice |\n",
        "+----+------+\n| id | name |\n+----+------+\n|  3 | Mice |\n+----+------+\n",
    ],
)
def test_a_text_whose_first_line_names_the_columns_is_a_table(write, content):
    labels = load_labels(write("labels.txt", content))
    assert (labels.ids, labels.names) == (["3"], ["Mice"])


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
def test_the_only_column_of_a_table_without_a_header_is_named(write, name):
    report = ReadReport()
    path = write(name, "mice\nred rats\n")
    if name != "labels.txt":
        with pytest.raises(
            ValueError, match=r"first line is a label, rename the file to \.txt, or pass --columns name"
        ):
            load_labels(path)
    assert load_labels(path, columns=["name"], report=report).ids == ["mice", "red rats"]
    assert report.notes == []


def test_yaml_is_no_text_of_labels(write):
    with pytest.raises(ValueError, match=r"labels\.yml is YAML: .*labels as a JSON list of names"):
        load_labels(write("labels.yml", "D3: mice\nD5: rats\n"))


def test_a_text_may_be_a_table_without_a_header(write):
    assert load_labels(write("labels.txt", "3;Mice\n5;Rats\n"), columns=["id", "name"]).names == ["Mice", "Rats"]


@pytest.mark.parametrize("header", ["Labels", "NAME:", "Label name", "id", "Class_Names", "Schlagwort", "Категория"])
@pytest.mark.parametrize("name", ["labels.txt", "labels.csv"])
def test_the_name_of_the_only_column_is_no_label(write, name, header):
    report = ReadReport()
    assert load_labels(write(name, f"{header}\nmice\nred rats\n"), report=report).ids == ["mice", "red rats"]
    assert report.records == 2
    assert report.notes == [f"the first line, {header!r}, names the only column: it is no label"]


NOTED = {
    "lines are indented, as of a tree: parents are read from a table with a column broader": "rodents\n  mice\n",
    "a single label, '404: Not Found': a text has a label on each line": "404: Not Found",
    "the id '1E+05' looks like a number that a spreadsheet has changed: format ids as text": "id,name\n1E+05,mice\n",
    "the id '01. Mär' looks like a number that a spreadsheet has changed: format ids as text": (
        "id,name\n01. Mär,Mice\n5,Rats\n"
    ),
    "'mouse, house mouse' is a single synonym: they are separated by semicolons": (
        'id,name,synonyms\n1,mice,"mouse, house mouse"\n3,rats,\n'
    ),
    "1 of 2 parents are no ids of labels, such as 'Rodents'": "id,name,broader\n1,Mice,Rodents\n2,Rats,1\n",
}


@pytest.mark.parametrize("note", NOTED)
def test_unusual_content_is_noted(write, note):
    report = ReadReport()
    load_labels(write("labels.txt", NOTED[note]), report=report)
    assert report.notes == [note]


def test_labels_within_labels_are_refused(write):
    rows = [{"id": "1", "name": "rodents", "children": [{"id": "2", "name": "mice"}]}]
    with pytest.raises(ValueError, match=r"a\.json: 'children' has labels within labels: write a row for each, with"):
        load_labels(write("a.json", rows=rows))


def test_markup_is_no_part_of_texts(write):
    row = {"id": "3", "name": "Cats &amp; <i>mice</i>", "description": "<p>10<sup>3</sup> a&nbsp;year,<br/>x < y</p>"}
    labels = load_labels(write("a.csv", rows=[row, {"id": "5", "name": "<guide> R&D;", "description": ""}]))
    assert labels.texts == ["Cats & mice: 10^3 a year, x < y", "<guide> R&D;"]


def test_markup_of_saved_labels_remains(tmp_path):
    labels = LabelSet([Label("3", "R &amp; D", "<p>small</p>", synonyms=("a &lt; b",)), Label("5", "<i>Mus</i>")])
    save_labels(labels, tmp_path / "a.csv")
    assert load_labels(tmp_path / "a.csv") == labels


@pytest.mark.parametrize(
    ("content", "ids", "names"),
    [
        ('["mice", "rats"]', ["mice", "rats"], ["mice", "rats"]),
        ('{"3": "mice", "5": "rats"}', ["3", "5"], ["mice", "rats"]),
        ('{"mice": 1, "rats": 0}', ["1", "0"], ["mice", "rats"]),
        ('{"names": ["mice", "rats"], "_type": "ClassLabel"}', ["mice", "rats"], ["mice", "rats"]),
        ('{"labels": ["mice", "rats"]}', ["mice", "rats"], ["mice", "rats"]),
        ('{"hidden_size": 7, "id2label": {"0": "mice", "1": "rats"}}', ["0", "1"], ["mice", "rats"]),
        ('{"label2id": {"mice": 0, "rats": 1}}', ["0", "1"], ["mice", "rats"]),
    ],
)
def test_json_may_be_a_list_of_names_or_have_names_by_number(write, content, ids, names):
    labels = load_labels(write("labels.json", content))
    assert (labels.ids, labels.names) == (ids, names)


@pytest.mark.parametrize("content", ['{"detail": "Not found."}', '{"labels": []}', '["mice", ["rats"]]'])
def test_other_json_is_refused(write, content):
    with pytest.raises(ValueError, match=r"labels\.json: .*expected "):
        load_labels(write("labels.json", content))


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
    described = load_labels(write("a.csv", rows=rows), description="also")
    assert described[1].description == "rat"


def test_ids_that_pandas_wrote_as_decimal_numbers_are_whole(write):
    assert load_labels(write("a.csv", "id,name\n3.0,Mice\n5.0,Rats\n")).ids == ["3", "5"]
    assert load_labels(write("a.csv", "id,name\n3.0,Mice\n5.1,Rats\n")).ids == ["3.0", "5.1"]
    parents = load_labels(write("a.csv", "id,name,broader\n3,Mice,\n5,Rats,3.0\n"))
    assert [label.broader for label in parents] == [(), ("3",)]


def test_ids_may_be_texts_of_excel_or_addresses_and_empty_rows_are_none(write):
    labels = load_labels(write("a.csv", 'id,name,broader\n="007",Mice,\n<http://a.org/1>,Rats,="007"\n,,\n,,\n'))
    assert [(label.id, label.broader) for label in labels] == [("007", ()), ("http://a.org/1", ("007",))]


def test_ids_and_names_may_be_objects_with_a_value_as_of_sparql(write):
    binding = {"item": {"type": "uri", "value": "u:1"}, "itemLabel": {"xml:lang": "en", "value": "Mice"}}
    path = write("a.json", rows=[binding])
    assert load_labels(path, id="item", name="itemLabel") == LabelSet([Label("u:1", "Mice")])
    with pytest.raises(ValueError, match=r"id must be text, got \{'q': 1\}"):
        load_labels(write("b.json", rows=[{"id": {"q": 1}, "name": "Mice"}]))


def test_a_language_includes_its_regions(write):
    names = [{"en-GB": "colour", "fr": "couleur"}, {"en_US": "flavor", "en": "taste"}]
    rows = [{"id": str(number), "name": name} for number, name in enumerate(names)]
    assert load_labels(write("a.json", rows=rows)).names == ["colour", "taste"]


def test_a_missing_column_is_explained_by_the_flags_of_labels(write):
    with pytest.raises(ValueError, match=r"a\.csv: no column 'id', only .*choose columns with id=.* \(--label_id and"):
        load_labels(write("a.csv", "Kennung;Bezeichnung\n1;Mäuse\n"))
    with pytest.raises(ValueError, match=r'no header: add it, or pass id="1", name="2" \(--label_id 1'):
        load_labels(write("a.csv", "1,Mice\n2,Rats\n"))


def test_names_that_differ_only_in_form_are_one_name(write):
    rows = [{"id": "1", "name": "cafe\u0301"}, {"id": "2", "name": "caf\xe9"}, {"id": "1", "name": "caf\xe9"}]
    report = ReadReport()
    assert load_labels(write("a.json", rows=rows), report=report).texts == ["caf\xe9: 1", "caf\xe9: 2"]
    assert (report.homonyms, report.left_out) == (2, {"repeated": 1})


def test_a_column_of_descriptions_is_read_whatever_other_columns_exist(write):
    row = {"id": "D3", "name": "Mice", "description": "small", "note": "fast", "count": ""}
    path = write("a.csv", rows=[row, {**row, "id": "D5", "name": "Rats", "description": ""}])
    assert load_labels(path).texts == ["Mice: small", "Rats"]
    assert load_labels(path, description="note").texts == ["Mice: fast", "Rats: fast"]
    assert load_labels(path, synonyms="description").texts == ["Mice", "Rats"]


def test_semicolons_separate_synonyms_unless_escaped(write):
    path = write("a.csv", 'id,name,synonyms\n1,a,"b; c, d ;; e\\;f;g\\\\;h\\i"\n2,b,\n')
    assert [label.synonyms for label in load_labels(path)] == [("b", "c, d", "e;f", "g\\", "h\\i"), ()]


def test_labels_with_the_same_name_are_distinguished_by_synonyms_or_ids(write):
    rows = [
        ("D3", "Mercury", "Merkur"),
        ("D5", "Mercury", "Quecksilber"),
        ("D7", "Venus", "Venus"),
        ("D11", "Venus", ""),
    ]
    path = write("a.csv", rows=[dict(zip(("id", "en", "de"), row, strict=True)) for row in rows])
    report = ReadReport()
    labels = load_labels(path, name=["en", "de"], report=report)
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
def test_malformed_labels_are_named_or_skipped(write, row, message):
    path = write("a.jsonl", f'{{"id": "D3", "name": "Mice", "more": "x"}}\n{row}\n')
    with pytest.raises(ValueError, match=rf"a\.jsonl: line 2: {message}"):
        load_labels(path, description="more")
    report = ReadReport("skip")
    assert load_labels(path, description="more", report=report).texts == ["Mice: x"]
    assert sum(report.left_out.values()) == report.records == 1


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
def test_a_library_catalogue_and_its_homonymous_subjects_are_read(shared_data):
    report = ReadReport()
    labels = load_labels(shared_data / "tibkat" / "gnd_labels.jsonl.gz", name=["name_en", "name_de"], report=report)
    assert len(labels) == report.records == 26_250
    assert report.homonyms > 500
    assert labels[labels.column("gnd:1021591971")].name == "Plug-in hybrid"
