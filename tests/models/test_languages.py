"""Multilingual models: shared modules, and the labels of each language."""

import itertools

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import pipeline

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileModel,
    GileProcessor,
    Label,
    LabelSet,
    build_tokenizer,
)
from hf_gile.models.losses_gile import binary_cross_entropy, label_loss, multi_hot
from hf_gile.settings import only_read
from hf_gile.training import GileLoss

LANGUAGES = ["english", "german"]
SHARINGS = ["none", "encoders", "attention", "both"]
TEXTS = {"english": ["the gift of milk", "red iron"], "german": ["das gift der schlange", "rotes eisen und milch"]}
LABELS = LabelSet(
    Label(f"{language}:{name}", name, language=language)
    for language, names in {"english": ["gift", "milk", "iron"], "german": ["gift", "eisen"]}.items()
    for name in names
)


@pytest.fixture
def make():
    def make(**fields):
        torch.manual_seed(0)
        texts = {language: [*texts, *TEXTS[language]] for language, texts in TEXTS.items()}
        tokenizer = build_tokenizer(texts)
        sizes = {"embedding_size": 7, "hidden_size": 11, "attention_size": 5, "joint_size": 13}
        config = GileConfig(
            vocab_size=len(tokenizer),
            language_labels={"english": 3, "german": 2},
            num_labels=5,
            **only_read(languages=LANGUAGES, **(sizes | fields)),
        )
        processor = GileProcessor.for_config(tokenizer, config)
        model = GileForSequenceClassification(config)
        model.set_labels(LABELS, processor)
        return model.eval(), processor

    return make


def of(processor, language):
    return processor(TEXTS[language], language=language, return_tensors="pt")


def mixed(processor):
    texts = [TEXTS["english"][0], TEXTS["german"][0], TEXTS["english"][1], TEXTS["german"][1]]
    languages = ["english", "german", "english", "german"]
    return processor(texts, language=languages, return_tensors="pt"), languages


def test_a_saved_processor_keeps_its_languages(make, tmp_path):
    _, processor = make()
    english, german = (processor(["gift"], language=language)["input_ids"] for language in LANGUAGES)
    assert english != german
    expected = processor(TEXTS["german"], language="german")["input_ids"]
    processor.save_pretrained(tmp_path)
    assert GileProcessor.from_pretrained(tmp_path)(TEXTS["german"], language="german")["input_ids"] == expected


@pytest.mark.parametrize("sharing", SHARINGS)
def test_sharing_decides_which_modules_are_shared(make, sharing):
    model, _ = make(text_encoder_type="han", sharing=sharing)
    encoder = model.gile.text_encoder
    for name, kind in itertools.product(("word", "sentence"), ("encoder", "attention")):
        is_separate = isinstance(getattr(encoder, f"{name}_{kind}"), torch.nn.ModuleDict)
        assert is_separate is (sharing not in ("both", {"encoder": "encoders", "attention": "attention"}[kind]))


@pytest.mark.parametrize("shared", [True, False])
def test_each_language_has_a_unit_and_optionally_a_joint_space(make, shared):
    layer = make(share_joint_space=shared)[0].gile.output_layer
    assert isinstance(layer.classifier, torch.nn.ModuleDict)
    for projection in (layer.label_projection, layer.input_projection):
        assert isinstance(projection, torch.nn.ModuleDict) is not shared


@pytest.mark.parametrize(("sharing", "layer"), [("none", "gile"), ("attention", "bilinear"), ("both", "linear")])
def test_a_mixed_batch_scores_like_separate_batches(make, sharing, layer):
    model, processor = make(text_encoder_type="han", sharing=sharing, output_layer=layer, share_joint_space=False)
    words, languages = mixed(processor)
    logits = model(**words).logits
    assert words["language"].tolist() == [LANGUAGES.index(language) for language in languages]
    assert torch.equal(model(**{**words, "language": languages}).logits, logits)
    torch.testing.assert_close(logits[0::2], model(**of(processor, "english")).logits)
    torch.testing.assert_close(logits[1::2], model(**of(processor, "german")).logits)
    english, german = [False] * 3 + [True] * 2, [True] * 3 + [False] * 2
    assert logits.isneginf().tolist() == [english, german] * 2


