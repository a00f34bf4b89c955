"""Shared fixtures: a tiny vocabulary, tiny models with prime sizes, and real data if available."""

import gc
import logging
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from itertools import islice
from pathlib import Path

# Read when the libraries are imported, here and in processes that tests start. Caches of the user, or of another run,
# would decide which modules are imported, and would fill up with files of tests.
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="hf_gile-tests-")
os.environ.pop("HF_MODULES_CACHE", None)
os.environ.pop("HF_HUB_CACHE", None)
os.environ.pop("HF_DATASETS_CACHE", None)
os.environ.pop("HF_EVALUATE_CACHE", None)
os.environ.pop("HF_METRICS_CACHE", None)
# Read when transformers is imported: tests must not access the Hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Test models are so small that more threads would only slow them down.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests import the scripts of benchmarks/.
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import pytest
import torch
import transformers
from accelerate.utils import imports
from papers.medline import demo_file, read_medline
from transformers import BertConfig, BertModel, BertTokenizer, PreTrainedConfig, TrainingArguments
from transformers.utils import logging as transformers_logging

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet, build_tokenizer
from hf_gile.data import ReadReport
from hf_gile.settings import only_read
from hf_gile.training import model_from_text_encoder, processor_from_text_encoder
from hf_gile.training.convex import documents, head

DOCUMENTS = [
    "Breast milk lowers the risk of infection. Infants were fed with milk for 12 weeks.",
    "The failing heart pumps less blood. Cardiac output was measured in 30 patients.",
    "Rats were fed a diet low in iron. Blood was drawn, and iron was measured.",
]
HOME = os.environ["HF_HOME"]
LABELS = {
    "Heart Failure": "the heart pumps less blood",
    "Milk, Human": "breast milk",
    "Iron": "",
    "Infant": "",
    "Blood": "",
}


def pytest_unconfigure():
    """Removes the caches of the run."""
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def medline_file():
    """Returns the path of the demo file, which comes with an extra that no other contains."""
    try:
        return demo_file()
    except ImportError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def first_citations(medline_file):
    """Reads the first citations of the demo file."""
    return list(islice(read_medline(medline_file), 509))


@pytest.fixture(scope="session")
def demo_citations(medline_file):
    """Reads all citations of the demo file, which takes seconds: for slow tests."""
    return list(read_medline(medline_file))


@pytest.fixture
def write(tmp_path):
    """Writes a file of text or bytes, and returns its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path.resolve()

    return write_file


@pytest.fixture
def run():
    """Runs a command in this process; returns a result with `exit_code`, `stdout` and `stderr`."""
    testing = pytest.importorskip("typer.testing")
    from hf_gile_cli.app import app

    def run_command(*arguments, input=None, ends=0, env=None):
        words = [str(argument) for argument in arguments]
        result = testing.CliRunner().invoke(app, words, input=input, env=env, prog_name="hf-gile")
        assert result.exit_code == ends, result.output
        return result

    return run_command


@pytest.fixture
def report():
    """A report of a reader that refuses malformed input."""
    return ReadReport()


@pytest.fixture
def lenient():
    """A report of a reader that skips and counts malformed input."""
    return ReadReport("skip")


@pytest.fixture
def short_search(monkeypatch):
    """Reduces the convex fit to few regularization strengths and two folds."""
    monkeypatch.setattr(head, "L2_OF_ROWS", (0.1, 0.01))
    monkeypatch.setattr(head, "L2_OF_BILINEAR", (0.1,))
    monkeypatch.setattr(head, "FOLDS", 2)
    monkeypatch.setattr(documents, "FOLDS", 2)


@pytest.fixture(autouse=True)
def _undo_silence():
    """Restores what a command that runs in this process silences."""
    verbosity = transformers_logging.get_verbosity()
    yield
    transformers_logging.set_verbosity(verbosity)
    transformers_logging.enable_progress_bar()
    logging.getLogger("hf_gile").setLevel(logging.NOTSET)


@pytest.fixture(autouse=True, scope="session")
def _freeze_imports():
    """Excludes imported objects from garbage collection, which a Trainer triggers and which then takes 0.3 s."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, *thresholds[1:])
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="session")
def _skip_slow_calls():
    """Replaces slow calls that no test is about."""
    with pytest.MonkeyPatch.context() as patch:
        # `os.fsync` can dominate the time of a test, and only matters in a power cut.
        patch.setattr(os, "fsync", lambda descriptor: None)
        # `torch.manual_seed` slowly records the stack for devices that are not available.
        for devices in (torch.cuda, torch.xpu, torch.mtia):
            if not devices.is_available():
                patch.setattr(devices, "manual_seed_all", lambda seed: None)
        # Reading a field of a configuration checks whether it differs by layer.
        for kind in PreTrainedConfig.__mro__:
            if "heterogeneity" in kind.__module__:
                patch.delattr(kind, "__getattribute__")
        # accelerate searches the disk for a package in each step.
        patch.setattr(imports, "_is_package_available", lru_cache(imports._is_package_available))
        # Transformers reads the relative imports of travelling files repeatedly in each save.
        patch.setattr(transformers.dynamic_module_utils, "get_relative_imports", read_imports)
        yield


