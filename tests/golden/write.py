"""Writes golden cases: `python tests/golden/write.py` creates missing files, and does not change existing files.

The files contain outputs of earlier code, which later changes must reproduce. A new feature gets a separate file: add a
function to `FAMILIES`.
"""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import torch
from golden_files import FOLDER, Case, save_cases
from today import build, run

FLAT = [[3, 7, 2, 19, 11], [5, 3, 0, 0, 0], [0, 0, 0, 0, 0]]
"""Words of three documents; the last is empty."""

DEEP = [
    [[3, 7, 2, 19, 11], [5, 3, 0, 0, 0], [13, 0, 0, 0, 0]],
    [[17, 4, 4, 0, 0], [0, 0, 0, 0, 0], [8, 2, 3, 0, 0]],
    [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
]
"""Words of the sentences of three documents; a sentence and the last document are empty."""

STORED = [[3, 7, 0, 0], [5, 0, 0, 0], [11, 2, 19, 4], [8, 8, 3, 0], [6, 0, 0, 0], [13, 17, 0, 0], [2, 5, 10, 0]]
NEW = [[7, 3, 0, 0], [22, 9, 1, 0], [4, 0, 0, 0], [5, 0, 0, 0]]
GOLD = [[1, 4, -100], [0, -100, -100], [-100, -100, -100]]
LANGUAGES = ["german", "english", "german"]
GOLD_OF_LANGUAGES = [[3, 6, -100], [0, 2, -100], [5, -100, -100]]

SIZES = {"vocab_size": 23, "pad_token_id": 0, "embedding_size": 5}
HEAD = {"output_layer": "gile", "joint_size": 7, "joint_act": "tanh"}
LABELS = {"num_labels": len(STORED), "label_length": len(STORED[0])}
MULTI = {"problem_type": "multi_label_classification", "training_loss": "cross_entropy"}

BERT = {
    "model_type": "bert",
    "vocab_size": 23,
    "pad_token_id": 0,
    "hidden_size": 6,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 7,
    "max_position_embeddings": 11,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def reads_words(text_encoder_type: str, cell: str = "dense", **fields: Any) -> dict[str, Any]:
    """Returns the fields of a word model that its encoder uses."""
    own: dict[str, Any] = {"text_encoder_type": text_encoder_type}
    if text_encoder_type != "nn":
        own |= {"encoder_cell": cell, "hidden_size": 3}
        if cell == "dense" or text_encoder_type not in ("hnn", "nn"):
            own["hidden_act"] = "tanh"
    if text_encoder_type in ("wan", "han", "han_published"):
        own["attention_size"] = 2
    if text_encoder_type in ("wan", "han"):
        own["pooling"] = "attention"
    if text_encoder_type == "han_published":
        own |= {"max_sentences": 3, "max_sentence_words": 5, "max_label_words": 4}
        if cell != "dense":
            own["recurrent_act"] = "tanh"
    return SIZES | own | HEAD | LABELS | MULTI | {"label_encoder_type": "mean"} | fields


def reads_pretrained(text_encoder_type: str = "transformer", pooling: str = "mean", **fields: Any) -> dict[str, Any]:
    """Returns the fields of a model with a pretrained encoder."""
    own: dict[str, Any] = {
        "text_encoder_type": text_encoder_type,
        "text_encoder_config": BERT,
        "pooling": pooling,
        "max_words": 11,
        "max_label_words": 4,
    }
    if text_encoder_type == "hierarchical_transformer":
        cell = fields.get("encoder_cell", "none")
        own |= {"encoder_cell": cell, "max_sentences": 3, "max_sentence_words": 5}
        own |= {} if cell == "none" else {"hidden_size": 3}
    if text_encoder_type == "hierarchical_transformer" or pooling == "attention":
        own |= {"attention_size": 2, "hidden_act": "tanh"}
    return own | HEAD | LABELS | MULTI | {"label_encoder_type": "mean"} | fields


def case(name: str, fields: dict[str, Any], *gradients: str, **training: Any) -> Case:
    """Returns a case with documents, labels and a training step for its fields, without weights and outputs."""
    is_deep = fields["text_encoder_type"] in ("hnn", "han", "han_published", "hierarchical_transformer")
    inputs: dict[str, Any] = {"documents": DEEP if is_deep else FLAT}
    if fields.get("languages"):
        inputs["document_languages"] = LANGUAGES
        if fields.get("label_encoder_type") == "text_encoder":
            inputs["new_label_languages"] = ["english", "german", "german", "english"]
    if fields["output_layer"] != "linear":
        inputs["new_labels"] = NEW
    gold = GOLD_OF_LANGUAGES if fields.get("language_labels") else GOLD
    inputs["training"] = {"labels": gold, **training}
    return Case(name, fields, inputs, list(gradients))


def languages(sharing: str, share_joint_space: bool) -> dict[str, Any]:
    """Returns the fields of a model with two languages and separate labels for each."""
    return {
        "languages": ["english", "german"],
        "sharing": sharing,
        "share_joint_space": share_joint_space,
        "language_labels": {"english": 3, "german": 4},
    }


WORDS = "gile.word_embeddings.weight"
JOINT = ("gile.output_layer.label_projection.weight", "gile.output_layer.classifier.weight")


def words() -> Iterator[Case]:
    """Encoders of words by cells, alone and with two languages that share some of it."""
    for kind, cell in itertools.product(("nn", "hnn", "wan", "han", "han_published"), ("dense", "gru", "bigru")):
        if kind == "nn" and cell != "dense":
            continue  # without encoder cell
        attention = "word_attention.context.weight" if kind in ("wan", "han") else ""
        own = [f"gile.text_encoder.{attention}"] if attention else []
        name = kind if kind == "nn" else f"{kind} {cell}"
        yield case(name, reads_words(kind, cell), WORDS, *JOINT, *own)
        for sharing, joint in itertools.product(("none", "encoders", "attention", "both"), (True, False)):
            if kind in ("nn", "hnn") and sharing in ("attention", "both"):
                continue  # without attention
            if kind == "nn" and sharing != "none":
                continue
            own = ["gile.output_layer.classifier.german.weight"]
            if attention:
                of_language = "" if sharing in ("attention", "both") else "german."
                own.append("gile.text_encoder." + attention.replace("context", f"{of_language}context"))
            fields = reads_words(kind, cell, **languages(sharing, joint))
            yield case(f"{name}, languages share {sharing} {'and' if joint else 'not'} the joint space", fields, *own)
    for kind in ("nn", "hnn", "wan", "han", "han_published"):
        fields = {"label_encoder_type": "text_encoder"}
        yield case(f"{kind} reads labels", reads_words(kind, **fields), WORDS, *JOINT)
        fields |= languages("none", False)
        yield case(f"{kind} reads labels of two languages", reads_words(kind, **fields), WORDS)
    for kind, pooling in itertools.product(("wan", "han"), ("mean", "sum")):
        fields = reads_words(kind, "gru", pooling=pooling)
        del fields["attention_size"], fields["hidden_act"]
        yield case(f"{kind} gru, {pooling}", fields, WORDS)


def pretrained() -> Iterator[Case]:
    """Returns a tiny encoder with random weights."""
    head = "gile.output_layer.input_projection.weight"
    inside = "gile.text_encoder.transformer.encoder.layer.0.output.dense.bias"
    for pooling, labels in itertools.product(("mean", "sum", "cls", "attention"), ("mean", "text_encoder")):
        fields = reads_pretrained("transformer", pooling, label_encoder_type=labels)
        yield case(f"transformer, {pooling}, labels by {labels}", fields, head, inside)
    for pooling, labels in itertools.product(("mean", "cls", "attention"), ("mean", "text_encoder")):
        fields = reads_pretrained("hierarchical_transformer", pooling, label_encoder_type=labels)
        yield case(f"windows, {pooling}, labels by {labels}", fields, head, inside)
    for cell in ("dense", "gru", "bigru"):
        fields = reads_pretrained("hierarchical_transformer", encoder_cell=cell)
        yield case(f"windows, {cell}", fields, head, "gile.text_encoder.sentence_attention.context.weight")
    for kind, labels in itertools.product(("transformer", "hierarchical_transformer"), ("mean", "text_encoder")):
        for sharing, joint in (("none", False), ("attention", True)):
            options = {"label_encoder_type": labels, **languages(sharing, joint)}
            fields = reads_pretrained(kind, "attention", **options)
            yield case(f"{kind}, languages share {sharing}, labels by {labels}", fields, inside)
    for labels in ("mean", "text_encoder"):
        fields = reads_pretrained("transformer", label_encoder_type=labels, freeze_text_encoder=True)
        yield case(f"frozen transformer, labels by {labels}", fields, head)


def terms() -> Iterator[Case]:
    """Yields cases for terms of the score, alone and combined."""
    unit = "gile.output_layer.classifier"
    for layer in ("only_label", "only_input", "bilinear", "bilinear_yh15", "linear"):
        kept = {"only_label": "joint_act", "only_input": "joint_act", "bilinear_yh15": "joint_size joint_act"}
        for options in ({}, languages("attention", False)):
            fields = reads_words("wan", **options, output_layer=layer)
            for name in ("joint_size", "joint_act"):
                if name not in kept.get(layer, ""):
                    del fields[name]
            if layer == "linear":
                fields["label_length"] = 0
                for name in ("label_encoder_type", "share_joint_space"):
                    fields.pop(name, None)
            own = f"{unit}.german.bias" if options else f"{unit}.bias"
            yield case(f"{layer}{', languages' if options else ''}", fields, WORDS, own)
    extra = {
        "two joint layers": {"joint_layers": 3},
        "bag": {"bag_size": 5},
        "bag and cosine": {"bag_size": 5, "cosine_score": True, "cosine_scale": 3.0},
        "rows": {"label_rows": "full"},
        "rows, bag and cosine": {"label_rows": "full", "bag_size": 5, "cosine_score": True, "cosine_scale": 3.0},
        "weights and rows": {
            "term_weights": {"unseen": {"joint": 0.75, "offset": -0.5}, "rare": {"joint": 0.5, "offset": 0.25}},
            "label_rows": "full",
        },
    }
    extra["all"] = extra["weights and rows"] | extra["rows, bag and cosine"] | {"joint_layers": 2}
    for name, options in extra.items():
        own = [WORDS, f"{unit}.bias"]
        own += ["gile.bag.vectors.weight"] if "bag_size" in options else []
        own += ["gile.output_layer.direct.cosine.scale"] if "cosine_score" in options else []
        own += ["gile.label_rows.weight"] if "label_rows" in options else []
        yield case(f"{name}, words", reads_words("wan", **options), *own)
        fields = reads_pretrained("transformer", label_encoder_type="text_encoder", **options)
        yield case(f"{name}, transformer", fields, *own[1:])
    cosine = {"cosine_score": True, "cosine_scale": 3.0, "label_encoder_type": "text_encoder"}
    for kind in ("nn", "wan", "han"):
        yield case(f"cosine, {kind} reads labels", reads_words(kind, **cosine), WORDS)
    yield case("cosine, transformer", reads_pretrained(**cosine), f"{unit}.bias")
    fields = reads_pretrained("hierarchical_transformer", **cosine, label_rows="full")
    yield case("cosine and rows, windows", fields, "gile.label_rows.weight")
    fields = reads_words("wan", label_rows="full", bag_size=5, cosine_score=True, **languages("both", False))
    yield case("rows, bag and cosine, languages", fields, WORDS, "gile.label_rows.weight")


def losses() -> Iterator[Case]:
    """Losses over all labels, chunk by chunk, and over a sample."""
    single = {"problem_type": "single_label_classification", "training_loss": "cross_entropy"}
    problems = {
        "sigmoid": (MULTI, GOLD),
        "softmax": (single, [4, 0, 1]),
    }
    sample: dict[str, Any] = {"sampled_columns": [0, 1, 3, 4, 6], "column_weights": [1.0, 1.0, 1.75, 1.0, 1.75]}
    own_weights = [[1.0, 1.0, 2.5, 0.0, 1.5], [1.0, 0.0, 1.5, 2.0, 0.5], [0.0, 0.25, 1.0, 1.0, 1.0]]
    excluded = {"excluded_columns": [[0, 6, -100], [-100, -100, -100], [3, -100, -100]]}
    settings: dict[str, dict[str, Any]] = {
        "all labels": {},
        "a sample": sample,
        "a sample, weights of each document": sample | {"column_weights": own_weights},
        "some excluded": excluded,
        "a sample, some excluded": sample | excluded,
    }
    for (problem, (options, gold)), chunk in itertools.product(problems.items(), (0, 2)):
        how = f"{problem}, {'in chunks' if chunk else 'at once'}"
        options = options | ({"label_chunk_size": chunk} if chunk else {})
        labels = {"labels": gold}
        for name, training in settings.items():
            yield case(f"{how}, {name}", reads_words("wan", **options), WORDS, *JOINT, **labels | training)
        rows = reads_words("wan", **options, label_rows="full")
        yield case(f"{how}, rows", rows, WORDS, "gile.label_rows.weight", **labels | sample)
        read = reads_pretrained(label_encoder_type="text_encoder", **options)
        inside = "gile.text_encoder.transformer.encoder.layer.0.output.dense.bias"
        yield case(f"{how}, transformer", read, inside, JOINT[0], **labels | sample)
        linear = reads_words("wan", **options) | {"output_layer": "linear", "label_length": 0}
        for name in ("joint_size", "joint_act", "label_encoder_type"):
            del linear[name]
        yield case(f"{how}, linear", linear, WORDS, "gile.output_layer.classifier.weight", **labels | sample)
        if problem != "softmax":
            for joint in (True, False):
                fields = reads_words("han", "gru", **options, **languages("attention", joint))
                training = {"sampled_columns": [0, 1, 2, 3, 5, 6], "column_weights": [1.0, 2.5, 1.0, 1.0, 1.5, 1.0]}
                name = f"{how}, languages share {'all' if joint else 'no joint space'}"
                yield case(name, fields, WORDS, "gile.output_layer.classifier.english.weight", **training)
        if problem == "sigmoid" and not chunk:
            zeros_and_ones = [[float(column in row) for column in range(len(STORED))] for row in GOLD]
            yield case(f"{how}, zeros and ones", reads_words("wan"), WORDS, labels=zeros_and_ones)


def fill(golden: Case, seed: int) -> Case:
    """Draws the weights of a case, and computes its outputs."""
    torch.manual_seed(seed)
    model = build(golden.fields)
    for name, tensor in model.state_dict().items():
        if name == "stored_labels.input_ids":
            tensor = torch.tensor(STORED) if tensor.shape[1] else tensor
        elif tensor.is_floating_point():
            tensor = tensor + 0.3 * torch.randn_like(tensor)
            if name.endswith("word_embeddings.weight"):
                tensor[0] = 0  # the padding word
        golden.weights[name] = tensor.half().double()
        assert tensor.is_floating_point() or torch.equal(golden.weights[name].long(), tensor)
    model = build(golden.fields, golden.weights)
    golden.outputs = run(model, golden.inputs, golden.gradients)
    for name, tensor in golden.outputs.items():
        assert not tensor.isnan().any(), (golden.name, name)
        assert not name.startswith("gradient.") or tensor.count_nonzero(), (golden.name, name)
    return golden


FAMILIES = {"words": words, "pretrained": pretrained, "terms": terms, "losses": losses}

if __name__ == "__main__":
    for family, make in FAMILIES.items():
        file = FOLDER / f"{family}.npz"
        if file.exists():
            sys.stderr.write(f"{file.name} exists and is not changed\n")
            continue
        filled = [fill(item, seed) for seed, item in enumerate(make())]
        assert len({item.name for item in filled}) == len(filled)
        save_cases(file, filled)
        sys.stderr.write(f"{file.name}: {len(filled)} cases, {file.stat().st_size:,} bytes\n")
