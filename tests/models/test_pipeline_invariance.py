"""An answer depends only on its text and labels: not on the batch, the order of texts or labels, or other labels.

Float sums depend slightly on their order, and so on the shape of a batch. The tolerance is derived from this: a float32
sum of n products is the exact sum of products that are each changed by at most n u (u = 2^-24, the backward error of an
inner product). To first order, a probability p changes by at most n u sum_w |w dp/dw|, and two differ by twice that.
"""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import pipeline

from hf_gile.models.pipeline_gile import LabelCache

TEXTS = [
    "Breast milk and iron. The heart.",
    "blood",
    "Infants were fed with milk for 12 weeks. Rats were fed a diet low in iron. Blood was drawn from the heart.",
    "",
    "The failing heart pumps less blood. Iron.",
]
CANDIDATES = ["Iron", "Milk, Human", "Risk of Infection", "Blood", "heart failure of infants"]
MODELS = {
    "wan with gru": {"encoder_cell": "bigru"},
    "han": {},
    "wan with labels read by it": {"label_encoder_type": "text_encoder", "bag_size": 3, "cosine_score": True},
    "linear": {"output_layer": "linear"},
    "transformer": {"bag_size": 3, "label_rows": "full"},
}


@pytest.fixture(params=MODELS)
def parts(request, make_model, make_pretrained):
    kind = {"linear": "wan"}.get(request.param, request.param.split()[0])
    options = MODELS[request.param] | {"problem_type": "multi_label_classification"}
    if "transformer" in kind:
        options.pop("problem_type")
        return make_pretrained(kind, **options)
    return make_model(kind, **options)


@pytest.fixture
def pipe(parts):
    return pipeline("label-scoring", model=parts[0], processor=parts[1])


@pytest.fixture
def candidates(parts):
    return None if parts[0].config.output_layer == "linear" else CANDIDATES


@pytest.fixture
def tolerance(parts, candidates):
    """Returns the largest allowed difference between two probabilities that sum the same products."""
    return tolerance_of(*parts, candidates)


def tolerance_of(model, processor, candidates):
    model = copy.deepcopy(model).double()
    weights = [weight.requires_grad_() for weight in model.parameters()]
    texts = processor(TEXTS, return_tensors="pt")
    if candidates is None:
        scores = model(**texts).logits.sigmoid()
    else:
        scores = model.gile(**texts, **processor(label_text=candidates, return_tensors="pt")).logits.sigmoid()
    worst = 0.0
    for score in scores.flatten():
        slopes = torch.autograd.grad(score, weights, retain_graph=True, allow_unused=True)
        changes = [
            (w.detach() * slope).abs().sum() for w, slope in zip(weights, slopes, strict=True) if slope is not None
        ]
        worst = max(worst, float(sum(changes)))
    longest = max(size for weight in weights for size in weight.shape)
    return 2 * longest * 2**-24 * worst


def scores(answer):
    return dict(zip(answer["labels"], answer["scores"], strict=True))


def assert_same(answers, expected_answers, tolerance):
    for answer, expected in zip(answers, expected_answers, strict=True):
        assert answer["sequence"] == expected["sequence"]
        assert scores(answer) == pytest.approx(scores(expected), rel=0, abs=tolerance)


def test_batch_size_and_text_order_do_not_change_scores(pipe, candidates, tolerance):
    alone = [pipe(text, candidates) for text in TEXTS]
    all_scores = [score for answer in alone for score in answer["scores"]]
    assert max(all_scores) - min(all_scores) > 500 * tolerance  # texts and labels matter far more
    assert_same(pipe(TEXTS, candidates, batch_size=2), alone, tolerance)
    assert_same(pipe(TEXTS[::-1], candidates, batch_size=5)[::-1], alone, tolerance)
    assert_same(list(pipe(iter(TEXTS), candidates, batch_size=5)), alone, tolerance)
    alone = [pipe(text, candidates, long_texts="mean") for text in TEXTS]
    assert_same(pipe(TEXTS, candidates, long_texts="mean", batch_size=2), alone, tolerance)


@pytest.mark.parametrize("parts", ["han", "wan with labels read by it", "transformer"], indirect=True)
def test_other_labels_and_their_order_do_not_change_scores(pipe, tolerance):
    together = pipe(TEXTS, CANDIDATES, batch_size=3)
    backwards = pipe(TEXTS, CANDIDATES[::-1], batch_size=3)
    assert_same(together, backwards, tolerance)
    for position, text in enumerate(TEXTS):
        alone = {name: pipe(text, [name])["scores"][0] for name in CANDIDATES}
        assert scores(together[position]) == pytest.approx(alone, rel=0, abs=tolerance)
    many = pipe(TEXTS, [*CANDIDATES[:3], *(f"Iron {number} of rats" for number in range(97)), *CANDIDATES[3:]])
    for answer, more in zip(together, many, strict=True):
        assert {name: scores(more)[name] for name in CANDIDATES} == pytest.approx(scores(answer), rel=0, abs=tolerance)
    per_text = pipe(TEXTS, [CANDIDATES, *([[name] for name in CANDIDATES[1:]])], batch_size=5)
    assert_same(per_text[:1], together[:1], tolerance)
    for position in range(1, 5):
        assert per_text[position]["scores"][0] == pytest.approx(
            scores(together[position])[CANDIDATES[position]], rel=0, abs=tolerance
        )


@pytest.mark.parametrize("parts", ["wan with labels read by it", "transformer"], indirect=True)
def test_threads_can_share_a_pipeline(pipe, candidates):
    calls = [
        lambda: pipe(TEXTS, candidates, batch_size=2),
        lambda: pipe(TEXTS[::-1], candidates, batch_size=3, top_k=2),
        lambda: pipe(TEXTS, batch_size=5),
        lambda: pipe(TEXTS, threshold="stored", force_label=True),
        lambda: list(pipe(iter(TEXTS), candidates, long_texts="max", threshold=0.3)),
        lambda: pipe(TEXTS, [candidates] * 5),
    ]
    expected = [call() for call in calls]
    pipe._cache = LabelCache()
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda call: call(), calls * 3))
    assert answers == expected * 3
