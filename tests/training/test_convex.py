"""Convex fits equal scikit-learn, accept any labels, and hold only a block of scores in memory."""

from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from answers import logits_of
from datasets import Dataset
from index_evaluation import evaluate_index
from sklearn.linear_model import LogisticRegression
from torch.nn import functional

from hf_gile import GileForSequenceClassification, Label, LabelIndex, LabelScoringPipeline, LabelSet
from hf_gile.metrics import LabelMetrics
from hf_gile.metrics.batch import read_batch
from hf_gile.models.lexical_gile import list_features
from hf_gile.models.mixture_gile import Mixture
from hf_gile.training import GileDataCollator, add_pooled_embeds, encode_dataset
from hf_gile.training.convex import Regularisation, fit_convex, fit_head, fitting, refit_convex
from hf_gile.training.convex import documents as documents_module
from hf_gile.training.convex import head as head_module
from hf_gile.training.convex.documents import Documents
from hf_gile.training.convex.head import refit_head
from hf_gile.training.convex.label_side import CONSTANT, Joint, fit_bilinear, fit_joint, fit_rows, score_rows
from hf_gile.training.convex.losses import binary_loss, listwise_loss
from hf_gile.training.convex.term_weights import Example, fit_term_weights, prior_of, raise_unseen
from hf_gile.training.convex.word_rows import WordRegression, feature_counts
from hf_gile.training.experiment import _pool_sample

LABELS, SIZE = 6, 5


def unit(*shape, seed=0):
    return functional.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def topics(number, seed=1, noise=0.5, labels=LABELS):
    """Documents near the vector of their label, turned by one matrix, so that the cosine alone says little."""
    e = unit(labels, SIZE)
    turn = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(9)))[0]
    gold = torch.arange(number) % labels
    noisy = (e @ turn)[gold] + noise * unit(number, SIZE, seed=seed)
    return Documents(functional.normalize(noisy, dim=-1), gold[:, None]), e


def tags(number, seed=3):
    """Documents with several labels, or none."""
    h = unit(number, SIZE, seed=seed)
    is_gold = h @ unit(SIZE, LABELS, seed=8) > 0.2
    return Documents(h, read_batch(h @ h.new_zeros(SIZE, LABELS), is_gold)[1])


def test_words_are_learned_again_without_the_documents_of_held_out_labels():
    (train, e), (validation, _) = topics(240, labels=8), topics(160, seed=2, labels=8)
    train = replace(train, numbers=torch.arange(240))
    validation = replace(validation, numbers=torch.arange(240, 400))
    vectors = torch.cat([train.vectors, validation.vectors])
    held_out = []

    def relearn(numbers):
        labels = train.gold[numbers].unique()
        held_out.append(set(range(8)) - set(labels.tolist()))
        known = torch.zeros(8, 1).index_fill(0, labels, 1.0)
        return vectors, known * e + (1 - known) * unit(8, SIZE, seed=5)  # names of held-out labels say nothing

    unchanged = fit_head(train, validation, e, True, relearn=lambda numbers: (vectors, e))
    torch.testing.assert_close(unchanged.term_weights, fit_head(train, validation, e, True).term_weights)
    head = fit_head(train, validation, e, True, relearn=relearn)
    assert [len(labels) for labels in held_out] == [2] * 4
    assert set().union(*held_out) == set(range(8))
    weights, before = head.term_weights["unseen"], unchanged.term_weights["unseen"]
    assert weights["joint"] + weights["cosine"] < (before["joint"] + before["cosine"]) / 2


def test_rows_equal_logistic_regressions_of_scikit_learn():
    documents = tags(80)
    rows = fit_rows(documents, LABELS, l2=0.5, max_iter=500)
    x = np.concatenate([documents.vectors.numpy(), np.full((80, 1), CONSTANT)], axis=1)
    for label in range(LABELS):
        y = (documents.gold == label).any(1).numpy()
        regression = LogisticRegression(C=1 / 0.5, fit_intercept=False, tol=1e-8, max_iter=1000).fit(x, y)
        expected = np.append(regression.coef_[0, :-1], regression.coef_[0, -1] * CONSTANT)
        np.testing.assert_allclose(torch.cat([rows.weight[label], rows.bias[label, None]]), expected, atol=1e-2)


