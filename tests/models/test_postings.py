"""Terms of the score that compare the words of texts and labels."""

import math
from collections import Counter

import pytest
import torch
from answers import logits_of
from approximate_search import FastIndex
from datasets import Dataset
from index_evaluation import evaluate_index
from papers.unseen_weights import fit_unseen_weights
from transformers import AutoProcessor

from hf_gile import GileForSequenceClassification, Label, LabelIndex, LabelScoringPipeline, LabelSet
from hf_gile.metrics import LabelMetrics
from hf_gile.models import lexical_gile
from hf_gile.models.lexical_gile import (
    LEXICAL_BUCKETS,
    NEIGHBOURS,
    LexicalFeatures,
    Postings,
    count_features,
    lexical_features,
    list_features,
    pad_features,
)
from hf_gile.training import GileDataCollator, encode_dataset, set_lexical_weights

HEART = "The failing heart pumps less. Blood of infants."
TEXTS = [HEART, "Breast milk.", "Iron, iron: iron", "Herzmuskelschwäche", ""]
FAILURE = ("Failing Hearts", "Hearts, Failing", "pumps less")
LABELS = LabelSet(
    [
        Label("h", "Heart Failure", "the failing heart", synonyms=FAILURE),
        Label("i", "Iron", synonyms=("iron", "metal")),
        *(Label("g", "Herzschwäche"), Label("n", "☃"), Label("d", "Nutrition", "milk of the breast")),
    ]
)
WEIGHTS = {"unseen": {"joint": 1.0, "match": 1.5, "coverage": 0.75, "specificity": 0.25}}


def compute_terms(text, label, idf, default):
    """Computes match, coverage, title and specificity by the docstring of `Postings`."""
    rarest = []
    document, match, coverage, titled = Counter(count_features(text)), 0.0, 0.0, 0.0
    title = lexical_features(text.split("\n")[0]) if "\n" in text or len(text) <= 200 else []
    description = [feature for feature in lexical_features(label.description) if feature % 2 == 0]
    names = [lexical_features(name) for name in (label.name, *label.synonyms)]
    for ids, share in [(description, 0.6), *((ids, 1.0) for ids in names)]:
        squares = {feature: idf.get(feature, default) ** 2 for feature in set(ids)}
        used = {feature for feature, square in squares.items() if square >= 0.1 * max(squares.values())}
        total = sum(squares.values()) ** 0.6 if squares else 1.0
        matched = sum(document[feature] / (document[feature] + 1) * squares[feature] for feature in used)
        match = max(match, share * matched / total)
        words = {feature for feature in used if feature % 2 == 0}
        if share == 1:
            least = min((document[feature] for feature in words), default=0)
            coverage = max(coverage, least / (least + 1))
            titled = max(titled, float(words.issubset(title) and bool(words)))
            rarest += [max(math.sqrt(squares[feature]) for feature in squares if feature % 2 == 0)] if squares else []
    return match, coverage, titled, min(rarest, default=0.0)


@pytest.fixture
def make_lexical(make_model):
    def make(**options):
        options = {"lexical": True, "term_weights": WEIGHTS} | options
        model, processor = make_model(**options)
        model.set_labels(LABELS, processor)
        set_lexical_weights(model, processor(TEXTS)["lexical_ids"])
        return model, processor

    return make


def inputs_of(processor, texts=TEXTS):
    return processor(texts, return_tensors="pt")


def codes_of(model, inputs):
    with torch.no_grad():
        return model.gile.project_texts(inputs["input_ids"], inputs["attention_mask"])


def literal_words(counts, near, row):
    """Computes the term "words" of a document, its neighbours, and a row, by the docstring of `Postings`."""
    shares = {feature: count / (count + 1) for feature, count in counts.items()}
    length = math.sqrt(sum(share * share for share in shares.values()))
    total = sum(share * row.get(feature, 0.0) for feature, share in shares.items()) / max(length, 1e-9)
    total += sum(share * row.get(NEIGHBOURS + number, 0.0) for number, share in near.items())
    return math.log(1 + 200 * max(0.0, total))


