"""How tables write the labels of documents: each form is read rightly, or refused with the flag that decides."""

import json
import random
import re

import pytest

from hf_gile.data.label_cells import plain_cell
from hf_gile.data.label_columns import see
from hf_gile.data.label_numbers import flag_columns

TOPICS = ["copper hose", "outer valve", "rubber rotor", "spare shaft", "lower gasket", "steel pump", "worn seal"]


def read(*cells, columns=("tags",), **options):
    """Returns the labels of each row, and the line that says how they were read."""
    table = [cell if isinstance(cell, dict) and set(columns) <= set(cell) else {"tags": cell} for cell in cells]
    form = see(table, columns, **options)
    return [form.read(row) for row in table], form.note


def rich_labels(number=60, each=5, seed=3):
    """Draws lists of labels from a rich vocabulary, of which hardly any two are equal."""
    draw = random.Random(seed)
    names = [f"{topic} {kind}" for topic in TOPICS for kind in range(30)]
    return [draw.sample(names, each) for _ in range(number)]


WRITERS = {
    "Python": str,
    "a set": lambda labels: "{" + ", ".join(map(repr, labels)) + "}",
    "NumPy with line breaks": lambda labels: "[" + "\n ".join(map(repr, labels)) + "]",
    "an array": lambda labels: f"array({labels}, dtype=object)",
    "JSON": json.dumps,
    "without quotes": lambda labels: "[" + ", ".join(labels) + "]",
    "NumPy scalars": lambda labels: "[" + ", ".join(f"np.str_({label!r})" for label in labels) + "]",
    "bytes": lambda labels: str([label.encode() for label in labels]),
    "a deque": lambda labels: f"deque({labels}, maxlen=7)",
    "R": lambda labels: "c(" + ", ".join(f'"{label}"' for label in labels) + ")",
    "curly quotes": lambda labels: "[" + ", ".join(f"\u201c{label}\u201d" for label in labels) + "]",
    "R with names": lambda labels: "c(" + ", ".join(f'x{n} = "{label}"' for n, label in enumerate(labels)) + ")",
    "Spark": lambda labels: "WrappedArray(" + ", ".join(labels) + ")",
    "Scala": lambda labels: "List(" + ", ".join(labels) + ")",
    "Julia": lambda labels: "SubString{String}" + json.dumps(labels),
    "SQL": lambda labels: f"ARRAY{labels}",
    "a database": lambda labels: "{" + ",".join(f'"{label}"' for label in labels) + "}",
}


@pytest.mark.parametrize("writer", WRITERS)
def test_lists_written_as_text_are_lists(writer):
    gold = rich_labels()
    labels, note = read(*map(WRITERS[writer], gold))
    assert labels == gold
    assert note.startswith("label column 'tags': lists written as text, such as ")
    assert note.endswith("(--separator overrules)")


@pytest.mark.parametrize("writer", ["Python", "JSON", "R", "an array", "a database", "Spark"])
@pytest.mark.parametrize("share", [2, 7])
def test_a_single_label_may_be_no_list(writer, share):
    gold = [labels[: 1 + (number % 9 < share)] for number, labels in enumerate(rich_labels())]
    labels, note = read(*(WRITERS[writer](names) if len(names) > 1 else names[0] for names in gold))
    assert labels == gold
    assert "lists written as text, or a label" in note
    with pytest.raises(ValueError, match="must be a list, as in other rows"):
        read(*map(WRITERS[writer], gold), "c('a' b", separator="json")


NO_LISTS = ["[['mice', 'rats']]", "[('mice', 0.9)]", '"[\\"mice\\"]"', "['mice' 'rats' ... 'cats']"]
NO_LISTS += ["%w[mice rats]", "00101", "[<Topic.MICE: 1>, <Topic.RATS: 2>]", "[:mice, :rats]"]
NO_LISTS += ["{mice=1, red rats=0}", "{mice: true, rats: false}", "<tag>mice</tag><tag>rats</tag>"]


@pytest.mark.parametrize("cell", [*NO_LISTS, "$amice$xtails", 'a:1:{i:0;s:4:"mice";}'])
def test_lists_that_cannot_be_read_are_no_labels(cell):
    message = "look like lists, labels .* markup, but cannot be read: write names of labels as JSON"
    with pytest.raises(ValueError, match=message):
        read(cell, cell, "mice")
    assert read(cell, cell, separator="none")[0] == [[cell], [cell]]


@pytest.mark.parametrize("separator", [None, "|"])
@pytest.mark.parametrize("cells", ["mice:0.9|rats:.12 & cats:1.0 & mice:0.35", "mice (90%)|rats (7.5 %) & cats (8%)"])
def test_labels_with_scores_are_refused(cells, separator):
    with pytest.raises(ValueError, match="look like lists, labels with scores, or markup, but cannot be read"):
        read(*cells.split(" & "), separator=separator)
    assert read("Python 3.10", "top 5%", separator=separator)[0] == [["Python 3.10"], ["top 5%"]]


