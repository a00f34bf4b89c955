"""A chunked training step equals the step with all logits."""

import pytest
import torch
from papers.chunked_training import ChunkedLoss

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, Label, LabelSet, build_tokenizer

TEXTS = ["Milk was fed to infants.", "Blood and iron.", "The failing heart."]
GOLD = torch.tensor([[1, 3], [2, -100], [0, 4]])
MULTI = "multi_label_classification"


def step(model, inputs, chunk_size, **options):
    """Returns the output of a training step and all gradients."""
    model.loss_function = ChunkedLoss(chunk_size=chunk_size)
    model.double().train().zero_grad()
    output = model(**inputs, **options)
    output.loss.backward()
    return output, {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def assert_same_step(model, inputs, **options):
    """Checks that loss and gradients in chunks of two labels are the same."""
    full, expected = step(model, inputs, 0, **options)
    chunked, got = step(model, inputs, 2, **options)
    assert full.logits is chunked.logits is None
    torch.testing.assert_close(chunked.loss, full.loss, rtol=1e-10, atol=1e-10)
    assert got.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-10, atol=1e-10, msg=lambda text, n=name: f"{n}: {text}")


SAMPLE = {"sampled_columns": torch.arange(5), "column_weights": torch.linspace(0.5, 1.5, 5, dtype=torch.float64)}
EXCLUDED = {"excluded_columns": torch.tensor([[0, -100], [4, 3], [-100, -100]])}
SEVERAL = {
    "labels": torch.tensor([[1, 3], [3, -100], [4, -100]]),
    "sampled_columns": torch.tensor([0, 1, 3, 4]),
    "column_weights": torch.tensor([[1.0, 0, 2, 3], [1, 1, 1, 0], [2, 2, 2, 1]], dtype=torch.float64),
    "excluded_columns": torch.tensor([[0, 4], [2, 1], [3, -100]]),
}


@pytest.mark.parametrize(
    ("output_layer", "label_encoder_type", "options"),
    [
        ("gile", "mean", {}),
        ("gile", "mean", EXCLUDED),
        ("gile", "text_encoder", SAMPLE),
        ("gile", "mean", SEVERAL),
        ("only_label", "mean", EXCLUDED),
        ("only_input", "mean", {}),
        ("bilinear", "mean", SAMPLE),
        ("linear", "mean", SAMPLE),
    ],
    ids=str,
)
def test_a_chunked_step_equals_the_step_with_logits(make_model, output_layer, label_encoder_type, options):
    sizes = {"hidden_size": 7} if output_layer in ("only_label", "only_input") else {}
    fields = {"output_layer": output_layer, "label_encoder_type": label_encoder_type}
    model, processor = make_model(problem_type=MULTI, **fields, **sizes)
    assert_same_step(model, processor(TEXTS, return_tensors="pt"), **{"labels": GOLD} | options)


def test_single_label_softmax_works_in_chunks(make_model):
    model, processor = make_model(problem_type="single_label_classification")
    inputs = processor(TEXTS, return_tensors="pt")
    assert_same_step(model, inputs, labels=torch.tensor([4, 0, 2]))
    with pytest.raises(ValueError, match="takes exactly one gold label for each document"):
        step(model, inputs, 2, labels=GOLD)


@pytest.mark.parametrize(
    "fields",
    [
        {"joint_size": 3, "share_joint_space": True, "label_encoder_type": "mean"},
        {"joint_size": 3, "share_joint_space": False, "label_encoder_type": "text_encoder"},
        {"output_layer": "linear", "language_labels": {"english": 3, "german": 4}},
    ],
    ids=str,
)
def test_chunks_cover_only_labels_of_the_language(fields):
    names = {"english": ["milk", "iron", "heart"], "german": ["Milch", "Eisen", "Herz", "Blut"]}
    labels = LabelSet(Label(name, name, language=language) for language in names for name in names[language])
    texts = {"english": ["milk and iron", "heart"], "german": ["Milch und Eisen", "Herz und Blut"]}
    tokenizer = build_tokenizer(texts, label_texts={}, min_count=1)
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "embedding_size": 7, "hidden_size": 5, "num_labels": 7}
    config = GileConfig(languages=[*names], problem_type=MULTI, **sizes, **fields)
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileForSequenceClassification(config)
    model.set_labels(labels, processor)
    english, german = (processor(texts[language], language=language)["input_ids"] for language in texts)
    inputs = processor.pad_documents([english[0], german[0], english[1], german[1]])
    gold = torch.tensor([[0, 1], [3, 6], [2, -100], [-100, -100]])
    language = torch.tensor([0, 1, 0, 1])
    assert_same_step(model, inputs, labels=gold, language=language)
    sampled = {"sampled_columns": torch.tensor([0, 1, 2, 3, 5, 6]), "column_weights": torch.rand(6).double()}
    assert_same_step(model, inputs, labels=gold, language=language, **sampled)
    with pytest.raises(ValueError, match=r"document 1 of the batch has the gold label 0 .* another language"):
        step(model, inputs, 2, labels=torch.tensor([[0], [3], [2], [0]]), language=language)


def test_invalid_labels_are_refused_as_with_logits(make_model):
    model, processor = make_model(problem_type=MULTI)
    inputs = processor(TEXTS, return_tensors="pt")
    wrong = {
        "labels has index 5, but there are 5 labels": torch.tensor([[5], [0], [1]]),
        "contains a gold label": torch.tensor([[1, 1], [0, -100], [1, -100]]),
        r"labels must have shape \(3, P\)": torch.tensor([[1], [0]]),
        r"labels must be label indices .* got zeros and ones \(3, 5\)": torch.ones(3, 5),
    }
    for message, labels in wrong.items():
        with pytest.raises(ValueError, match=message):
            step(model, inputs, 2, labels=labels)
    excluded = {"labels": GOLD, "excluded_columns": torch.tensor([[0], [2], [1]])}
    with pytest.raises(ValueError, match=r"document 1 .* has the gold label 2 .* in its excluded_columns"):
        step(model, inputs, 2, **excluded)
    sample = {"labels": torch.full((3, 1), -100), "sampled_columns": torch.tensor([0, 2, 4])}
    with pytest.raises(ValueError, match=r"a weight for each of the 3 labels scored, got 5"):
        step(model, inputs, 2, column_weights=torch.ones(5), **sample)


def test_invalid_options_are_refused():
    for options, message in [
        ({"share_labels": True}, "share_labels divides chunks of labels: set chunk_size above 0"),
        ({"share_labels": True, "chunk_size": 2}, "share_labels needs a process group"),
    ]:
        with pytest.raises(ValueError, match=message):
            ChunkedLoss(**options)


def test_the_plain_loss_refuses_samples_and_names_gile_loss(make_model):
    model, processor = make_model(problem_type=MULTI)
    inputs = processor(TEXTS, return_tensors="pt")
    for mode in (True, False):
        with pytest.raises(TypeError, match=r"keyword argument 'sampled_columns', .* hf_gile\.training\.GileLoss"):
            model.train(mode)(**inputs, labels=GOLD, sampled_columns=torch.tensor([0, 1, 2, 3, 4]))
