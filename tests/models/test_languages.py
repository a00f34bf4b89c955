"""Multilingual models: shared modules, and the labels of each language."""

import pytest
import torch
from answers import scores
from transformers import pipeline
from two_languages import LABELS, LANGUAGES, TEXTS, make_bilingual

from hf_gile import GileForSequenceClassification, GileProcessor, Label, LabelIndex, LabelSet


def of(processor, language):
    return processor(TEXTS[language], language=language, return_tensors="pt")


def test_a_saved_processor_keeps_its_languages(tmp_path):
    _, processor = make_bilingual()
    english, german = (processor(["gift"], language=language)["input_ids"] for language in LANGUAGES)
    assert english != german
    expected = processor(TEXTS["german"], language="german")["input_ids"]
    processor.save_pretrained(tmp_path)
    assert GileProcessor.from_pretrained(tmp_path)(TEXTS["german"], language="german")["input_ids"] == expected


@pytest.mark.parametrize("layer", ["gile", "linear"])
def test_a_mixed_batch_scores_like_separate_batches(layer):
    fields = {"text_encoder_type": "han", "sharing": "none", "share_joint_space": False}
    model, processor = make_bilingual(output_layer=layer, **fields)
    texts = [TEXTS[language][row] for row in (0, 1) for language in LANGUAGES]
    words = processor(texts, language=LANGUAGES * 2, return_tensors="pt")
    logits = model(**words).logits
    assert words["language"].tolist() == [0, 1, 0, 1]
    assert torch.equal(model(**{**words, "language": LANGUAGES * 2}).logits, logits)
    torch.testing.assert_close(logits[0::2], model(**of(processor, "english")).logits)
    torch.testing.assert_close(logits[1::2], model(**of(processor, "german")).logits)
    english, german = [False] * 3 + [True] * 2, [True] * 3 + [False] * 2
    assert logits.isneginf().tolist() == [english, german] * 2


def test_a_gold_label_of_the_other_language_is_refused_by_name():
    model, processor = make_bilingual()
    with pytest.raises(ValueError, match=r"document 1 of the batch has the gold label 0 \('gift \(english:gift\)'\)"):
        model(**of(processor, "german"), labels=torch.tensor([[3], [0]]))


@pytest.mark.parametrize(
    ("language", "message"),
    [
        (None, "this model has the languages english, german: pass the language"),
        ("french", r"language must be one of the languages of this model, \['english', 'german'\], got 'french'"),
        (["english"], r"language of each row of input_ids \(2, \d\), got shape \(1,\)"),
        (torch.tensor([0, 2]), r"indices into the languages of this model, \['english', 'german'\], got \[0, 2\]"),
    ],
    ids=["none", "unknown", "too few", "out of range"],
)
def test_a_missing_or_unknown_language_is_refused(language, message):
    model, processor = make_bilingual()
    words = processor(TEXTS["english"], language="english", return_tensors="pt")
    with pytest.raises(ValueError, match=message):
        model(**{**words, "language": language})
    if not isinstance(language, torch.Tensor):
        with pytest.raises(ValueError, match="language"):
            processor(TEXTS["english"], language=language)


def test_labels_must_be_grouped_by_language():
    model, processor = make_bilingual()
    labels = [Label("1", "gift", language="english"), Label("2", "gift", language="german")]
    with pytest.raises(ValueError, match="got the languages english, german, english"):
        model.set_labels(LabelSet([*labels, Label("3", "milk", language="english")]), processor)
    with pytest.raises(ValueError, match="got the languages english, german, None"):
        model.set_labels(LabelSet([*labels, Label("3", "milk")]), processor)


def test_the_pipeline_takes_a_language():
    model, processor = make_bilingual(share_joint_space=False)
    pipe = pipeline("label-scoring", model=model, processor=processor)
    answer = pipe(TEXTS["german"], language="german")
    assert sorted(answer[0]["labels"]) == ["eisen", "gift"]  # also "gift" in English
    index = LabelIndex.build(model, processor, language="german")
    assert pipe(TEXTS["german"], index, language="german")[0]["labels"] == answer[0]["labels"]
    logits = model(**of(processor, "german")).logits
    assert scores(answer[1])["eisen"] == pytest.approx(logits[1, 4].sigmoid().item())
    answers = pipe(TEXTS["german"], candidate_labels=["milk", "iron"], language="german", label_language="english")
    words = of(processor, "german")
    codes = model.project_stored_labels(language=words["language"])
    expected = model.gile.score(model.gile.project_texts(**words), codes, words["language"])[0].sigmoid()
    assert scores(answers[0]) == pytest.approx({"milk": expected[1].item(), "iron": expected[2].item()})
    with pytest.raises(ValueError, match="language must be a str, got"):
        pipe(TEXTS["german"], language=["german", "german"])
    with pytest.raises(ValueError, match="pass the language of the documents"):
        pipe(TEXTS["german"])


PAIRS = [("english", None), ("german", "english"), ("german", "german")]


@pytest.mark.parametrize(("language", "label_language"), PAIRS)
def test_an_index_is_for_a_language_of_documents_and_a_language_of_labels(language, label_language):
    model, processor = make_bilingual(share_joint_space=False)
    pipe = pipeline("label-scoring", model=model, processor=processor)
    options = {"language": language, "label_language": label_language}
    texts, labels = TEXTS[language], LabelSet.from_names(["milk", "eisen"])
    stored = LabelIndex.build(model, **options)
    described = LabelIndex.build(model, processor, labels, **options)
    described.add([Label("1", "iron")], model, processor)
    for index, labels_of_it in ((stored, None), (described, described.label_set)):
        for answer, expected in zip(pipe(texts, index, **options), pipe(texts, labels_of_it, **options), strict=True):
            assert [name.split()[0] for name in answer["labels"]] == [name.split()[0] for name in expected["labels"]]
            assert answer["scores"] == pytest.approx(expected["scores"], rel=1e-6)
    with pytest.raises(ValueError, match="build an index for these"):
        pipe(texts, described, language="english" if language == "german" else "german")
    with pytest.raises(ValueError, match="pass the language of the documents"):
        LabelIndex.build(model, processor, labels)


def test_languages_keep_a_non_alphabetical_order_when_saved(tmp_path):
    model, processor = make_bilingual(LabelSet([*LABELS[3:], *LABELS[:3]]), output_layer="linear")
    model.save_pretrained(tmp_path)
    loaded = GileForSequenceClassification.from_pretrained(tmp_path).eval()
    for language, is_candidate in {"german": [True] * 2 + [False] * 3, "english": [False] * 2 + [True] * 3}.items():
        inputs = of(processor, language)
        torch.testing.assert_close(loaded(**inputs).logits, model(**inputs).logits)
        assert loaded(**inputs).logits[0].isfinite().tolist() == is_candidate
    with pytest.raises(ValueError, match="have the languages english, german in this order; group them by language"):
        model.set_labels(LABELS, processor)