@pytest.mark.parametrize("number", [1, 3])
def test_a_list_with_a_lone_apostrophe_is_malformed(number):
    with pytest.raises(ValueError, match=r"tags'? must be a list, as in other rows|look like lists"):
        read(*["['mice']"] * number, *["['the rat's tail', 'mice']"] * 2)


@pytest.mark.parametrize("cell", ["[None]", "character(0)", "{NULL}", "( )", "NaT"])
def test_brackets_around_nothing_are_no_label(cell):
    labels, note = read("mice", cell, "rats")
    assert labels == [["mice"], [], ["rats"]]
    assert f"{cell!r} is no label" in note


@pytest.mark.parametrize("sign", [";", "|", ",", "/", "\t", "\n", " "])
def test_joined_labels_of_a_rich_vocabulary_are_refused_with_the_separator(sign):
    gold = [[label.replace(" ", "_") for label in labels] for labels in rich_labels()]
    name = {"\t": "tab", "\n": "newline", " ": "space"}.get(sign, sign)
    cells = [sign.join(labels) for labels in gold]
    with pytest.raises(ValueError, match=f"look like several labels, .*: pass --separator {re.escape(repr(name))}"):
        read(*cells)
    assert read(*cells, separator=name)[0] == gold
    assert read(*cells, separator="none")[0][0] == [" ".join(cells[0].split())]


def test_known_labels_that_contain_the_separator_are_not_split():
    known = ["Music", "Food, drink and cooking", "Food", "Travel"]
    cells = ["Music, Food, drink and cooking,Travel", "Food, Music", "Food ,drink and cooking"]
    labels = [["Music", "Food, drink and cooking", "Travel"], ["Food", "Music"], ["Food", "drink and cooking"]]
    cells.append('Music,"Food, drink and cooking"')
    labels.append(["Music", "Food, drink and cooking"])
    assert read(*cells, separator=",", known=known)[0] == labels


@pytest.mark.parametrize("sign", ["\r", "\r\n", "\v", "\f", "\x1d", "\x85", "\u2028"])
def test_other_line_breaks_are_line_breaks(sign):
    cells = [sign.join(labels) for labels in rich_labels()]
    with pytest.raises(ValueError, match=r"look like several labels, .*: pass --separator 'newline'"):
        read(*cells)
    for separator in ("newline", sign):
        assert read(*cells, separator=separator)[0] == rich_labels()


def test_the_wide_space_of_japanese_separates_labels():
    draw = random.Random(3)
    cells = ["\u3000".join(draw.sample(["配送", "料金", "品質", "返品"], draw.randint(1, 2))) for _ in range(40)]
    with pytest.raises(ValueError, match="pass --separator '\u3000'"):
        read(*cells)
    assert read(*cells, separator="\u3000")[0][0] == cells[0].split("\u3000")


def test_words_between_labels_are_no_separator_of_others():
    gold = [labels[:3] for labels in rich_labels()]
    cells = [f"{first}, {second} and {third}" for first, second, third in gold]
    labels, note = read(*cells, separator=",")
    assert labels[0] == [gold[0][0], f"{gold[0][1]} and {gold[0][2]}"]
    assert "is several labels, replace ' and ' by ',')" in note
    assert read("mice", "sand", separator=" and ")[0] == [["mice"], ["sand"]]


@pytest.mark.parametrize("sign", ["/", " & ", " + ", " and ", ", and ", ";"])
def test_a_few_joined_labels_that_are_also_alone_are_refused(sign):
    draw = random.Random(11)
    gold = [draw.sample(TOPICS, 2 if number % 12 == 0 else 1) for number in range(200)]
    with pytest.raises(ValueError, match="look like several labels, '"):
        read(*map(sign.join, gold))


@pytest.mark.parametrize("sign", [" \u2013 ", "\u2022", "  ", "<br>", " und "])
def test_rare_signs_between_labels_of_a_rich_vocabulary_are_named(sign):
    sign_alone = {"<br>": "newline"}.get(sign) or (sign if sign.strip() in ("", "und") else sign.strip())
    with pytest.raises(ValueError, match=f"look like several labels, .* pass --separator '{sign_alone}'"):
        read(*map(sign.join, rich_labels()))


def test_joined_labels_of_other_vocabularies_are_refused():
    draw = random.Random(11)
    headings = [["Humans", *labels] if len(labels[0]) % 3 else labels for labels in rich_labels()]
    seldom = [draw.sample(SINGLE, 2 if number % 20 == 0 else 1) for number in range(400)]
    often = [["mice"], ["rats"], ["mice", "rats"], ["rats", "cats"], ["cats"], ["mice", "cats"]] * 5
    for gold in (headings, seldom, often):
        with pytest.raises(ValueError, match=re.escape("pass --separator ','")):
            read(*(", ".join(labels) for labels in gold))


