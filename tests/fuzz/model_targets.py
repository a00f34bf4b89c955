"""Fuzz targets: labels, configurations, processor, pipeline, model and index folders."""

import json
import math
import shutil
from functools import cache
from typing import Literal, get_args, get_origin

import numpy as np
import torch
from fuzzing import Crash, Target
from huggingface_hub.errors import StrictDataclassError
from hypothesis import strategies as st
from mutations import mutated
from reader_targets import FOLDER

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileProcessor,
    Label,
    LabelIndex,
    LabelScoringPipeline,
    LabelSet,
    build_tokenizer,
)
from hf_gile.settings import only_read

TEXTS = ["Breast milk and iron.", "The heart pumps less blood. It fails.", "zebra", "", "\N{PILE OF POO}"]
NAMES = {"Heart Failure": "the heart pumps less blood", "Milk, Human": "breast milk", "Iron": "", "Blood": ""}
KINDS = ("wan", "han")


@cache
def parts(kind):
    """Creates a small model, its processor and its pipeline."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer([*TEXTS[:2], *NAMES, *NAMES.values()], min_count=1)
    sizes = {"embedding_size": 7, "hidden_size": 11, "attention_size": 5, "joint_size": 13, "max_words": 9}
    fields = only_read(
        vocab_size=len(tokenizer),
        text_encoder_type=kind,
        problem_type="multi_label_classification",
        num_labels=len(NAMES),
        calibration={"seen": {"method": "platt", "scale": 0.9, "offset": -0.2}},
        thresholds={"seen": 0.4},
        **sizes,
    )
    config = GileConfig(**fields)
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileForSequenceClassification(config).eval()
    model.set_labels(LabelSet.from_names(NAMES).with_counts({"Iron": 3}), processor)
    return model, processor, LabelScoringPipeline(model=model, processor=processor)


# Values that users pass by mistake.
_numbers = st.integers(-3, 9) | st.sampled_from([1 << 31, 1 << 63, 10**30]) | st.floats()
_scalars = st.none() | st.booleans() | _numbers | st.text(max_size=6) | st.binary(max_size=3)
_tensors = [torch.tensor(3), torch.zeros(0), torch.ones(2, 3), torch.full((2, 2), 1 << 40)]
_tensors += [torch.tensor([[float("nan")]]), torch.ones(1, 2, 3, dtype=torch.bool)]
_arrays = st.sampled_from([*_tensors, np.array(["iron"])])


def _objects():
    model, processor, pipe = parts("wan")
    return [model, processor, pipe, model.config, model.label_set, model.label_set[0], object(), len, int]


def anything():
    """Draws values of any kind, including nested and ragged lists."""
    leaves = _scalars | _arrays | st.deferred(lambda: st.sampled_from(_objects()))
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=2).map(tuple)
            | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        ),
        max_leaves=4,
    )


def mostly(usual):
    """Draws mostly valid values, and sometimes arbitrary values."""
    return st.integers(0, 9).flatmap(lambda number: usual if number else anything())


# Labels -----------------------------------------------------------------------------------------------------------

_ids = st.sampled_from(["a", "b", "c", "d"])
_names = st.sampled_from(["Iron", "Milk", "Blood", "Heart", "\N{PILE OF POO}"])
_labels = st.builds(Label, _ids, _names, st.sampled_from(["", "red", "blue"]), st.none() | st.just("en"))
_fields_of_labels = st.sampled_from(["name", "count", "seen", "threshold", "x"])
_changes = st.dictionaries(_fields_of_labels, mostly(_names))
_counts = mostly(st.dictionaries(_ids, mostly(st.integers(0, 9)), max_size=2))
_operation = st.one_of(
    st.tuples(st.just("add"), st.lists(mostly(_labels), max_size=2)),
    st.tuples(st.just("retire"), st.lists(mostly(_ids), max_size=2)),
    st.tuples(st.just("columns"), st.tuples(st.lists(mostly(_ids), max_size=2))),
    st.tuples(st.just("rename"), st.tuples(mostly(_ids), mostly(_names))),
    st.tuples(st.just("update"), st.tuples(mostly(_ids), _changes)),
    st.tuples(st.just("with_counts"), st.tuples(_counts)),
    st.tuples(st.just("__getitem__"), st.tuples(st.slices(4))),
)


def _change_labels(case):
    """Checks that a label set equals a new label set of its labels after any operations."""
    label_set = LabelSet(case[0])
    for name, arguments in case[1]:
        if name == "update":
            label_set = label_set.update(arguments[0], **arguments[1])
        elif name == "columns":
            label_set.columns(*arguments)
        else:
            label_set = getattr(label_set, name)(*arguments)
        rebuilt = LabelSet(list(label_set))
        if rebuilt != label_set or [label_set.column(x) for x in rebuilt.ids] != list(range(len(rebuilt))):
            raise Crash("a changed label set differs from a new label set of its labels")
        if len(set(label_set.id2label().values())) != len(label_set):
            raise Crash("two labels with the same name in id2label")


# Configurations ---------------------------------------------------------------------------------------------------

_FIELDS = [name for name in GileConfig.__annotations__ if name not in ("sub_configs", "largest")]


def _valid(kind):
    """Draws values of the type of a field, mostly valid."""
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    usual = {bool: st.booleans(), int: st.integers(1, 9), str: st.sampled_from(["relu", "tanh", "linear"])}
    return usual.get(kind, st.floats(0, 1) if float in get_args(kind) else st.just([]))


def _fields(names):
    return st.fixed_dictionaries(
        {name: mostly(_valid(GileConfig.__annotations__.get(name, str)) | _numbers) for name in names}
    )


_config = st.lists(st.sampled_from([*_FIELDS, "num_labels", "id2label", "problem_type"]), max_size=4).flatmap(_fields)
_ENCODER = {"model_type": "bert", "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
_encoder = st.dictionaries(
    st.sampled_from(["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "num_labels"])
    | st.sampled_from(["max_position_embeddings", "model_type", "intermediate_size", "hidden_dropout_prob"]),
    st.integers(0, 1 << 70) | st.floats() | st.sampled_from(["bert", "t5", "nosuch", None, "gile"]),
    max_size=2,
).map(lambda fields: {"text_encoder_type": "transformer", "text_encoder_config": _ENCODER | fields})


def _configure(fields):
    """Checks that an accepted configuration can be saved, loaded and built."""
    try:
        config = GileConfig(**fields)
    except StrictDataclassError as error:
        raise ValueError(f"{error}"[:500]) from None
    for name in _FIELDS:
        value = getattr(config if hasattr(config, name) else config.text_config, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise Crash(f"{name} is {value}")
    if config.text_config.text_encoder_config is None:
        json.loads(config.to_json_string())
        with torch.device("meta"):
            GileForSequenceClassification(config)


# Processor, pipeline ----------------------------------------------------------------------------------------------

_text = st.sampled_from(TEXTS) | st.text(max_size=12)
_texts = _text | st.lists(_text, min_size=1, max_size=3) | st.lists(st.lists(_text, max_size=2), max_size=2)
_kind = st.sampled_from(KINDS)
_processor_call = st.fixed_dictionaries(
    {},
    optional={
        "text": mostly(_texts),
        "label_text": mostly(st.lists(_text, max_size=3)),
        "language": mostly(st.none()),
        "return_tensors": mostly(st.sampled_from([None, "pt"])),
        "padding": st.just(True),
    },
)


def _process(case):
    kind, call, documents = case
    processor = parts(kind)[1]
    try:
        processor(**call)
    except ValueError:
        processor.pad_documents(documents)
        raise


_candidates = st.one_of(
    st.none(),
    st.lists(_text, max_size=3),
    st.dictionaries(_text, _text, max_size=2),
    st.just("Iron, Milk"),
    st.lists(st.lists(_text, min_size=1, max_size=2), min_size=2, max_size=2),
)
_pipeline_options = st.fixed_dictionaries(
    {},
    optional={
        "candidate_labels": mostly(_candidates),
        "multi_label": mostly(st.booleans()),
        "top_k": mostly(st.integers(1, 5)),
        "threshold": mostly(st.floats(0, 1) | st.just("stored")),
        "force_label": mostly(st.booleans()),
        "long_texts": mostly(st.sampled_from(["cut", "max", "mean"])),
        "language": mostly(st.none()),
        "label_language": mostly(st.none()),
        "nosuch": st.just(1),
    },
)


def _score(case):
    kind, texts, options = case
    pipe = parts(kind)[2]
    answers = pipe(texts, **options)
    answers = [answers] if isinstance(answers, dict) else list(answers)
    for answer in answers:
        scores = answer["scores"]
        if len(answer["labels"]) != len(scores) or not all(0 <= score <= 1 for score in scores):
            raise Crash(f"scores {scores}")
        if sorted(scores, reverse=True) != scores:
            raise Crash(f"scores that do not fall: {scores}")


# Saved folders ----------------------------------------------------------------------------------------------------


@cache
def _saved_model():
    folder = FOLDER / "model"
    model, processor, _ = parts("wan")
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@cache
def _saved_index():
    folder = FOLDER / "index"
    model, processor, _ = parts("wan")
    LabelIndex.build(model, processor, LabelSet.from_names(["Iron", "Breast milk", "Heart"])).save_pretrained(folder)
    return folder


def _damaged(folder, names):
    """Draws a file of a folder and its replacement; None to delete it."""
    files = sorted(file for file in folder.iterdir() if names(file))
    return st.sampled_from(files).flatmap(
        lambda file: st.tuples(st.just(file.name), st.none() | mutated([file.read_bytes()], _TOKENS))
    )


_TOKENS = [b"Infinity", b"1e39", b"99999999999", b'"joint_size": 2147483648,', b"\x00\x00\xc0\x7f", b"1", b"2"]


def _copy(folder, case):
    copy = folder.with_name(f"{folder.name}-damaged")
    if not copy.exists():
        shutil.copytree(folder, copy)
        for manifest in copy.glob("*_manifest.json"):  # it would detect all damage
            manifest.unlink()
    _put(copy / case[0], case[1])
    return copy


def _put(file, data):
    if data is None:
        file.unlink(missing_ok=True)
    else:
        file.write_bytes(data)


def _load_model(case):
    """Checks that a damaged model is refused or gives finite scores, as changed weights cannot be detected."""
    folder = _copy(_saved_model(), case)
    try:
        model = GileForSequenceClassification.from_pretrained(folder)
        processor = GileProcessor.from_pretrained(folder)
        for answer in LabelScoringPipeline(model=model, processor=processor)(TEXTS):
            if not all(0 <= score <= 1 for score in answer["scores"]):
                raise Crash(f"scores {answer['scores']}")
    except StrictDataclassError as error:
        raise Crash(f"an error of a library: {error}") from error
    finally:
        _put(folder / case[0], (_saved_model() / case[0]).read_bytes())


def _load_index(case):
    """Checks that a damaged index is refused by name, or gives the same scores."""
    folder, model = _copy(_saved_index(), case), parts("wan")[0]
    codes = torch.ones(1, 13)
    try:
        index = LabelIndex.from_pretrained(folder, model, mmap=False)
        original = LabelIndex.from_pretrained(_saved_index(), model)
        if not torch.equal(index.scores(codes), original.scores(codes)) or index.label_set != original.label_set:
            raise Crash("a damaged index that loads, and scores otherwise")
    except (ValueError, OSError) as error:
        if folder.name not in str(error):
            raise Crash(f"a refusal that does not name the folder: {error}") from error
        raise
    finally:
        _put(folder / case[0], (_saved_index() / case[0]).read_bytes())


_SECTION = "Labels, models and metrics"
_label_lists = st.lists(_labels, min_size=1, max_size=4, unique_by=(lambda x: x.id, lambda x: x.text))
_label_cases = st.tuples(mostly(_label_lists), st.lists(_operation, max_size=4))
_model_files = st.deferred(
    lambda: _damaged(_saved_model(), lambda file: file.suffix != ".py" and "_manifest" not in file.name)
)
_index_files = st.deferred(lambda: _damaged(_saved_index(), lambda file: True))

TARGETS = [
    Target("label set changed", _SECTION, _label_cases, _change_labels, long=300),
    Target("configuration", _SECTION, _config | _encoder, _configure, long=300),
    Target("processor", _SECTION, st.tuples(_kind, _processor_call, anything()), _process, long=300),
    Target("pipeline", _SECTION, st.tuples(_kind, mostly(_texts), _pipeline_options), _score, long=300),
    Target("model folder", "Saved folders", _model_files, _load_model, long=100),
    Target("index folder", "Saved folders", _index_files, _load_index, long=150),
]
