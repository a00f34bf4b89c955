import pytest
from huggingface_hub.errors import StrictDataclassError

from hf_gile import GileConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"joint_size": 0}, "joint_size must be positive, got 0"),
        ({"max_words": -1}, "max_words must be positive, got -1"),
        ({"pad_token_id": 30_000}, "pad_token_id must be a row of the 30000 words"),
        ({"word_dropout": 1}, "word_dropout must be at least 0 and below 1, got 1"),
        ({"embedding_std": 0}, "embedding_std must be positive, got 0"),
        ({"label_prior": 0.0}, "label_prior is a probability between 0 and 1, got 0.0"),
        ({"joint_act": "rule"}, "joint_act must be one of transformers' activations .*, got 'rule'"),
        ({"problem_type": "regression"}, "a label score is a probability, not a regression"),
        ({"format_version": 2}, "format_version 2, this code reads up to 1: upgrade hf-gile"),
        ({"joint_size": "500"}, "joint_size"),
        ({"text_encoder_type": "lstm"}, "text_encoder_type"),
        ({"output_layer": "cubic"}, "output_layer"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_value_that_makes_no_sense_is_refused_by_name(options, message):
    with pytest.raises(StrictDataclassError, match=message):
        GileConfig(**options)


def test_saved_configuration_comes_back(tmp_path):
    config = GileConfig(
        text_encoder_type="han", joint_size=13, num_labels=17, problem_type="multi_label_classification"
    )
    config.save_pretrained(tmp_path)
    assert GileConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()
