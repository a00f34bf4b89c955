import pytest
import torch

from hf_gile.settings import only_read
from hf_gile.training import model_from_text_encoder, processor_from_text_encoder


@pytest.fixture
def make_pretrained(save_text_encoder, label_set):
    """Makes a model over a tiny pretrained encoder, with random weights everywhere, and its processor."""

    def make(text_prompt="", **fields):
        folder = save_text_encoder()
        torch.manual_seed(0)
        options = only_read(**{"joint_size": 13, "max_words": 24, "text_encoder_type": "transformer"} | fields)
        model = model_from_text_encoder(folder, num_labels=len(label_set), **options)
        processor = processor_from_text_encoder(folder, model.config, text_prompt=text_prompt)
        model.set_labels(label_set, processor)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "transformer" not in name:
                    parameter.normal_()
        return model.eval(), processor

    return make
