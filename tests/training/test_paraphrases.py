import pytest
import torch
from transformers import BertTokenizer

from hf_gile import GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.data import load_mesh
from hf_gile.training import LabelParaphrases

LABELS = LabelSet(
    [
        Label("M1", "Infant"),
        Label("M2", "Milk, Human", "fed by the breast", synonyms=("Breast Milk", "Human Milk", "Mother Milk")),
        Label("M3", "Iron", "a metal"),
        Label("M4", "Heart", synonyms=("Cor",)),
    ]
)
SHARES = {"names": 0.2, "synonyms": 0.3, "descriptions": 0.15}


@pytest.fixture
def processor():
    texts = [text for label in LABELS for text in (label.text, *label.synonyms)]
    return GileProcessor(build_tokenizer(texts, min_count=1))


@pytest.fixture
def paraphrases(processor):
    return LabelParaphrases(LABELS, processor, **SHARES)


def text_of(paraphrases, processor, row):
    words = processor.tokenizer.convert_ids_to_tokens(paraphrases.words[row])
    return " ".join(word for word in words if word != "[PAD]")


def shares(paraphrases, processor, column, steps=2003):
    """How often each text of a label is read."""
    rows = torch.cat([paraphrases.choose(torch.tensor([column]), step) for step in range(steps)])
    return {
        text_of(paraphrases, processor, row): (rows == row).double().mean().item() for row in rows.unique().tolist()
    }


def test_rows_of_a_label_stand_together_and_its_own_text_first(paraphrases, processor):
    assert [text_of(paraphrases, processor, row) for row in range(len(paraphrases.words))] == [
        "infant",
        *(
            "milk human fed by the breast",
            "milk human",
            "breast milk",
            "human milk",
            "mother milk",
            "fed by the breast",
        ),
        *("iron a metal", "iron", "a metal"),
        *("heart", "cor"),
    ]
    assert paraphrases.own_rows.tolist() == [0, 1, 7, 10]
    assert torch.equal(
        paraphrases.words[paraphrases.own_rows],
        processor(label_text=LABELS.texts, return_tensors="pt")["label_input_ids"],
    )


def test_each_text_is_read_as_often_as_its_share_says(paraphrases, processor):
    expected = {
        "milk human fed by the breast": 0.35,
        "milk human": 0.2,
        "breast milk": 0.1,
        "human milk": 0.1,
        "mother milk": 0.1,
        "fed by the breast": 0.15,
    }
    assert shares(paraphrases, processor, 1) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (0, {"infant": 1}),
        (2, {"iron a metal": 0.65, "iron": 0.2, "a metal": 0.15}),
        (3, {"heart": 0.7, "cor": 0.3}),
    ],
    ids=["neither", "no synonyms", "no description"],
)
def test_a_label_without_such_a_text_is_read_by_its_own(paraphrases, processor, column, expected):
    assert shares(paraphrases, processor, column) == pytest.approx(expected, abs=0.03)


def test_columns_and_steps_draw_independently():
    processor = GileProcessor(build_tokenizer([f"milk breast x{row}" for row in range(1009)], min_count=1))
    labels = LabelSet([Label(str(row), f"Milk x{row}", synonyms=(f"Breast x{row}",)) for row in range(1009)])
    paraphrases = LabelParaphrases(labels, processor, names=0, synonyms=0.5, descriptions=0)
    columns = torch.arange(1009)
    drawn = torch.stack([paraphrases.choose(columns, step) - 2 * columns for step in range(64)]).double()
    assert drawn.unique().tolist() == [0, 1]
    # Of 64 x 1009 fair coins; correlations of neighbours have a deviation of 1 / sqrt(64 x 1008) = 0.004.
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    coins = 2 * drawn - 1
    assert (coins[:, 1:] * coins[:, :-1]).mean().abs() < 0.016
    assert (coins[1:] * coins[:-1]).mean().abs() < 0.016


def test_a_choice_depends_on_seed_step_and_column_alone(paraphrases, processor):
    columns = torch.tensor([1, 3, 2, 1, 0])
    for step in range(20):
        chosen = paraphrases.choose(columns, step)
        again = LabelParaphrases(LABELS, processor, **SHARES).choose(columns.flip(0)[:4], step)
        assert torch.equal(chosen, paraphrases.choose(columns.int(), step))
        assert torch.equal(chosen.flip(0)[:4], again)
    steps = [paraphrases.choose(columns, step).tolist() for step in range(20)]
    other = LabelParaphrases(LABELS, processor, **SHARES, seed=1)
    assert [other.choose(columns, step).tolist() for step in range(20)] != steps