@pytest.mark.parametrize(("number", "labels"), [(60, LABELS), (4, 3)])
def test_the_bilinear_form_equals_a_softmax_regression_on_products(number, labels):
    documents, e = topics(number, labels=labels)
    form = fit_bilinear(documents, e, l2=0.3, max_iter=500)
    scores = documents.vectors @ (form.factor * torch.eye(SIZE) + form.matrix) @ e.T
    torch.testing.assert_close(sum(form.terms(documents.vectors, e).values()), scores)
    wrong = torch.softmax(scores, 1) - functional.one_hot(documents.gold[:, 0], labels)
    gradient = documents.vectors.T @ wrong @ e  # of M, without L2; that of the factor is its trace
    torch.testing.assert_close(gradient, -0.3 * form.matrix, atol=2e-3, rtol=0)
    assert abs(gradient.trace() + 0.3 * (form.factor - 10)) < 2e-3


@pytest.mark.parametrize(("number", "labels"), [(60, LABELS), (4, 3)])
def test_the_joint_space_is_a_minimum_in_all_dimensions(number, labels, monkeypatch):
    monkeypatch.setattr("hf_gile.training.convex.label_side._JOINT_STEPS", 500)
    documents, e = topics(number, labels=labels)
    form = fit_bilinear(documents, e, l2=1.0)
    start = Joint.start(form, documents.vectors, e)
    fitted = fit_joint(documents, e, 10.0, form)
    weights = {name: getattr(fitted, name).clone().requires_grad_() for name in ("label_weight", "text_weight")}
    loss = listwise_loss(replace(fitted, **weights).scores(documents.vectors, e), documents)
    for name, weight in weights.items():
        moved = (weight - getattr(start, name)) / (0.5 * SIZE**0.5)
        assert moved.abs().max() > 0.01
        loss = loss + 10 / 2 * moved.square().sum()
    for gradient in torch.autograd.grad(loss, list(weights.values())):
        assert gradient.abs().max() < 1e-2


def test_excluded_columns_get_no_gradient():
    documents = Documents(torch.zeros(2, 2), torch.tensor([[0], [1]]), torch.tensor([[2], [-100]]))
    scores = torch.tensor([[1.0, 0.0, 5.0], [0.0, 1.0, 5.0]], requires_grad=True)
    for loss in (listwise_loss, binary_loss):
        gradient = torch.autograd.grad(loss(scores, documents), scores)[0]
        assert gradient[0, 2] == 0
        assert gradient[1, 2] > 0
        assert gradient.isfinite().all()


def test_the_fit_does_not_depend_on_the_block_size(monkeypatch):
    documents, e = topics(40)
    rows, matrix = fit_rows(documents, LABELS, 0.1).weight, fit_bilinear(documents, e, 0.1).matrix
    monkeypatch.setattr(documents_module, "_BLOCK", 7 * LABELS)
    torch.testing.assert_close(fit_rows(documents, LABELS, 0.1).weight, rows, atol=1e-2, rtol=0)
    torch.testing.assert_close(fit_bilinear(documents, e, 0.1).matrix, matrix, atol=1e-2, rtol=0)


def test_a_term_that_tells_rare_labels_gets_weight_for_rare_labels():
    documents, _ = topics(600)
    rarity = (torch.arange(LABELS) < 4).float()
    noise = torch.randn(2, 600, LABELS, generator=torch.Generator().manual_seed(4))
    gold = 3 * documents.targets(LABELS)[0]
    terms = {"rows": noise[0] + gold * (1 - rarity), "cosine": noise[1] + gold * rarity}
    example = Example(terms, documents, torch.ones(LABELS, dtype=torch.bool), rarity)
    prior = {group: {"rows": 0.5, "cosine": 0.5, "offset": 0.0} for group in ("seen", "rare")}
    weights, _ = fit_term_weights([example], prior, one_label=False)
    assert weights["rare"]["cosine"] > 1 > 0.2 > weights["rare"]["rows"]
    assert weights["seen"]["rows"] > 1 > 0.2 > weights["seen"]["cosine"]


