import pytest

from hf_gile import GileForSequenceClassification, LabelIndex
from hf_gile.training import model_from_text_encoder, processor_from_text_encoder


@pytest.fixture
def save_model(tmp_path, save_text_encoder, label_set):
    """Returns a function that saves a model with a pretrained encoder and returns its folder."""

    def save(**options):
        encoder = save_text_encoder(tmp_path / "encoder")
        model = model_from_text_encoder(encoder, num_labels=len(label_set), joint_size=13, **options)
        processor = processor_from_text_encoder(encoder, model.config)
        model.set_labels(label_set, processor)
        model.save_pretrained(tmp_path / "model")
        processor.save_pretrained(tmp_path / "model")
        return tmp_path / "model"

    return save


@pytest.fixture
def over_an_encoder(save_model):
    return save_model()


def test_a_folder_for_sentence_transformers_is_written_once(run, over_an_encoder, tmp_path):
    pytest.importorskip("sentence_transformers")
    done = run("export", "sentence-transformers", over_an_encoder, tmp_path / "out")
    assert "out, with 5 labels in labels.safetensors" in done.stderr
    assert (tmp_path / "out" / "modules.json").is_file()
    assert "not empty" in run("export", "sentence-transformers", over_an_encoder, tmp_path / "out", ends=1).stderr


@pytest.mark.slow
def test_onnx_files_are_written(run, saved_model, tmp_path):
    pytest.importorskip("onnxruntime")
    done = run("export", "onnx", saved_model, tmp_path / "out", "--int8")
    assert "out: model.onnx, model_int8.onnx, text.onnx" in done.stderr


def test_vectors_equal_those_of_the_index_or_the_other_export(run, over_an_encoder, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "more.csv").write_text("id,name\n1,Iron\n2,Blood pressure\n")
    done = run("export", "vectors", over_an_encoder, tmp_path / "a.parquet", "--label-file", tmp_path / "more.csv")
    assert "2 labels of 13 numbers" in done.stderr
    run("export", "vectors", over_an_encoder, tmp_path / "b.parquet", "--for-sentence-transformers")
    model = GileForSequenceClassification.from_pretrained(over_an_encoder)
    scale = model.gile.output_layer.classifier()[0][0]
    rows = parquet.read_table(tmp_path / "b.parquet").to_pylist()
    expected = (LabelIndex.build(model).codes * scale).detach()
    assert [row["vector"] for row in rows] == [pytest.approx(row) for row in expected.tolist()]


@pytest.mark.parametrize("kind", ["sentence-transformers", "onnx", "vectors"])
def test_words_are_left_out_only_on_request(run, save_model, tmp_path, kind):
    pytest.importorskip("sentence_transformers")
    model, out = save_model(lexical=True), tmp_path / "out.sql"
    error = run("export", kind, model, out, ends=1).stderr
    assert "exports cannot represent: leave them out with --without-words; docs/exports.md" in error
    assert "config" not in error
    assert "without_words" not in error
    if kind != "onnx":  # slow
        run("export", kind, model, out, "--without-words")
        assert out.exists()


def test_models_that_cannot_be_exported_are_refused(run, saved_model, tmp_path):
    pytest.importorskip("sentence_transformers")
    error = run("export", "sentence-transformers", saved_model, tmp_path / "out", ends=1).stderr
    assert error.startswith("hf-gile export sentence-transformers: Sentence Transformers needs a pretrained encoder")