@pytest.mark.parametrize(
    "names",
    [
        ["auto(l5)", "manual(m5)", "auto(av)"],
        ["Milk, Human", "Infant, Newborn", "Infant, Premature", "Milk", "Human Milk"],
        ["card arrival", "card not working", "cash withdrawal", "lost card", "lost or stolen phone"],
        [f"{last}, {first}" for last in ("Abel", "Berg", "Cho", "Diaz") for first in ("Ann", "Bea", "Carl", "Dan")],
        ["Home", "Home/Kitchen", "Home/Kitchen/Pans", "Home/Garden", "Sports", "Sports/Outdoor", "Toys"],
        ["Clothing, Shoes & Jewelry", "Shoes & Jewelry", "Clothing", "Movies, Music & Games", "Music", "Games"],
        ["very positive", "positive", "neutral", "negative", "very negative", "mixed"],
        ["New York", "New Jersey", "North Carolina", "South Carolina", "North Dakota", "South Dakota"],
        ["comp.graphics", "rec.autos", "sci.med", "talk.politics.misc", "comp.os.ms-windows.misc"],
        [f"2024-{month:02}-{day:02}" for month in (1, 2, 3, 11) for day in (1, 2, 3, 11, 23)],
        [f"{home}-{away}" for home in range(5) for away in range(5)],
        ["left", "right", "center", "center-left", "center-right", "left-right"],
        ["data engineer", "engineer", "senior data engineer", "senior engineer", "lead analyst", "senior analyst"],
    ],
)
@pytest.mark.parametrize("number", [10, 61, 401])
def test_names_with_signs_are_names(names, number):
    draw = random.Random(5)
    cells = [draw.choice(names) for _ in range(number)]
    assert read(*cells)[0] == [[cell] for cell in cells]


SIGNS = [*";|/ #\t", ", ", " & ", "::", " > ", "__", "\\n", "<br>", "<br/>", "  ", " and ", " y ", "\u2022", "\u060c "]
SINGLE = ["hose", "valve", "rotor", "shaft", "gasket", "pump", "seal"]


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(("each", "order"), [(2, sorted), (3, list)])
def test_as_many_labels_in_every_cell_are_seen(sign, each, order):
    draw = random.Random(7)
    gold = [order(draw.sample(SINGLE, each)) for _ in range(97)]
    cells = [sign.join(labels) for labels in gold]
    name = {"\t": "tab", " ": "space", "<br>": "newline", "<br/>": "newline"}.get(sign, sign)
    name = name if name.strip().isalpha() else name.strip() or name
    with pytest.raises(ValueError, match=f"look like several labels, .*: pass --separator '{re.escape(name)}', or "):
        read(*cells)
    assert read(*cells, separator=sign)[0] == gold
    assert len(read(*cells, separator="none")[0][0]) == 1


def test_a_sign_at_the_end_of_every_cell_is_a_separator():
    with pytest.raises(ValueError, match="cells such as 'mice;' look like several labels"):
        read(*["mice;", "rats;"] * 5)
    assert read("mice;", "rats;", separator=";")[0] == [["mice"], ["rats"]]


JOINED = [
    (["- mice\n- red rats", "* cats"], "newline"),
    (["1. mice\n2. red rats", "1) cats"], "newline"),
    (["<ul><li>mice</li><li>red rats</li></ul>", "<ul><li>cats</li></ul>"], "newline"),
    (['<a href="/7">mice</a>, <a href="/9">red rats</a>', '<a href="/5">cats</a>'], ","),
    (["7;#mice;#9;#red rats", "5;#cats"], ";#"),
    (['"mice" , "red rats"', "cats"], ","),
]


@pytest.mark.parametrize(
    ("cells", "separator", "labels"),
    [
        *((cells, separator, [["mice", "red rats"], ["cats"]]) for cells, separator in JOINED),
        (['"Milk, human",mice', 'rats,"Milk, human"'], ",", [["Milk, human", "mice"], ["rats", "Milk, human"]]),
        (['5" pipe', "it's, rats"], ",", [['5" pipe'], ["it's", "rats"]]),
        (['5" pipe;7" pipe', "mice"], ";", [['5" pipe', '7" pipe'], ["mice"]]),
    ],
)
def test_bullets_markup_quotes_and_ids_are_no_part_of_joined_labels(cells, separator, labels):
    assert read(*cells, separator=separator)[0] == labels


def test_a_second_separator_is_mentioned_and_read():
    draw = random.Random(7)
    gold = [draw.sample(SINGLE, 3) for _ in range(61)]
    cells = [(";" if number % 2 else ", ").join(labels) for number, labels in enumerate(gold)]
    assert "is several labels, pass --separator ;,)" in read(*cells, separator=";")[1]
    assert read(*cells, separator=";,")[0] == gold


SENTENCE = "We met for the {}th time, and spoke about the budget."


@pytest.mark.parametrize(("cell", "kind"), [("http://example.org/{}", "ids"), (SENTENCE, "sentences")])
def test_ids_and_sentences_are_no_labels(cell, kind):
    cells = [cell.format(number) for number in range(40)]
    with pytest.raises(ValueError, match=f"40 of 40 cells are different, .*look like {kind}, .*another column"):
        read(*cells)
    assert read(*cells, separator="none")[0][3] == [cells[3]]


