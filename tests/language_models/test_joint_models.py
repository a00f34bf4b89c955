"""The joint output layer in Transformers models: generation, loading, resizing, training."""

import copy
import json
import os
import subprocess
import sys

import peft
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from torch.nn import functional
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainingArguments,
    pipelines,
)

from hf_gile.language_models import (
    JointNmtForConditionalGeneration,
    JointOutputEmbedding,
    joint_class,
    replace_output_embeddings,
)

ARCHITECTURES = [
    "GPT2LMHeadModel",
    "LlamaForCausalLM",
    "T5ForConditionalGeneration",
    "MarianMTModel",
    "NmtForConditionalGeneration",
]
WORDS = 31


def joint_model(make_language_model, architecture="GPT2LMHeadModel", config=None, **settings):
    model = replace_output_embeddings(make_language_model(architecture, **config or {}), joint_size=7, **settings)
    for parameter in model.get_output_embeddings().parameters():
        parameter.data.normal_()
    return model


def class_of(architecture):
    return JointNmtForConditionalGeneration if architecture.startswith("Nmt") else joint_class(architecture)


def logits_of(model, batch):
    with torch.no_grad():
        return model(**batch).logits


def auto_class(model):
    return AutoModelForSeq2SeqLM if model.config.is_encoder_decoder else AutoModelForCausalLM


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "T5ForConditionalGeneration"])
def test_the_layer_shares_the_input_embeddings(make_language_model, batch, architecture):
    model = joint_model(make_language_model, architecture)
    head = model.get_output_embeddings()
    assert isinstance(head, JointOutputEmbedding)
    assert head.weight is model.get_input_embeddings().weight
    before = logits_of(model, batch)
    assert before.shape == (2, 4, WORDS)
    other = copy.deepcopy(model)
    assert other.get_output_embeddings().weight is other.get_input_embeddings().weight
    assert torch.equal(logits_of(other, batch), before)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_and_beam_search_generation_work(make_language_model, batch, architecture):
    model = joint_model(make_language_model, architecture)
    head, calls = model.get_output_embeddings(), []
    head.g_out.register_forward_hook(lambda *args: calls.append(1))
    greedy = model.generate(batch["input_ids"], max_new_tokens=4, do_sample=False)
    assert len(calls) == 1
    start = 1 if model.config.is_encoder_decoder else 4
    for length in range(start, greedy.shape[1]):
        inputs = {"input_ids": batch["input_ids"], "decoder_input_ids": greedy[:, :length]}
        inputs = inputs if model.config.is_encoder_decoder else {"input_ids": greedy[:, :length]}
        best = logits_of(model, inputs)[:, -1].argmax(-1)
        unfinished = (greedy[:, start:length] != 2).all(1)
        assert torch.equal(best[unfinished], greedy[unfinished, length])
    calls.clear()
    beams = model.generate(batch["input_ids"], max_new_tokens=4, num_beams=3, do_sample=False)
    assert len(beams) == 2
    assert (len(calls), head._cached) == (1, None)


def test_weight_changes_between_generate_calls_take_effect(make_language_model, batch):
    model = joint_model(make_language_model)
    options = {"max_new_tokens": 1, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
    before = model.generate(batch["input_ids"], **options).logits[0]
    for change in (lambda table: table.data[:].normal_(), lambda table: table.data[:3].add_(1)):
        change(model.get_input_embeddings().weight)
        after = model.generate(batch["input_ids"], **options).logits[0]
        assert not torch.equal(after, before)
        torch.testing.assert_close(after, logits_of(model, {"input_ids": batch["input_ids"]})[:, -1])
        before = after


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_saved_models_load(make_language_model, batch, tmp_path, architecture):
    model = joint_model(make_language_model, architecture)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == class_of(architecture).config_class.model_type
    files = {"joint_models.py", "joint_output.py"} | ({"joint_nmt.py"} if architecture.startswith("Nmt") else set())
    assert {path.name for path in tmp_path.glob("*.py")} == files
    by_class, info = class_of(architecture).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    by_auto = auto_class(model).from_pretrained(tmp_path, trust_remote_code=True)
    assert type(by_auto).__module__.startswith("transformers_modules")
    for loaded in (by_class, by_auto):
        torch.testing.assert_close(logits_of(loaded.eval(), batch), logits_of(model, batch))
        assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "MarianMTModel", "NmtForConditionalGeneration"])