def test_all_readings_can_go_to_one_kind(processor):
    columns = torch.arange(4)
    for name, expected in {
        "names": [0, 2, 8, 10],
        "descriptions": [0, 6, 9, 10],
        "synonyms": [[0], [3, 4, 5], [7], [11]],
    }.items():
        only = dict.fromkeys(SHARES, 0.0) | {name: 1.0}
        paraphrases = LabelParaphrases(LABELS, processor, **only)
        rows = torch.stack([paraphrases.choose(columns, step) for step in range(50)])
        found = [column.unique().tolist() for column in rows.T]
        assert found == [row if isinstance(row, list) else [row] for row in expected]
    none = LabelParaphrases(LABELS, processor, **dict.fromkeys(SHARES, 0.0))
    assert all(torch.equal(none.choose(columns, step), none.own_rows) for step in range(20))


def test_texts_that_say_the_same_or_nothing_are_left_out():
    labels = LabelSet(
        [
            Label("1", "Milk", "qua", synonyms=("MILK!", "Breast", "breast", "quux", "quux breast")),
            Label("2", "Quux", "milk"),
            Label("3", "Quux", "quux quux"),
        ]
    )
    processor = GileProcessor(build_tokenizer(["milk breast"], min_count=1))
    paraphrases = LabelParaphrases(labels, processor, **SHARES)
    texts = [text_of(paraphrases, processor, row) for row in range(len(paraphrases.words))]
    assert texts == ["milk", "breast", "milk", "[UNK] [UNK] [UNK]"]
    assert paraphrases.own_rows.tolist() == [0, 2, 3]


def test_texts_of_pretrained_tokenizers_have_special_tokens():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "milk", "breast", "[MASK]"]
    processor = GileProcessor(BertTokenizer(vocab={word: row for row, word in enumerate(words)}))
    labels = LabelSet([Label("1", "Milk", synonyms=("Mother", "Breast milk"))])
    paraphrases = LabelParaphrases(labels, processor)
    assert paraphrases.words.tolist() == [[2, 4, 3, 0], [2, 1, 3, 0], [2, 5, 4, 3]]


def test_labels_of_several_languages_are_read_in_their_own():
    texts = {"english": ["gift milk"], "german": ["gift milch"]}
    processor = GileProcessor(build_tokenizer(texts, min_count=1), languages=["english", "german"])
    labels = LabelSet(
        [
            Label("1", "Gift", language="english", synonyms=("milk",)),
            Label("2", "Gift", language="german", synonyms=("Milch",)),
        ]
    )
    paraphrases = LabelParaphrases(labels, processor)
    tokens = [processor.tokenizer.convert_ids_to_tokens(row) for row in paraphrases.words.tolist()]
    assert tokens == [["english:gift"], ["english:milk"], ["german:gift"], ["german:milch"]]


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"names": -0.1}, "names is a share .* must not be negative, got -0.1"),
        ({"synonyms": float("nan")}, "synonyms is a share .* got nan"),
        ({"names": 0.5, "synonyms": 0.5, "descriptions": 0.5}, "shares of 1, got 1.5 in all"),
    ],
)
def test_shares_that_are_none_are_refused(processor, shares, message):
    with pytest.raises(ValueError, match=message):
        LabelParaphrases(LABELS, processor, **shares)


def test_a_text_of_no_use_is_refused_by_label(processor):
    labels = LABELS.add(Label("M5", "Blood", synonyms=("milk", "\udc00")))
    with pytest.raises(ValueError, match=r"label 'M5' \(Blood\), text '\\udc00': .*holds half of a character"):
        LabelParaphrases(labels, processor)


def test_a_text_without_words_is_left_out(processor):
    with_signs = LabelParaphrases(LABELS.add(Label("M5", "Blood", synonyms=("milk", "+"))), processor)
    without = LabelParaphrases(LABELS.add(Label("M5", "Blood", synonyms=("milk",))), processor)
    for step in range(20):
        columns = torch.arange(5)
        rows = [one.words[one.choose(columns, step)].tolist() for one in (with_signs, without)]
        assert rows[0] == rows[1]


@pytest.mark.slow
def test_all_of_mesh_is_read_by_all_its_names(shared_data):
    labels = load_mesh(shared_data / "mesh" / "mesh_labels.jsonl.gz")[:3001]
    processor = GileProcessor(build_tokenizer(labels.names, min_count=1), max_label_words=20)
    paraphrases = LabelParaphrases(labels, processor)
    assert len(labels) < len(paraphrases.words) <= len(labels) + sum(len(label.synonyms) for label in labels)
    columns = torch.arange(len(labels))
    chosen = paraphrases.choose(columns, 7)
    assert (chosen >= paraphrases.own_rows).all()
    assert (chosen[:-1] < paraphrases.own_rows[1:]).all()
    assert 0.1 < (chosen != paraphrases.own_rows).double().mean() < 0.3
