"""Tiny language models of Transformers, by class name."""

import pytest
import torch
import transformers

from hf_gile.language_models import NmtForConditionalGeneration

SMALL = {
    "GPT2LMHeadModel": {"n_embd": 6, "n_layer": 1, "n_head": 2, "n_positions": 32},
    "LlamaForCausalLM": {"hidden_size": 8, "intermediate_size": 5, "num_hidden_layers": 1, "num_attention_heads": 2},
    "T5ForConditionalGeneration": {"d_model": 6, "d_kv": 4, "d_ff": 5, "num_layers": 1, "num_heads": 2},
    "MarianMTModel": {
        "d_model": 6,
        **dict.fromkeys(("encoder_layers", "decoder_layers"), 1),
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 5),
        "max_position_embeddings": 32,
        "decoder_vocab_size": 31,
        "forced_eos_token_id": None,
    },
    "NmtForConditionalGeneration": {"embedding_size": 6, "hidden_size": 5},
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@pytest.fixture(params=SMALL)
def architecture(request):
    """The name of each class."""
    return request.param


@pytest.fixture
def make_language_model():
    def make(architecture="GPT2LMHeadModel", **settings):
        torch.manual_seed(7)
        model_class = getattr(transformers, architecture, NmtForConditionalGeneration)
        config = model_class.config_class(**{"vocab_size": 31} | IDS | SMALL[architecture] | settings)
        if config.is_encoder_decoder:
            config.decoder_start_token_id = 0
        for name in config.to_dict():
            if "drop" in name:
                setattr(config, name, 0.0)
        return model_class(config).eval()

    return make


@pytest.fixture
def batch():
    ids = torch.tensor([[5, 7, 9, 11], [4, 6, 8, 2]])
    return {"input_ids": ids, "labels": ids.clone()}
