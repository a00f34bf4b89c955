import json
import re

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoModelForSequenceClassification, BertConfig

from hf_gile import GileConfig, GileModel, GileTextConfig
from hf_gile.models.checks_gile import read_json_object
from hf_gile.settings import only_read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"joint_size": 0}, "joint_size must be at least 1, got 0"),
        ({"max_words": -1}, "max_words must be at least 1, got -1"),
        ({"pad_token_id": 30_000}, "pad_token_id must be among the 30000 words"),
        ({"word_dropout": 1}, "word_dropout must be at least 0 and below 1, got 1"),
        ({"embedding_std": 0}, "embedding_std must be positive, got 0"),
        ({"label_prior": 0.0}, "label_prior must be a probability between 0 and 1, got 0.0"),
        ({"joint_act": "rule"}, "joint_act must be one of transformers' activations .*, got 'rule'"),
        ({"problem_type": "regression"}, "a label score is a probability, not a regression"),
        ({"format_version": 4}, "format_version 4, this code reads 3: upgrade hf-gile"),
        ({"format_version": 1}, "format_version 1, this code reads 3: upgrade hf-gile"),
        ({"joint_size": "500"}, "joint_size"),
        ({"pooling": "cls"}, "pooling='cls' needs a pretrained encoder, not 'wan'"),
        ({"encoder_cell": "none"}, "encoder_cell='none' needs a 'hierarchical_transformer', not 'wan'"),
        ({"freeze_text_encoder": True}, "would have no effect without a pretrained encoder"),
        ({"languages": ["training"]}, "must be a name of letters, digits and underscores"),
        ({"text_encoder_type": "lstm"}, "text_encoder_type"),
        ({"output_layer": "cubic"}, "output_layer"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_an_invalid_value_is_refused_by_name(options, message):
    with pytest.raises(StrictDataclassError, match=message):
        GileConfig(**options)


def test_a_saved_configuration_loads_unchanged(tmp_path):
    config = GileConfig(
        text_encoder_type="han", joint_size=13, num_labels=17, problem_type="multi_label_classification"
    )
    config.save_pretrained(tmp_path)
    assert GileConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"joint_sise": 7}, "GileConfig has no field 'joint_sise': did you mean joint_size?"),
        ({"max_word": 7}, "GileConfig has no field 'max_word': did you mean max_words?"),
        ({"text_config": {"hiden_size": 7}}, "GileTextConfig has no field 'hiden_size': did you mean hidden_size?"),
        ({"zzz": 7}, "GileConfig has no field 'zzz'; it has attention_size, bag_size"),
    ],
    ids=["head", "text", "within", "unlike any"],
)
def test_an_unknown_field_is_refused_with_the_nearest_field(options, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        GileConfig(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_encoder_type": "nn", "encoder_cell": "gru"}, "encoder_cell='gru' would have no effect"),
        ({"pooling": "mean", "attention_size": 7}, "attention_size=7 would have no effect without attention"),
        ({"text_encoder_type": "han", "max_words": 7}, "max_words=7 would have no effect"),
        ({"cosine_scale": 7.0}, "cosine_scale=7.0 would have no effect without cosine_score"),
        ({"output_layer": "linear", "joint_size": 7}, "joint_size=7 would have no effect"),
        ({"sharing": "both"}, "sharing='both' would have no effect without languages"),
        ({"text_encoder_type": "hnn", "languages": ["de", "en"], "sharing": "none"}, "these parts .it has encoders"),
        ({"text_encoder_type": "nn", "languages": ["de", "en"], "sharing": "both"}, "these parts .it has none"),
        ({"text_encoder_type": "nn", "label_encoder_type": "text_encoder"}, "without .* not the mean of words, 'nn'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_fields_without_effect_are_refused_or_dropped_on_request(options, message):
    with pytest.raises(StrictDataclassError, match=message):
        GileConfig(**options)
    assert len(only_read(**options)) == len(options) - 1
    GileConfig(**only_read(**options))


@pytest.mark.parametrize("name", ["vocab_size", "embedding_size", "pad_token_id"])
def test_sizes_come_from_the_pretrained_encoder(name):
    encoder = BertConfig(vocab_size=19, hidden_size=12, num_attention_heads=2)
    fields = {"text_encoder_type": "transformer", "text_encoder_config": encoder, "pooling": "mean"}
    value = getattr(GileTextConfig(**fields), name)
    GileTextConfig(**fields, **{name: value})
    with pytest.raises(ValueError, match=f"{name}=7 has no effect, the encoder has {value}"):
        GileTextConfig(**fields, **{name: 7})


def test_fields_written_by_transformers_are_accepted(tmp_path):
    config = GileConfig(dtype="float16", name_or_path="here", attn_implementation="eager", eos_token_id=3)
    config.save_pretrained(tmp_path)
    reloaded = GileConfig.from_pretrained(tmp_path, output_attentions=True)
    assert (reloaded.eos_token_id, reloaded.output_attentions) == (3, True)


def test_text_configuration_fields_may_be_passed_at_the_top_level(tmp_path):
    config = GileConfig(text_encoder_type="han", hidden_size=7, joint_size=5)
    other = GileConfig(text_config={"text_encoder_type": "han", "hidden_size": 7}, joint_size=5)
    assert config.to_dict() == other.to_dict()
    config.save_pretrained(tmp_path)
    reloaded = GileConfig.from_pretrained(tmp_path, max_sentences=3)
    assert (reloaded.text_config.max_sentences, reloaded.text_config.hidden_size) == (3, 7)
    with pytest.raises(ValueError, match="hidden_size is a field of text_config: set it there"):
        GileConfig(text_config=config.text_config, hidden_size=9)


@pytest.mark.parametrize("content", [b"NaN", b"5", b"null", b"[]", b'"x"', b'{"joint_size": 5', b"\xff", b"[" * 99_999])
@pytest.mark.parametrize("load", [GileConfig.from_pretrained, GileModel.from_pretrained, GileConfig.from_json_file])
def test_a_configuration_file_that_is_not_an_object_is_named(tmp_path, content, load):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    message = rf"{re.escape(str(file))} is not a JSON object: .* save or download it again"
    with pytest.raises(ValueError, match=message):
        load(file if load == GileConfig.from_json_file else tmp_path)


@pytest.mark.parametrize("names", [5, ["config.9.json", "config.4.0.0.json"]])
def test_a_configuration_file_cannot_redirect_to_another_file(tmp_path, names):
    config = GileConfig(joint_size=13)
    content = json.dumps(config.to_dict() | {"configuration_files": names})
    (tmp_path / "config.json").write_text(content)
    (tmp_path / "config.4.0.0.json").write_text(content.replace("13", "17"))
    assert GileConfig.from_pretrained(tmp_path).joint_size == 13


def test_an_attribute_that_a_user_sets_is_saved_and_read_with_a_warning(tmp_path, make_model, capsys):
    model, processor = make_model()
    model.config.note = "seen by Ada"
    model.config.hidden_size = 99  # a field of text_config, which has no effect here
    model.config.text_config.joint_sise = {"a": [1]}
    model.save_pretrained(tmp_path / "a")
    for folder, again in (("a", "b"), ("b", "c")):
        loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / folder).eval()
        assert (loaded.config.note, loaded.config.text_config.joint_sise) == ("seen by Ada", {"a": [1]})
        assert (loaded.config.hidden_size, loaded.config.text_config.hidden_size) == (99, 11)
        inputs = processor(["iron"], return_tensors="pt")
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
        loaded.save_pretrained(tmp_path / again)
    warnings = capsys.readouterr().err
    assert "GileConfig has no field 'note'; it has attention_size" in warnings
    assert "hidden_size is a field of text_config; beside it, it has no effect" in warnings
    assert "GileTextConfig has no field 'joint_sise'" in warnings
    changed = GileConfig.from_pretrained(tmp_path / "a", max_words=9)
    assert (changed.text_config.max_words, changed.note) == (9, "seen by Ada")
    with pytest.raises(ValueError, match="GileTextConfig has no field 'joint_sise'"):
        GileConfig(**changed.to_dict())


@pytest.mark.parametrize("name", ["document_size", "__class__"])
def test_an_attribute_that_cannot_be_set_is_named(tmp_path, name):
    (tmp_path / "config.json").write_text(json.dumps(GileConfig().to_dict() | {name: 5}))
    with pytest.raises(ValueError, match=rf"config.json is not the configuration of a GILE model: .*{name}"):
        GileConfig.from_pretrained(tmp_path)


def test_a_json_file_of_terabytes_is_refused(tmp_path):
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(ValueError, match=r"config.json is not a JSON object: it is damaged"):
        read_json_object(tmp_path / "config.json")
