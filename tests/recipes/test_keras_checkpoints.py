"""Published checkpoints, and similar ones written here, against forward passes in plain numpy."""

import json

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from papers.attention import explain
from papers.keras_checkpoints import from_keras
from transformers import AutoModel

from hf_gile import GileModel, GileProcessor, LabelScoringPipeline
from hf_gile.models.published_gile import (
    PublishedGileConfig,
    PublishedGileForSequenceClassification,
    PublishedGileModel,
    PublishedHierarchicalEncoder,
)

h5py = pytest.importorskip("h5py", reason="reading Keras checkpoints needs h5py")

PUBLISHED = [
    "gile/bi-gen__multi__en-ar__gile-mhan-enc__arabic__epoch_79",
    "gile/bi-gen__multi__en-pt__gile-mhan-both__portuguese__epoch_64",
    "gile/enc-gen__gile-han-bigru__english__epoch_70",
    "mhan/bi-gen__en-de__mhan-att__english__epoch_208",
    "mhan/enc-gen__en-ar__mhan-att__attbigru__arabic__epoch_19",
]
S, W, D, H, J, L = 3, 4, 3, 5, 7, 6  # of the checkpoints written here; L labels of a joint head
LANGUAGES = ["english", "german", "pt"]
HEADS = {
    "joint, shared": {"la": True, "lashare": True},
    "joint, unshared": {"la": True, "lashare": False},
    "only label": {"la": True, "lashare": True, "onlylabel": True},
    "only input": {"la": True, "lashare": None, "onlyinput": True},
    "linear": {},
}


def relu(x):
    return np.maximum(x, 0)


class Layer:
    """A Keras layer, `x W + b`."""

    def __init__(self, draw, inputs, outputs):
        self.kernel, self.bias = draw(inputs, outputs), draw(outputs)

    def arrays(self, version, name):
        if version == 1:
            return {f"{name}_W": self.kernel, f"{name}_b": self.bias}
        return {"kernel": self.kernel, "bias": self.bias}

    def __call__(self, x):
        return x @ self.kernel + self.bias


class Gru:
    """A Keras GRU, gate by gate; its candidate has a sigmoid, to be told from the other activations."""

    def __init__(self, draw, inputs, outputs):
        self.inputs = {gate: Layer(draw, inputs, outputs) for gate in "zrh"}
        self.recurrent = {gate: draw(outputs, outputs) for gate in "zrh"}

    def arrays(self, version, name):
        gates = {
            f"{kind}_{gate}": array
            for gate, layer in self.inputs.items()
            for kind, array in (("W", layer.kernel), ("U", self.recurrent[gate]), ("b", layer.bias))
        }
        if version == 1:
            return {f"{name}_{gate}": array for gate, array in gates.items()}
        kinds = {"kernel": "W", "recurrent_kernel": "U", "bias": "b"}
        return {array: np.hstack([gates[f"{kind}_{gate}"] for gate in "zrh"]) for array, kind in kinds.items()}

    def __call__(self, sequence):
        state, states = np.zeros(H), []
        for x in sequence:
            sums = {gate: self.inputs[gate](x) + state @ self.recurrent[gate] for gate in "zr"}
            update, reset = (np.clip(0.2 * total + 0.5, 0, 1) for total in sums.values())
            candidate = 1 / (1 + np.exp(-self.inputs["h"](x) - (reset * state) @ self.recurrent["h"]))
            state = update * state + (1 - update) * candidate
            states.append(state)
        return np.array(states)


