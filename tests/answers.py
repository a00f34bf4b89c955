"""Answers of the pipeline."""


def scores(answer):
    """Returns the scores of an answer by label."""
    return dict(zip(answer["labels"], answer["scores"], strict=True))
