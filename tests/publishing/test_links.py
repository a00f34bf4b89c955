"""File names and links cannot leave the folder of a saved model."""

import json

import pytest

from hf_gile import LabelIndex
from hf_gile.label_index import _check_file
from hf_gile.publishing import write_card
from hf_gile.publishing.contents import select_files


@pytest.fixture
def index(tmp_path, make_model):
    LabelIndex.build(make_model()[0]).save_pretrained(tmp_path / "model" / "index")
    return tmp_path / "model" / "index"


def test_a_file_name_outside_the_index_folder_is_refused(index, tmp_path):
    names = json.loads((index / "label_index.json").read_text())["labels"]
    (tmp_path / names).write_text("private")
    for name in (f"../../{names}", str(tmp_path / names), "", "labels.jsonl", None):
        with pytest.raises(ValueError, match="which is not a file of an index in"):
            _check_file(index, name)


def test_an_index_follows_no_link_out_of_its_folder(index, tmp_path):
    codes = json.loads((index / "label_index.json").read_text())["codes"]
    elsewhere = (index / codes).rename(tmp_path / "elsewhere")
    (index / codes).symlink_to(elsewhere)
    with pytest.raises(ValueError, match="which is not a file of an index in"):
        LabelIndex.from_pretrained(index)


def test_an_index_in_the_hub_cache_is_read_through_links(index, tmp_path):
    snapshot = tmp_path / "cache" / "snapshots" / "0a1b" / "index"
    snapshot.mkdir(parents=True)
    (tmp_path / "cache" / "blobs").mkdir()
    for number, file in enumerate(index.iterdir()):
        blob = file.rename(tmp_path / "cache" / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../../blobs/{blob.name}")
    assert len(LabelIndex.from_pretrained(snapshot)) == 5


def test_a_link_to_a_file_outside_the_folder_is_not_uploaded(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "private").write_text("private")
    (tmp_path / "model" / "README.md").symlink_to("../private")
    with pytest.raises(ValueError, match=r"README.md is a link to .*private, outside of the folder"):
        select_files(tmp_path / "model")


def test_card_figures_are_not_written_through_a_link(tmp_path, make_model):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "calibration.png").write_text("mine")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="figures is a link to another folder"):
        write_card(tmp_path / "model", make_model()[0])
    assert [path.read_text() for path in (tmp_path / "elsewhere").iterdir()] == ["mine"]