ZEROS_AND_ONES = [
    [[0, 1, 1], [1, 0, 0], [0, 0, 0]],
    [[False, True, True], [False, False, False]],
    ["[0. 1. 1.]", "[1. 0. 0.]"],
    [[0.1, 0.7, 0.9], [0.2, 0.6, 0.0]],
    ["tensor([0., 1., 1.], device='cuda:0')", "tensor([1., 0., 0.])"],
    ["011", "100", "010"],
    ["0 1 1", "1 0 0"],
    ["0, 1, 1", "1, 0, 0"],
    ["0.00e+00\t1.00e+00\t1.00e+00", "1.00e+00\t0.00e+00\t0.00e+00"],
]


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        *((cells, None) for cells in ZEROS_AND_ONES),
        (["0, 1,1", "1,0,0", "0,1,0"], ","),
        ([[1, -1, -1], [-1, 1, 1]], None),
        (["[0, 100, 0]", "[100, 0, 0]"], None),
    ],
)
def test_lists_of_two_numbers_need_names(cells, separator):
    with pytest.raises(ValueError, match=r"say which of 3 labels a document has, .* pass a --label_file with these 3"):
        read(*cells, separator=separator)
    with pytest.raises(ValueError, match="say which of 3 labels"):
        read(*cells, separator=separator, known={"mice", "rats", "cats"})  # in no order
    if cells in ZEROS_AND_ONES or separator:
        labels, note = read(*cells, separator=separator, known=["mice", "rats", "cats"])
        assert labels[0] == ["rats", "cats"]
        assert "lists of zeros and ones for the labels of --label_file" in note


RUSSIAN = ("\u0418\u0421\u0422\u0418\u041d\u0410", "\u041b\u041e\u0416\u042c")
WORDS = [(True, False), ("WAHR", "FALSCH"), ("sí", "no"), RUSSIAN]
MARKS = [("\u2713", ""), ("*", ""), ("V", ""), ("\u25cb", "\u00d7"), ("\u2611", "\u2610")]


@pytest.mark.parametrize(("yes", "no"), [(1, 0), ("1.0", "0.0"), *WORDS, *MARKS])
def test_columns_of_zeros_and_ones_are_labels(yes, no):
    table = [{"rude": yes, "off topic": no}, {"rude": no, "off topic": None}, {"rude": yes, "off topic": yes}]
    labels, note = read(*table, columns=["rude", "off topic"])
    assert labels == [["rude"], [], ["rude", "off topic"]]
    assert note.startswith("label columns 'rude', 'off topic': a column of zeros and ones a label")
    with pytest.raises(ValueError, match="rude must be a number from 0 to 1, as in other rows, got -1"):
        see(table, ["rude", "off topic"]).read({"rude": -1})


def test_a_prefix_that_all_columns_of_zeros_and_ones_share_is_no_part_of_labels():
    table = [{"topic_news": row % 2, "topic_fine arts": row % 3} for row in (0, 1, 3, 4)]
    labels, note = read(*table, columns=["topic_news", "topic_fine arts"])
    assert labels == [[], ["news", "fine arts"], ["news"], ["fine arts"]]
    read_as = "a column of zeros and ones a label, without their prefix 'topic_'"
    assert f"{read_as} (--separator none keeps it), such as" in note
    assert read(*table, columns=["topic_news", "topic_fine arts"], separator="none")[0][2] == ["topic_news"]


@pytest.mark.parametrize(
    ("columns", "known", "labels"),
    [
        ("not_rude not_funny", "", "not_rude not_funny"),
        ("rude rude_threat", "", "rude rude_threat"),
        ("news new_arts", "", "news new_arts"),
        ("label_0 label_1", "", "label_0 label_1"),
        ("label_0 label_1", "0 1", "0 1"),
        ("is_rude is_funny", "is_rude is_funny", "is_rude is_funny"),
        ("is_rude is_funny", "rude threat", "rude funny"),
        ("gold.a_b gold.a_c", "", "b c"),
        ("science/physics science/optics", "", "physics optics"),
        ("A/B A/C", "", "A/B A/C"),
        ("topic[mice] topic[rats]", "", "mice rats"),
        ("topic[mice]? topic[rats]", "", "topic[mice]? topic[rats]"),
    ],
)
def test_a_prefix_with_a_meaning_or_of_known_labels_is_kept(columns, known, labels):
    row = dict.fromkeys(columns.split(), 1)
    assert read(row, columns=[*row], known=known.split())[0] == [labels.split()]


@pytest.mark.parametrize(
    ("column", "names", "labels"),
    [
        ("{}", ["U.S. politics", "U.S. sport", "U.K. politics"], ["U.S. politics", "U.S. sport", "U.K. politics"]),
        ("St. {}", ["Louis", "Paul"], ["St. Louis", "St. Paul"]),
        ("Ph.D. {}", ["biology", "physics"], ["Ph.D. biology", "Ph.D. physics"]),
        ("Label: {}", ["Mice", "Red  rats "], ["Mice", "Red rats"]),
        ("Topics (choice={})", ["Mice", "Rats (white)"], ["Mice", "Rats (white)"]),
        ("Q1. Which topics? [{}]", ["Mice", "Rats"], ["Mice", "Rats"]),
    ],
)
def test_a_prefix_ends_before_a_whole_name(column, names, labels):
    row = {column.format(name): 1 for name in names}
    assert read(row, columns=[*row])[0] == [labels]


