"""A recipe makes a model to load from public records: trained, in 16 bits, measured, with a card and sums."""

import hashlib
import random
import sys

import models_to_try
import pytest
import torch
from answers import logits_of
from safetensors import safe_open

from hf_gile import GileForSequenceClassification, GileProcessor
from hf_gile.models.lexical_gile import NEIGHBOURS
from hf_gile.publishing import push_folder
from hf_gile.training import general
from hf_gile.training.encoders import FoundEncoder

SUBJECTS = {"gnd:1": "milk", "gnd:2": "iron", "gnd:3": "kidney", "gnd:4": "heart", "gnd:5": "ventricle"}


@pytest.fixture
def make(write, tmp_path, monkeypatch, save_text_encoder):
    """Runs the recipe on invented records with a random encoder, and returns the folder of the model."""
    encoder = FoundEncoder("sentence-transformers/all-MiniLM-L6-v2", save_text_encoder(texts=[*SUBJECTS.values()]))
    monkeypatch.setattr("hf_gile.training.fit.text_encoders", lambda texts: [encoder])
    draw = random.Random(0)
    for part, number, seen in (("train", 47, 4), ("dev", 13, 5)):
        chosen = [sorted(draw.sample(list(SUBJECTS)[:seen], 2)) for _ in range(number)]
        records = []
        for row, ids in enumerate(chosen):
            text = {"title": SUBJECTS[ids[0]], "abstract": f"{row} {SUBJECTS[ids[1]]}"}
            records.append({"id": f"{part}{row}", **text, "subjects": ids})
        write(f"tibkat/{part}.en.jsonl.gz", records)
    labels = [{"id": label, "name_de": "", "name_en": name} for label, name in SUBJECTS.items()]
    write("tibkat/gnd_labels.jsonl.gz", [*labels, {"id": "gnd:6", "name_de": "Eis", "name_en": ""}])

    def run():
        command = ["models_to_try.py", "gnd_en", "--data", str(tmp_path), "--output_dir", str(tmp_path / "out")]
        monkeypatch.setattr(sys, "argv", command)
        models_to_try.main()
        return tmp_path / "out" / "model"

    return run


def logits(folder, text="milk and iron"):
    model = GileForSequenceClassification.from_pretrained(folder)
    assert model.dtype == torch.float32
    processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
    return logits_of(model, processor([text], return_tensors="pt"))


@pytest.mark.parametrize(("largest", "dtype"), [(32_767, torch.int16), (32_768, torch.int32), (1 << 31, torch.int64)])
def test_whole_numbers_are_stored_in_a_type_that_has_them(largest, dtype):
    numbers = torch.tensor([-1, largest])
    assert models_to_try.narrowed(numbers).dtype == dtype
    assert torch.equal(models_to_try.narrowed(numbers).long(), numbers)


def test_the_largest_weights_of_words_are_kept_and_all_neighbours(make_model):
    model, _ = make_model(lexical=True, label_rows="full")
    ids = torch.tensor([2, 4, NEIGHBOURS, 2, 6])
    owners = torch.tensor([0, 0, 0, 1, 1])
    model.gile.set_word_rows(model.config.num_labels, ids, owners, torch.tensor([0.2, -3.0, 0.1, 1.0, 0.5]))
    models_to_try.keep_words(model, 2)
    rows = model.gile.word_rows
    assert rows.ids.tolist() == [4, NEIGHBOURS, 2]
    assert rows.sizes[:3].tolist() == [2, 1, 0]
    models_to_try.keep_words(model, 2)
    assert len(model.gile.word_rows.ids) == model.config.row_words == 3


@pytest.mark.slow
def test_a_model_has_few_bits_in_the_file_a_card_and_sums_and_can_be_uploaded(make, monkeypatch):
    monkeypatch.setattr(models_to_try, "LARGE", 1000)
    folder = make()
    types = set()
    for name in ("model.safetensors", "label_embeds.safetensors"):
        with safe_open(folder / name, "pt") as file:
            types.update(file.get_tensor(key).dtype for key in file.keys())  # noqa: SIM118 (no mapping)
    assert types == {torch.float8_e4m3fn, torch.float16, torch.int16, torch.int32, torch.int64}
    assert "\n" not in (folder / "tokenizer.json").read_text(encoding="utf-8")
    trained = logits(folder.parent / "run" / "auto" / "model")
    assert trained.shape == (1, 6)
    monkeypatch.setattr("hf_gile.models.text_encoders_gile.TransformerEncoder.pool_labels", None)
    rounded = logits(folder)  # by the stored vectors of labels
    assert rounded.argsort().tolist() == trained.argsort().tolist()
    assert (rounded - trained).abs().max() < 0.1 * (trained.max() - trained.min())  # 8 bits, 8 dimensions

    card = (folder / "README.md").read_text()
    assert "license: cc-by-4.0" in card
    assert "On 13 documents of TIBKAT, English (test)" in card
    assert "models_to_try.py gnd_en --data DATA" in card
    assert "16 bits in the file" in card
    assert "fitted again on" not in card  # the figures are of what was fitted again
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert push_folder(folder, "somebody/gile-gnd-en", dry_run=True).left_out == ["SHA256SUMS"]


def test_the_general_scorer_is_stored_with_its_card_and_scores_as_before(tmp_path, monkeypatch, save_text_encoder):
    texts = ["the goalkeeper of a team", *models_to_try.TOPICS]
    encoder = FoundEncoder("sentence-transformers/all-MiniLM-L6-v2", save_text_encoder(texts=texts))
    monkeypatch.setattr(general, "best_text_encoder", lambda *texts: encoder)
    monkeypatch.setattr(sys, "argv", ["models_to_try.py", "general", "--output_dir", str(tmp_path / "out")])
    models_to_try.main()
    folder = tmp_path / "out" / "model"
    assert "# The general scorer" in (folder / "README.md").read_text()
    assert not push_folder(folder, "somebody/gile-general", dry_run=True).left_out[1:]
    scorer, processor = general.general_scorer()
    scorer.set_labels(models_to_try.LabelSet.from_names(models_to_try.TOPICS), processor)
    before = logits_of(scorer, processor(texts[:1], return_tensors="pt"))
    assert torch.allclose(logits(folder, texts[0]), before, atol=0.05)
