import numpy as np
import torch
from datasets import Dataset
from numpy.testing import assert_allclose

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet
from hf_gile.tokenizing import build_tokenizer
from hf_gile.training import encode_dataset, fit_convex, latent_word_vectors, set_word_vectors

TEXTS = ["iron in blood", "blood pressure", "football match", "a match of football", "iron and blood", "football goal"]


def test_the_mean_word_vector_has_the_direction_of_the_document_in_the_latent_space():
    documents = [[1, 2, 2], [2, 3], [4, 5], [5, 4, 3], [1, 1, 3]]
    counts = np.zeros((5, 7))
    for row, words in enumerate(documents):
        np.add.at(counts[row], words, 1)
    x = counts * (np.log(6 / (1 + (counts > 0).sum(0))) + 1)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    u, singular, _ = np.linalg.svd(x, full_matrices=False)
    expected = u[:, :2] * singular[:2]
    means = np.stack([latent_word_vectors(documents, 7, 2)[words].mean(0) for words in documents])
    norms = np.linalg.norm(means, axis=1, keepdims=True), np.linalg.norm(expected, axis=1, keepdims=True)
    similar = [(rows / norm) @ (rows / norm).T for rows, norm in zip((means, expected), norms, strict=True)]
    assert_allclose(*similar, atol=1e-4)


def test_absent_and_ignored_words_have_zero_vectors():
    vectors = latent_word_vectors([[1, 2], [2, 3], [1, 3, 3]], 6, 4, ignored=[3])
    assert vectors.any(1).tolist() == [False, True, True, False, False, False]
    assert not vectors[:, 3].any()  # the rank is that of three documents
    assert np.isfinite(vectors).all()


def test_a_word_model_is_fitted_without_steps(tmp_path):
    labels = LabelSet.from_names(["medicine", "sport"])
    tokenizer = build_tokenizer(TEXTS, label_texts=labels.texts, min_count=1)
    fields = {"output_layer": "bilinear", "cosine_score": True, "label_rows": "full", "lexical": True}
    config = GileConfig(
        text_encoder_type="nn",
        vocab_size=len(tokenizer),
        embedding_size=4,
        num_labels=2,
        problem_type="single_label_classification",
        **fields,
    )
    model, processor = GileForSequenceClassification(config).eval(), GileProcessor.for_config(tokenizer, config)
    model.set_labels(labels, processor)
    texts = [*TEXTS * 4, "?"]  # the last has no known word
    gold = [["sport" if "football" in text else "medicine"] for text in texts]
    encoded = encode_dataset(Dataset.from_dict({"text": texts, "labels": gold}), processor, labels)
    set_word_vectors(model, latent_word_vectors(encoded["input_ids"], len(tokenizer), 4, tokenizer.all_special_ids))
    parts = {"train": encoded, "validation": encoded.select(range(6))}
    assert fit_convex(model, parts).chosen
    assert model.gile.label_rows.weight.any(1).all()
    model.save_pretrained(tmp_path)
    loaded = GileForSequenceClassification.from_pretrained(tmp_path)
    with torch.no_grad():
        logits = loaded(**processor(["blood", "goal", "match of the day"], return_tensors="pt")).logits
    assert logits.argmax(1).tolist() == [0, 1, 1]
