"""Tables in the shape of many makers are read as what they are, with the flags that a user would pass."""

import datasets
import pytest
from makers import LABELS, MAKERS, documents, frame, joined

from hf_gile.data import load_labels
from hf_gile.data.table_source import TableSource


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Returns the labels by text as train reads them, and what was printed."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))

    def read_all(file, *flags):
        options = {}
        for flag in flags:
            if flag.startswith("--"):
                options[name := flag[2:]] = []
            else:
                options[name].append(flag)
        for name in ("id", "separator", "label_file", "on_error"):
            if name in options:
                options[name] = options[name][0]
        lines = []
        parts, _, _ = TableSource([str(file)], **options).read_all(lambda *words: lines.append(" ".join(words)))
        labels = {row["text"]: set(row["labels"]) for part in parts.values() for row in part}
        return labels, "\n".join(lines)

    return read_all


@pytest.mark.parametrize("maker", MAKERS)
def test_tables_of_many_makers_are_read(maker, tmp_path, read):
    rows, file, flags = MAKERS[maker](tmp_path)
    labels, printed = read(tmp_path / file, *flags)
    assert labels == {text: set(gold) for text, gold in rows}
    assert "label column" in printed
    assert " such as '" in printed


def test_titles_and_comments_before_the_names_of_columns_are_skipped(tmp_path, read):
    rows = documents(60, low=1, high=1)
    table = joined(rows, "").to_csv(index=False)
    for before in ("# made by us\n# in 2024\n", "Complaints of 2024,\n,\n", "sep=,\nThe title\n"):
        (tmp_path / "a.csv").write_text(before + table)
        labels, printed = read(tmp_path / "a.csv")
        assert labels == {text: set(gold) for text, gold in rows}
        assert "names of columns in line 3" in printed
    (tmp_path / "a.csv").write_text("comment,kind\n" + "".join(f"note {number},text\n" for number in range(9)))
    with pytest.raises(ValueError, match="no column 'text', only comment, kind"):
        read(tmp_path / "a.csv")


def test_spaces_after_the_delimiter_and_before_quotes_are_no_part_of_a_cell(tmp_path, read):
    (tmp_path / "a.csv").write_text("text, labels\n" + "".join(f'"{n}, it", "a {n % 3}"\n' for n in range(30)))
    assert read(tmp_path / "a.csv")[0]["4, it"] == {"a 1"}


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ("| text | labels |\n|:---|---:|\n{}", "a.md"),
        ("text | labels\n--- | ---\n{}", "a.txt"),
        ("+------+------+\n| text | labels |\n+------+------+\n{}+------+------+\n", "table"),
    ],
)
def test_the_rules_of_markdown_and_of_databases_are_no_documents(tmp_path, read, rows, name):
    outer = "|" if name != "a.txt" else ""
    lines = [f"{outer} note {number} | {'ab'[number % 2]} {outer}\n" for number in range(30)]
    (tmp_path / name).write_text(rows.format("".join(lines)))
    assert read(tmp_path / name)[0] == {f"note {number}": {"ab"[number % 2]} for number in range(30)}


def test_a_byte_order_mark_may_be_repeated_and_a_file_may_end_as_in_dos(tmp_path, read):
    lines = "".join(f"note {number},{'ab'[number % 2]}\r\n" for number in range(30))
    (tmp_path / "a.csv").write_text(f"\ufeff\ufefftext,labels\u200b\r\n{lines}\x1a", encoding="utf-8")
    assert len(read(tmp_path / "a.csv")[0]) == 30


def test_fasttext_may_have_its_labels_at_the_end(tmp_path, read):
    (tmp_path / "a.txt").write_text("".join(f"note {n} __label__{'ab'[n % 2]}\n" for n in range(30)))
    assert read(tmp_path / "a.txt")[0]["note 3"] == {"b"}


def test_a_saved_dataset_is_a_dataset_not_files(tmp_path, read):
    rows = documents(60, low=1)
    saved = datasets.Dataset.from_dict({"text": [text for text, _ in rows], "labels": [gold for _, gold in rows]})
    for folder, content in (("a", saved), ("b", datasets.DatasetDict(train=saved))):
        content.save_to_disk(str(tmp_path / folder))
        with pytest.raises(ValueError, match=r"written by save_to_disk of datasets: train with --dataset .*to_parquet"):
            read(tmp_path / folder)
        parts, *_ = TableSource(dataset=str(tmp_path / folder)).read_all(print)
        assert {row["text"]: row["labels"] for part in parts.values() for row in part} == dict(rows)


def test_a_header_in_the_middle_of_a_table_is_no_document(tmp_path, read):
    table = frame(documents(30, low=1, high=1)).to_csv(index=False)
    (tmp_path / "a.csv").write_text(table + table)
    with pytest.raises(ValueError, match="line 32: the row repeats the names of the columns; fix it, or pass"):
        read(tmp_path / "a.csv")


