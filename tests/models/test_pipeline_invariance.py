"""An answer depends only on its text and labels: not on the batch, the order of texts or labels, or other labels.

Models are in double precision, where the order of a sum changes it by far less than `TOLERANCE`.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from answers import scores
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
TOLERANCE = 1e-9
MODELS = {
    "wan with gru": {"encoder_cell": "bigru"},
    "han": {"cosine_score": True, "label_rows": "full", "hidden_size": 7},
    "wan with labels read by it": {"label_encoder_type": "text_encoder", "cosine_score": True},
    "wan with linear units": {"output_layer": "linear"},
    "transformer": {"label_rows": "full"},
}


@pytest.fixture(params=MODELS)
def model(request, make_model, make_pretrained):
    kind = request.param.split()[0]
    if kind == "transformer":
        return make_pretrained(kind, **MODELS[request.param])
    return make_model(kind, problem_type="multi_label_classification", **MODELS[request.param])


@pytest.fixture
def pipe(model):
    return pipeline("label-scoring", model=model[0].double(), processor=model[1])


@pytest.fixture
def candidates(model):
    return None if model[0].config.output_layer == "linear" else CANDIDATES


def assert_same(answers, expected_answers):
    for answer, expected in zip(answers, expected_answers, strict=True):
        assert answer["sequence"] == expected["sequence"]
        assert scores(answer) == pytest.approx(scores(expected), rel=0, abs=TOLERANCE)


def test_batch_size_and_text_order_do_not_change_scores(pipe, candidates):
    alone = [pipe(text, candidates) for text in TEXTS]
    all_scores = [score for answer in alone for score in answer["scores"]]
    assert max(all_scores) - min(all_scores) > 1e-3  # texts and labels matter far more
    assert_same(pipe(TEXTS, candidates, batch_size=2), alone)
    assert_same(pipe(TEXTS[::-1], candidates, batch_size=5)[::-1], alone)
    assert_same(list(pipe(iter(TEXTS), candidates, batch_size=5)), alone)
    alone = [pipe(text, candidates, long_texts="mean") for text in TEXTS]
    assert_same(pipe(TEXTS, candidates, long_texts="mean", batch_size=2), alone)


@pytest.mark.parametrize("model", ["han", "wan with labels read by it", "transformer"], indirect=True)
def test_other_labels_and_their_order_do_not_change_scores(pipe):
    together = pipe(TEXTS, CANDIDATES, batch_size=3)
    backwards = pipe(TEXTS, CANDIDATES[::-1], batch_size=3)
    assert_same(together, backwards)
    for position, text in enumerate(TEXTS):
        alone = {name: pipe(text, [name])["scores"][0] for name in CANDIDATES}
        assert scores(together[position]) == pytest.approx(alone, rel=0, abs=TOLERANCE)
    many = pipe(TEXTS, [*CANDIDATES[:3], *(f"Iron {number} of rats" for number in range(97)), *CANDIDATES[3:]])
    for answer, more in zip(together, many, strict=True):
        assert {name: scores(more)[name] for name in CANDIDATES} == pytest.approx(scores(answer), rel=0, abs=TOLERANCE)


@pytest.mark.parametrize("model", ["wan with labels read by it", "transformer"], indirect=True)
def test_threads_can_share_a_pipeline(pipe, candidates):
    calls = [
        lambda: pipe(TEXTS, candidates, batch_size=2),
        lambda: pipe(TEXTS[::-1], candidates, batch_size=3, top_k=2),
        lambda: pipe(TEXTS, batch_size=5),
        lambda: pipe(TEXTS, threshold="stored", force_label=True),
        lambda: list(pipe(iter(TEXTS), candidates, long_texts="max", threshold=0.3)),
    ]
    expected = [call() for call in calls]
    pipe._cache = LabelCache()
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda call: call(), calls * 3))
    assert answers == expected * 3