@pytest.mark.parametrize(("one_label", "number"), [(False, 100), (True, 100), (False, 99)])
def test_unseen_labels_with_common_names_are_lowered_if_documents_have_several_of_many_labels(one_label, number):
    common = torch.arange(LABELS) < 3
    documents, _ = topics(600)
    documents = documents.take((documents.gold[:, 0] >= 3).nonzero()[:, 0])
    noise = torch.randn(len(documents), LABELS, generator=torch.Generator().manual_seed(4))
    cosine = noise + documents.targets(LABELS)[0] + common.float()  # texts that name a label are often not about it
    terms = {"cosine": cosine, "specificity": (5.0 - common.float()).expand_as(cosine)}
    example = Example(terms, documents, torch.zeros(LABELS, dtype=torch.bool))
    prior = prior_of(one_label, shares_words=True, has_word_rows=False, num_labels=number)
    weights, _ = fit_term_weights([example], {"unseen": prior["unseen"]}, one_label)
    assert (weights["unseen"].get("specificity", 0.0) > 1) == (number == 100 and not one_label)


def test_cosines_in_a_narrow_range_weigh_as_much_as_centred_ones():
    documents, _ = topics(600)
    noise = torch.randn(2, 600, LABELS, generator=torch.Generator().manual_seed(4))
    gold = documents.targets(LABELS)[0]
    cosine, rows = 0.1 * (noise[0] + gold), noise[1] + gold
    seen = torch.arange(LABELS) < 4
    prior = {group: {"rows": 0.0, "cosine": 0.0, "offset": 0.0} for group in ("seen", "unseen")}

    def fitted(mean):
        example = Example({"rows": rows, "cosine": cosine + mean}, documents, seen)
        return fit_term_weights([example], prior, one_label=False, strength=1e-6)[0]

    centred, narrow = fitted(0.0), fitted(30.0)
    for group in prior:
        weight = centred[group]["cosine"]
        assert weight > 5
        assert narrow[group]["cosine"] == pytest.approx(weight, rel=0.05)
        assert narrow[group]["offset"] == pytest.approx(centred[group]["offset"] - 30 * weight, rel=0.05)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("tells", [True, False])
def test_words_get_weight_only_if_they_are_informative(tells):
    train, e = topics(120, noise=3)
    validation = topics(60, seed=11, noise=3)[0]
    train, validation = (Documents(one.vectors, one.gold, numbers=one.gold[:, 0]) for one in (train, validation))

    def compare(numbers):
        match = functional.one_hot(numbers if tells else (numbers + 1) % LABELS, LABELS).float()
        return {"match": match, "coverage": torch.zeros_like(match)}

    weights = fit_head(train, validation, e, one_label=True, compare=compare).term_weights
    for group in ("seen", "unseen"):
        assert (weights[group]["match"] > 1) == tells
        assert tells or weights[group]["match"] == 0


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("inflected", [True, False])
def test_parts_of_words_count_more_if_labels_share_stems(monkeypatch, inflected):
    monkeypatch.setattr(head_module, "WEIGHTS_OF_PARTS", (0.1, 1.0))
    train, e = topics(120, labels=3)
    train = replace(train, numbers=torch.arange(120))
    draw = np.random.default_rng(0).choice

    def word(label):
        """Makes a word of a label, or of none."""
        if label is None:
            return "".join(draw(list("ijkl"), 2 if inflected else 6))
        return ("wander", "zimmer", "kutsch")[label] + "".join(draw(list("abcdefgh"), 3)) if inflected else "xyz"[label]

    texts = [" ".join(map(word, (label, *[None] * 8))) for label in train.gold[:, 0].tolist()]
    lists = list_features(texts)
    rows = (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))
    regression = WordRegression(feature_counts(rows))
    fit = fit_head(train, train.take(slice(0)), e, one_label=True, regression=regression).fit
    assert fit.chosen["parts_weight"] == (1.0 if inflected else 0.1)


@pytest.mark.usefixtures("short_search")
def test_many_labels_choose_the_l2_of_rows_on_a_sample(monkeypatch):
    monkeypatch.setattr(head_module, "_COSTLY", 0)
    monkeypatch.setattr(head_module, "_SAMPLED_LABELS", 2)
    fitted = []

    def count_labels(documents, num_labels, *others, **options):
        fitted.append(int((documents.counts(num_labels) > 0).sum()))
        return fit_rows(documents, num_labels, *others, **options)

    monkeypatch.setattr(head_module, "fit_rows", count_labels)
    train, e = topics(120)
    head = fit_head(train, train.take(slice(0)), e, one_label=False)
    assert fitted[0] == 2  # the sample first
    assert fitted[-1] == LABELS
    assert bool((head.rows.weight != 0).any(1).all())