def read_imports(path, find=transformers.dynamic_module_utils.get_relative_imports):
    state = Path(path).stat()
    return list(imports_at(path, find, state.st_mtime_ns, state.st_size))


@lru_cache
def imports_at(path, find, modified, size):
    return tuple(find(path))


@pytest.fixture
def tokenizer():
    return build_tokenizer([*DOCUMENTS, *LABELS, *LABELS.values()], min_count=1)


@pytest.fixture
def label_set():
    return LabelSet.from_names(LABELS)


@pytest.fixture
def make_model(tokenizer, label_set):
    """Creates a model with random weights and stored labels, in evaluation mode, and its processor."""

    def make(text_encoder_type="wan", output_layer="gile", problem_type=None, **options):
        torch.manual_seed(0)
        sizes = {"embedding_size": 7, "hidden_size": 11, "attention_size": 5, "joint_size": 13} | options
        kinds = {"text_encoder_type": text_encoder_type, "output_layer": output_layer}
        fields = only_read(**kinds, **sizes)
        config = GileConfig(vocab_size=len(tokenizer), problem_type=problem_type, num_labels=len(label_set), **fields)
        processor = GileProcessor.for_config(tokenizer, config)
        model = GileForSequenceClassification(config)
        # Biases start at zero; random biases test every term of a formula.
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("bias") and "label_rows" not in name:  # labels have no rows until they are trained
                    parameter.normal_()
        model.set_labels(label_set, processor)
        return model.eval(), processor

    return make


@pytest.fixture
def make_pipe(make_model):
    """Creates a pipeline of a tiny model, by default for any number of labels of a text."""

    def make(text_encoder_type="wan", problem_type="multi_label_classification", **options):
        model, processor = make_model(text_encoder_type, problem_type=problem_type, **options)
        return transformers.pipeline("label-scoring", model=model, processor=processor)

    return make


@pytest.fixture
def save_text_encoder(tmp_path):
    """Saves a random encoder for words with hidden size 12, and returns its folder."""

    def save(folder=tmp_path / "encoder", texts=(), **fields):
        torch.manual_seed(5)
        texts = texts or (*DOCUMENTS, *LABELS, *LABELS.values())
        words = sorted({word.strip(".,").lower() for text in texts for word in text.split()})
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", ":", *words]
        BertTokenizer(vocab={word: row for row, word in enumerate(vocabulary)}).save_pretrained(folder)
        sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 17}
        sizes |= {"vocab_size": len(vocabulary), "max_position_embeddings": 256, "initializer_range": 0.3} | fields
        BertModel(BertConfig(**sizes)).save_pretrained(folder)
        return str(folder)

    return save


@pytest.fixture
def make_pretrained(save_text_encoder, label_set):
    """Creates a model with stored labels over a random pretrained encoder, and its processor."""

    def make(labels=label_set, encoder=None, text_prompt="", **fields):
        encoder = encoder or save_text_encoder()
        torch.manual_seed(0)
        model = model_from_text_encoder(encoder, num_labels=len(labels), **fields)
        processor = processor_from_text_encoder(encoder, model.config, text_prompt=text_prompt)
        model.set_labels(labels, processor)
        return model, processor

    return make


@pytest.fixture
def make_over_encoder(make_pretrained):
    """Creates a model over a random encoder, with random weights everywhere and stored labels, and its processor."""

    def make(text_prompt="", **fields):
        options = only_read(**{"joint_size": 13, "max_words": 24, "text_encoder_type": "transformer"} | fields)
        model, processor = make_pretrained(text_prompt=text_prompt, **options)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "transformer" not in name:
                    parameter.normal_()
        return model.eval(), processor

    return make


@pytest.fixture
def arguments(tmp_path):
    """Creates the arguments of a quiet Trainer on a CPU, which by default saves nothing."""
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "save_strategy": "no"}
    return lambda **options: TrainingArguments(str(tmp_path / "run"), **quiet | options)


@pytest.fixture(scope="session")
def shared_data():
    """Returns the folder of real data, which is not part of the project."""
    folder = Path(os.environ.get("HF_GILE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder}; set HF_GILE_DATA to its folder")
    return folder


@pytest.fixture
def tokenized(monkeypatch):
    """The texts that processors tokenize, in order."""
    encode = GileProcessor._encode
    texts = []

    def record(processor, batch, tokenizer):
        texts.extend(batch)
        return encode(processor, batch, tokenizer)

    monkeypatch.setattr(GileProcessor, "_encode", record)
    return texts