def crossed(model, documents, candidate_language):
    """Scores documents against the stored labels of another language."""
    codes = model.project_stored_labels(language=documents["language"])
    scores = model.gile.score(model.gile.project_texts(**documents), codes, documents["language"])
    return model.stored_labels.masked(scores, candidate_language)


def test_cross_lingual_prediction_scores_labels_of_another_language(make):
    model, processor = make()
    german = of(processor, "german")
    logits = crossed(model, german, "english")
    names = LABELS[:3].texts
    labels = processor(label_text=names, label_language="english", return_tensors="pt")["label_input_ids"]
    expected = model.gile(**german, label_input_ids=labels).logits
    torch.testing.assert_close(logits[:, :3], expected)
    assert logits[:, 3:].isneginf().all()


@pytest.mark.parametrize("layer", ["gile", "linear"])
def test_the_loss_of_a_document_covers_the_labels_of_its_language(make, layer):
    model, processor = make(output_layer=layer)
    words, _ = mixed(processor)
    gold = torch.tensor([[0, 2], [3, -100], [1, -100], [4, 3]])
    loss = model(**words, labels=gold).loss
    logits = model(**words).logits
    english = binary_cross_entropy(logits[0::2, :3], multi_hot(gold, 5)[0::2, :3])
    german = binary_cross_entropy(logits[1::2, 3:], multi_hot(gold, 5)[1::2, 3:])
    torch.testing.assert_close(loss, (english + german) / 2)


def test_a_gold_label_of_the_other_language_is_refused_by_name(make):
    model, processor = make()
    with pytest.raises(ValueError, match=r"document 1 of the batch has the gold label 0 \('gift \(english:gift\)'\)"):
        model(**of(processor, "german"), labels=torch.tensor([[3], [0]]))


@pytest.mark.parametrize(
    ("language", "message"),
    [
        (None, "this model has the languages english, german: pass the language"),
        ("french", "language must be one of english, german, got 'french'"),
        (["english"], r"language of each row of input_ids \(2, \d\), got shape \(1,\)"),
        (torch.tensor([0, 2]), r"indices into the languages of this model, \['english', 'german'\], got \[0, 2\]"),
    ],
    ids=["none", "unknown", "too few", "out of range"],
)
def test_a_missing_or_unknown_language_is_refused(make, language, message):
    model, processor = make()
    words = processor(TEXTS["english"], language="english", return_tensors="pt")
    with pytest.raises(ValueError, match=message):
        model(**{**words, "language": language})
    if not isinstance(language, torch.Tensor):
        with pytest.raises(ValueError, match="language"):
            processor(TEXTS["english"], language=language)


def test_every_row_needs_a_language(make):
    model, _ = make()
    documents = {"input_ids": torch.tensor([[4], [5]]), "attention_mask": torch.tensor([[1]])}
    with pytest.raises(ValueError, match=r"language must name the language of each row of \w+ \("):
        model(**documents, language=["german", "english"])
    assert model(documents["input_ids"][:0], language=[]).logits.shape == (0, 5)


def test_a_model_without_languages_refuses_a_language(make_model):
    model, processor = make_model()
    with pytest.raises(ValueError, match="this model has no languages"):
        model(**processor(["milk"], return_tensors="pt"), language="english")
    with pytest.raises(ValueError, match="this model has no languages"):
        processor(["milk"], language="english")


def test_labels_must_be_grouped_by_language(make):
    model, processor = make()
    labels = [Label("1", "gift", language="english"), Label("2", "gift", language="german")]
    with pytest.raises(ValueError, match="got the languages english, german, english"):
        model.set_labels(LabelSet([*labels, Label("3", "milk", language="english")]), processor)
    with pytest.raises(ValueError, match="got the languages english, german, None"):
        model.set_labels(LabelSet([*labels, Label("3", "milk")]), processor)


def test_labels_read_by_the_text_encoder_are_read_in_their_language(make):
    model, _ = make(label_encoder_type="text_encoder", sharing="none")
    stored = model.project_stored_labels()
    words = model.label_input_ids
    for language, columns in {"english": slice(0, 3), "german": slice(3, 5)}.items():
        expected = model.gile.project_labels(words[columns], label_language=language)
        torch.testing.assert_close(stored[columns], expected)