def test_an_offset_corrects_scores_that_are_too_high():
    documents, _ = topics(600)
    true = torch.randn(600, LABELS, generator=torch.Generator().manual_seed(4))
    true[torch.arange(600), documents.gold[:, 0]] += 3
    seen = torch.arange(LABELS) < 3
    example = Example({"joint": true + 2.0 * ~seen}, documents, seen)
    prior = {"seen": {"joint": 1.0}, "unseen": {"joint": 1.0, "offset": 0.0}}
    weights, _ = fit_term_weights([example], prior, one_label=True)
    assert weights["unseen"]["offset"] == pytest.approx(-2 * weights["unseen"]["joint"], abs=0.7)
    fixed, _ = fit_term_weights([example], prior, one_label=True, fixed=["seen"])
    assert fixed["seen"] == prior["seen"]


@pytest.mark.parametrize(("lead", "offset"), [(3.0, 2.9375), (9.0, 8.5)])
def test_unseen_labels_are_raised_up_to_seen_gold_labels(lead, offset):
    documents, _ = topics(60)
    scores = lead * documents.targets(LABELS)[0] - 20  # improbable
    weights = {"seen": {"joint": 1.0}, "unseen": {"joint": 1.0, "offset": 0.5}}
    raised, _ = raise_unseen([Example({"joint": scores}, documents, torch.arange(LABELS) < 3)], weights, False)
    assert raised == offset


def scores_of(head, vectors, e, words=None):
    terms = {"rows": score_rows(head.rows, vectors), **head.form.terms(vectors, e), **(words or {})}
    return Mixture(list(terms), head.term_weights).add(terms, head.rows.seen, head.rows.rarity)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("number", [24, 400])
def test_the_head_ranks_seen_and_unseen_labels(number):
    train, e = topics(240)
    gold = train.gold.masked_fill(train.gold == 0, -100)  # label 0 is never seen
    train = Documents(train.vectors, gold).take(gold[:, 0] >= 0)
    validation, test = topics(number, seed=11)[0], topics(120, seed=12)[0]
    head = fit_head(train, validation, e, one_label=True)
    scores = scores_of(head, test.vectors, e)
    correct = scores.argmax(1) == test.gold[:, 0]
    assert correct[test.gold[:, 0] > 0].float().mean() > 0.8
    assert not head.rows.seen[0]
    assert scores.dtype == torch.float32
    assert bool(head.fit.left_out) == (number == 24)
    if number == 24:
        logits = torch.cat([batch["logits"] for batch in head.fit.left_out])
        labels = torch.cat([batch["labels"] for batch in head.fit.left_out])
        assert len(logits) == len(train) + len(validation)  # each is left out once
        correct = (logits.argmax(1) == labels[:, 0])[labels[:, 0] > 0]
        assert 0.7 < correct.float().mean() < 1.0
        again = fit_head(train, validation, e, one_label=True)
        assert torch.equal(again.rows.weight, head.rows.weight)
        assert again.term_weights == head.term_weights


@pytest.mark.usefixtures("short_search")
def test_scores_of_documents_with_several_labels_are_logits():
    train, validation, test = tags(300), tags(300, seed=21), tags(300, seed=22)
    head = fit_head(train, validation, unit(LABELS, SIZE, seed=30), one_label=False)
    scores = scores_of(head, test.vectors, unit(LABELS, SIZE, seed=30))
    has = torch.stack([(test.gold == label).any(1) for label in range(LABELS)], 1)
    assert ((scores > 0) == has).float().mean() > 0.85
    assert abs(torch.sigmoid(scores).mean() - has.float().mean()) < 0.05


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(("number", "compete"), [(99, "more"), (100, "alone")])
def test_many_labels_without_documents_are_raised_without_held_out_labels(number, compete):
    e = unit(LABELS + number, SIZE, seed=30)
    head = fit_head(tags(300), tags(100, seed=21), e, one_label=False)
    assert (head.num_unseen == number) == (compete == "alone")
    assert head.num_unseen >= number


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(("number", "labels"), [(1, LABELS), (20, 1)])
def test_one_document_or_one_label_is_enough_for_a_head(number, labels):
    train, e = topics(number, labels=labels)
    head = fit_head(train, train.take(slice(0)), e, one_label=True)
    assert scores_of(head, train.vectors, e).isfinite().all()
    assert head.rows.seen.tolist() == [True] + [False] * (labels - 1)