@pytest.mark.parametrize("damaged", [[1, 0], [], [1, 0, None]])
def test_a_list_of_zeros_and_ones_that_is_too_short_has_no_numbers_of_classes(damaged):
    cells = [*[[0, 1, 1], [1, 0, 0]] * 10, *[[]] * 15, damaged]
    form = see([{"tags": cell} for cell in cells], ["tags"], known=["mice", "rats", "cats"])
    assert form.read({"tags": [0, 1, 1]}) == ["rats", "cats"]
    if damaged:
        with pytest.raises(ValueError, match="tags must have 3 numbers"):
            form.read({"tags": damaged})


@pytest.mark.parametrize(
    "rows",
    [
        [(1, -1), (-1, 1), (-1, -1)],
        [(80, 10), (10, 80), (10, 10)],
        [("ja", "no"), ("no", "ja"), ("no", "no")],
        [("*", "#"), ("#", "*"), ("#", "#")],
        [("yes", "no"), ("no", "yes"), ("no", "no"), ("maybe", "yes")],
        [("rude", "0"), ("0", "threat")],
        [("rude", "Not quoted"), ("Not quoted", "threat")],
    ],
)
def test_columns_that_only_look_like_zeros_and_ones_are_refused(rows):
    table = [{"rude": first, "off topic": second} for first, second in rows]
    message = "are the same in all columns, .* write 1 in the columns of a document's labels and 0 in others, or pass"
    with pytest.raises(ValueError, match=message):
        read(*table, columns=["rude", "off topic"])
    assert read(*table, columns=["rude", "off topic"], separator="none")[0][0] == [*map(str, rows[0])]


@pytest.mark.parametrize("quotes", ["''", '""', "\u201c\u201d", "\u201e\u201c", "\xab\xbb"])
def test_quotes_around_labels_are_no_part_of_them(quotes):
    mice, rats = (f"{quotes[0]}{name}{quotes[1]}" for name in ("mice, old", "rats' tails"[quotes == "''" :]))
    assert read(mice, mice)[0][0] == ["mice, old"]
    assert read(f"{rats};{mice}", f"{mice}; cats", separator=";")[0][1] == ["mice, old", "cats"]
    assert read("rats' tails", "the 'old' mice")[0] == [["rats' tails"], ["the 'old' mice"]]


def test_objects_for_all_labels_are_refused():
    cells = [[{"label": "rude", "score": row / 10}, {"label": "threat", "score": 1 - row / 10}] for row in range(10)]
    with pytest.raises(ValueError, match="all cells have the same labels, such as 'rude': leave out those that a doc"):
        read(*cells)
    with pytest.raises(ValueError, match="all cells have the same labels"):
        read(*(cell[:: 1 - row % 2 * 2] for row, cell in enumerate(cells)))
    labels, note = read(*cells[1:])
    assert labels == [["rude", "threat"]] * 9
    assert "objects, by their 'label'; their 'score' is not read: leave out labels with a low one" in note


@pytest.mark.parametrize("status", ["draft", "discarded"])
def test_drafts_and_discarded_answers_of_argilla_are_no_labels(status):
    answers = [[{"value": ["rude"], "status": "submitted"}], [{"value": ["threat"], "status": status}]]
    with pytest.raises(ValueError, match="'tags' has objects of status draft or discarded: leave them out"):
        read(*answers)
    assert read(*answers[:1])[0] == [["rude"]]


def test_a_list_in_a_list_is_that_of_an_annotator():
    assert read([["mice", "rats"]], [["mice"]], [[]], [])[0] == [["mice", "rats"], ["mice"], [], []]
    with pytest.raises(ValueError, match=r"must be text, got \['mice'\]"):
        read([["mice"], ["rats"]])


def test_rejected_answers_of_prodigy_are_no_labels():
    answers = ["accept", "reject", "ignore"]
    table = [{"tags": "rude", "answer": answer, "_input_hash": 3} for answer in answers]
    with pytest.raises(ValueError, match="rows whose answer is reject or ignore, as of Prodigy, have other labels"):
        see(table, ["tags"])
    assert see(table[:1], ["tags"]).read(table[0]) == ["rude"]
    assert see([{"tags": "rude", "answer": "reject"}], ["tags"]).form == "plain"


def test_several_columns_have_shares_or_a_label_each():
    assert read({"a": 0.6, "b": "0.2"}, {"a": 0, "b": "1"}, columns=["a", "b"])[0] == [["a"], ["b"]]
    assert read({"a": "mice", "b": "y"}, {"a": "x", "b": ""}, columns=["a", "b"])[0] == [["mice", "y"], ["x"]]