def test_a_multilingual_linear_unit_needs_label_counts_per_language():
    with pytest.raises(StrictDataclassError, match="needs the number of labels of each"):
        GileModel(GileConfig(output_layer="linear", languages=LANGUAGES, num_labels=5))


def test_the_pipeline_takes_a_language(make):
    model, processor = make(share_joint_space=False)
    pipe = pipeline("label-scoring", model=model, processor=processor)
    answer = pipe(TEXTS["german"], language="german")
    assert sorted(answer[0]["labels"]) == ["eisen", "gift (german:gift)"]
    logits = model(**of(processor, "german")).logits
    assert dict(zip(answer[1]["labels"], answer[1]["scores"], strict=True))["eisen"] == pytest.approx(
        logits[1, 4].sigmoid().item()
    )
    answers = pipe(TEXTS["german"], candidate_labels=["milk", "iron"], language="german", label_language="english")
    expected = crossed(model, of(processor, "german"), "english")[0].sigmoid()
    assert dict(zip(answers[0]["labels"], answers[0]["scores"], strict=True)) == pytest.approx(
        {"milk": expected[1].item(), "iron": expected[2].item()}
    )
    with pytest.raises(ValueError, match="language must be the name of a language, got"):
        pipe(TEXTS["german"], language=["german", "german"])
    with pytest.raises(ValueError, match="pass the language of the documents"):
        pipe(TEXTS["german"])


def test_languages_keep_a_non_alphabetical_order_when_saved(tmp_path):
    torch.manual_seed(0)
    labels = LabelSet([*LABELS[3:], *LABELS[:3]])
    tokenizer = build_tokenizer({language: [*TEXTS[language], *TEXTS[language]] for language in ("german", "english")})
    config = GileConfig(
        vocab_size=len(tokenizer),
        languages=["german", "english"],
        language_labels=labels.language_labels,
        output_layer="linear",
        num_labels=5,
    )
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileForSequenceClassification(config).eval()
    model.set_labels(labels, processor)
    model.save_pretrained(tmp_path)
    loaded = GileForSequenceClassification.from_pretrained(tmp_path).eval()
    for language, is_candidate in {"german": [True] * 2 + [False] * 3, "english": [False] * 2 + [True] * 3}.items():
        inputs = of(processor, language)
        torch.testing.assert_close(loaded(**inputs).logits, model(**inputs).logits)
        assert loaded(**inputs).logits[0].isfinite().tolist() == is_candidate
    with pytest.raises(ValueError, match="have the languages english, german in this order; group them by language"):
        model.set_labels(LABELS, processor)


def test_labels_without_a_language_need_label_input_ids(make):
    model, processor = make()
    labels = LabelSet([Label("1", "gift"), Label("2", "milk")])
    with pytest.raises(ValueError, match=r"have no language .* pass label_input_ids=processor"):
        model.set_labels(labels, processor)
    words = processor(label_text=labels.texts, label_language="english", return_tensors="pt")["label_input_ids"]
    model.set_labels(labels, processor, words)  # which apply to all languages
    assert model(**of(processor, "german")).logits.isfinite().all()
    with pytest.raises(ValueError, match="in the order of this model, english, german"):
        model.set_labels(LabelSet([Label("1", "gift", language="french")]), processor)


@pytest.mark.parametrize("loss", [label_loss, GileLoss("decoupled_softmax")], ids=["plain", "decoupled_softmax"])
def test_half_precision_also_excludes_the_other_language_from_the_loss(make, loss):
    model, processor = make()
    model.loss_function = loss
    model.train()
    inputs, gold = of(processor, "german"), torch.tensor([[3], [4]])
    expected = model(**inputs, labels=gold).loss
    assert model.bfloat16()(**inputs, labels=gold).loss.item() == pytest.approx(expected.item(), rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"texts": {"english": ["a cat"]}, "label_texts": ["dog"]},
            "either both texts and label_texts are mappings by language",
        ),
        ({"texts": {"english": "a cat"}}, "texts of english must be an iterable of texts, got a single string"),
        (
            {"texts": {"english": ["a cat"]}, "label_texts": {"german": ["hund"]}},
            "label_texts has the language 'german",
        ),
    ],
    ids=["list of labels", "single text", "another language"],
)
def test_invalid_texts_by_language_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_tokenizer(**arguments, min_count=1)