def near_labels(number, labels=40, size=24, seed=5):
    """Documents near their label and near others of the label, so that both the cosine and documents tell it."""
    e = unit(labels, size)
    gold = torch.arange(labels).repeat(number)
    centre = e + 1.5 * unit(labels, size, seed=11)
    noisy = centre[gold] + 1.5 * unit(len(gold), size, seed=seed)
    return Documents(functional.normalize(noisy, dim=-1), gold[:, None]), e


def accuracy_of(form, documents, e):
    terms = form.terms(documents.vectors, e)
    scores = terms["joint"] if isinstance(form, Joint) else terms["joint"] + terms["cosine"]
    return (scores.argmax(1) == documents.gold[:, 0]).float().mean().item()


def test_a_joint_space_learns_more_from_few_documents_than_the_bilinear_form():
    train, e = near_labels(2)
    test, _ = near_labels(9, seed=6)
    form = fit_bilinear(train, e, l2=1.0)
    joint = fit_joint(train, e, 1.0, form)
    assert accuracy_of(joint, test, e) > accuracy_of(form, test, e) + 0.05


def test_few_documents_of_a_label_rank_no_worse_than_the_cosine():
    train, e = near_labels(1)
    few = train.take(slice(2, len(train)))  # two labels have a validation document only
    test, _ = near_labels(9, seed=6)
    head = fit_head(few, train.take(slice(2)), e, one_label=True)
    by_head, by_cosine = scores_of(head, test.vectors, e).argmax(1), (test.vectors @ e.T).argmax(1)
    gold = test.gold[:, 0]
    assert (by_head == gold).sum() > 1.02 * (by_cosine == gold).sum()
    assert head.term_weights["seen"]["joint"] == head.term_weights["seen"]["rows"] == 1
    assert head.fit.fits_validation


def test_labels_added_to_few_documents_do_not_displace_seen_labels():
    every, e = near_labels(1)
    train = every.take(slice(20))  # a document of each of the first 20 labels
    test = near_labels(9, seed=6)[0]
    test = test.take(test.gold[:, 0] < 20)
    head = fit_head(train, train.take(slice(0)), e, one_label=True)
    is_displaced = scores_of(head, test.vectors, e).argmax(1) >= 20
    assert is_displaced.sum() < ((test.vectors @ e.T).argmax(1) >= 20).sum()


