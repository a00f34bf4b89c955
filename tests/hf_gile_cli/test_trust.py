"""No data makes the command run code, neither files of a model nor answers on standard input."""

import ast
import io
import json
from functools import partial
from pathlib import Path

import pytest
from transformers import AlignTextConfig

from hf_gile import GileConfig
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
def saved_over_encoder(tmp_path, save_text_encoder, label_set):
    encoder = save_text_encoder()
    model = model_from_text_encoder(encoder, num_labels=5, joint_size=3).eval()
    processor = processor_from_text_encoder(encoder, model.config)
    model.set_labels(label_set, processor)
    model.save_pretrained(tmp_path / "over")
    processor.save_pretrained(tmp_path / "over")
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


@pytest.mark.parametrize(
    ("attack", "says"),
    [
        (foreign_config, "is a model of type 'foreign', not a GILE model"),
        (tokenizer_class, CODE),
        (known_classes, None),  # classes of the package
    ],
)
@pytest.mark.parametrize("command", [["score", "MODEL"], ["labels", "add", "MODEL", "new", "Rats"]])
def test_commands_run_no_code_from_a_model_folder(run, saved_model, plant, attack, says, command):
    marker = plant(saved_model)
    attack(saved_model)
    result = run(
        *(saved_model if word == "MODEL" else word for word in command), input=CONSENT, ends=0 if says is None else 1
    )
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
    edit(saved_over_encoder / "config.json", text_encoder_config=encoder.to_dict() | planted_fields)
    result = run("score", saved_over_encoder, input=CONSENT, ends=1)
    assert not marker.exists()
    assert CODE in result.stderr


def test_training_runs_no_code_of_an_encoder_folder(save_text_encoder, plant, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(CONSENT * 9))
    encoder = Path(save_text_encoder())
    marker = plant(encoder)
    tokenizer_class(encoder)
    foreign_config(encoder)
    for load in (
        model_from_text_encoder,
        partial(processor_from_text_encoder, config=GileConfig()),
    ):
        with pytest.raises(ValueError, match="custom code"):
            load(encoder)
    assert not marker.exists()


def needs_flag(call):
    """Checks whether a call loads by an Auto class, a processor or a tokenizer, which search for code in the folder."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("from_pretrained", "from_config"):
        return False
    name = ast.unparse(function.value)
    return name.startswith("Auto") or "Processor" in name or "Tokenizer" in name


@pytest.mark.parametrize("folder", ["hf_gile", "hf_gile_cli", "recipes", "benchmarks"])
def test_every_loading_call_sets_trust_remote_code(folder):
    calls = [
        (f"{path}:{node.lineno}", node)
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and needs_flag(node)
    ]
    assert calls
    silent = [location for location, call in calls if "trust_remote_code" not in [x.arg for x in call.keywords]]
    assert not silent
