"""A small model of two languages."""

import torch

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.settings import only_read

LANGUAGES = ["english", "german"]
TEXTS = {"english": ["the gift of milk", "red iron"], "german": ["das gift der schlange", "rotes eisen und milch"]}
LABELS = LabelSet(
    Label(f"{language}:{name}", name, language=language)
    for language, names in {"english": ["gift", "milk", "iron"], "german": ["gift", "eisen"]}.items()
    for name in names
)


def make_bilingual(labels=LABELS, **fields):
    """Creates a model with random weights and stored labels, in evaluation mode, and its processor."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer({language: [*texts, *texts] for language, texts in TEXTS.items()})
    sizes = {"embedding_size": 7, "hidden_size": 11, "attention_size": 5, "joint_size": 13}
    options = only_read(languages=[*labels.language_labels], **(sizes | fields))
    options |= {"language_labels": labels.language_labels, "num_labels": len(labels)}
    config = GileConfig(vocab_size=len(tokenizer), **options)
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileForSequenceClassification(config)
    model.set_labels(labels, processor)
    return model.eval(), processor