@pytest.mark.parametrize(("small_table", "full_length"), [(0, 50), (1 << 19, 1)])
def test_terms_of_blocks_equal_loops_over_documents_and_texts(small_table, full_length, monkeypatch):
    monkeypatch.setattr(lexical_gile, "_SMALL_TABLE", small_table)
    monkeypatch.setattr(lexical_gile, "_DOCUMENTS_AT_ONCE", 2)
    idf = torch.rand(LEXICAL_BUCKETS, generator=torch.Generator().manual_seed(0)) + 0.5
    iron, milk, heart = lexical_features("iron milk")[0], lexical_features("milk")[0], lexical_features("heart")[0]
    rows = {0: {heart: 0.7, milk: -0.2}, 2: {iron: 0.3, NEIGHBOURS + 1: 0.5, NEIGHBOURS + 3: 0.25}}
    entries = [(feature, label, weight) for label, row in rows.items() for feature, weight in row.items()]
    word_rows = tuple(map(torch.tensor, zip(*entries, strict=True)))
    texts = [*TEXTS, "heart and milk " * 30, "Iron, failing heart\nMilk, and metal. " * 9]
    near = [{}, {1: 0.5, 3: 0.5}, {3: 1.0}, {}, {1: 1.0}, {}, {}]
    words = LexicalFeatures.of(pad_features(list_features(texts)))
    numbers = torch.tensor([list(some) + [0] * (2 - len(some)) for some in near])
    shares = torch.tensor([list(some.values()) + [0.0] * (2 - len(some)) for some in near])
    features = LexicalFeatures(words.ids, words.counts, numbers, shares)
    labels = list(LABELS)
    actual = Postings.build(labels, idf, torch.ones(5, len(labels)), word_rows, full_length).terms(features)
    assert actual.any(-1).any(-1).all()
    weights = dict(enumerate(idf.tolist()))
    for number, text in enumerate(texts):
        counts = {feature: count for feature, count in count_features(text).items() if feature < LEXICAL_BUCKETS}
        factor = min(1.0, sum(count for feature, count in counts.items() if feature % 2 == 0) / full_length)
        for column, label in enumerate(labels):
            match, coverage, title, specificity = compute_terms(text, label, weights, 1.0)
            words = literal_words(counts, near[number], rows.get(column, {}))
            expected = torch.tensor([match * factor, coverage * factor, words, title, specificity])
            torch.testing.assert_close(actual[:, number, column], expected, rtol=1e-4, atol=1e-4)


def test_words_in_most_documents_are_ignored():
    idf = torch.full((LEXICAL_BUCKETS,), 9.0)
    idf[lexical_features("of the")] = 1.0
    postings = Postings.build([Label("a", "Diseases of the Heart"), Label("b", "of the")], idf, torch.ones(5, 2))
    ids = LexicalFeatures.of(pad_features(list_features(["heart diseases"])))
    assert postings.terms(ids)[1].bool().tolist() == [[True, False]]
    ids = LexicalFeatures.of(pad_features(list_features(["of the"])))
    assert postings.terms(ids)[1].bool().tolist() == [[False, True]]


def test_lexical_terms_count_in_evaluation_with_the_weights_of_the_group(make_lexical, tmp_path):
    weights = WEIGHTS | {"seen": {"match": 0.5}}
    model, processor = make_lexical(label_rows="full", term_weights=weights)
    inputs = inputs_of(processor)
    with torch.no_grad():
        model.gile.label_rows.weight[1] = 1.0
        logits = model(**inputs).logits
        match, coverage, _, _, specificity = model.stored_postings().terms(LexicalFeatures.of(inputs))
        model.config.term_weights = {group: {"match": 0.0, "coverage": 0.0} for group in weights}
        without = model(**inputs).logits
        assert torch.equal(without, model(inputs["input_ids"]).logits)  # and nobody asks for them
        model.config.term_weights = weights
        expected = without + 1.5 * match + 0.75 * coverage + 0.25 * specificity
        expected[:, 1] = without[:, 1] + 0.5 * match[:, 1]
        torch.testing.assert_close(logits, expected)
        trained = model.train()(inputs["input_ids"]).logits
        torch.testing.assert_close(trained, without)
    model.eval().save_pretrained(tmp_path)
    reloaded = GileForSequenceClassification.from_pretrained(tmp_path)
    assert not reloaded.gile.output_layer.lexical.idf.requires_grad
    assert torch.equal(logits_of(reloaded, inputs), logits)
    with pytest.raises(ValueError, match=r"pass lexical_ids and lexical_counts, \(B, F\), which the processor"):
        reloaded(inputs["input_ids"])
    reloaded.train()(**inputs, labels=torch.tensor([[0], [1], [2], [3], [4]])).loss.backward()