def test_columns_of_zeros_and_ones_are_seen_beside_text_and_id():
    others = {"id": "0", "text": "x", "Unnamed: 0": "1", "post_id": "1", "kfold": "0", "is_valid": "1"}
    others |= {"split": "0", "agreement": "0.7"}
    assert flag_columns([others | {"rude": "0", "threat": "1"}] * 3, {"id", "text"}) == ["rude", "threat"]
    assert flag_columns([{"text": "x", "rude": "0"}], {"text"}) == []
    pair = [{"rude": 1, "off topic": 0}, {"rude": 0, "off topic": 1}]
    with pytest.raises(ValueError, match=r"zeros and ones, and so have other columns, .* --labels rude 'off topic'"):
        read(*pair, columns=["rude"])
    assert read(*pair, columns=["rude"], separator="none")[0] == [["1"], ["0"]]


NUMBERS = [{"rude": 0.9, "off topic": 0.0}, {"rude": 0, "off topic": 0}, {"rude": True, "off topic": True}]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["[\"rats' tails\", 'a \"b\"', 'c\\'d']", "[]"], [["rats' tails", 'a "b"', "c'd"], []]),
        (["['mice']", "set()", "", None], [["mice"], [], [], []]),
        (['Any["mice"]', "Any[]", "T{a, b}[]", '["rats"]'], [["mice"], [], [], ["rats"]]),
        (["int[]", "byte[]", "int"], [["int[]"], ["byte[]"], ["int"]]),
        (["__label__mice", "__label__rats", "__label__mice"], [["mice"], ["rats"], ["mice"]]),
        ([f"intent_{number}" for number in range(20)], [[f"intent_{number}"] for number in range(20)]),
        (NUMBERS, [["rude"], [], ["rude", "off topic"]]),
        ([*map(str, NUMBERS)], [["rude"], [], ["rude", "off topic"]]),
        ([*map(json.dumps, NUMBERS)], [["rude"], [], ["rude", "off topic"]]),
        ([3.0, 7.0, float("nan")], [["3"], ["7"], []]),
        (["3.0", "3.5"], [["3.0"], ["3.5"]]),
        (["3.000e+00", "1.200e+01"], [["3"], ["12"]]),
        (["10", "11", "10"], [["10"], ["11"], ["10"]]),
        ([[3.0], [7]], [["3"], ["7"]]),
        ([True, False], [["true"], ["false"]]),
        (["mice", "nan", None, "None", "NULL"], [["mice"], [], [], [], []]),
        (["mice", "N/A", "NA", "#N/A", "\\N", "-", "[]"], [["mice"], [], [], [], [], [], []]),
        (["mice", "undefined", "(null)", "<none>", "#REF!", ".", "''", "\u2014"], [["mice"], *([[]] * 7)]),
        (["none", "mice", "NONE"], [["none"], ["mice"], ["NONE"]]),
        (["[04, 02]", "[02]"], [["04", "02"], ["02"]]),
        (['="04"', '="02"'], [["04"], ["02"]]),
        (["b'mice'", "b'red rats'"], [["mice"], ["red rats"]]),
        (["<b>mice</b>", '<a href="/7">rats &amp; cats</a>'], [["mice"], ["rats & cats"]]),
        ([["mice"], {}], [["mice"], []]),
        (["'mice'", '"red rats"', "'mice'"], [["mice"], ["red rats"], ["mice"]]),
        (['["b", 7]', '["b"]'], [["b", "7"], ["b"]]),
        (["[broken item]", "[broken item, spam]", "{praise}"], [["broken item"], ["broken item", "spam"], ["praise"]]),
        (["mice", "rats", '["mice", "cats"]'], [["mice"], ["rats"], ["mice", "cats"]]),
        (["[sic]", "mice", "rats"], [["[sic]"], ["mice"], ["rats"]]),
        ([{"rude": 1}, {}, {"off topic": True}], [["rude"], [], ["off topic"]]),
        (["Café", "Cafe\u0301", "\u200fCaf\u00e9\u00a0", " Café\u200b"], [["Café"]] * 4),
    ],
)
def test_cells_of_one_label_or_none_are_read(cells, expected):
    assert read(*cells)[0] == expected


UNSURE = ["none", "unknown", "K.A.", "nicht zutreffend", "0", "(no genres listed)", "[No keywords available]"]


@pytest.mark.parametrize("word", UNSURE)
def test_words_that_may_stand_for_no_label_are_labels_with_a_note(word):
    labels, note = read("mice", word, "rats")
    assert labels[1] == [word]
    assert f"{word!r} is a label: leave cells empty where a document has none" in note


WITHOUT_MEANING = "a model cannot read the meaning of {}: name them with --label_file"
TOPICS_OF_SURVEY = ["mice", "rats", "cats"] * 10
CODES = [("A1", "B7"), ("3.1", "12"), ("LABEL_0", "LABEL_1"), (["J45.9"], ["J45.0"])]
SECOND_HEADER = "'Choose a topic:' is only in the first row: if it is a second row of names, remove it"


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        ((0, 1), WITHOUT_MEANING.format("yes and no")),
        *((cells, WITHOUT_MEANING.format("codes")) for cells in CODES),
        (("mice", "None"), "'None' is no label"),
        (("02. Mrz", "mice"), "the id '02. Mrz' looks like a number that a spreadsheet has changed"),
        (("1,034", "mice"), "the id '1,034' looks like a number that a spreadsheet has changed"),
        (("Choose a topic:", *TOPICS_OF_SURVEY), SECOND_HEADER),
    ],
)
def test_what_is_strange_about_labels_is_noted(cells, note):
    assert note in read(*cells)[1]


