from copy import deepcopy

import pytest
import torch
from approximate_search import SEARCH_FILE, ApproximateSearch, FastIndex, recall
from safetensors import safe_open
from safetensors.torch import load_file, save

from hf_gile import GileProcessor, Label, LabelSet, build_tokenizer
from hf_gile.models import GileConfig, GileModel

WORDS = [f"{first}{second}" for first in "bdfgklmnprstvz" for second in ("an", "el", "it", "om", "ur")]


@pytest.fixture(autouse=True, scope="module")
def _faiss():
    pytest.importorskip("faiss", reason="approximate search needs faiss: pip install 'hf-gile[serve]'")


def names(count, seed=0):
    """Labels of three words each."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(WORDS), (count, 3), generator=generator).tolist()
    words = [" ".join(WORDS[word] for word in row) for row in rows]
    return [Label(f"L{seed}-{row}", f"{name} {row % 7}") for row, name in enumerate(words)]


@pytest.fixture(scope="module")
def made():
    """A model with random weights, its processor, and text codes of 300 documents."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer([" ".join([*WORDS, *"0123456"])], min_count=1)
    config = GileConfig(vocab_size=len(tokenizer), embedding_size=23, hidden_size=19, joint_size=53)
    model = GileModel(config).eval()
    processor = GileProcessor.for_config(tokenizer, config)
    with torch.no_grad():
        texts = [" ".join(label.name.split()[:2] * 3) for label in names(300, seed=1)]
        text_codes = model.project_texts(**processor(texts, return_tensors="pt"))
    return model, processor, text_codes


@pytest.fixture(scope="module")
def built_once(made):
    model, processor, text_codes = made
    label_set = LabelSet(list({label.name: label for label in names(3100)}.values())[:3001])
    index = FastIndex.build(model, processor, label_set)
    index.search = ApproximateSearch.build(index, text_codes[:200], size=32)
    return index


@pytest.fixture
def built(built_once):
    """An index of 3,001 labels with its search, to change."""
    return deepcopy(built_once)


def read_everything(index):
    index.search.probes = len(index)
    index.search.oversampling = 64


def assert_exact(index, text_codes, k=7):
    found, expected = index.top_k(text_codes, k, approximate=True), index.top_k(text_codes, k)
    torch.testing.assert_close(found.scores, expected.scores)
    torch.testing.assert_close(index.scores(text_codes).gather(1, found.columns), expected.scores)


def test_searching_every_list_gives_the_exact_answer(made, built):
    read_everything(built)
    assert_exact(built, made[2])
    assert recall(built, made[2], 7) == 1


def test_searching_some_lists_gives_high_recall_and_exact_scores(made, built):
    text_codes = made[2][200:]
    assert recall(built, text_codes, 10) > 0.95
    built.search.probes = 4
    found = built.top_k(text_codes, 10, approximate=True)
    assert found.scores.shape == found.columns.shape == (100, 10)
    torch.testing.assert_close(built.scores(text_codes).gather(1, found.columns), found.scores)
    assert (found.scores.diff(dim=1) <= 0).all()
    exact = built.top_k(text_codes, 10)
    both = (found.columns[:, :, None] == exact.columns[:, None, :]).any(-1).double().mean().item()
    assert recall(built, text_codes, 10) == pytest.approx(both, abs=0.01)  # but for labels that score alike
    assert 0.6 < both < 1


def test_a_search_follows_added_removed_and_renamed_labels(made, built):
    model, processor, text_codes = made
    before = built.search
    built.remove(*(label.id for label in names(100)))
    built.add([Label("new 1", "ban ban ban"), Label("new 2", "zur zur")], model, processor)
    built.rename("new 1", "gel gel", model, processor)
    built.rename("L0-200", "gel gel gel pit", model, processor)
    built.add([Label("new 3", "kom kom")], model, processor)
    built.remove("new 2")
    assert built.search is before
    read_everything(built)
    assert_exact(built, text_codes)
    assert_exact(built, built.codes[[-1, -2, 100]], 1)
    columns = built.top_k(text_codes[:3], len(built), approximate=True).columns
    assert columns.sort().values.tolist() == [list(range(len(built)))] * 3


def test_a_saved_search_answers_as_before(tmp_path, made, built):
    model, processor, text_codes = made
    built.remove("L0-3", "L0-5")
    built.search.probes = 3
    built.save_pretrained(tmp_path)
    built.search.save(tmp_path, built)
    loaded = FastIndex.from_pretrained(tmp_path)
    loaded.search = ApproximateSearch.load(tmp_path, loaded)
    for one, other in zip(*(index.top_k(text_codes, 9, approximate=True) for index in (built, loaded)), strict=True):
        assert torch.equal(one, other)
    loaded.add([Label("new", "ban ban")], model, processor)
    read_everything(loaded)
    assert_exact(loaded, text_codes)


def test_a_search_of_other_labels_is_refused(tmp_path, made, built):
    model, processor, _ = made
    with pytest.raises(FileNotFoundError, match=r"label_search\.safetensors"):
        ApproximateSearch.load(tmp_path, built)
    built.search.save(tmp_path, built)
    built.rename("L0-7", "ban", model, processor)
    with pytest.raises(ValueError, match="belongs to other labels"):
        ApproximateSearch.load(tmp_path, built)
    built.search.save(tmp_path, built)
    ApproximateSearch.load(tmp_path, built)
    built.model_fingerprint = "another"
    with pytest.raises(ValueError, match="or to another model"):
        ApproximateSearch.load(tmp_path, built)


def flip(data, place):
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def test_a_damaged_search_is_refused(tmp_path, built):
    folder = tmp_path / "made by save"
    built.search.save(folder, built)
    file = folder / SEARCH_FILE
    good, tensors = file.read_bytes(), load_file(file)
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
    fewer = save(tensors | {"lists": tensors["lists"][:100].clone()}, metadata=metadata)
    # faiss would read a file with a flipped bit, and find other labels.
    for damaged in (good[:2000], fewer, flip(good, len(good) // 2), flip(good, len(good) - 5)):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"(damaged|mismatch).*: build the search again and save it"):
            ApproximateSearch.load(folder, built)


@pytest.mark.parametrize("count", [1, 45])
def test_a_small_label_set_can_be_searched(made, built, count, capfd):
    index = FastIndex(built.label_set[:count], built.codes[:count], 0.0, None, "of no model")
    index.search = ApproximateSearch.build(index, made[2])
    found = index.top_k(made[2], 50, approximate=True)
    assert found.columns.shape == (300, count)
    assert_exact(index, made[2])
    assert capfd.readouterr().err == ""  # faiss warns there of too few labels for its lists
