import gzip
import json
import os
import signal
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forks import is_killed

from hf_gile import GileForSequenceClassification, LabelSet
from hf_gile.scoring import GileScorer, Reading, ScoringRun, start_run
from hf_gile.scoring.workers import score_parts

ROWS = [{"id": number, "text": text} for number, text in enumerate(["Rats were fed.", "Breast milk.", ""] * 20)]


@pytest.fixture
def scorer(saved):
    return GileScorer(saved, top_k=2)


def rows_of(path):
    return pq.read_table(path).to_pylist()


def score(folder, files, scorer, shard=(0, 1), **reading):
    run = start_run(folder, files, scorer, Reading(**{"part_bytes": 500, **reading}))
    return run, list(score_parts(run, run.left(*shard), scorer, 1))


def test_each_row_is_written_once_with_the_scores_of_the_scorer(scorer, write_rows, tmp_path):
    files = [write_rows(ROWS), write_rows([], "none.jsonl"), write_rows(ROWS[:7], "more.jsonl")]
    run, done = score(tmp_path / "out", files, scorer)
    assert len(run.parts) > 4
    assert run.status() == {"parts": len(done), "done": len(done), "rows": 67, "rejected": 0}
    assert run.merge(tmp_path / "all.parquet") == 67
    merged = rows_of(tmp_path / "all.parquet")
    assert [row["id"] for row in merged] == [str(row["id"]) for row in [*ROWS, *ROWS[:7]]]
    columns = scorer({"text": [row["text"] for row in ROWS]})
    for name in ("labels", "note"):
        assert [row[name] for row in merged[:60]] == columns[name]
    for row, scores in zip(merged, columns["scores"], strict=False):
        assert row["scores"] == pytest.approx(scores, rel=1e-5)
    assert {row["text"] for row in merged} == {None}
    assert list((tmp_path / "out" / "rejected").iterdir()) == []


@pytest.mark.parametrize("kind", ["text", "parquet", "gz"])
def test_splittable_files_of_any_format_are_split_into_parts(scorer, tmp_path, kind):
    path, texts = tmp_path / f"rows.{kind}", [row["text"] or "-" for row in ROWS]
    if kind == "parquet":
        pq.write_table(pa.table({"text": texts}), path, row_group_size=15)
    elif kind == "gz":
        path = tmp_path / "rows.jsonl.gz"
        path.write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in texts).encode()))
    else:
        path.write_text("\n".join(texts) + "\n")
    run, _ = score(tmp_path / "out", [path], scorer, part_bytes=100)
    assert (len(run.parts) > 2) == (kind != "gz")
    assert run.merge(tmp_path / "all.parquet") == 60
    assert [row["text"] for row in rows_of(tmp_path / "all.parquet")] == texts


def test_rows_that_cannot_be_scored_are_rejected_with_the_reason(scorer, write_rows, tmp_path):
    bad = ["{broken", {"id": 1, "text": [5]}, {"id": 2}, {"id": 3, "text": "half a \ud83d pair"}, "[]"]
    path = write_rows([{"id": 0, "text": "Rats."}, *bad, {"id": 9, "text": "Milk."}])
    run, (done,) = score(tmp_path / "out", [path], scorer)
    assert done == {"rows": 2, "rejected": 5}
    assert run.status() == {"parts": 1, "done": 1, **done}
    (name,) = run.parts
    assert [row["id"] for row in rows_of(run.part(name))] == ["0", "9"]
    reasons = [json.loads(line)["reason"] for line in run.rejected(name).read_text().splitlines()]
    expected = ["line 2: not JSON", "got [5]", "no column 'text'", "", "line 6"]
    for reason, part in zip(reasons, expected, strict=True):
        assert part in reason


def test_a_part_without_valid_rows_is_an_error(scorer, write_rows, tmp_path):
    path = write_rows([{"id": 1, "body": "Rats."}] * 3)
    with pytest.raises(ValueError, match=r"no text could be scored: .*no column 'text', only id, body"):
        score(tmp_path / "out", [path], scorer)
    assert list((tmp_path / "out" / "parts").iterdir()) == []