NAMES = [("mice", "rats"), ("B2B sales", "C3"), ("5 stars", "1 star"), ("音乐", "体育")]


@pytest.mark.parametrize("cells", [*NAMES, ("Choose a topic:", *TOPICS_OF_SURVEY, "dogs"), TOPICS_OF_SURVEY])
def test_usual_labels_are_not_noted(cells):
    assert not re.search("meaning|only in the first row", read(*cells)[1])


def test_a_column_of_no_and_other_words_beside_zeros_and_ones_is_noted():
    table = [{"mice": row % 2, "rats": 1 - row % 2, "ripe": ["No", "maybe"][row % 2]} for row in range(30)]
    assert "(left out, though from 0 to 1, or no, too: 'ripe')" in read(*table, columns=["mice", "rats"])[1]


@pytest.mark.parametrize("missing", ["<NA>", ""])
def test_zero_is_a_usual_label_among_numbers_and_missing_cells(missing):
    assert "'0' is a label" not in read(*["0", "1", missing, "2"] * 9)[1]


def test_words_for_missing_cells_are_labels_where_they_are_known_or_requested():
    assert read("NA", "DE", "null", known=["NA", "DE"])[0] == [["NA"], ["DE"], []]
    assert read("None", "mice", "", separator="none")[0] == [["None"], ["mice"], []]


def test_a_column_of_ones_alone_is_no_label():
    table = [{"text": "mice", "rude": row % 2, "threat": row % 3 == 0, "agreed": 1, "never": 0} for row in range(30)]
    columns = flag_columns(table, {"text"})
    assert columns == ["rude", "threat", "never"]
    assert "a label (left out, though from 0 to 1, or no, too: 'agreed'), such as" in read(*table, columns=columns)[1]
    assert read(*table, columns=["rude", "agreed"])[0][0] == ["agreed"]


def survey(**columns):
    """Returns rows with two columns of zeros and ones, and others whose cells recur."""
    return [
        {"rude": row % 2, "threat": row % 3 % 2} | {name: cells[row % len(cells)] for name, cells in columns.items()}
        for row in range(100)
    ]


ODD = ["maybe", 2, "9", -1, "1?", "O", "11", 0.5, "Yes!"]


@pytest.mark.parametrize(
    "cells", [*([0, 1] * 9 + [1, odd] for odd in ODD), ["yes", "no"] * 9 + ["no", "TRUE"], ["x", ""] * 20 + ["(x)"]]
)
def test_a_column_that_is_nearly_of_zeros_and_ones_is_refused(cells):
    place = re.escape(f"has {cells[-1]!r} in row {len(cells)}: write 0 or 1")
    with pytest.raises(ValueError, match=f"column 'off topic' .* {place}, or leave it out with --labels rude threat"):
        flag_columns(survey(**{"off topic": cells}), ())


COUNTS = {"words": [0, 12, 7, 31], "links": [0, 1] * 9 + [2, 0, 1, 3, 0, 1, 5, 8], "stars": [1, 2, 3, 4, 5]}
COUNTS |= {"version": [1] * 19 + [2], "age": ["1", "0", "35"], "price": [0] * 19 + [9.5], "note": ["", "no", "", "see"]}
LEFT_OUT = {"agreement": [0, 0, 1, 0.3, 0.9], "train": [0, 1, 1], "row": [0, 0, 1]}


@pytest.mark.parametrize("odd", ["uncertain", -1])
def test_a_column_of_zeros_and_ones_with_many_odd_cells_is_refused(odd):
    with pytest.raises(ValueError, match=f"column 'off topic' seems to be a label.* has {odd!r} in row 3: write 0 or"):
        flag_columns(survey(**{"off topic": [0, 1, odd]}), ())


def test_columns_named_by_codes_are_noted():
    table = [{"text": "mice", "q1_1": row % 2, "q1_2": row % 3 % 2} for row in range(30)]
    assert (
        "a model cannot read the meaning of codes: name them with --label_file"
        in read(*table, columns=["q1_1", "q1_2"])[1]
    )
    assert "codes" not in read(*table, columns=["q1_1", "q1_2"], known=["q1_1", "q1_2"])[1]


def test_counts_are_no_labels_and_columns_of_shares_and_parts_are_left_out_with_a_note():
    table = survey(**COUNTS, **LEFT_OUT)
    assert flag_columns(table, ()) == ["rude", "threat"]
    assert f"0 to 1, or no, too: {str(['note', *LEFT_OUT])[1:-1]})" in read(*table, columns=["rude", "threat"])[1]


def test_a_column_with_the_name_of_a_known_label_is_not_left_out():
    table = survey(**COUNTS, **LEFT_OUT, agreed=[1])
    assert flag_columns(table, (), [*LEFT_OUT, "agreed", "rude"]) == ["rude", "threat", *LEFT_OUT, "agreed"]
    with pytest.raises(ValueError, match=r"column 'words' .* has 12 in row 2: write 0 or 1, or leave it out with"):
        flag_columns(table, (), ["words", "rude"])


