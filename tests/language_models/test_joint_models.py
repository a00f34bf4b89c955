"""The joint output layer in Transformers models: generation, loading, resizing, training."""

import copy
import json
import sys

import peft
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, BertConfig, BertForMaskedLM, pipelines

from hf_gile.language_models import JointNmtForConditionalGeneration, joint_class, replace_output_embeddings

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


def test_generation_computes_the_codes_of_the_present_weights_once(make_language_model, batch, architecture):
    model = joint_model(make_language_model, architecture)
    head, calls, ids = model.get_output_embeddings(), [], batch["input_ids"]
    head.g_out.register_forward_hook(lambda *args: calls.append(1))
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    table = model.get_input_embeddings().weight.data
    for change in (lambda: None, table.normal_, lambda: table[:3].add_(1)):
        change()
        calls.clear()
        made = model.generate(ids, output_logits=True, return_dict_in_generate=True, **options)
        assert len(calls) == 1
        written = made.sequences[:, :-1]
        inputs = {"input_ids": ids, "decoder_input_ids": written}
        inputs = inputs if model.config.is_encoder_decoder else {"input_ids": written}
        torch.testing.assert_close(torch.stack(made.logits, 1), logits_of(model, inputs)[:, -4:])
    calls.clear()
    assert len(model.generate(ids, num_beams=3, **options)) == 2
    assert (len(calls), head._cached) == (1, None)


def test_saved_and_copied_models_score_the_same(make_language_model, batch, tmp_path, architecture):
    model = joint_model(make_language_model, architecture)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == class_of(architecture).config_class.model_type
    files = {"joint_models.py", "joint_output.py"} | ({"joint_nmt.py"} if architecture.startswith("Nmt") else set())
    assert {path.name for path in tmp_path.glob("*.py")} == files
    loaded, info = class_of(architecture).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    for other in (loaded, copy.deepcopy(model)):
        torch.testing.assert_close(logits_of(other.eval(), batch), logits_of(model, batch))
        assert other.get_output_embeddings().weight is other.get_input_embeddings().weight


def test_saved_models_need_no_hf_gile(make_language_model, batch, tmp_path, monkeypatch, architecture):
    model = joint_model(make_language_model, architecture)
    model.save_pretrained(tmp_path)
    auto_class = AutoModelForSeq2SeqLM if model.config.is_encoder_decoder else AutoModelForCausalLM
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.split(".")[0] == "hf_gile"]:
            patch.setitem(sys.modules, name, None)
        loaded = auto_class.from_pretrained(tmp_path, trust_remote_code=True).eval()
        assert type(loaded).__module__.startswith("transformers_modules")
        torch.testing.assert_close(logits_of(loaded, batch), logits_of(model, batch))
        assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
        loaded.resize_token_embeddings(WORDS + 9)
        loaded.resize_token_embeddings(WORDS)
        beams = loaded.generate(batch["input_ids"], num_beams=2, max_new_tokens=4, do_sample=False)
        loaded.save_pretrained(tmp_path / "again")
    assert torch.equal(model.generate(batch["input_ids"], num_beams=2, max_new_tokens=4, do_sample=False), beams)
    again = class_of(architecture).from_pretrained(tmp_path / "again")
    torch.testing.assert_close(logits_of(again, batch), logits_of(model, batch))


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


def test_a_sample_of_the_vocabulary_reduces_the_loss(make_language_model, batch):
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
    trained = {"target_modules": ["c_attn"], "modules_to_save": ["g_out", "g_inp"]}
    settings = peft.LoraConfig(r=2, fan_in_fan_out=True, task_type="CAUSAL_LM", **trained)
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
    base = joint_class("GPT2LMHeadModel").from_pretrained(folder)
    again = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    torch.testing.assert_close(logits_of(again, batch), logits_of(model, batch))
    merged = again.merge_and_unload()
    torch.testing.assert_close(logits_of(merged, batch), logits_of(model, batch))


LOSSES = {"GPT2LMHeadModel": "chunked", "T5ForConditionalGeneration": "full"}
LOSSES["NmtForConditionalGeneration"] = "chunked"


@pytest.mark.parametrize(("architecture", "loss"), LOSSES.items())
def test_the_trainer_trains_a_model_with_the_joint_layer(make_language_model, batch, tmp_path, architecture, loss):
    model = joint_model(make_language_model, architecture, loss=loss)
    rows = [{name: values[row] for name, values in batch.items()} for row in (0, 1)]
    options = {"max_steps": 3, "learning_rate": 0.05, "per_device_train_batch_size": 1, "report_to": []}
    options |= {"gradient_accumulation_steps": 2, "use_cpu": True, "save_strategy": "no"}
    if model.config.is_encoder_decoder:
        options |= {"predict_with_generate": True}
        arguments = transformers.Seq2SeqTrainingArguments(tmp_path, **options)
        trainer = transformers.Seq2SeqTrainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    else:
        arguments = transformers.TrainingArguments(tmp_path, **options)
        trainer = transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
    trainer.save_model()
    loaded = class_of(architecture).from_pretrained(tmp_path)
    torch.testing.assert_close(logits_of(loaded, batch), logits_of(model, batch))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"loss": "quick"}, "loss must be one of"),
        ({"loss": "sampled"}, "sample must be a fraction"),
        ({"form": "tied", "depth": 3}, "depth and residual"),
    ],
)
def test_invalid_settings_leave_the_model_unchanged(make_language_model, settings, says):
    model = make_language_model()
    with pytest.raises(ValueError, match=says):
        replace_output_embeddings(model, **settings)
    assert not hasattr(model.config, "joint_output")
    assert type(model).__name__ == "GPT2LMHeadModel"


def test_models_without_a_language_model_head_are_refused(make_language_model):
    sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
    with pytest.raises(ValueError, match="not a causal or encoder-decoder"):
        replace_output_embeddings(BertForMaskedLM(BertConfig(vocab_size=9, **sizes)))
    with pytest.raises(ValueError, match="already"):
        replace_output_embeddings(joint_model(make_language_model))
    model = make_language_model()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(ValueError, match="loss='full'"):
        replace_output_embeddings(model, loss="chunked")


def test_text_generation_supports_joint_models(monkeypatch):
    errors = []
    monkeypatch.setattr(pipelines.base.logger, "error", errors.append)
    config = transformers.GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    words = Tokenizer(models.WordLevel({word: row for row, word in enumerate("abcde")}, unk_token="a"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="a", unk_token="a")
    model = replace_output_embeddings(transformers.GPT2LMHeadModel(config), joint_size=3)
    pipe = pipelines.pipeline("text-generation", model=model, tokenizer=tokenizer)
    assert pipe("b", max_new_tokens=2)[0]["generated_text"].startswith("b")
    assert not errors
    assert AutoModelForCausalLM.from_config(config).__class__ is transformers.GPT2LMHeadModel
