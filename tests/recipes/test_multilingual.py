"""Training rows with a document of each language."""

import torch
from datasets import Dataset
from papers.multilingual import MultilingualDataset
from transformers import Trainer, TrainingArguments

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.metrics import LabelMetrics
from hf_gile.training import (
    EpochCallback,
    GileDataCollator,
    GileLoss,
    LabelSampler,
    encode_dataset,
)

WORDS = {"english": ["milk", "iron", "heart"], "german": ["milch", "eisen", "herz"]}
LABELS = LabelSet(
    Label(f"{language}:{word}", word, language=language) for language, words in WORDS.items() for word in words
)


def numbered(size):
    return [{"input_ids": [row]} for row in range(size)]


def test_every_row_has_a_document_of_each_language():
    rows = MultilingualDataset({"english": numbered(7), "german": numbered(3)})
    assert len(rows) == 7
    assert [[document["language"] for document in rows[row]] for row in range(7)] == [["english", "german"]] * 7
    assert sorted(rows[row][0]["input_ids"][0] for row in range(7)) == list(range(7))
    german = [rows[row][1]["input_ids"][0] for row in range(7)]
    assert sorted(german[:3]) == sorted(german[3:6]) == [0, 1, 2]


def test_rows_depend_only_on_seed_and_epoch():
    def draw(seed, epoch):
        rows = MultilingualDataset({"english": numbered(50)}, rounds=20, seed=seed)
        rows.set_epoch(epoch)
        return [rows[row][0]["input_ids"][0] for row in range(20)]

    assert draw(0, 3) == draw(0, 3)
    assert len({tuple(draw(*each)) for each in ((0, 3), (0, 4), (1, 3))}) == 3
    assert len(set(draw(0, 3))) == 20


def test_the_stock_trainer_learns_two_languages_at_once(tmp_path):
    torch.manual_seed(0)
    tokenizer = build_tokenizer(vocabulary=WORDS)
    config = GileConfig(
        vocab_size=len(tokenizer),
        embedding_size=17,
        hidden_size=19,
        attention_size=11,
        joint_size=23,
        languages=list(WORDS),
        language_labels=LABELS.language_labels,
        num_labels=len(LABELS),
        problem_type="multi_label_classification",
    )
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileForSequenceClassification(config)
    model.set_labels(LABELS, processor)
    model.loss_function = GileLoss()
    parts = {}
    for language, words in WORDS.items():
        ids = [f"{language}:{words[row % 3]}" for row in range(12)]
        rows = Dataset.from_dict(
            {"text": [label_id.partition(":")[2] for label_id in ids], "labels": [[label_id] for label_id in ids]}
        )
        parts[language] = encode_dataset(rows, processor, LABELS, language=language)
    train, sampler = MultilingualDataset(parts), LabelSampler(len(LABELS), num_negatives=3)
    trainer = Trainer(
        model,
        TrainingArguments(
            str(tmp_path),
            num_train_epochs=25,
            learning_rate=2e-2,
            per_device_train_batch_size=4,
            batch_eval_metrics=True,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            save_strategy="no",
        ),
        data_collator=GileDataCollator(processor, sampler),
        train_dataset=train,
        eval_dataset=parts,
        compute_metrics=LabelMetrics(len(LABELS)),
        callbacks=[EpochCallback(train, sampler)],
    )
    trainer.train()
    metrics = trainer.evaluate()
    for language in WORDS:
        assert metrics[f"eval_{language}_one_error"] == 0
        assert metrics[f"eval_{language}_ranking_loss"] == 0
