"""Tiny language models of Transformers, by class name."""

import pytest
import torch
import transformers

from hf_gile.language_models import NmtForConditionalGeneration

SMALL = {
    "GPT2LMHeadModel": {
        "n_embd": 6,
        "n_layer": 1,
        "n_head": 2,
        "n_positions": 32,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "LlamaForCausalLM": {
        "hidden_size": 8,
        "intermediate_size": 5,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "T5ForConditionalGeneration": {"d_model": 6, "d_kv": 4, "d_ff": 5, "num_layers": 1, "num_heads": 2},
    "MarianMTModel": {"forced_eos_token_id": None},
    "NmtForConditionalGeneration": {"embedding_size": 6, "hidden_size": 5},
}
BOTH_SIDES = {
    "d_model": 6,
    **{f"{side}_layers": 1 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 5 for side in ("encoder", "decoder")},
    "max_position_embeddings": 32,
}
DROPOUTS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "dropout_rate",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
)
WORDS = 31


@pytest.fixture
def make_language_model():
    def make(architecture="GPT2LMHeadModel", **settings):
        torch.manual_seed(7)
        model_class = getattr(transformers, architecture, NmtForConditionalGeneration)
        config = {"vocab_size": WORDS, "pad_token_id": 0} | SMALL[architecture]
        if architecture not in ("GPT2LMHeadModel", "LlamaForCausalLM"):
            config |= {"decoder_start_token_id": 0, "eos_token_id": 2, "bos_token_id": 1}
        if architecture == "MarianMTModel":
            config |= BOTH_SIDES | {"decoder_vocab_size": WORDS}
        config = model_class.config_class(**config | settings)
        for name in DROPOUTS:
            if hasattr(config, name):
                setattr(config, name, 0.0)
        return model_class(config).eval()

    return make


@pytest.fixture
def batch():
    ids = torch.tensor([[5, 7, 9, 11], [4, 6, 8, 2]])
    return {"input_ids": ids, "labels": ids.clone()}
