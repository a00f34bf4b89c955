import pytest
import torch

from hf_gile import GileProcessor, build_tokenizer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Cat sat.", ["the", "cat", "sat"]),
        ("in 1976, 12.5 mg (n = 30) or 5%", ["in", "NUM", "NUM", "mg", "n", "NUM", "or", "NUM"]),
        ("interleukin-2, HLA-A1 and CD4", ["interleukin", "2", "hla", "a1", "and", "cd4"]),
        ("Größe µg", ["größe", "μg"]),  # NFKC maps the micro sign to a Greek letter
        ("Milk, Human", ["milk", "human"]),
    ],
    ids=["lower case", "numbers", "numbers in names", "letters of other languages", "punctuation"],
)
def test_text_is_split_into_words(text, words):
    assert build_tokenizer([text], min_count=1).tokenize(text) == words


def test_label_words_stay_in_the_vocabulary_however_rare():
    assert len(build_tokenizer(["a b c d e a b c"], min_count=1, max_vocabulary=5)) == 5
    tokenizer = build_tokenizer(["milk milk iron", "milk blood"], label_texts=["Ferritin", "Milk, Human"], min_count=2)
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == ["[PAD]", "[UNK]", "milk", "ferritin", "human"]


def test_unknown_words_of_a_label_are_dropped_if_others_are_known(wan, tokenizer):
    unknown = tokenizer.unk_token_id
    labels = wan(label_text=["Zebrafish Milk", "milk", "Zebrafish Quantum"])["label_input_ids"]
    assert labels[0] == labels[1]
    assert labels[2] == [unknown, unknown]


def test_vocabulary_keeps_the_order_of_its_word_vectors():
    tokenizer = build_tokenizer(vocabulary=["blood", "milk", "iron"])
    assert tokenizer.convert_tokens_to_ids(["[PAD]", "[UNK]", "blood", "milk", "iron"]) == [0, 1, 2, 3, 4]


@pytest.fixture
def wan(tokenizer):
    return GileProcessor(tokenizer, max_words=5, max_label_words=2)


@pytest.fixture
def han(tokenizer):
    return GileProcessor(tokenizer, reads_sentences=True, max_sentences=2, max_sentence_words=3)


def test_documents_are_cut_and_padded_to_words(wan):
    batch = wan(["breast milk lowers the risk of infection", "iron"], return_tensors="pt")
    assert batch["input_ids"].shape == (2, 5)
    assert batch["attention_mask"].sum(-1).tolist() == [5, 1]
    assert wan(["iron"])["input_ids"] == [batch["input_ids"][1, :1].tolist()]


def test_documents_are_cut_and_padded_to_sentences_of_words(han):
    batch = han(["Milk. The heart pumps less blood. Iron!", ["blood", "", "iron"]], return_tensors="pt")
    assert batch["input_ids"].shape == (2, 2, 3)
    assert batch["attention_mask"].sum(-1).tolist() == [[1, 3], [1, 1]]  # sentences without words do not count


def test_empty_texts_become_padding(wan, han):
    for processor, shape in ((wan, (2, 1)), (han, (2, 1, 1))):
        batch = processor(["", "?!"], return_tensors="pt")
        assert batch["input_ids"].shape == shape
        assert batch["attention_mask"].sum() == 0


def test_a_saved_processor_gives_the_same_words(tmp_path, han, tokenizer):
    text = "Milk was fed. For 12 weeks, zebrafish-2."
    han.save_pretrained(tmp_path)
    reloaded = GileProcessor.from_pretrained(tmp_path)
    assert torch.equal(reloaded(text, return_tensors="pt")["input_ids"], han(text, return_tensors="pt")["input_ids"])
    assert reloaded.max_sentence_words == 3
