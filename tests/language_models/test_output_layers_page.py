"""The code of docs/output_layers.md runs."""

import re
from pathlib import Path

import torch

import hf_gile
from hf_gile import build_tokenizer

PAGE = Path(hf_gile.__file__).parent.parent / "docs" / "output_layers.md"


def test_the_code_of_the_page_adds_a_word(tmp_path, monkeypatch, make_language_model, capsys):
    monkeypatch.chdir(tmp_path)
    tokenizer = build_tokenizer(vocabulary=["clots", "are", "dissolved", "by"])
    make_language_model(vocab_size=len(tokenizer), eos_token_id=0, bos_token_id=0).save_pretrained("plain")
    tokenizer.save_pretrained("my-model")
    before, after = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(before, {})
    assert (tmp_path / "my-model" / "joint_models.py").is_file()
    names = {"vector": torch.full((6,), 0.5)}
    exec(after, names)
    assert capsys.readouterr().out.startswith("clots are dissolved by")
    assert names["model"].config.vocab_size == len(tokenizer) + 1
    assert names["tokenizer"].decode([len(tokenizer)]) == "streptokinase"
    assert (tmp_path / "my-model-plus" / "config.json").is_file()