def test_resizing_adds_only_embedding_rows_and_mean_biases(make_language_model, batch, tmp_path, architecture):
    model = joint_model(make_language_model, architecture)
    head = model.get_output_embeddings()
    head.g_out.requires_grad_(False)
    kept = {name: value.clone() for name, value in head.state_dict().items()}
    before = logits_of(model, batch)
    model.resize_token_embeddings(WORDS + 4)
    assert model.get_output_embeddings() is head
    assert head.weight is model.get_input_embeddings().weight
    torch.testing.assert_close(head.bias[WORDS:], kept["bias"].mean().expand(4))
    for name, value in head.state_dict().items():
        assert torch.equal(value[:WORDS] if name in ("weight", "bias") else value, kept[name]), name
    trains = {name for name, parameter in head.named_parameters() if parameter.requires_grad}
    assert trains == {"weight", "bias", "g_inp.weight", "g_inp.bias"}
    model.get_input_embeddings().weight.data[WORDS:] = 3.0
    after = logits_of(model, batch)
    torch.testing.assert_close(after[..., :WORDS], before)
    model.save_pretrained(tmp_path)
    loaded = class_of(architecture).from_pretrained(tmp_path)
    torch.testing.assert_close(logits_of(loaded, batch), after)
    loaded.resize_token_embeddings(WORDS)
    torch.testing.assert_close(logits_of(loaded, batch), before)


def test_a_separate_target_embedding_table_is_read_and_resized(make_language_model, batch):
    sizes = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 23}
    model = joint_model(make_language_model, "MarianMTModel", sizes)
    head = model.get_output_embeddings()
    assert head.weight is model.get_decoder().embed_tokens.weight
    before = logits_of(model, batch)
    model.resize_decoder_token_embeddings(25)
    assert len(head.bias) == 25
    torch.testing.assert_close(logits_of(model, batch)[..., :23], before)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_loss_without_logits_equals_the_loss_with_logits(make_language_model, batch, architecture):
    model = joint_model(make_language_model, architecture, loss="chunked").double()
    if "final_logits_bias" in dict(model.named_buffers()):
        model.final_logits_bias.normal_()
    batch["labels"][0, -1] = -100
    logits, labels = model(**batch).logits, batch["labels"]
    if not model.config.is_encoder_decoder:
        logits, labels = logits[:, :-1], labels[:, 1:]
    full = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    model.train()
    chunked = model(**batch)
    assert (model.eval()(**batch).logits.shape[1], chunked.logits.shape[1]) == (4, 0)
    assert abs(full - chunked.loss) < 1e-10
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    of_full, of_chunked = (torch.autograd.grad(one, parameters, allow_unused=True) for one in (full, chunked.loss))
    for right, found in zip(of_full, of_chunked, strict=True):
        if right is not None:
            torch.testing.assert_close(found, right, rtol=0, atol=1e-10)
    model.train()
    loss, logits = model(**batch, return_dict=False)[:2]
    assert (loss, logits.shape[1]) == (chunked.loss, 0)


def test_a_sampled_loss_over_the_whole_vocabulary_is_exact(make_language_model, batch):
    model = joint_model(make_language_model, loss="sampled", sample=1.0)
    full = model(**batch).loss
    torch.testing.assert_close(model.train()(**batch).loss, full)
    model.config.joint_output["sample"] = 0.5
    assert model(**batch).loss < full


def test_a_bilinear_layer_starts_as_weight_tying(make_language_model, batch):
    plain = make_language_model()
    expected = logits_of(plain, batch)
    model = replace_output_embeddings(plain, form="bilinear")
    torch.testing.assert_close(logits_of(model, batch), expected)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft asks for it
def test_lora_trains_adapters_and_the_layer(make_language_model, batch, tmp_path):
    folder = tmp_path / "base"
    joint_model(make_language_model).save_pretrained(folder)
    base = joint_class("GPT2LMHeadModel").from_pretrained(folder)
    settings = peft.LoraConfig(
        r=2, target_modules=["c_attn"], modules_to_save=["g_out", "g_inp"], fan_in_fan_out=True, task_type="CAUSAL_LM"
    )
    model = peft.get_peft_model(base, settings)
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert any("lora_A" in name for name in names)
    assert any("g_out" in name for name in names)
    assert not any("wte" in name or name.endswith("lm_head.weight") for name in names)
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], 0.1)
    before = model(**batch).loss
    before.backward()
    optimizer.step()
    model.eval()
    assert model(**batch).loss < before
    assert model.generate(batch["input_ids"], max_new_tokens=2).shape == (2, 6)
    model.save_pretrained(tmp_path / "adapter")
    again = peft.PeftModel.from_pretrained(
        joint_class("GPT2LMHeadModel").from_pretrained(folder), tmp_path / "adapter"
    ).eval()
    torch.testing.assert_close(logits_of(again, batch), logits_of(model, batch))
    merged = again.merge_and_unload()
    torch.testing.assert_close(logits_of(merged, batch), logits_of(model, batch))


