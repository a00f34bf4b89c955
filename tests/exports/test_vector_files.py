import json
import re
import tempfile
from pathlib import Path

import pytest
import torch
from pyarrow.parquet import read_schema

from hf_gile import Label, LabelIndex, LabelSet
from hf_gile.exports import export_vectors

LABELS = LabelSet(
    Label(f"http://x.org/{number}", name, f"it's the {number}. of 'them'")
    for number, name in enumerate(["Iron", "Milk", "Heart's blood", "Rats", 'Low "diet"', "Infants", "Cardiac output"])
)
TEXTS = ["Breast milk lowers the risk of infection.", "Rats were fed iron.", "the heart"]


@pytest.fixture
def index(make_model):
    model, processor = make_model()
    made = LabelIndex.build(model, processor, LABELS)
    with torch.no_grad():
        codes = model.gile.project_texts(**processor(TEXTS, return_tensors="pt"))
    return made, codes


def best(index, codes, k=3):
    return [[index.label_set.ids[column] for column in row] for row in index.top_k(codes, k).columns.tolist()]


def test_duckdb_ranks_labels_as_the_index_does(index, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    index, codes = index
    export_vectors(index, tmp_path / "labels.parquet")
    select = """
        SELECT id, array_inner_product(vector::FLOAT[13], ?::FLOAT[13]) AS score
        FROM read_parquet(?) ORDER BY score DESC LIMIT 3
    """
    rows = [duckdb.execute(select, [code, str(tmp_path / "labels.parquet")]).fetchall() for code in codes.tolist()]
    assert [[label_id for label_id, _ in row] for row in rows] == best(index, codes)
    scores = torch.tensor([[score for _, score in row] for row in rows]) + index.bias
    torch.testing.assert_close(scores, index.top_k(codes, 3).scores)
    assert float(read_schema(tmp_path / "labels.parquet").metadata[b"bias"]) == index.bias


def test_sql_quotes_texts_and_uses_an_indexable_type(index, tmp_path):
    index, _ = index
    export_vectors(index, tmp_path / "labels.sql", table='my "labels"', scale=torch.full((13,), 2.0))
    sql = (tmp_path / "labels.sql").read_text()
    assert 'CREATE TABLE "my ""labels"""' in sql
    assert "vector vector(13)" in sql
    assert "'Heart''s blood', 'it''s the 2. of ''them''', '[" in sql
    rows = [json.loads(row) for row in re.findall(r"'(\[.*\])'\)", sql)]
    torch.testing.assert_close(torch.tensor(rows), 2 * index.codes)
    wide = LabelIndex(LABELS, torch.randn(7, 2001), 0.0, None, "x")
    export_vectors(wide, tmp_path / "wide.sql")
    assert "vector halfvec(2001)" in (tmp_path / "wide.sql").read_text()


@pytest.mark.slow
def test_postgresql_ranks_labels_as_the_index_does(index, tmp_path):
    pgserver = pytest.importorskip("pgserver")
    index, codes = index
    export_vectors(index, tmp_path / "labels.sql")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # of root's files, the server reads what all may read
        server = pgserver.get_server(f"{folder}/data")
        try:
            server.psql((tmp_path / "labels.sql").read_text())
            select = "SELECT id FROM labels ORDER BY vector <#> '{}' LIMIT 3;"
            rows = [server.psql(select.format(code)) for code in codes.tolist()]
        finally:
            server.cleanup()
    assert [[line.strip() for line in row.splitlines() if "http" in line] for row in rows] == best(index, codes)


def test_unsupported_files_and_too_wide_vectors_are_refused(index, tmp_path):
    index, _ = index
    with pytest.raises(ValueError, match=r"a \.parquet or \.sql file, got \.csv"):
        export_vectors(index, tmp_path / "labels.csv")
    wide = LabelIndex(LABELS, torch.randn(7, 4001), 0.0, None, "x")
    with pytest.raises(ValueError, match="size 4001, and pgvector indexes at most 4000"):
        export_vectors(wide, tmp_path / "labels.sql")
    index.postings = object()
    with pytest.raises(ValueError, match="leave them out with without_words=True"):
        export_vectors(index, tmp_path / "labels.sql")
    assert list(tmp_path.iterdir()) == []
