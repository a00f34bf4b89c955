import json

import pytest
from transformers import AutoModel


def test_a_published_checkpoint_is_converted(run, shared_data, tmp_path):
    pytest.importorskip("h5py")
    (folder,) = (shared_data / "published_checkpoints" / "gile").glob("*en-de*")
    result = run("convert", folder / "weights.h5", folder / "args.json", tmp_path / "model")
    assert result.stderr.endswith(
        f"converted han with output layer gile, for english, german: {tmp_path / 'model'}\n"
        "it reads word vectors (inputs_embeds, label_embeds); without words in the checkpoint, it has no processor\n"
    )
    assert AutoModel.from_pretrained(tmp_path / "model").config.languages == ["english", "german"]
    assert (tmp_path / "model" / "published_gile.py").is_file()
    repeated = run("convert", folder / "weights.h5", folder / "args.json", tmp_path / "model", ends=1)
    assert "already exists and is not empty" in repeated.stderr


def test_files_of_another_format_are_refused(run, tmp_path):
    pytest.importorskip("h5py")
    (tmp_path / "args.json").write_text(json.dumps({}))
    (tmp_path / "weights.h5").write_text("no HDF5")
    result = run("convert", tmp_path / "weights.h5", tmp_path / "args.json", tmp_path / "model", ends=1)
    assert "args.json: wdim must be a number, got None" in result.stderr
    result = run("convert", tmp_path / "absent.h5", tmp_path / "args.json", tmp_path / "model", ends=1)
    assert "no file" in result.stderr
    assert not (tmp_path / "model").exists()
