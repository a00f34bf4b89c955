"""Resizing the vocabulary of models with stored labels."""

import pytest
import torch

from hf_gile import GileForSequenceClassification, GileProcessor, build_tokenizer


def test_labels_that_lost_words_are_stored_again(tmp_path, make_model, label_set):
    model, processor = make_model(label_rows="full", problem_type="multi_label_classification")
    rows = model.gile.label_rows.weight.data.normal_().clone()
    words = processor(["iron"], return_tensors="pt")
    smaller = build_tokenizer(["breast milk blood iron"], min_count=1)
    model.resize_token_embeddings(len(smaller))
    with pytest.raises(ValueError, match=r"resize_token_embeddings removed words of its labels: call model.set_labels"):
        model(input_ids=torch.tensor([[2, 3]]))
    with pytest.raises(ValueError, match="must be word ids of this model"):
        model.gile.project_texts(input_ids=words["input_ids"] + 40)
    model.save_pretrained(tmp_path)
    model = GileForSequenceClassification.from_pretrained(tmp_path)
    processor = GileProcessor.for_config(smaller, model.config)
    model.set_labels(label_set, processor)
    assert model(**processor(["iron"], return_tensors="pt")).logits.isfinite().all()
    assert torch.equal(model.gile.label_rows.weight, rows)


def test_labels_that_keep_their_words_keep_their_scores(make_model):
    model, processor = make_model()
    words = processor(["iron in milk"], return_tensors="pt")
    with torch.no_grad():
        before = model(**words).logits
        model.resize_token_embeddings(model.config.text_config.vocab_size + 3, mean_resizing=False)
        more = model(**words).logits
        model.resize_token_embeddings(model.config.text_config.vocab_size - 3)
        assert torch.allclose(model(**words).logits, before)
    assert torch.allclose(more, before)


@pytest.mark.parametrize("number", [0, -1, 2.5, "9"])
def test_invalid_numbers_of_words_are_refused(make_model, number):
    with pytest.raises(ValueError, match="new_num_tokens must be a whole number, at least 1"):
        make_model()[0].resize_token_embeddings(number)
