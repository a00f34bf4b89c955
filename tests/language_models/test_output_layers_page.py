"""The code of docs/output_layers.md runs."""

import torch
from pages import run
from papers.translation import build_piece_tokenizer

from hf_gile import build_tokenizer
from hf_gile.language_models import replace_output_embeddings

PAGE = "docs/output_layers.md"


def test_the_example_that_adds_a_word_runs(tmp_path, monkeypatch, make_language_model, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["an", "enzyme", "that", "dissolves", "blood", "clots", "are", "dissolved", "by"]
    tokenizer = build_tokenizer(vocabulary=words)
    make_language_model(vocab_size=len(tokenizer), eos_token_id=0, bos_token_id=0).save_pretrained("plain")
    tokenizer.save_pretrained("plain")
    run(PAGE, "from transformers import AutoModelForCausalLM")
    assert (tmp_path / "my-model" / "joint_models.py").is_file()
    names = run(PAGE, "import torch")
    assert capsys.readouterr().out.startswith("clots are dissolved by")
    model = names["model"]
    assert model.config.vocab_size == len(tokenizer) + 1
    assert names["tokenizer"].decode([len(tokenizer)]) == "streptokinase"
    head, row = model.get_output_embeddings(), names["table"][2:8].mean(0)
    assert head.weight is names["table"]
    torch.testing.assert_close(head.codes()[-1], head.g_out(row))


def test_the_translation_example_runs(tmp_path, monkeypatch, make_language_model, capsys):
    monkeypatch.chdir(tmp_path)
    tokenizer = build_piece_tokenizer(["Zwei Hunde spielen im Schnee.", "Two dogs play."], vocab_size=50)
    model = make_language_model("NmtForConditionalGeneration", vocab_size=len(tokenizer))
    model.generation_config.max_length = 4
    replace_output_embeddings(model, joint_size=7).save_pretrained("runs/nmt/joint512/model")
    tokenizer.save_pretrained("runs/nmt/joint512/model")
    names = run(PAGE, "from transformers import AutoModelForSeq2SeqLM")
    (line,) = eval(capsys.readouterr().out)
    ids = names["model"].generate(**names["inputs"], num_beams=5)
    assert line == tokenizer.decode(ids[0], skip_special_tokens=True)
