"""Long texts are tokenized in parts with the same ids, and a tokenizer cannot multiply texts."""

import json

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hf_gile import GileConfig, GileProcessor, build_tokenizer
from hf_gile.models import processing_gile, texts_gile
from hf_gile.models.lexical_gile import count_features

WORDS = ["milk", "iron", "the", "a", "heart.", "Blood", "12", "x-ray", "žižek!", "\u4e2d\u6587"]
TEXT = " ".join(WORDS[(number * number) % 7 + number % 4] for number in range(300))
SEPARATED = [TEXT.replace(" a ", "\n"), f"  {TEXT} \n\n", TEXT.replace(" ", "  ")]


def byte_level():
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return trained(tokenizer, pre_tokenizers.ByteLevel.alphabet())


def metaspace():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return trained(tokenizer, [])


def trained(tokenizer, alphabet):
    from tokenizers.trainers import BpeTrainer

    special = ["<unk>", "<pad>"]
    trainer = BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SEPARATED, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")


TOKENIZERS = {"words": lambda: build_tokenizer(WORDS, min_count=1), "bytes": byte_level, "pieces": metaspace}


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]()


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(processing_gile, "PART_CHARACTERS", 101)
    monkeypatch.setattr(texts_gile, "PART_CHARACTERS", 101)
    monkeypatch.setattr(processing_gile, "_BATCH", (3, 211))


@pytest.fixture(params=[False, True], ids=["words", "sentences"])
def processor(tokenizer, request):
    return GileProcessor(tokenizer, request.param, max_words=29, max_sentences=5, max_sentence_words=11)


def test_parts_of_a_text_have_the_ids_of_the_text(processor, request):
    texts = [*SEPARATED, "milk"]
    expected = processor.pieces(texts)
    request.getfixturevalue("small_parts")
    assert processor.pieces(texts) == expected


def test_the_start_of_a_text_has_its_first_ids(processor, monkeypatch):
    texts = [*SEPARATED, "", "." * 997, "iron" * 499]
    if processor.reads_sentences:
        texts += [TEXT.split("a "), ["milk"] * 300]
    documents, languages = processor._check_texts(texts, None)
    expected = [processor._truncate_document(row) for row in processor._encode_texts(documents, languages)]
    monkeypatch.setattr(processing_gile, "_CHARACTERS_PER_WORD", 1)
    assert processor(texts)["input_ids"] == expected


def test_the_end_of_a_long_text_is_not_tokenized(tokenizer, tokenized):
    processor = GileProcessor(tokenizer, max_words=29)
    assert len(processor(TEXT * 1000)["input_ids"][0]) == 29
    assert max(map(len, tokenized)) < 8000


def test_lexical_features_do_not_depend_on_parts(small_parts, monkeypatch):
    text = f"A title of words\n{TEXT}\n{TEXT}"
    parts = count_features(text)
    monkeypatch.undo()
    assert parts == count_features(text)


def multiplying(*steps):
    tokenizer = build_tokenizer(WORDS, min_count=1)
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(list(steps))
    return tokenizer


REPLACE = [normalizers.Replace(Regex("."), "a" * 7), normalizers.Replace("a", "b" * 11)]


def test_a_tokenizer_that_multiplies_texts_is_refused(monkeypatch):
    for steps in (REPLACE, [normalizers.Sequence(REPLACE)], [normalizers.Prepend("x" * 33)]):
        with pytest.raises(ValueError, match=r"after the normalizers .* is \d+, more than the 32 .*largest\['norm"):
            GileProcessor(multiplying(*steps))
    GileProcessor(multiplying(REPLACE[0]))
    monkeypatch.setitem(GileConfig.largest, "normalized_length", 77)
    GileProcessor(multiplying(*REPLACE))


def test_a_saved_tokenizer_that_multiplies_texts_is_refused_before_it_is_loaded(tmp_path, monkeypatch):
    GileProcessor(build_tokenizer(WORDS, min_count=1)).save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    steps = [{"type": "Replace", "pattern": {"Regex": "."}, "content": letter * 1000} for letter in "abc"]
    content["normalizer"] = {"type": "Sequence", "normalizers": steps}
    # The library normalizes such a token when it reads the file.
    token = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    content["added_tokens"].append({"id": 99, "content": "milk" * 9, "normalized": True, **token})
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"normalizers of the tokenizer is 1000000000, more than the 32"):
        GileProcessor.from_pretrained(tmp_path)


def test_the_prompt_and_the_texts_of_labels_are_limited():
    with pytest.raises(ValueError, match=r"characters of text_prompt is 10001, .*largest\['prompt'\] = 10001"):
        GileProcessor(byte_level(), text_prompt="x" * 10_001)
    processor = GileProcessor(byte_level())
    assert len(processor(label_text=["milk " * 1000])["label_input_ids"][0]) == processor.max_label_words
    with pytest.raises(ValueError, match=r"characters of label_text\[1\] is 1048577, .*largest\['label_text'\]"):
        processor(label_text=["milk", "x" * ((1 << 20) + 1)])