class Checkpoint:
    """A checkpoint with random weights, its layers made in the order and named in the way of the published ones."""

    def __init__(self, version=2, enc="attdense", share="none", languages=1, head="joint, unshared"):
        self.args = {
            "enc": enc, "share": share, "languages": LANGUAGES[:languages], "sdim": H, "ddim": H, "wdim": D,
            "spad": S, "swpad": W, "act": "tanh", "gruact": "sigmoid", "laact": "relu", "ladim": None, **HEADS[head],
        }  # fmt: skip
        self.version, self.layers, self.counts = version, {}, {}
        self.rng = np.random.default_rng(0)
        self.size = 2 * H if enc == "attbigru" else H
        self.joint_size = {"only label": self.size, "only input": D}.get(head, J)
        self.encoders = self.make_encoders() if share in ("enc", "both") else None
        self.attention = self.make_attention() if share in ("att", "both") else None
        self.joint = self.make_joint() if self.args.get("lashare") else None
        self.parts = {}
        for language in self.args["languages"]:
            parts = [self.encoders or self.make_encoders(), self.attention or self.make_attention()]
            if head == "linear":
                self.parts[language] = [*parts, None, self.make("dense", self.size, L + len(language))]
            else:
                joint = self.joint or self.make_joint()
                self.parts[language] = [*parts, joint, self.make("time_distributed", self.joint_size, 1)]

    def draw(self, *shape):
        return self.rng.normal(size=shape).astype("float32").astype("float64")  # numbers that a file can hold

    def count(self, kind):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind}_{self.counts[kind]}"

    def make(self, kind, inputs, outputs):
        layer = (Gru if kind == "gru" else Layer)(self.draw, inputs, outputs)
        name = self.count(kind)
        wrapped = self.count("dense") if kind == "time_distributed" else name
        if self.version == 1:
            self.layers[name.replace("time_", "time")] = layer.arrays(1, wrapped)
        else:
            self.layers[name] = {f"{name}/{array}": values for array, values in layer.arrays(2, name).items()}
        return layer

    def make_encoders(self):
        kind = "time_distributed" if self.args["enc"] == "attdense" else "gru"
        return [[self.make(kind, inputs, H) for _ in range(self.size // H)] for inputs in (D, self.size)]

    def make_attention(self):
        sentence = self.make("time_distributed", self.size, self.size), self.make("time_distributed", self.size, 1)
        word = self.make("time_distributed", self.size, self.size), self.make("time_distributed", self.size, 1)
        return word, sentence

    def make_joint(self):
        text = None if self.args.get("onlylabel") else self.make("dense", self.size, self.joint_size)
        label = None if self.args.get("onlyinput") else self.make("dense", D, self.joint_size)
        return text, label

    def save(self, folder):
        with h5py.File(folder / "weights.h5", "w") as file:
            for name in ("input_1", "lambda_1", "english_watt"):  # layers without weights
                file.create_group(name).attrs["weight_names"] = np.array([])
            for name, arrays in self.layers.items():
                group = file.create_group(name)
                group.attrs["weight_names"] = [array.encode() for array in arrays]
                for array, values in arrays.items():
                    group[array] = values.astype("float32")
        (folder / "args.json").write_text(json.dumps(self.args))
        return folder / "weights.h5", folder / "args.json"

    def encode(self, encoder, sequence):
        if self.args["enc"] == "attdense":
            return np.tanh(encoder[0](sequence))
        return np.hstack([encoder[0](sequence), *(gru(sequence[::-1]) for gru in encoder[1:])])

    def attend(self, attention, hidden):
        projection, context = attention
        scores = np.exp(np.tanh(context(np.tanh(projection(hidden)))))
        weights = scores / scores.sum()
        return (weights * hidden).sum(0), weights[:, 0]

    def forward(self, document, labels, language):
        """Logits, document vector, word and sentence attention of a document (S, W, D), zero where it has no word."""
        (words, sentences), (word_attention, sentence_attention), joint, unit = self.parts[language]
        hidden = self.encode(words, document.reshape(S * W, D)).reshape(S, W, -1)
        vectors, word_weights = zip(*(self.attend(word_attention, sentence) for sentence in hidden), strict=True)
        vector, sentence_weights = self.attend(sentence_attention, self.encode(sentences, np.array(vectors)))
        if joint is None:
            logits = unit(vector)
        else:
            text = vector if joint[0] is None else relu(joint[0](vector))
            codes = labels if joint[1] is None else relu(joint[1](labels))
            logits = unit(text * codes)[:, 0]
        return logits, vector, np.array(word_weights), sentence_weights


def scores(model, words, mask, labels, language, **options):
    if model.config.output_layer != "linear":
        options["label_embeds"] = labels
    with torch.no_grad():
        return model(inputs_embeds=words, attention_mask=mask, language=language, output_attentions=True, **options)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_checkpoint_reproduces_its_published_figures(shared_data, name):
    folder = shared_data / "published_checkpoints" / name
    golden = np.load(folder / "golden.npz")
    model = from_keras(folder / "weights.h5", folder / "args.json")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not model.training
    model.double()
    words, labels = (torch.tensor(golden[key]).double() for key in ("word_vectors", "label_vectors"))
    mask = torch.arange(words.shape[2]) < torch.tensor(golden["lengths"])[..., None]
    assert {key.partition(".")[0] for key in golden if "." in key} == set(model.config.languages)
    for language in model.config.languages:
        out = scores(model, words, mask, labels, language)
        for key, tensor in {
            "logits": out.logits,
            "document": out.text_embeds,
            "word_attention": out.attentions[0],
            "sentence_attention": out.attentions[1],
        }.items():
            expected = golden[f"{language}.{key}"]
            assert tensor.shape == expected.shape
            assert np.abs(tensor.numpy() - expected).max() <= 1e-12 * np.abs(expected).max(), (language, key)


@pytest.fixture
def texts():
    """Two documents (2, S, W, D) of words that are zero where there are none, where these are, and label vectors."""
    rng = np.random.default_rng(1)
    mask = np.arange(W) < np.array([[4, 2, 0], [1, 3, 4]])[..., None]
    words = rng.normal(size=(2, S, W, D)) * mask[..., None]
    return [torch.tensor(array) for array in (words, mask, rng.normal(size=(L, D)))]


@pytest.mark.parametrize("share", ["none", "enc", "att", "both"])
@pytest.mark.parametrize("head", HEADS)
def test_every_kind_of_checkpoint_is_converted(tmp_path, texts, share, head):
    step = list(HEADS).index(head) + len(share)
    enc = ["attdense", "attgru", "attbigru"][step % 3]
    languages = 1 + step // 2 % 3
    checkpoint = Checkpoint(1 + step % 2, enc, share, languages, head)
    model = from_keras(*checkpoint.save(tmp_path)).double()
    words, _, labels = (tensor.numpy() for tensor in texts)
    for language in LANGUAGES[:languages]:
        out = scores(model, *texts, language)
        expected = zip(*(checkpoint.forward(document, labels, language) for document in words), strict=True)
        for tensor, arrays in zip((out.logits, out.text_embeds, *out.attentions), expected, strict=True):
            np.testing.assert_allclose(tensor, arrays, rtol=1e-9, atol=1e-12)


@pytest.fixture
def model(tmp_path):
    return from_keras(*Checkpoint(enc="attbigru").save(tmp_path)).double()


def test_neither_batch_mates_nor_trailing_padding_change_scores(model, texts):
    words, mask, labels = texts
    together = scores(model, words, mask, labels, "english").logits
    # The first document has two sentences, of four and two words.
    alone = scores(model, words[:1, :2], mask[:1, :2], labels, "english").logits
    torch.testing.assert_close(alone, together[:1], rtol=1e-12, atol=1e-12)
    # What stands where there is no word is not read.
    noise = torch.where(mask[..., None], words, 9.0)
    torch.testing.assert_close(scores(model, noise, mask, labels, "english").logits, together, rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"reads 3 sentences of 4 words .*got documents of 6 sentences of 4 words"):
        scores(model, words.repeat(1, 2, 1, 1), mask.repeat(1, 2, 1), labels, "english")


def test_a_model_of_the_published_graph_stores_labels_and_shows_attention(tokenizer, label_set):
    sizes = {"max_sentences": 5, "max_sentence_words": 13, "max_label_words": 13, "num_labels": len(label_set)}
    config = PublishedGileConfig(vocab_size=len(tokenizer), embedding_size=D, hidden_size=H, **sizes)
    model = PublishedGileForSequenceClassification(config).eval()
    processor = GileProcessor.for_config(tokenizer, config)
    model.set_labels(label_set, processor)
    assert isinstance(model.gile.text_encoder, PublishedHierarchicalEncoder)
    text = "The failing HEART, pumps 12.5 less. Breast milk!"
    assert LabelScoringPipeline(model=model, processor=processor)(text)["labels"]
    words, sentences = model(**processor([text], return_tensors="pt"), output_attentions=True).attentions
    (record,) = explain(model, processor, text)
    assert record["watts"][1] == words[0, 1, :2].tolist()
    assert record["satts"] == sentences[0, :2].tolist()


def test_other_models_do_not_carry_the_published_graph(model, tmp_path, make_model):
    model.save_pretrained(tmp_path / "converted")
    make_model()[0].save_pretrained(tmp_path / "other")
    code = {name: {path.name for path in (tmp_path / name).glob("*.py")} for name in ("converted", "other")}
    assert code["converted"] == {*code["other"], "published_gile.py"}
    again = AutoModel.from_pretrained(tmp_path / "converted")
    assert type(again) is PublishedGileModel
    with pytest.raises(ValueError, match="describes a model of type 'gile_published', but this class loads 'gile'"):
        GileModel.from_pretrained(tmp_path / "converted")
    with pytest.raises(ValueError, match="describes a model of type 'gile', but this class loads 'gile_published'"):
        PublishedGileModel.from_pretrained(tmp_path / "other")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text_encoder_type": "wan"}, "text_encoder_type"),
        ({"lexical": True}, "the published graph has .* and is not lexical"),
        ({"max_sentences": 2000, "max_sentence_words": 2000}, "max_sentences times max_sentence_words is 4000000"),
        ({"label_encoder_type": "text_encoder"}, "max_label_words must be at most 30, the max_sentence_words of the"),
    ],
)
def test_fields_without_effect_on_the_published_graph_are_refused(fields, message):
    with pytest.raises(StrictDataclassError, match=message):
        PublishedGileConfig(**fields)


def edit(layer, array, change):
    def apply(checkpoint):
        arrays = checkpoint.layers[layer]
        arrays[f"{layer}/{array}"] = change(arrays[f"{layer}/{array}"])

    return apply


def flags(**changes):
    return lambda checkpoint: checkpoint.args.update(changes)


SENTENCES = "text_encoder.sentence_encoder.english.directions.0"
UNEXPECTED = r"weights.h5: unexpected layer time_distributed_6; check that .*args.json belongs to it"
OTHER_SHAPE = (
    r"layer time_distributed_4, text_encoder.word_attention.english.context, should have "
    r"{'kernel': \(5, 1\), 'bias': \(1,\)}, got {'kernel': \(1, 5\), 'bias': \(1,\)}"
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda checkpoint: checkpoint.layers.pop("gru_2"), rf"weights.h5: no gru layer for {SENTENCES}"),
        (lambda checkpoint: checkpoint.make("time_distributed", 2, 3), UNEXPECTED),
        (edit("time_distributed_4", "kernel", lambda kernel: kernel.T), OTHER_SHAPE),
        (edit("dense_5", "bias", lambda bias: bias * np.nan), "layer dense_5: dense_5/bias contains NaN or infinity"),
        (flags(enc="attdense"), r"no timedistributed layer for .*; check that .*args.json belongs to it"),
        (flags(languages="english"), r"args.json: languages must be a list of names, got 'english'"),
        (flags(swpad="30"), r"args.json: swpad must be a number, got '30'"),
        (flags(enc="attlstm"), r"args.json: enc must be one of attdense, attgru, attbigru, got 'attlstm'"),
    ],
)
def test_weights_that_contradict_the_arguments_are_refused(tmp_path, change, message):
    checkpoint = Checkpoint(enc="attgru")
    change(checkpoint)
    with pytest.raises(ValueError, match=message):
        from_keras(*checkpoint.save(tmp_path))


def test_broken_files_are_refused(tmp_path):
    weights, args = Checkpoint().save(tmp_path)
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"weights.h5: not a complete HDF5 file of Keras weights: .*truncated"):
        from_keras(weights, args)
    weights.write_bytes(whole)
    for text in ("{", "[1]"):
        args.write_text(text)
        with pytest.raises(ValueError, match=r"args.json: .*JSON object of flags"):
            from_keras(weights, args)
    args.unlink()
    with pytest.raises(FileNotFoundError, match=r"args.json"):
        from_keras(weights, args)