def test_few_documents_that_tell_nothing_of_each_other_are_scored_without_certainty():
    vectors = functional.normalize(torch.randn(60, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    train = Documents(vectors[:42], torch.arange(42)[:, None] % 7)
    head = fit_head(train, train.take(slice(0)), vectors[42:49], one_label=True)
    highest = scores_of(head, vectors[49:], vectors[42:49]).softmax(1).max(1).values
    assert highest.mean() < 0.25


def test_labels_without_documents_stay_in_order_where_few_documents_may_have_several_labels():
    common = unit(1, 24)  # of all texts, so that the cosines of wrong labels are positive
    every, e = near_labels(1)
    test = near_labels(9, seed=6)[0]
    test = test.take(test.gold[:, 0] >= 20)
    every, test = (replace(part, vectors=functional.normalize(part.vectors + common, dim=-1)) for part in (every, test))
    e = functional.normalize(e + common, dim=-1)
    # Each label has a document at most, so that no fold leaves out a document of a seen label.
    head = fit_head(every.take(slice(1, 20)), every.take(slice(1)), e, one_label=False)
    scores = scores_of(head, test.vectors, e)
    by_cosine = (test.vectors @ e.T).argmax(1) == test.gold[:, 0]
    assert (scores.argmax(1) == test.gold[:, 0]).sum() > 0.5 * by_cosine.sum()
    assert 0.2 < scores.sigmoid().sum(1).mean() < 5  # labels of a document


def test_a_head_needs_a_label():
    train, e = topics(4)
    with pytest.raises(ValueError, match="no training document has a label"):
        fit_head(Documents(train.vectors, train.gold.new_full((4, 1), -100)), train, e, one_label=True)


NAMES = ["milk", "blood", "iron", "heart"]
TEXTS = [f"{name} {other}" for name in NAMES[:3] for other in (*NAMES, "breast", "failing", "cardiac")]
FIELDS = {"output_layer": "bilinear", "cosine_score": True, "label_rows": "full", "freeze_text_encoder": True}


@pytest.fixture
def make(save_text_encoder, make_pretrained):
    """Makes a model of four labels, the last of which training never sees, and its documents."""

    def make_model(problem_type="single_label_classification", **fields):
        encoder = save_text_encoder(texts=[*NAMES, "breast failing cardiac"])
        labels = LabelSet.from_names(NAMES)
        model, processor = make_pretrained(labels, encoder, **FIELDS | {"problem_type": problem_type, **fields})
        gold = [text.split()[:1] if "single" in problem_type else text.split() for text in TEXTS]
        rows = Dataset.from_dict({"text": TEXTS, "labels": [sorted(set(ids) & set(NAMES[:3])) for ids in gold]})
        rows = add_pooled_embeds(encode_dataset(rows, processor, labels), model, processor)
        return model, processor, {"train": rows, "validation": rows.select(range(0, 21, 2))}

    return make_model


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(("kind", "lexical"), [("single", False), ("multi", True)])
def test_a_fitted_model_scores_like_the_fit(make, monkeypatch, kind, lexical):
    model, processor, parts = make(f"{kind}_label_classification", lexical=lexical)
    heads = []

    def fit(*arguments):
        heads.append((fit_head(*arguments), *arguments))
        return heads[0][0]

    monkeypatch.setattr(fitting, "fit_head", fit)
    fit_convex(model, parts)
    with torch.no_grad():
        with monkeypatch.context() as context:
            context.setattr(model.gile, "read_labels", None)  # the fit encoded the labels, and stored their codes
            logits = model(**GileDataCollator(processor)(list(parts["train"]))).logits
        h = model.gile.embed_texts(pooled_embeds=torch.tensor(parts["train"]["pooled_embeds"]))[0]
        e = model.gile.embed_labels(model.label_input_ids)
    head, train, *_, compare, regression, _ = heads[0]
    every = torch.ones(len(NAMES), dtype=torch.bool)
    words = None
    if lexical:
        words = compare(train.numbers) | {"words": regression.scores(train.numbers, head.words, every)}
        assert (head.words.getnnz(1) > 0).all()  # of "heart", by the documents that name it
    expected = scores_of(head, functional.normalize(h, dim=-1), functional.normalize(e, dim=-1), words)
    torch.testing.assert_close(logits, expected, atol=1e-3, rtol=1e-4)
    assert model.gile.label_rows.weight.any(1).tolist() == [True, True, True, False]
    assert model.config.term_weights == head.term_weights
    assert ("match" in head.term_weights["seen"]) == lexical
    if kind == "single":
        gold = torch.tensor(parts["train"]["labels"])[:, 0]
        assert (logits[:, :3].argmax(1) == gold).float().mean() > 0.7


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(("before", "pull"), [("gile", None), ("bilinear", 1.0)])
def test_a_model_gets_the_output_layer_that_was_fitted(make, monkeypatch, tmp_path, before, pull):
    fields = {"joint_size": 7, "joint_act": "relu"} if before == "gile" else {}
    model, processor, parts = make(output_layer=before, **fields)
    regularisation = Regularisation(rows_l2=0.1, pull=pull)
    weights = {"seen": {"rows": 1.0, "cosine": 1.0, "joint": 1.0}, "unseen": {"cosine": 1.0, "joint": 1.0}}
    monkeypatch.setattr(fitting, "fit_head", lambda train, _, e, *others: refit_head(train, e, regularisation, weights))
    fit_convex(model, parts)
    layers = model.config.output_layer, model.config.joint_size, model.config.joint_act
    assert layers == (("bilinear", 500, "relu") if pull is None else ("gile", 12, "tanh"))
    inputs = GileDataCollator(processor)(list(parts["train"]))
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits_of(loaded, inputs), logits_of(model, inputs))


@pytest.mark.parametrize("fields", [{"output_layer": "only_input"}, {"cosine_score": False}])
def test_models_without_a_convex_fit_are_refused(make, fields):
    model, _, parts = make(**fields)
    with pytest.raises(ValueError, match="a convex fit needs text_encoder_type"):
        fit_convex(model, parts)


def test_a_fit_needs_labels(make):
    model, _, parts = make()
    model.label_set = None
    for fit in (fit_convex, partial(refit_convex, regularisation=Regularisation())):
        with pytest.raises(ValueError, match="the model stores no labels: call set_labels first"):
            fit(model, parts)


@pytest.mark.parametrize(("part", "column"), [("validation", "pooled_embeds"), ("train", "lexical_ids")])
def test_a_fit_needs_document_vectors_and_words(make, part, column):
    model, _, parts = make(lexical=True)
    parts[part] = parts[part].remove_columns(column)
    with pytest.raises(ValueError, match=f"documents of {part} have no {column}"):
        fit_convex(model, parts)


@pytest.mark.usefixtures("short_search")
def test_on_large_data_some_documents_are_encoded_and_all_have_words(make, tmp_path):
    model, processor, parts = make("multi_label_classification", lexical=True)
    rows = parts["train"].remove_columns("pooled_embeds")
    some = _pool_sample(rows, model, processor, bf16=False, number=9)
    sampled, every = (torch.tensor(part["pooled_embeds"]) for part in (some, parts["train"]))
    is_read = sampled.any(1)
    assert is_read.sum() == 9
    torch.testing.assert_close(sampled[is_read], every[is_read])
    fit_convex(model, {**parts, "train": some})
    assert model.config.term_weights["seen"]["words"] >= 0
    assert model.gile.label_rows.bias.bool().tolist() == [True, True, True, False]
    assert (model.gile.word_rows.sizes > 0).all()

    # Rows without weights take no space.
    assert model.config.label_rows == "bias"
    assert model.gile.label_rows.weight.shape == (4, 0)
    batch = GileDataCollator(processor)(list(rows))
    logits = model(**batch).logits
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    torch.testing.assert_close(again(**batch).logits, logits)
    again.set_labels(LabelSet([Label("new", "breast"), *again.label_set]), processor)
    torch.testing.assert_close(again(**batch).logits[:, 1:], logits)
    fit_convex(again, parts)
    assert again.config.label_rows == "full"
    assert again.gile.label_rows.weight.any()


def test_labels_of_nearby_training_documents_count(make, tmp_path):
    model, processor, parts = make("multi_label_classification", lexical=True)
    plain = deepcopy(model)
    fit_convex(plain, parts)
    fit_convex(model, parts, neighbours=True)
    config, number = model.config, len(parts["train"])
    assert config.neighbours == number == 21
    for weights in (config.term_weights, plain.config.term_weights):
        alone = {term: float(term == "words") for term in (*weights["seen"], "offset")}
        weights |= {"seen": alone, "rare": alone}
    batch = GileDataCollator(processor)(list(parts["validation"]))
    logits, without = logits_of(model, batch), logits_of(plain, batch)
    h = functional.normalize(torch.tensor(parts["train"]["pooled_embeds"]), dim=-1)
    centred = functional.normalize(h - h.mean(0), dim=-1)
    powers = (centred[::2] @ centred.T).clamp(min=0).pow(6)
    has = torch.tensor([[column in row for column in range(4)] for row in parts["train"]["labels"]]).float()
    share = powers / powers.sum(1, keepdim=True) @ has
    positive = without[:, :3] > 0  # each logit is log(1 + 200 max(0, share)) without other terms
    gained = (logits.exp() - without.exp())[:, :3] / 200
    assert positive.sum() > 20
    torch.testing.assert_close(gained[positive], 0.5 * share[:, :3][positive], atol=5e-3, rtol=0)

    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    loaded = GileForSequenceClassification.from_pretrained(tmp_path)
    assert not loaded.gile.neighbours.weight.requires_grad
    index = LabelIndex.build(loaded, processor)
    index.save_pretrained(tmp_path / "index")
    texts = TEXTS[::2]
    pipe = LabelScoringPipeline(model=loaded, processor=processor)
    by_model = [answer["scores"] for answer in pipe(texts, top_k=4)]
    reloaded = LabelIndex.from_pretrained(tmp_path / "index", loaded)
    by_index = [answer["scores"] for answer in pipe(texts, reloaded, top_k=4)]
    torch.testing.assert_close(torch.tensor(by_index), torch.tensor(by_model))
    torch.testing.assert_close(torch.tensor(by_model), logits.sigmoid().sort(descending=True)[0], atol=1e-4, rtol=1e-4)
    with_metric, gold = LabelMetrics(4), {"labels": batch["labels"]}
    measured = evaluate_index(index, loaded, [batch | gold], with_metric)
    with_metric.reset()
    with_metric.update(logits, batch["labels"])
    assert measured == pytest.approx(with_metric.compute(), nan_ok=True)
