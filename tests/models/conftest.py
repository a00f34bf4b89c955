"""Models over tiny pretrained encoders with random weights."""

import copy

import pytest
import torch
import transformers
from transformers import AutoModel, BertTokenizer

from hf_gile import LabelSet
from hf_gile.settings import only_read
from hf_gile.training import model_from_text_encoder, processor_from_text_encoder

PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "breast", "milk", "heart", "fail", "##ing", "##ure", "##s", "iron", "blood"),
    *("infant", "the", "pump", "less", "of", "human", "##ed", "was", ",", ".", "!", ":", "a", "[MASK]"),
]
MEANINGS = {
    "Heart Failure": "the heart pumps less blood",
    "Milk, Human": "breast milk",
    "Iron": "",
    "Infants": "",
    "Blood": "",
}


@pytest.fixture
def pipe(make_pipe):
    """A pipeline of a tiny model for words."""
    return make_pipe()


@pytest.fixture
def saved(tmp_path, make_model):
    """Returns the folder of a saved model and its processor."""
    for part in make_model():
        part.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.fixture
def pieces():
    return BertTokenizer(vocab={piece: row for row, piece in enumerate(PIECES)})


SIZES = {
    "vocab_size": 29,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 17,
    "max_position_embeddings": 41,
    "initializer_range": 0.3,
}


@pytest.fixture
def encoder_folder(tmp_path):
    """Saves a tiny encoder with random weights, and returns its folder."""

    def save(kind="Bert", **fields):
        torch.manual_seed(1)
        config = getattr(transformers, f"{kind}Config")(**(SIZES | fields))
        folder = tmp_path / "encoder"
        AutoModel.from_config(config).save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def model_cache():
    return {}


@pytest.fixture
def make_pretrained(encoder_folder, pieces, model_cache):
    """Creates a model with a pretrained encoder and stored labels, in evaluation mode, and its processor."""

    def make(text_encoder_type="transformer", labels=None, **options):
        if labels or "encoder" in options:
            return make_new(text_encoder_type, labels, **options)
        key = text_encoder_type, repr(options)
        if key not in model_cache:
            model_cache[key] = make_new(text_encoder_type, **options), torch.get_rng_state()
        cached, state = model_cache[key]
        torch.set_rng_state(state)
        return copy.deepcopy(cached)

    def make_new(text_encoder_type, labels=None, **options):
        folder = encoder_folder(**options.pop("encoder", {}))
        sizes = {"joint_size": 7, "hidden_size": 5, "attention_size": 3, "max_words": 19, "max_label_words": 13}
        if text_encoder_type == "hierarchical_transformer":
            sizes |= {"max_sentences": 3, "max_sentence_words": 11}
        labels = labels or LabelSet.from_names(MEANINGS)
        fields = only_read(text_encoder_type=text_encoder_type, **(sizes | options))
        torch.manual_seed(0)
        model = model_from_text_encoder(
            folder, problem_type="multi_label_classification", num_labels=len(labels), **fields
        )
        with torch.no_grad():  # parameters initialized with zeros would leave terms of the score untested
            for name, parameter in model.named_parameters():
                if "transformer" not in name and (name.endswith("bias") or "log_weights" in name or "_rows" in name):
                    parameter.normal_()
        pieces.save_pretrained(folder)
        processor = processor_from_text_encoder(folder, model.config)
        model.set_labels(labels, processor)
        return model.eval(), processor

    return make