def test_a_run_resumes_where_it_stopped(scorer, write_rows, tmp_path):
    run, _ = score(tmp_path / "out", [write_rows(ROWS)], scorer, (0, 2))
    left = run.left()
    with pytest.raises(ValueError, match=rf"{len(left)} of {len(run.parts)} parts are not done, such as {left[0]}"):
        run.merge(tmp_path / "all.parquet")
    again, done = score(tmp_path / "out", [tmp_path / "texts.jsonl"], scorer)
    assert len(done) == len(left) < len(run.parts)
    assert again.status()["rows"] == 60
    loaded = ScoringRun.load(tmp_path / "out")
    assert (loaded.parts, loaded.left()) == (run.parts, [])


def test_a_different_run_in_the_same_folder_is_refused(saved, write_rows, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_gile.scoring.scorer.has_bf16", lambda device: True)
    path, scorer = write_rows(ROWS[:3]), GileScorer(saved, top_k=2)
    score(tmp_path / "out", [path], scorer)

    def refused(what, other=scorer, **reading):
        with pytest.raises(ValueError, match=rf"out has a run with different {what}: choose another folder"):
            score(tmp_path / "out", [path], other, **reading)

    refused(r"options \(top_k\)", GileScorer(saved, top_k=3))
    refused(r"options \(bf16\)", GileScorer(saved, top_k=2, bf16=True))
    refused("labels", GileScorer(saved, LabelSet.from_names(["Milk", "Rats"]), top_k=2))
    refused(r"reading \(id\)", id="text")
    model = GileForSequenceClassification.from_pretrained(saved)
    model.config.thresholds = {"seen": 0.5}
    model.save_pretrained(saved)
    refused("thresholds", GileScorer(saved, top_k=2))
    model.gile.config.thresholds = {}
    next(model.parameters()).data.add_(1)
    model.save_pretrained(saved)
    refused("weights", GileScorer(saved, top_k=2))
    write_rows(ROWS[:4])
    refused("files")
    (tmp_path / "out" / "_run.json").unlink()
    with pytest.raises(ValueError, match=r"out has parts, but no _run\.json"):
        score(tmp_path / "out", [path], scorer)


def test_missing_and_damaged_runs_are_refused(scorer, write_rows, tmp_path):
    with pytest.raises(FileNotFoundError, match="has no run"):
        ScoringRun.load(tmp_path)
    run, _ = score(tmp_path / "out", [write_rows(ROWS[:3])], scorer)
    (name,) = run.parts
    run.part(name).write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"\.parquet is damaged .*: remove it, and score again"):
        run.status()
    for text in ("{", '{"fingerprint": {}, "parts": {"a": [1]}}'):
        (tmp_path / "out" / "_run.json").write_text(text)
        with pytest.raises(ValueError, match=r"_run\.json is damaged"):
            ScoringRun.load(tmp_path / "out")


def killing(operation, left):
    """An operation that kills this process when `left` calls were made of it and of others."""

    def call(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return operation(*arguments, **options)

    return call


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_operation_loses_no_row_and_repeats_none(scorer, write_rows, tmp_path):
    path = write_rows([*ROWS[:20], "{broken", *ROWS[20:40], {"text": [3]}])
    ends = Counter()
    for number in range(1, 200, 11):
        folder = tmp_path / f"killed-{number}"

        def act(number=number, folder=folder):
            left = [number]
            for name in ("replace", "fsync", "unlink", "open"):
                setattr(os, name, killing(getattr(os, name), left))
            score(folder, [path], scorer)

        killed = is_killed(act)
        run, done = score(folder, [path], scorer)
        run.merge(tmp_path / "all.parquet")
        rows = rows_of(tmp_path / "all.parquet")
        assert [row["id"] for row in rows] == [str(row["id"]) for row in ROWS[:40]]
        assert run.status()["rejected"] == 2
        assert not [file.name for file in (folder / "parts").iterdir() if file.name.startswith(".")]
        ends[len(done)] += 1
        if not killed:
            break
    assert not killed
    assert len(ends) > 2  # killed before, between and after parts