def test_lines_that_end_with_a_carriage_return_alone_are_read(tmp_path, read):
    rows = documents(30)
    joined(rows, ";").to_csv(tmp_path / "a.csv", sep=";", index=False, lineterminator="\r")
    labels, _ = read(tmp_path / "a.csv", "--separator", ";")
    assert labels == {text: set(gold) for text, gold in rows}
    (tmp_path / "a.txt").write_bytes(b"hose\rred pump\r")
    assert load_labels(tmp_path / "a.txt").ids == ["hose", "red pump"]
    (tmp_path / "b.csv").write_bytes(b"made in 2024\rid,name\r3,hose\r5,red pump\r")
    assert load_labels(tmp_path / "b.csv").names == ["hose", "red pump"]


@pytest.mark.parametrize("last", ["Total,", "Grand total,30", "Summe:,30"])
def test_a_last_row_with_totals_is_no_document(tmp_path, read, last):
    rows = documents(30, low=1, high=1)
    table = joined(rows, "").to_csv(index=False)
    (tmp_path / "a.csv").write_text(f"{table}{last}\n")
    with pytest.raises(ValueError, match="line 32: the last row has totals, and is no document or label; fix it, or"):
        read(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(f"{table}{last}\nanother text,hose\n")
    assert len(read(tmp_path / "a.csv")[0]) == 32


def test_totals_below_columns_of_zeros_and_ones_do_not_hide_what_these_are(tmp_path, read):
    table = "text,rude,threat\n" + "".join(f"text {row},{row % 2},{row % 3 // 2}\n" for row in range(30))
    (tmp_path / "a.csv").write_text(f"{table},,\nTotal,15,10\n")
    with pytest.raises(ValueError, match="the last row has totals"):
        read(tmp_path / "a.csv")
    labels, _ = read(tmp_path / "a.csv", "--on_error", "skip")
    assert labels["text 5"] == {"rude", "threat"}


@pytest.mark.parametrize("flags", [["--separator", ";"], []])
def test_entities_in_labels_are_read_as_characters(tmp_path, read, flags):
    names = ["arts &amp; crafts", "rock &#39;n&#39; roll"]
    rows = [[f"text {row}", ";".join(names[row % 2 :]) if flags else names[row % 2]] for row in range(30)]
    (tmp_path / "a.csv").write_text("text,labels\n" + "".join(f"{text},{label}\n" for text, label in rows))
    labels, printed = read(tmp_path / "a.csv", *flags)
    assert set().union(*labels.values()) == {"arts & crafts", "rock 'n' roll"}
    assert "&amp;" not in printed
    (tmp_path / "labels.csv").write_text("id,name\narts &amp; crafts,Arts &amp; Crafts\nrock 'n' roll,Rock\n")
    assert read(tmp_path / "a.csv", *flags, "--label_file", str(tmp_path / "labels.csv"))[0] == labels
    (tmp_path / "labels.json").write_text('["arts &amp; crafts", "rock"]')
    assert load_labels(tmp_path / "labels.json").ids == ["arts & crafts", "rock"]


@pytest.mark.parametrize("header", ["Schlagwort", "Catégorie", "Etiquetas:", "Категория"])
def test_a_header_in_another_language_is_no_label(tmp_path, header):
    (tmp_path / "a.txt").write_text(f"{header}\nhose\nred pump\n")
    assert load_labels(tmp_path / "a.txt").names == ["hose", "red pump"]
    (tmp_path / "b.csv").write_text(f"{header}\nhose\nred pump\n")
    assert load_labels(tmp_path / "b.csv").names == ["hose", "red pump"]


@pytest.mark.parametrize("content", ['{"0": "hose", "1": "red pump"}', '{"hose": 0, "red pump": 1}'])
def test_a_mapping_of_ids_to_names_is_a_label_file(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    labels = load_labels(tmp_path / "a.json")
    assert [(label.id, label.name) for label in labels] == [("0", "hose"), ("1", "red pump")]


def test_class_numbers_from_one_are_lines_of_the_label_file(tmp_path, read):
    rows = documents(60, low=1, high=1)
    joined([(text, [str(LABELS.index(gold[0]) + 1)]) for text, gold in rows], "").to_csv(tmp_path / "a.csv")
    (tmp_path / "classes.txt").write_text("\n".join(LABELS))
    labels, printed = read(tmp_path / "a.csv", "--label_file", str(tmp_path / "classes.txt"))
    assert labels == {text: set(gold) for text, gold in rows}
    assert "numbers of classes, which have names, counted in --label_file from 1" in printed


def test_rows_that_are_pairs_of_a_text_and_a_label_are_noted(tmp_path, read):
    rows = documents(60, low=2)
    frame([(text, label) for text, gold in rows for label in gold]).to_csv(tmp_path / "a.csv")
    assert "60 of 120 rows repeat a text with another label" in read(tmp_path / "a.csv")[1]
    frame([(text, gold[0]) for text, gold in rows] * 2).to_csv(tmp_path / "b.csv")
    assert "repeat a text" not in read(tmp_path / "b.csv")[1]
