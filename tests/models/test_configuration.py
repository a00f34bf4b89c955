import json
import re

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoModelForSequenceClassification, BertConfig

from hf_gile import GileConfig, GileModel, GileTextConfig
from hf_gile.settings import only_read

PLATT = {"method": "platt", "scale": 0.7, "offset": -1.3}
SPLINE = {"method": "spline", "logits": [-5.0, -4.5, 0.25, 3.0], "values": [-7.0, -2.0, -1.99, 4.0]}
BERT = {"model_type": "bert", "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
OVER_BERT = {"text_encoder_type": "transformer", "text_encoder_config": BERT, "label_encoder_type": "text_encoder"}
WITH_GRU = {"text_encoder_type": "hierarchical_transformer", "encoder_cell": "gru", "hidden_size": 7}
OTHER_SIZE = WITH_GRU | {"label_encoder_type": "mean", "cosine_score": True}
LARGE_BERT = {"text_encoder_config": BERT | {"num_hidden_layers": 10**7}}


def weights(**groups):
    return {"label_encoder_type": "text_encoder", "cosine_score": True, "term_weights": groups}


def calibration(**groups):
    return {"calibration": groups}


INVALID = [
    ({"joint_size": 0}, "joint_size must be at least 1, got 0"),
    ({"pad_token_id": 30_000}, "pad_token_id must be among the 30000 words"),
    ({"joint_act": "rule"}, "joint_act must be one of transformers' activations .*, got 'rule'"),
    ({"problem_type": "regression"}, "a label score is a probability, not a regression"),
    ({"format_version": 4}, "format_version 4, this code reads 3: upgrade hf-gile"),
    ({"pooling": "cls"}, "pooling='cls' needs a pretrained encoder, not 'wan'"),
    ({"freeze_text_encoder": True}, "would have no effect without a pretrained encoder"),
    ({"languages": ["training"]}, "must be another name of letters, digits and underscores"),
    ({"text_encoder_type": "lstm"}, "text_encoder_type"),
    ({"output_layer": "linear", "lexical": True}, "a linear unit reads no labels"),
    # Sizes.
    ({"joint_size": 2**31}, r"set GileConfig.largest\['joint_size'\] = 2147483648 first"),
    ({"joint_layers": 10**7}, "joint_layers is 10000000, more than the 1000 that a configuration may ask for"),
    ({"joint_size": 10**30}, "joint_size is 1000000000000000000000000000000, more than"),
    ({"languages": [f"l{number}" for number in range(2000)]}, "languages is 2000, more than the 1000"),
    ({"languages": ["a", "b", "c"], "joint_layers": 500}, "joint_layers times the number of languages is 1500, more"),
    # Pretrained encoders.
    (OVER_BERT | {"word_dropout": 0.5}, "word_dropout=0.5 would have no effect without word vectors"),
    (OVER_BERT | OTHER_SIZE, "of sizes 7 and 12"),
    (OVER_BERT | {"output_layer": "linear", "label_rows": "full"}, "a linear unit reads no labels"),
    # Weights of terms.
    (weights(new={}), "got 'new'"),
    (weights(rare={"joint": 2.0}), r"term_weights has unseen \(labels are seen if they have label_rows\), got 'rare'"),
    (weights(unseen=2.0), "got 'unseen': 2.0"),
    (weights(seen={"joint": 2.0}), "labels are seen if they have label_rows"),
    (weights(unseen={"rows": 2.0}), "has 'rows'; terms of this score are joint, cosine, offset"),
    (weights(unseen={"joint": float("nan")}), "must be a number from .* got nan"),
    (weights(unseen={"joint": "2"}), "must be a number from .* got '2'"),
    # Calibration.
    (calibration(known=PLATT), "calibration is for 'seen' and 'unseen' labels, got 'known'"),
    (calibration(seen=0.5), r"calibration\['seen'\] must be {'method': 'platt'"),
    (calibration(seen={"method": "platt", "scale": 1.0}), "must be {'method': 'platt', 'scale': a, 'offset': b}"),
    (calibration(unseen=PLATT | {"scale": 0}), "scale must be positive, got"),
    (calibration(unseen=PLATT | {"labels": 2.5}), "labels must be a whole number, at least 1"),
    (calibration(seen=SPLINE | {"values": [-7.0, -2.0, -2.0, 4.0]}), "values must be an increasing list"),
    # Increasing, but not in float32.
    (calibration(seen=SPLINE | {"values": [0.0, 1.0, 1.0 + 1e-9, 4.0]}), "values must be an increasing list"),
    (calibration(seen=SPLINE | {"values": [0.0, 1.0, 2.0]}), "got 4 logits, but 3 values"),
    ({"calibration": {"seen": SPLINE}, "problem_type": "single_label_classification"}, "use 'platt'"),
    ({"thresholds": {"all": 0.5}}, "thresholds are for 'seen' and 'unseen' labels, got 'all'"),
    ({"thresholds": {"seen": 1.5}}, r"thresholds\['seen'\] must be a number from 0 to 1, got 1.5"),
    ({"thresholds": {"at_least": 2}}, r"thresholds\['at_least'\] must be a number from 0 to 1, got 2"),
    ({"thresholds": {"seen": "0.5"}}, "thresholds"),
]


@pytest.mark.parametrize(("fields", "message"), INVALID)
def test_invalid_fields_are_refused_by_name(fields, message):
    with pytest.raises(StrictDataclassError, match=message):
        GileConfig(**fields)


UNREADABLE = [
    (OVER_BERT | {"num_labels": 10**9}, r"num_labels is 1000000000, .* set GileConfig.largest\['num_labels'\]"),
    # As in older versions of Transformers.
    (OVER_BERT | {"id2label": ["a", "b"]}, "id2label a mapping|'id2label' expected a dict"),
    (OVER_BERT | LARGE_BERT, "text_encoder_config.num_hidden_layers is"),
    (OVER_BERT | {"text_encoder_config": BERT | {"model_type": "nosuch"}}, "not a valid configuration of a 'nosuch'"),
    (OVER_BERT | {"text_encoder_config": {"model_type": "vit"}}, "describes a 'vit', which is not a text encoder"),
    ({"joint_sise": 7}, r"GileConfig has no field 'joint_sise': did you mean joint_size\?"),
    ({"text_config": {"hiden_size": 7}}, r"GileTextConfig has no field 'hiden_size': did you mean hidden_size\?"),
    ({"zzz": 7}, "GileConfig has no field 'zzz'; it has attention_size, calibration"),
]


@pytest.mark.parametrize(("fields", "message"), UNREADABLE)
def test_fields_that_cannot_be_read_are_refused_by_name(fields, message):
    with pytest.raises((ValueError, StrictDataclassError), match=message):
        GileConfig(**fields)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_encoder_type": "nn", "encoder_cell": "gru"}, "encoder_cell='gru' would have no effect"),
        ({"cosine_scale": 7.0}, "cosine_scale=7.0 would have no effect without cosine_score"),
        ({"sharing": "both"}, "sharing='both' would have no effect without languages"),
        ({"text_encoder_type": "hnn", "languages": ["de", "en"], "sharing": "none"}, "these parts .it has encoders"),
        ({"text_encoder_type": "nn", "label_encoder_type": "text_encoder"}, "without .* not the mean of words, 'nn'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_fields_without_effect_are_refused_or_dropped_on_request(options, message):
    with pytest.raises(StrictDataclassError, match=message):
        GileConfig(**options)
    assert len(only_read(**options)) == len(options) - 1
    GileConfig(**only_read(**options))


def test_sizes_come_from_the_pretrained_encoder():
    encoder = BertConfig(vocab_size=19, hidden_size=12, num_attention_heads=2)
    fields = {"text_encoder_type": "transformer", "text_encoder_config": encoder, "pooling": "mean"}
    assert GileTextConfig(**fields, vocab_size=19).embedding_size == 12
    with pytest.raises(ValueError, match="vocab_size=7 has no effect, the encoder has 19"):
        GileTextConfig(**fields, vocab_size=7)


def test_text_configuration_fields_may_be_passed_at_the_top_level(tmp_path):
    config = GileConfig(text_encoder_type="han", hidden_size=7, joint_size=5)
    other = GileConfig(text_config={"text_encoder_type": "han", "hidden_size": 7}, joint_size=5)
    assert config.to_dict() == other.to_dict()
    config.save_pretrained(tmp_path)
    reloaded = GileConfig.from_pretrained(tmp_path, max_sentences=3)
    assert (reloaded.text_config.max_sentences, reloaded.text_config.hidden_size) == (3, 7)
    with pytest.raises(ValueError, match="hidden_size is a field of text_config: set it there"):
        GileConfig(text_config=config.text_config, hidden_size=9)


@pytest.mark.parametrize("content", [b"NaN", b"[]", b'{"joint_size": 5', b"\xff", b"[" * 99_999], ids=range(5))
def test_a_configuration_file_that_is_not_an_object_is_named(tmp_path, content):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    message = rf"{re.escape(str(file))} is not a JSON object: .* save or download it again"
    for load, path in ((GileModel.from_pretrained, tmp_path), (GileConfig.from_json_file, file)):
        with pytest.raises(ValueError, match=message):
            load(path)


def test_a_configuration_file_cannot_redirect_to_another_file(tmp_path):
    config = GileConfig(joint_size=13)
    content = json.dumps(config.to_dict() | {"configuration_files": ["config.4.0.0.json"]})
    (tmp_path / "config.json").write_text(content)
    (tmp_path / "config.4.0.0.json").write_text(content.replace("13", "17"))
    assert GileConfig.from_pretrained(tmp_path).joint_size == 13


def test_an_attribute_that_a_user_sets_is_saved_and_read_with_a_warning(tmp_path, make_model, capsys):
    model, _ = make_model()
    model.config.note = "seen by Ada"
    model.config.hidden_size = 99  # a field of text_config, which has no effect here
    model.config.text_config.joint_sise = {"a": [1]}
    model.save_pretrained(tmp_path / "a")
    AutoModelForSequenceClassification.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "b")
    assert (loaded.config.note, loaded.config.text_config.joint_sise) == ("seen by Ada", {"a": [1]})
    assert (loaded.config.hidden_size, loaded.config.text_config.hidden_size) == (99, 11)
    warnings = capsys.readouterr().err
    assert "GileConfig has no field 'note'; it has attention_size" in warnings
    assert "hidden_size is a field of text_config; beside it, it has no effect" in warnings
    with pytest.raises(ValueError, match="GileTextConfig has no field 'joint_sise'"):
        GileConfig(**loaded.config.to_dict())