@pytest.mark.parametrize(
    ("architecture", "loss"),
    [
        ("GPT2LMHeadModel", "chunked"),
        ("T5ForConditionalGeneration", "full"),
        ("NmtForConditionalGeneration", "chunked"),
    ],
)
def test_the_trainer_trains_a_model_with_the_joint_layer(make_language_model, batch, tmp_path, architecture, loss):
    model = joint_model(make_language_model, architecture, loss=loss)
    rows = [{name: values[row] for name, values in batch.items()} for row in (0, 1)]
    options = {"output_dir": tmp_path, "max_steps": 3, "learning_rate": 0.05, "per_device_train_batch_size": 1}
    options |= {"gradient_accumulation_steps": 2, "use_cpu": True, "report_to": [], "save_strategy": "no"}
    if model.config.is_encoder_decoder:
        arguments = Seq2SeqTrainingArguments(**options, predict_with_generate=True)
        trainer = Seq2SeqTrainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    else:
        trainer = Trainer(model, TrainingArguments(**options), train_dataset=rows, eval_dataset=rows)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
    trainer.save_model()
    torch.testing.assert_close(
        logits_of(class_of(architecture).from_pretrained(tmp_path), batch), logits_of(model, batch)
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"loss": "quick"}, "loss must be one of"),
        ({"loss": "sampled"}, "sample must be a fraction"),
        ({"form": "tied", "depth": 3}, "depth and residual"),
    ],
)
def test_invalid_settings_leave_the_model_unchanged(make_language_model, batch, settings, says):
    model = make_language_model()
    with pytest.raises(ValueError, match=says):
        replace_output_embeddings(model, **settings)
    assert not hasattr(model.config, "joint_output")
    assert type(model).__name__ == "GPT2LMHeadModel"


def test_models_without_a_language_model_head_are_refused(make_language_model):
    with pytest.raises(ValueError, match="not a causal or encoder-decoder"):
        replace_output_embeddings(
            BertForMaskedLM(
                BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
            )
        )
    with pytest.raises(ValueError, match="already"):
        replace_output_embeddings(joint_model(make_language_model))
    model = make_language_model()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match="loss='full'"):
        replace_output_embeddings(model, loss="chunked")


CLEAN_ROOM = """
import sys
sys.modules["hf_gile"] = None
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

ids = torch.tensor([[5, 7, 9, 11], [4, 6, 8, 2]])
for folder in sys.argv[1:]:
    auto = AutoModelForCausalLM if "GPT2" in folder or "Causal" in folder else AutoModelForSeq2SeqLM
    model = auto.from_pretrained(folder, trust_remote_code=True).eval()
    with torch.no_grad():
        logits = model(input_ids=ids, labels=ids).logits
    model.resize_token_embeddings(40)
    model.resize_token_embeddings(31)
    beams = model.generate(ids, num_beams=2, max_new_tokens=4, do_sample=False)
    save_file({"logits": logits.contiguous(), "beams": beams.contiguous()}, folder + "/out.safetensors")
    model.save_pretrained(folder + "/again")
"""


@pytest.mark.slow
def test_saved_models_load_without_hf_gile_installed(make_language_model, batch, tmp_path):
    kinds = ("GPT2LMHeadModel", "T5ForConditionalGeneration", "NmtForConditionalGeneration")
    models = {architecture: joint_model(make_language_model, architecture) for architecture in kinds}
    for architecture, model in models.items():
        model.save_pretrained(tmp_path / architecture)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", CLEAN_ROOM, *(str(tmp_path / architecture) for architecture in models)]
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for architecture, model in models.items():
        there = load_file(tmp_path / architecture / "out.safetensors")
        torch.testing.assert_close(there["logits"], logits_of(model, batch))
        beams = model.generate(batch["input_ids"], num_beams=2, max_new_tokens=4, do_sample=False)
        assert torch.equal(there["beams"], beams)
        again = class_of(architecture).from_pretrained(tmp_path / architecture / "again")
        torch.testing.assert_close(logits_of(again, batch), logits_of(model, batch))


def test_text_generation_supports_joint_models(monkeypatch):
    errors = []
    monkeypatch.setattr(pipelines.base.logger, "error", errors.append)
    config = GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    words = Tokenizer(models.WordLevel({word: row for row, word in enumerate("abcde")}, unk_token="a"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="a", unk_token="a")
    model = replace_output_embeddings(GPT2LMHeadModel(config), joint_size=3)
    pipe = pipelines.pipeline("text-generation", model=model, tokenizer=tokenizer)
    assert pipe("b", max_new_tokens=2)[0]["generated_text"].startswith("b")
    assert not errors
    assert AutoModelForCausalLM.from_config(config).__class__ is GPT2LMHeadModel