def test_a_saved_processor_returns_the_words_that_a_tokenizer_lacks(make_lexical, tmp_path):
    model, processor = make_lexical(problem_type="multi_label_classification")
    LabelScoringPipeline(model, processor=processor).save_pretrained(tmp_path)
    reloaded = AutoProcessor.from_pretrained(tmp_path)
    read = reloaded(iter(TEXTS))
    pairs = zip(read["lexical_ids"], read["lexical_counts"], strict=True)
    assert [dict(zip(*pair, strict=True)) for pair in pairs] == list(map(count_features, TEXTS))
    assert "lexical_ids" not in reloaded(label_text=["Iron"])
    message = r"pipeline\('text-classification', model=folder, trust_remote_code=True\)"
    with pytest.raises(ValueError, match=message):
        logits_of(model, reloaded.tokenizer(TEXTS[:1], return_tensors="pt"))
    reloaded.lexical = False
    with pytest.raises(ValueError, match="has lexical=False, but the model needs lexical=True"):
        reloaded.check_fits(model.config)


def test_towers_score_with_the_postings_of_any_labels(make_lexical):
    model, processor = make_lexical()
    inputs = inputs_of(processor)
    words = processor(label_text=LABELS.texts, return_tensors="pt")
    actual = logits_of(model.gile, {**inputs, **words, "postings": model.gile.postings(LABELS)})
    torch.testing.assert_close(actual, logits_of(model, inputs))
    model.config.term_weights = {"unseen": {"match": 0.0, "coverage": 0.0}}
    assert model.gile.postings(LABELS) is None


def test_an_index_contains_the_words_of_its_labels(make_lexical, tmp_path):
    model, processor = make_lexical(label_rows="full")
    inputs = inputs_of(processor)
    ids, codes = LexicalFeatures.of(inputs), codes_of(model, inputs)
    index = LabelIndex.build(model, processor)
    expected = logits_of(model, inputs)
    torch.testing.assert_close(index.scores(codes, lexical=ids), expected)
    index.save_pretrained(tmp_path)
    reloaded = LabelIndex.from_pretrained(tmp_path)
    assert torch.equal(reloaded.scores(codes, lexical=ids), index.scores(codes, lexical=ids))
    columns = torch.tensor([4, 1])
    torch.testing.assert_close(reloaded.scores(codes, columns, ids), expected[:, columns])
    best = reloaded.top_k(codes, 2, lexical=ids)
    torch.testing.assert_close(best.scores, expected.topk(2).values)
    torch.testing.assert_close(expected.gather(1, best.columns), best.scores)
    with pytest.raises(ValueError, match="pass lexical_ids and lexical_counts"):
        reloaded.top_k(codes, 2)


def test_changing_an_index_equals_building_it_again(make_lexical, tokenized):
    model, processor = make_lexical(label_rows="full")
    inputs = inputs_of(processor)
    ids, codes = LexicalFeatures.of(inputs), codes_of(model, inputs)
    index = LabelIndex.build(model, processor, LABELS)
    tokenized.clear()
    index.rename("i", "Milk", model, processor)
    index.add([Label("b", "infant blood", synonyms=("blood of infants",)), Label("x", "heart")], model, processor)
    index.remove("h", "n")
    assert tokenized == ["Milk", "infant blood", "heart"]  # other labels are not encoded again
    fresh = LabelIndex.build(model, processor, index.label_set)
    torch.testing.assert_close(index.scores(codes, lexical=ids), fresh.scores(codes, lexical=ids))
    assert index.label_set.ids == ["i", "g", "d", "b", "x"]
    assert index.postings.terms(ids)[1][0].bool().tolist() == [False, False, False, True, True]


def test_a_search_by_codes_gives_exact_scores_of_its_candidates(make_lexical):
    class Search:
        def __len__(self):
            return 5

        def candidates(self, text_codes, k):
            return torch.tensor([[4, 0, 1], [1, -1, 3], [0, 2, 1], [2, 3, 4], [0, 1, -1]])

    model, processor = make_lexical()
    inputs = inputs_of(processor)
    ids, codes = LexicalFeatures.of(inputs), codes_of(model, inputs)
    index = FastIndex.build(model, processor)
    index.search = Search()
    scores, columns = index.top_k(codes, 2, approximate=True, lexical=ids)
    torch.testing.assert_close(scores, index.scores(codes, lexical=ids).gather(1, columns))
    assert set(columns[3].tolist()) <= {2, 3, 4}
    exact = index.top_k(codes, 3, approximate=True, lexical=ids)  # two documents have too few candidates
    torch.testing.assert_close(exact.scores[[1, 4]], index.top_k(codes, 3, lexical=ids).scores[[1, 4]])


