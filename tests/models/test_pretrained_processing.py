"""The processor over the tokenizer of a pretrained encoder."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoProcessor, BertConfig, PreTrainedTokenizerFast

from hf_gile import GileConfig, GileProcessor
from hf_gile.settings import only_read

PAD, UNK, CLS, SEP = range(4)


@pytest.fixture
def ids(pieces):
    return lambda *words: pieces.convert_tokens_to_ids([*words])


def config_of(kind="transformer", vocab_size=27, **limits):
    encoder = BertConfig(vocab_size=vocab_size, hidden_size=12, num_hidden_layers=2, num_attention_heads=2)
    return GileConfig(text_encoder_config=encoder, **only_read(text_encoder_type=kind, **limits))


@pytest.fixture
def flat(pieces):
    return GileProcessor.for_config(pieces, config_of(max_words=6, max_label_words=5))


@pytest.fixture
def windows(pieces):
    limits = {"max_sentences": 3, "max_sentence_words": 7, "max_label_words": 5}
    return GileProcessor.for_config(pieces, config_of("hierarchical_transformer", **limits))


def test_limits_count_special_tokens_as_the_tokenizer_does(flat, pieces):
    texts = ["iron milk blood heart fail was", "Heart failing!", ""]
    batch = flat(texts, return_tensors="pt")
    expected = pieces(texts, truncation=True, max_length=6, padding=True, return_tensors="pt")
    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert torch.equal(batch["attention_mask"], expected["attention_mask"])
    assert flat([""])["input_ids"] == [[CLS, SEP]]


def test_labels_keep_unknown_words_and_are_cut_before_special_tokens(flat, ids):
    labels = flat(label_text=["Zebrafish milk", "\u200b", "Milk: milk, milk"])["label_input_ids"]
    assert labels == [[CLS, UNK, *ids("milk"), SEP], [CLS, UNK, SEP], [CLS, *ids("milk", ":", "milk"), SEP]]


def test_windows_hold_as_many_whole_sentences_as_fit(windows, ids):
    document = "Iron was. Blood. Milk failed. Heart. A."
    assert windows([document])["input_ids"][0] == [
        [CLS, *ids("iron", "was", ".", "blood", "."), SEP],
        [CLS, *ids("milk", "fail", "##ed", "."), SEP],
        [CLS, *ids("heart", ".", "a", "."), SEP],
    ]


def test_a_sentence_longer_than_a_window_continues_in_the_next_window(windows, ids):
    document = ["milk", "a iron was blood heart milk a", "iron", ""]
    assert windows([document])["input_ids"][0] == [
        [CLS, *ids("milk"), SEP],
        [CLS, *ids("a", "iron", "was", "blood", "heart"), SEP],
        [CLS, *ids("milk", "a", "iron"), SEP],
    ]


def test_a_label_with_a_frame_is_two_sequences_between_padding(pieces, ids):
    processor = GileProcessor.for_config(pieces, config_of(max_label_words=5), label_frame="blood {}")
    (label,) = processor(label_text=["Milk iron heart fail"])["label_input_ids"]
    assert label == [CLS, *ids("milk", "iron", "heart"), SEP, PAD, CLS, *ids("blood", "milk", "iron"), SEP]
    with pytest.raises(ValueError, match=r"label_frame must contain {}, .* got 'blood'"):
        GileProcessor.for_config(pieces, config_of(), label_frame="blood")


def test_windows_are_cut_at_the_limit_and_padded(windows, ids):
    batch = windows(["a a a a a a a a a a a a a a a a a a a a a a", "a.", ""], return_tensors="pt")
    assert batch["input_ids"].shape == (3, 3, 7)
    assert batch["attention_mask"].sum(-1).tolist() == [[7, 7, 7], [4, 0, 0], [2, 0, 0]]
    assert batch["input_ids"][1].tolist() == [[CLS, *ids("a", "."), SEP, PAD, PAD, PAD], [PAD] * 7, [PAD] * 7]


@pytest.mark.parametrize("kind", ["transformer", "hierarchical_transformer"])
def test_a_saved_processor_gives_the_same_tokens(tmp_path, pieces, kind):
    prompts = {"text_prompt": "iron: ", "label_prompt": "a ", "label_frame": "blood of {}."}
    processor = GileProcessor.for_config(pieces, config_of(kind, max_words=11, max_sentence_words=7), **prompts)
    processor.save_pretrained(tmp_path)
    config_of(kind).save_pretrained(tmp_path)
    reloaded = AutoProcessor.from_pretrained(tmp_path)
    texts = {"text": ["Breast milk failed. Iron, " * 20], "label_text": ["Milk: iron"]}
    assert reloaded(**texts) == processor(**texts)


def test_a_tokenizer_may_have_fewer_tokens_than_the_encoder_but_not_more(pieces):
    GileProcessor.for_config(pieces, config_of(vocab_size=len(pieces) + 7))
    with pytest.raises(ValueError, match=r"has vocab_size=27, but the model needs vocab_size=25: .*pretrained encoder"):
        GileProcessor.for_config(pieces, config_of(vocab_size=25))
    other = config_of()
    other.text_config.pad_token_id = 5
    with pytest.raises(ValueError, match="has pad_token_id=0, but the model needs pad_token_id=5"):
        GileProcessor(pieces).check_fits(other)


def test_tokenizers_for_another_encoder_type_are_refused(pieces, tokenizer):
    for words, config in ((tokenizer, config_of()), (pieces, GileConfig())):
        with pytest.raises(ValueError, match="but the model needs reads_pretrained="):
            GileProcessor(words).check_fits(config)
    with pytest.raises(ValueError, match="the tokenizer has no padding token: set one"):
        GileProcessor(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE({"a": 0}, []))))


def test_every_text_label_and_window_starts_with_its_prompt(pieces, ids):
    prompts = {"text_prompt": "iron: ", "label_prompt": "milk: "}
    processor = GileProcessor.for_config(pieces, config_of(max_words=7, max_label_words=6), **prompts)
    batch = processor(["Heart failing!", ""], label_text=["blood a a a"])
    front = [CLS, *ids("iron", ":")]
    assert batch["input_ids"] == [[*front, *ids("heart", "fail", "##ing"), SEP], [*front, SEP]]
    assert batch["label_input_ids"] == [[CLS, *ids("milk", ":", "blood", "a"), SEP]]
    pieces_of_text = processor.pieces("Milk was blood was")
    assert pieces_of_text == [[[*front, *ids("milk", "was", "blood"), SEP], [*front, *ids("was"), SEP]]]
    limits = {"max_sentences": 3, "max_sentence_words": 7, "max_label_words": 6}
    processor = GileProcessor.for_config(pieces, config_of("hierarchical_transformer", **limits), **prompts)
    assert processor(["Heart. Blood was failing."])["input_ids"][0] == [
        [*front, *ids("heart", "."), SEP],
        [*front, *ids("blood", "was", "fail"), SEP],
        [*front, *ids("##ing", "."), SEP],
    ]


@pytest.mark.parametrize(("scheme", "first"), [("always", "▁query"), ("never", "query")])
def test_a_prompted_text_is_tokenized_as_a_single_string(scheme, first):
    words = {word: row for row, word in enumerate(["<pad>", "<unk>", "▁query", "query", ":", "▁milk", "milk"])}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="<unk>", continuing_subword_prefix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")
    prompted = wrapped("query: milk")["input_ids"]
    assert wrapped.convert_ids_to_tokens(prompted) == [first, ":", "▁milk"]
    assert GileProcessor(wrapped, text_prompt="query: ")(["milk"])["input_ids"] == [prompted]
