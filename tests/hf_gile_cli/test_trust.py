"""No data makes the command run code, neither files of a model nor answers on standard input."""

import ast
import io
import json
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from transformers import AlignTextConfig, AutoModelForSequenceClassification, DacModel, modeling_utils
from transformers.integrations import hub_kernels

from hf_gile import GileConfig, GileProcessor
from hf_gile.training import model_from_text_encoder, processor_from_text_encoder

ROOT = Path(__file__).parents[2]
CODE = "has custom code, which hf-gile does not run"
CONSENT = "1\ny\nyes\nheart patients\n"  # accepted by the prompts of transformers


def edit(file, **fields):
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | fields))


@pytest.fixture
def plant(tmp_path):
    """Adds a Python file that writes a file when run; returns the path of that file."""

    def write(folder):
        marker = tmp_path / "was-run"
        (folder / "planted.py").write_text(
            f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
            "from transformers import BertConfig, BertModel, BertTokenizer\n"
            "class Config(BertConfig): pass\nclass Model(BertModel): pass\nclass Tokenizer(BertTokenizer): pass\n"
        )
        return marker

    return write


@pytest.fixture
def saved_over_encoder(tmp_path, make_over_encoder):
    for part in make_over_encoder():
        part.save_pretrained(tmp_path / "over")
    return tmp_path / "over"


def foreign_config(folder):
    edit(folder / "config.json", model_type="foreign", auto_map={"AutoConfig": "planted.Config"})


def tokenizer_class(folder):
    planted_fields = {"tokenizer_class": "PlantedTokenizer", "auto_map": {"AutoTokenizer": ["planted.Tokenizer"] * 2}}
    edit(folder / "tokenizer_config.json", **planted_fields)


def known_classes(folder):
    auto = {"AutoConfig": "planted.Config", "AutoModelForSequenceClassification": "planted.Model"}
    edit(folder / "config.json", auto_map=auto)
    edit(folder / "processor_config.json", auto_map={"AutoProcessor": "planted.Config"})
    (folder / "processor_manifest.json").unlink()


ATTACKS = [(foreign_config, "is a model of type 'foreign', not a GILE model"), (tokenizer_class, CODE)]


@pytest.mark.parametrize(("attack", "says"), [*ATTACKS, (known_classes, None)])  # classes of the package
def test_commands_run_no_code_from_a_model_folder(run, saved_model, plant, attack, says):
    marker = plant(saved_model)
    attack(saved_model)
    result = run("score", saved_model, input=CONSENT, ends=0 if says is None else 1)
    assert not marker.exists()
    if says is not None:
        assert says in result.stderr
        assert "trust_remote_code" not in result.stderr


def test_commands_run_no_code_for_the_encoder_of_a_model(run, saved_over_encoder, plant):
    marker = plant(saved_over_encoder)
    # A type with a configuration in transformers, but without AutoModel.
    planted_fields = {"auto_map": {"AutoModel": "planted.Model"}, "_name_or_path": str(saved_over_encoder)}
    size = GileConfig.from_pretrained(saved_over_encoder).text_config.vocab_size
    encoder = AlignTextConfig(vocab_size=size, hidden_size=12, num_hidden_layers=1, num_attention_heads=2)
    config = json.loads((saved_over_encoder / "config.json").read_text())
    config["text_config"]["text_encoder_config"] = encoder.to_dict() | planted_fields
    edit(saved_over_encoder / "config.json", **config)
    result = run("score", saved_over_encoder, input=CONSENT, ends=1)
    assert not marker.exists()
    assert CODE in result.stderr


def test_training_runs_no_code_of_an_encoder_folder(save_text_encoder, plant, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(CONSENT * 9))
    encoder = Path(save_text_encoder())
    marker = plant(encoder)
    tokenizer_class(encoder)
    foreign_config(encoder)
    for load in (model_from_text_encoder, partial(processor_from_text_encoder, config=GileConfig())):
        with pytest.raises(ValueError, match="custom code"):
            load(encoder)
    assert not marker.exists()


