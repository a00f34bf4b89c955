"""What models and pipelines answer."""

import torch


@torch.no_grad()
def logits_of(model, inputs):
    return model(**inputs).logits


def scores(answer):
    """Returns the scores of an answer by label."""
    return dict(zip(answer["labels"], answer["scores"], strict=True))