@pytest.mark.parametrize("others", [("Y", "N"), ("True", "False"), ("x", "")])
def test_columns_of_zeros_and_ones_may_have_words_of_their_own(others):
    table = [{"mice": "no", "ripe": others[0]}, {"mice": "yes", "ripe": others[1]}]
    assert flag_columns(table, ()) == ["mice", "ripe"]
    assert read(*table, columns=["mice", "ripe"])[0] == [["ripe"], ["mice"]]


def test_objects_are_read_by_their_name_or_known_id():
    cells = [[{"id": "Q1", "name": "mice"}], [{"id": "Q2", "name": "rats"}, {"id": "Q1", "name": "mice"}]]
    assert read(*cells, known={"Q1", "Q2"})[0] == [["Q1"], ["Q2", "Q1"]]
    assert read(*map(json.dumps, cells))[0] == read(*cells)[0] == [["mice"], ["rats", "mice"]]
    assert read({"label": "mice"}, {"label": "rats"}, {"label": None})[0] == [["mice"], ["rats"], []]
    assert read({"choices": ["mice", "rats"]}, "mice")[0] == [["mice", "rats"], ["mice"]]
    assert read([{"id": "https://example.org/7", "display_name": "mice"}], [])[0] == [["mice"], []]
    for key in ("topic", "descriptor", "ui", "@id", "prefLabel"):
        assert read([{key: "mice", "score": 0.5}], [{key: "rats", "score": 0.9}])[0] == [["mice"], ["rats"]]
    message = r"of which none is a name or id: .*, as \[item\[KEY\] for item in labels\]"
    for item in ({"score": 3}, {"name": {"en": "mice"}}):
        with pytest.raises(ValueError, match=message):
            read([item])


def test_classes_get_their_names():
    with pytest.raises(ValueError, match="a class must be a whole number from 0 to 1, got 2"):
        see([{"tags": 0}, {"tags": 1}], ["tags"], classes={"tags": ["mice", "rats"]}).read({"tags": 2})
    table = [{"a": 0, "b": 1}, {"a": 2, "b": -1}]
    names = {"a": ["mice", "rats", "cats"], "b": ["old", "new"]}
    assert read(*table, columns=["a", "b"], classes=names)[0] == [["mice", "new"], ["cats"]]


def test_class_numbers_are_lines_of_the_label_file():
    known = ["mice", "rats", "cats"]
    for cells in ([0, 2, 1, -1], ["0", "2.0", "1", ""], [1, 3, 2, None]):
        labels, note = read(*cells, known=known)
        assert labels == [["mice"], ["cats"], ["rats"], []]
        first = int(3 in cells)
        range_of = f"from {first} ('mice') to {first + 2} ('cats')"
        assert f"numbers of classes, which have names, counted in --label_file {range_of}" in note
    assert see([{"tags": 1}, {"tags": 3}], ["tags"], known=known).read({"tags": 0}) == ["0"]  # reported as unknown
    assert read("0,2", "1", "", known=known, separator=",")[0] == [["mice", "cats"], ["rats"], []]
    assert read(1, 2, known=known)[0] == [["1"], ["2"]]  # from 0, or from 1
    assert read(0, 1, known=["0", "1"])[0] == [["0"], ["1"]]
    assert read("0", "4", known=["000", "001", "004"])[0] == [["0"], ["4"]]  # reported as unknown


@pytest.mark.parametrize("form", ["{}", "C{}", "C0{}", "http://a.org/{}"])
@pytest.mark.parametrize("numbers", [[3, 1, 2], [2, 0, 1]])
@pytest.mark.parametrize("kind", [int, float, "{}.0".format])
def test_numbers_that_may_be_ids_are_no_lines_of_the_label_file(form, numbers, kind):
    cells = [*map(kind, sorted(numbers))]
    assert read(*cells, known=[*map(form.format, numbers)])[0] == [[str(number)] for number in sorted(numbers)]
    in_order = [*map(form.format, sorted(numbers))]
    assert read(*cells, known=in_order)[0] == [[label_id] for label_id in in_order]
    assert read(0, 1, known=["1 star", "level 2"])[0] == [["1 star"], ["level 2"]]


@pytest.mark.parametrize("sign", ["; ", "|", " "])
def test_pieces_that_are_all_known_are_labels(sign):
    form = see([{"tags": f"mice{sign}rats"}, {"tags": "cats"}], ["tags"], known={"mice", "rats", "cats"})
    assert form.read({"tags": f"mice{sign}rats"}) == ["mice", "rats"]
    assert "labels separated by" in form.note


@pytest.mark.parametrize("cells", [["Milk, Iron"], ["Milk, Human", "Milk, Iron"]])
def test_a_sign_in_a_known_label_separates_nothing(cells):
    with pytest.raises(ValueError, match="look like several labels"):
        read(*cells, known={"Milk", "Human", "Milk, Human", "Iron"})  # a later row may be "Milk, Human"


def test_entities_of_a_cell_are_decoded_once():
    assert plain_cell("R&amp;D, a &amp;lt; b") == "R&D, a &lt; b"