@pytest.fixture
def no_kernel(monkeypatch):
    """Pretends that the package `kernels` is installed, and fails if something is downloaded."""

    def download(*args, **kwargs):
        raise AssertionError("something would be downloaded")

    names = ("is_kernels_available", "get_kernel", "load_and_register_attn_kernel", "lazy_import_flash_attention")
    for module, name in product((hub_kernels, modeling_utils), names):
        monkeypatch.setattr(module, name, download, raising=False)


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("model", {"attn_implementation": "somebody/kernel@v1:flash"}),
        ("text", {"_attn_implementation_internal": "somebody/kernel"}),
        ("encoder", {"_attn_implementation": {"": "eager", "text_config": "paged|somebody/kernel"}}),
        ("model", {"experts_implementation": "somebody/kernel"}),
        ("model", {"vision_config": {"model_type": "timm_wrapper", "architecture": "hf-hub:somebody/model"}}),
        ("model", {"quantization_config": {"quant_method": "mxfp4"}}),
    ],
)
def test_a_model_folder_names_nothing_to_download(saved_over_encoder, no_kernel, part, fields):
    file = saved_over_encoder / "config.json"
    content = json.loads(file.read_text())
    text = content["text_config"]
    {"model": content, "text": text, "encoder": text["text_encoder_config"]}[part].update(fields)
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"may download code or weights: remove it"):
        AutoModelForSequenceClassification.from_pretrained(saved_over_encoder, trust_remote_code=False)


def test_a_model_folder_may_name_an_attention_of_torch(saved_over_encoder, no_kernel):
    edit(saved_over_encoder / "config.json", _attn_implementation="sdpa")
    model = AutoModelForSequenceClassification.from_pretrained(saved_over_encoder, trust_remote_code=False)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("model.safetensors.index.json", {"weight_map": {"a": "../private.safetensors"}}, "outside its folder"),
        ("model.safetensors.index.json", {"weight_map": ["a"]}, "does not list weight files"),
        ("adapter_config.json", {"base_model_name_or_path": "../private"}, "adapters of another model: merge them"),
    ],
)
def test_weights_outside_the_folder_are_refused(run, saved_model, tmp_path, name, content, says):
    (saved_model / "model.safetensors").rename(tmp_path / "private.safetensors")
    (saved_model / name).write_text(json.dumps(content))
    assert says in run("score", saved_model, input="iron\n", ends=1).stderr


def test_a_processor_folder_names_nothing_to_download(saved_over_encoder, monkeypatch):
    monkeypatch.setattr(DacModel, "from_pretrained", None)
    named = {"audio_tokenizer_class": "DacModel", "audio_tokenizer_name_or_path": "somebody/model"}
    edit(saved_over_encoder / "processor_config.json", audio_tokenizer=named)
    with pytest.raises(ValueError, match="'DacModel', which transformers may download"):
        GileProcessor.from_pretrained(saved_over_encoder, trust_remote_code=False)


def test_training_downloads_no_kernel_of_an_encoder_folder(save_text_encoder, no_kernel):
    encoder = Path(save_text_encoder())
    edit(encoder / "config.json", _attn_implementation="somebody/kernel")
    with pytest.raises(ValueError, match="_attn_implementation is 'somebody/kernel', which may download"):
        model_from_text_encoder(encoder)


def needs_flag(call):
    """Checks whether a call loads by an Auto class, a processor or a tokenizer, which search for code in the folder."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("from_pretrained", "from_config"):
        return False
    name = ast.unparse(function.value)
    return name.startswith("Auto") or "Processor" in name or "Tokenizer" in name


def test_every_loading_call_sets_trust_remote_code():
    calls = []
    for folder in ("hf_gile", "hf_gile_cli", "recipes", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            calls += [(f"{path}:{node.lineno}", node) for node in found if needs_flag(node)]
    assert calls
    silent = [location for location, call in calls if "trust_remote_code" not in [x.arg for x in call.keywords]]
    assert not silent