@pytest.mark.parametrize("long_texts", ["cut", "mean"])
def test_the_pipeline_counts_all_words_of_a_text(make_lexical, long_texts):
    model, processor = make_lexical(label_rows="full", max_words=3)
    pipe = LabelScoringPipeline(model=model, processor=processor)
    inputs = inputs_of(processor)
    candidates = LabelSet([LABELS[4], LABELS[0], Label("new", "infant blood")])
    for labels in (None, LabelIndex.build(model, processor), candidates):
        index = LabelIndex.build(model, processor, candidates if labels is candidates else None)
        expected = index.scores(codes_of(model, inputs), lexical=LexicalFeatures.of(inputs))
        for top_k, threshold in ((2, None), (None, "stored")):
            options = {"long_texts": long_texts, "multi_label": True, "top_k": top_k, "threshold": threshold}
            for position, answer in enumerate(pipe(TEXTS, labels, **options)):
                if long_texts != "cut" and position == 0:
                    continue
                scores = dict(zip(index.label_set.names, expected[position].sigmoid().tolist(), strict=True))
                assert answer["scores"] == pytest.approx([scores[name] for name in answer["labels"]], abs=1e-5)
                assert answer["scores"] == sorted(answer["scores"], reverse=True)


def test_encoded_datasets_and_batches_contain_lexical_ids(make_lexical):
    model, processor = make_lexical()
    rows = Dataset.from_dict({"text": TEXTS, "labels": [["h"], [], ["i"], ["g"], []]})
    encoded = encode_dataset(rows, processor, LABELS)
    assert [encoded.features[f"lexical_{name}"].feature.dtype for name in ("ids", "counts")] == ["int32", "int16"]
    batch = GileDataCollator(processor)([encoded[position] for position in range(5)])
    assert torch.equal(batch["lexical_ids"], inputs_of(processor)["lexical_ids"])
    index, metric = LabelIndex.build(model, processor), LabelMetrics(5)
    actual = evaluate_index(index, model, [batch], metric)
    metric.reset()
    metric.update(logits_of(model, inputs_of(processor)), batch["labels"])
    assert actual == metric.compute()


def test_documents_of_sentences_have_the_words_of_all_sentences(make_lexical):
    _, processor = make_lexical(text_encoder_type="han")
    as_text, as_sentences = processor(["Iron. Milk."]), processor([["Iron.", "Milk."]])
    assert as_text["lexical_ids"] == as_sentences["lexical_ids"] == [list(count_features("iron milk"))]


def test_lexical_terms_can_be_added_to_a_trained_model(make_model, tmp_path):
    model, processor = make_model()
    model.save_pretrained(tmp_path)
    reloaded = GileForSequenceClassification.from_pretrained(tmp_path, lexical=True)
    processor.lexical = True
    set_lexical_weights(reloaded, map(list, map(count_features, TEXTS)))
    inputs = inputs_of(processor)
    added = logits_of(reloaded, inputs) - logits_of(model, inputs)
    words = reloaded.stored_postings().scores(LexicalFeatures.of(inputs))
    torch.testing.assert_close(added, words, rtol=1e-4, atol=1e-5)


def test_weights_of_unseen_labels_are_fitted_on_held_out_labels(make_pretrained):
    torch.manual_seed(3)
    model, processor = make_pretrained(label_rows="full", lexical=True)
    with torch.no_grad():
        for parameter in model.gile.label_rows.parameters():
            parameter[3:] = 0.0
    names = ["infants", "blood", "the heart pumps", "milk of the breast", "iron", "infants of blood"]
    texts = [f"{first} {second}." for first in names for second in names] * 6
    inputs = processor(texts, return_tensors="pt")
    true = {"unseen": {"joint": 0.5, "match": 1.0, "coverage": 3.0, "offset": 0.5}}
    model.config.term_weights = true
    sampled = torch.rand(len(texts), 2) < logits_of(model, inputs)[:, 3:].sigmoid()
    labels = torch.where(sampled, torch.tensor([3, 4]), -100)
    actual = fit_unseen_weights(model, [{**inputs, "labels": labels}], [3, 4])
    assert model.config.term_weights == {"unseen": actual}
    assert actual.keys() == {"joint", "match", "coverage", "offset"}
    fitted = logits_of(model, inputs)[:, 3:].sigmoid()
    model.config.term_weights = true
    expected = logits_of(model, inputs)[:, 3:].sigmoid()
    assert fitted.mean(0).tolist() == pytest.approx(sampled.float().mean(0).tolist(), abs=0.1)
    assert (fitted - expected).abs().mean() < 0.06
    with pytest.raises(ValueError, match="was seen in training"):
        fit_unseen_weights(model, [], [0])
