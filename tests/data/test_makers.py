"""Tables as their makers write them: what is read, what is said about it, and what is refused with the way out."""

import importlib
import json
from pathlib import Path

import datasets
import pytest
from makers import LABELS, MAKERS, ONE, documents, frame, joined
from table_source import TableSource

from hf_gile.data import load_labels

ROOT = Path(__file__).parents[2]
TWO = documents(40, low=2)


def csv_of(table, **options):
    return table.to_csv(index=False, **options)


def gold(parts):
    return {row["text"]: set(row["labels"]) for part in parts.values() for row in part}


def sets(rows):
    return {text: set(labels) for text, labels in rows}


@pytest.fixture
def read(write, tmp_path, monkeypatch):
    """Reads a file as `train` does, and further files that settings name; returns parts, labels, and what was said."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")

    def read_all(name, content, label_file=None, test=None, **settings):
        if label_file is not None:
            suffix = "csv" if label_file[:2] in ("id", b"id") else "txt"
            settings["label_file"] = str(write(f"labels.{suffix}", label_file))
        if test is not None:
            settings["test_files"] = [str(write("test.csv", test))]
        said = []
        parts, labels, _ = TableSource([str(write(name, content))], **settings).read_all(said.append)
        return parts, labels, "\n".join(said)

    return read_all


@pytest.mark.parametrize("maker", MAKERS)
def test_tables_of_many_makers_are_read(maker, read):
    rows, name, content, settings = MAKERS[maker]
    parts, labels, said = read(name, content, **settings)
    assert gold(parts) == sets(rows)
    assert set(labels.ids) >= {label for _, ids in rows for label in ids}
    assert "  label column" in said
    assert " such as '" in said


# The name of a file, what is around its lines, a line, and the text of a line.
LAYOUTS = {
    "spaces before cells": ("a.csv", "text, labels\n{}", '"note {}, it", "{}"\n', "note {}, it"),
    "quotations": ("a.csv", "“text”,“labels”\n{}", "“{}”,“{}”\n", "“{}”"),
    "two marks, and the end of DOS": ("a.csv", "\ufeff\ufefftext,labels\u200b\r\n{}\x1a", "note {},{}\r\n", "note {}"),
    "fastText, labels last": ("a.txt", "{}", "note {} __label__{}\n", "note {}"),
    "fastText, a comma after labels": ("a.txt", "{}", "__label__{1} , note {0}\n", "note {}"),
    "fastText": ("a.txt", "{}", "__label__{1} note {0}\n", "note {}"),
    "Markdown": ("a.md", "| text | labels |\n|:---|---:|\n{}", "| note {} | {} |\n", "note {}"),
    "Markdown without outer signs": ("a.txt", "text | labels\n--- | ---\n{}", " note {} | {} \n", "note {}"),
    "MySQL": ("table", "+---+---+\n| text | labels |\n+---+---+\n{}+---+---+\n", "| note {} | {} |\n", "note {}"),
    "empty columns": ("a.csv", "text;labels;;\n{};;;\n;;;\n", "note {};{}\n", "note {}"),
    "an empty column": ("a.csv", "text;labels;\n{}", "note {};{}\n", "note {}"),
    "empty rows": ("a.csv", "text;labels\n{};\n;\n" + ";\n" * 30, "note {};{}\n", "note {}"),
}


@pytest.mark.parametrize(("name", "around", "line", "text"), LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_are_no_part_of_documents(read, name, around, line, text):
    lines = "".join(line.format(number, "ab"[number % 2]) for number in range(30))
    parts, _, said = read(name, around.format(lines))
    assert gold(parts) == {text.format(number): {"ab"[number % 2]} for number in range(30)}
    assert "30 records from 1 file; left out: none" in said


def test_what_a_table_looks_like_is_said_with_examples_and_the_flag_that_overrules(read):
    said = read("a.csv", csv_of(joined(TWO, ", "), sep=";").encode("cp1252"), separator=",")[2]
    lines = said.splitlines()
    assert lines[0] == "train: 40 records from 1 file; left out: none"
    flags = "--delimiter, --quote, --encoding and --columns overrule"
    assert lines[1] == f"  a.csv: encoding cp1252, as in 'über'; delimiter ';' ({flags})"
    examples = " and ".join(repr(" | ".join(labels)) for _, labels in TWO[:2])
    assert lines[2] == f"  label column 'labels': labels separated by ',', such as {examples} (--separator overrules)"


def test_flags_overrule_what_is_seen(read):
    content = csv_of(joined(TWO, "|"), sep=";").replace(",", "")
    with pytest.raises(ValueError, match="no column 'text', only text;labels"):
        read("a.csv", content, delimiter=",")
    parts, _, _ = read("b.csv", content.encode("latin-1"), separator="|", encoding="cp1253")
    assert "ό" in parts["train"]["text"][0]  # as requested, though wrong


@pytest.mark.parametrize("encoding", ["utf-8", "cp1254"])
def test_the_layout_of_documents_is_not_that_of_the_label_file(read, encoding):
    table = "text;labels\n" + "".join(f"n\xf6te {number};{number % 2}\n" for number in range(30))
    settings = {"delimiter": ";", "quote": "none", "encoding": "cp1254"}
    labels = read("a.csv", table.encode("cp1254"), 'id,name\n0,"\xf6, a"\n1,b\u0131\n'.encode(encoding), **settings)[1]
    assert sorted(labels.names) == ["b\u0131", "\xf6, a"]


@pytest.mark.parametrize("quotes", ["\u201c\u201d", "\u201e\u201c", "\xab\xbb"])
@pytest.mark.parametrize("sign", [",", ";"])
def test_typographic_quotes_are_around_cells(read, quotes, sign):
    names = ["mice", f"rats{sign} old"]
    lines = [("text", "labels"), *((f"note {n}{sign} \u201cso\u201d", names[n % 2]) for n in range(30))]
    table = "".join(sign.join(f"{quotes[0]}{cell}{quotes[1]}" for cell in cells) + "\r\n" for cells in lines)
    parts, _, said = read("a.csv", table)
    assert gold(parts)[f"note 3{sign} \u201cso\u201d"] == {f"rats{sign} old"}
    assert "quote '\u201c'" in said


def test_names_above_several_options_are_no_column(read):
    table = "Which topics?,,What happened?\nrefund,praise,Open-Ended Response\n"
    table += "".join(f"{'refund' * (row % 2)},{'praise' * (row % 3 > 0)},note {row}\n" for row in range(30))
    parts, _, said = read("a.csv", table, text=["What happened?"], labels=["refund", "praise"])
    assert gold(parts)["note 3"] == {"refund"}
    assert "the header has 2 rows" in said
    with pytest.raises(ValueError, match=r"no column 'Which topics\?', only refund, praise, What happened\?; name the"):
        read("a.csv", table, text=["What happened?"], labels=["Which topics?"])


def test_a_table_without_a_header_says_how_to_name_its_columns(read):
    with pytest.raises(ValueError, match=r"no column 'text', only 1, 2; the file has no header: name all .* --columns"):
        read("a.csv", csv_of(joined(ONE, ""), header=False))
    different = "The heart pumps.,Blood\nMice eat.,Mice\nRats sleep.,Rats\n"
    with pytest.raises(ValueError, match=r"only The heart pumps., Blood; .* is no header, name all .* --columns"):
        read("b.csv", different)


def test_joined_labels_stop_the_run_before_training(read):
    content = csv_of(joined(TWO, "; "))
    for separator in (None, "|"):
        with pytest.raises(ValueError, match=r"look like several labels, .*: pass --separator ';', or --separator no"):
            read("a.csv", content, separator=separator)
    assert len(read("a.csv", content, separator="none")[1]) > len(LABELS)


@pytest.mark.parametrize(("number", "said"), [(60, None), (20, "note: 20 labels, such as"), (8, "note: 8 labels")])
def test_labels_that_are_about_as_many_as_documents_are_noted_or_stop_the_run(read, number, said):
    names = [f"{part}{row}" for row, part in enumerate(["intent ", "topic "] * (number // 2))]
    content = csv_of(frame([(f"text {row}", [name]) for row, name in enumerate(names)], "".join))
    if said is None:
        with pytest.raises(ValueError, match=r"60 labels, such as .* 60 documents: hardly any .* --label_file or pass"):
            read("a.csv", content)
    else:
        assert said in read("a.csv", content)[2]
    for settings in ({"separator": "none"}, {"label_file": "\n".join(names)}):
        _, labels, lines = read("a.csv", content, **settings)
        assert len(labels) == number
        assert "hardly any" not in lines


def test_documents_without_labels_are_negatives_in_every_part(read):
    rows = [(text, labels if number % 3 == 0 else []) for number, (text, labels) in enumerate(documents(90, low=2))]
    parts, labels, said = read("a.csv", csv_of(frame(rows)))
    assert "90 records from 1 file, 60 of them without labels; left out: none" in said
    assert all(sum(not ids for ids in part["labels"]) > 0.4 * len(part) for part in parts.values())
    assert len(labels) == len(LABELS)


def test_other_parts_are_read_like_the_training_documents(read):
    table = joined(TWO, "|")
    parts, _, _ = read("a.csv", csv_of(table), test=csv_of(table[:3]), separator="|")
    assert parts["test"]["labels"] == [labels for _, labels in TWO[:3]]
    # 25 different labels are no reason to refuse a test file.
    table = frame([(f"text {number}", [f"label {number % 25}"]) for number in range(100)], "".join)
    assert len(read("b.csv", csv_of(table), test=csv_of(table[:25]))[0]["test"]) == 25


def test_forms_of_a_name_are_one_label_and_cases_are_noted(read):
    names = [*["Café", "Cafe\u0301", "Caf\u00e9 ", "\u00a0Café"] * 5, "trade", "Trade", "trade"]
    table = frame([(f"text {number}", [name]) for number, name in enumerate(names)], "".join)
    _, labels, said = read("a.csv", csv_of(table))
    assert sorted(labels.ids) == ["Café", "Trade", "trade"]
    note = "note: 2 labels differ from others in case, spaces or punctuation only, such as 'trade' and 'Trade'"
    assert f"{note}: they count as different labels" in said


def test_a_label_file_that_differs_in_form_only_is_matched_or_explained(read):
    table = csv_of(frame([(f"text {number}", [["Café", "Trade"][number % 2]]) for number in range(40)], "".join))
    labels = read("a.csv", table, "id,name\nCafe\u0301,Coffee\nTrade,Trade\n")[1]
    assert labels.names.count("Coffee") == 1
    with pytest.raises(ValueError, match=r"lacks 1 label id .*'Trade' \(the labels have 'trade', which differs in cas"):
        read("a.csv", table, "id,name\nCafé,Coffee\ntrade,Trade\n")
    with pytest.raises(ValueError, match=r"lacks 2 label ids .* is the name of a label, but the documents must have"):
        read("a.csv", table, "id,name\nT1,Trade\nT2,Café\n")


def test_titles_and_comments_before_the_names_of_columns_are_skipped(read):
    for before in ("# made by us\n# in 2024\n", "Complaints of 2024,\n,\n", "sep=,\nThe title\n"):
        parts, _, said = read("a.csv", before + csv_of(joined(ONE, "")))
        assert gold(parts) == sets(ONE)
        assert "names of columns in line 3" in said
    with pytest.raises(ValueError, match="no column 'text', only comment, kind"):
        read("a.csv", "comment,kind\n" + "".join(f"note {number},text\n" for number in range(9)))


def test_a_saved_dataset_is_a_dataset_not_files(tmp_path):
    rows = documents(60, low=1)
    saved = datasets.Dataset.from_pandas(frame(rows))
    datasets.DatasetDict(train=saved).save_to_disk(str(tmp_path / "a"))
    with pytest.raises(ValueError, match=r"written by save_to_disk of datasets: train with --dataset .*to_parquet"):
        TableSource([str(tmp_path / "a")]).read_all(print)
    parts, *_ = TableSource(dataset=str(tmp_path / "a")).read_all(print)
    assert gold(parts) == sets(rows)


def test_a_header_in_the_middle_of_a_table_is_no_document(read):
    table = csv_of(frame(documents(30, low=1, high=1)))
    with pytest.raises(ValueError, match="line 32: the row repeats the names of the columns; fix it, or pass"):
        read("a.csv", table + table)


def test_lines_that_end_with_a_carriage_return_alone_are_read(read, write):
    table = csv_of(joined(TWO, ";"), sep=";", lineterminator="\r")
    assert gold(read("a.csv", table, separator=";")[0]) == sets(TWO)
    assert load_labels(write("b.csv", "made in 2024\rid,name\r3,hose\r5,red pump\r")).names == ["hose", "red pump"]


TOTALS = ["Total,", "Summe:,30", "Total rows: 30,", "Gesamtergebnis,30", "Grand Total,30\n,\n,"]


@pytest.mark.parametrize("last", [*TOTALS, "Source: our survey of 2024,", "Exported on 2024-01-01 by Ann,"])
def test_a_last_row_with_totals_is_no_document(read, last):
    table = f"{csv_of(joined(documents(30, low=1, high=1), ''))}{last}\n"
    message = "line 32: the last row has totals or a source, and is no document or label; fix"
    with pytest.raises(ValueError, match=message):
        read("a.csv", table)
    assert len(gold(read("a.csv", f"{table}another text,refund\n")[0])) == 32


def test_totals_below_columns_of_zeros_and_ones_do_not_hide_what_these_are(read):
    table = "text,rude,threat\n" + "".join(f"text {row},{row % 2},{row % 3 // 2}\n" for row in range(30))
    with pytest.raises(ValueError, match="the last row has totals"):
        read("a.csv", f"{table},,\nTotal,15,10\n")
    parts, _, _ = read("a.csv", f"{table},,\nTotal,15,10\n", on_error="skip")
    assert gold(parts)["text 5"] == {"rude", "threat"}


@pytest.mark.parametrize(
    "second", ["label,count\nrefund,12", "\nTopics,n,\nrefund,3,", ",\nKategorie,Anzahl\nrefund,12"]
)
def test_a_second_table_below_is_no_part_of_the_first(read, second):
    table = csv_of(joined(documents(30, low=1, high=1), ""))
    message = "line 3[2-4]: the row is of a second table, which starts here or above; fix"
    with pytest.raises(ValueError, match=message):
        read("a.csv", f"{table}{second}\n")
    assert len(gold(read("a.csv", f"{table}{second}\n", on_error="skip")[0])) == 30
    assert len(gold(read("a.csv", f"label,count\nrefund,12\n{table}", text=["label"], labels=["count"])[0])) == 32


@pytest.mark.parametrize("separator", [";", None])
def test_entities_in_labels_are_read_as_characters(read, separator):
    names = ["arts &amp; crafts", "rock &#39;n&#39; roll"]
    cells = [";".join(names[row % 2 :]) if separator else names[row % 2] for row in range(30)]
    table = "text,labels\n" + "".join(f"text {row},{cell}\n" for row, cell in enumerate(cells))
    parts, _, said = read("a.csv", table, separator=separator)
    assert set().union(*gold(parts).values()) == {"arts & crafts", "rock 'n' roll"}
    assert "&amp;" not in said


def test_rows_that_are_pairs_of_a_text_and_a_label_are_noted(read):
    rows = documents(60, low=2)
    pairs = frame([(text, [label]) for text, labels in rows for label in labels])
    assert "60 of 120 rows repeat a text with another label" in read("a.csv", csv_of(pairs))[2]
    assert "repeat a text" not in read("b.csv", csv_of(frame([(text, labels[:1]) for text, labels in rows] * 2)))[2]


def test_the_page_of_ten_makers_is_what_the_script_writes(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    ten_makers = importlib.import_module("ten_makers")
    results = json.loads(ten_makers.RESULT.read_text(encoding="utf-8"))
    assert ten_makers.page(results) == ten_makers.PAGE.read_text(encoding="utf-8")
    assert list(results["makers"]) == list(ten_makers.MAKERS)
    ten_makers.check_equal(results["makers"])
