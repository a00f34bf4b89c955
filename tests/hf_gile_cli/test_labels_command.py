import json

import pytest

from hf_gile import GileForSequenceClassification, GileProcessor, Label, LabelIndex, LabelSet, load_labels
from hf_gile.data import save_labels
from hf_gile.writing import exclusive_lock

SKOS = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
<http://a.org/1> a skos:Concept ; skos:prefLabel "Rats"@en, "Ratten"@de ; skos:altLabel "Rattus"@en ."""


def load(folder):
    processor = GileProcessor.from_pretrained(folder)
    return GileForSequenceClassification.from_pretrained(folder).eval(), processor


def scores(folder, text="Rats were fed a diet low in iron."):
    model, processor = load(folder)
    logits = model(**processor([text], return_tensors="pt")).logits[0]
    return dict(zip(model.label_set.ids, logits.tolist(), strict=True))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_labels_of_a_model_are_shown(run, saved_model):
    result = run("labels", "show", saved_model)
    assert [line.split() for line in result.stdout.splitlines()][:4] == [
        ["id", "documents", "threshold", "name"],
        ["Heart", "Failure", "unseen", "Heart", "Failure"],
        ["Milk,", "Human", "unseen", "Milk,", "Human"],
        ["Iron", "7", "Iron"],
    ]
    assert result.stderr == "5 labels, 1 of them seen in training\n"
    shown = run("labels", "show", saved_model, "--limit", 2)
    assert shown.stderr == "2 of 5 labels, 1 of them seen in training\n"
    shown = run("labels", "show", saved_model, "--search", "milk")
    assert shown.stderr == f"1 matching label; {saved_model} has 5, 1 of them seen in training\n"


def test_labels_can_be_searched_filtered_and_sorted(run, saved_model):
    def names(*flags):
        result = run("labels", "show", saved_model, "--json", *flags)
        return [json.loads(line)["name"] for line in result.stdout.splitlines()]

    assert names("--search", "PUMPS heart") == ["Heart Failure"]
    assert names("--seen") == ["Iron"]
    assert names("--unseen", "--sort", "name") == ["Blood", "Heart Failure", "Infant", "Milk, Human"]
    assert names("--sort", "count", "--limit", 2) == ["Iron", "Heart Failure"]


def test_a_text_of_labels_is_shown_and_imported(run, write):
    names = write("labels.txt", "delivery\ninvoice, late\n")
    file = names.with_suffix(".jsonl")
    assert "invoice, late" in run("labels", "show", names).stdout
    run("labels", "import", file, names)
    assert LabelSet.load(file) == LabelSet.from_names(["delivery", "invoice, late"])
    message = run("labels", "add", names, "3", "password", ends=1).stderr
    assert f"changes are written to .jsonl and .csv files: hf-gile labels import labels.jsonl {names}" in message


def test_label_changes_update_the_words_and_scores_of_a_model(run, saved_model):
    before = scores(saved_model)
    added = run("labels", "add", saved_model, "M1", "Rats", "--description", "rats were fed", "--synonym", "Rattus")
    assert added.stdout == "+ M1  Rats: rats were fed\n"
    assert "1 added, 0 removed, 0 changed" in added.stderr
    assert run("labels", "rename", saved_model, "Iron", "Iron Diet").stdout == "~ Iron  Iron -> Iron Diet\n"
    assert run("labels", "retire", saved_model, "Infant", "--dry_run").stdout == "- Infant  Infant\n"
    assert run("labels", "retire", saved_model, "Infant").stdout == "- Infant  Infant\n"
    model, processor = load(saved_model)
    assert model.label_set.ids == ["Heart Failure", "Milk, Human", "Iron", "Blood", "M1"]
    assert model.label_set[4].synonyms == ("Rattus",)
    assert model.label_set[2].count == 7
    after = scores(saved_model)
    unchanged = {"Heart Failure", "Milk, Human", "Blood"}
    assert {name: after[name] for name in unchanged} == pytest.approx({name: before[name] for name in unchanged})
    assert after["Iron"] != pytest.approx(before["Iron"])
    words = processor(["Rats were fed a diet low in iron."], return_tensors="pt")
    fresh = LabelIndex.build(model, processor, model.label_set).scores(model.gile.project_texts(**words))[0]
    assert list(after.values()) == pytest.approx(fresh.tolist(), abs=1e-6)


def test_label_changes_update_the_index_of_a_model(run, tmp_path, make_model, write):
    folder, terms = tmp_path / "model", write("terms.csv", "id,name,description\nIron,Iron,a diet low in iron\n")
    for part in make_model(problem_type="multi_label_classification", label_rows="full"):
        part.save_pretrained(folder)
    built = run("index", folder, folder / "index")
    assert built.stderr == f"5 labels, 25 float16 numbers each: {folder / 'index'}\n"
    for change in (
        ["add", folder, "M1", "Rats"],
        ["retire", folder, "Blood"],
        ["import", folder, terms, "--update", "--label-description", "description"],
    ):
        result = run("labels", *change)
        assert "index rebuilt" in result.stderr
        model, processor = load(folder)
        index = LabelIndex.from_pretrained(folder / "index", model)
        assert index.label_set == model.label_set
        assert index.codes.float() == pytest.approx(LabelIndex.build(model, processor).codes, abs=1e-2)
    assert result.stdout == "~ Iron  Iron -> Iron: a diet low in iron\n"


def test_an_update_keeps_what_the_file_lacks(run, write):
    file = write("labels.jsonl", '{"id": "M1", "name": "Rats", "description": "rodents", "synonyms": ["Rattus"]}\n')
    run("labels", "import", file, write("names.csv", "id,name\nM1,Rat\n"), "--update")
    expected = Label("M1", "Rat", "rodents", synonyms=("Rattus",))
    assert LabelSet.load(file) == LabelSet([expected])


def test_an_update_moves_labels_to_the_parents_of_the_file(run, write):
    file = write("labels.csv", "id,name,broader\nM1,Rats,M9\nM2,Mice,M9\n")
    run("labels", "import", file, write("new.csv", "id,name,broader\nM1,Rats,M7;M8\n"), "--update")
    assert [label.broader for label in load_labels(file)] == [("M7", "M8"), ("M9",)]
    run("labels", "import", file, write("names.csv", "id,name\nM1,Rat\n"), "--update")
    assert load_labels(file)[0] == Label("M1", "Rat", broader=("M7", "M8"))


def test_an_update_sets_the_thresholds_that_the_file_has(run, write):
    file = write("labels.csv", "id,name,threshold\nM1,Rats,0.2\nM2,Mice,0.3\n")
    run("labels", "import", file, write("new.csv", "id,name,threshold\nM1,Rats,0.4\nM2,Mus,\n"))
    assert [label.threshold for label in load_labels(file)] == [0.2, 0.3]
    run("labels", "import", file, write("new.csv", "id,name,threshold\nM1,Rats,0.4\nM2,Mus,\n"), "--update")
    assert [(label.name, label.threshold) for label in load_labels(file)] == [("Rats", 0.4), ("Mus", 0.3)]


def test_labels_imported_into_a_model_are_unseen(run, saved_model, write):
    trained = "id,name,seen,count,threshold\nM1,Rats,true,300,0.25\nIron,Iron,true,500,\n"
    run("labels", "import", saved_model, write("other.csv", trained), "--update")
    labels = LabelSet.load(saved_model / "labels.jsonl")
    assert labels[labels.column("M1")] == Label("M1", "Rats", threshold=0.25)
    assert labels[labels.column("Iron")].count == 7
    run("labels", "import", saved_model.with_name("file.jsonl"), saved_model / "labels.jsonl")
    run(
        "labels", "import", saved_model.with_name("file.jsonl"), write("more.csv", trained.replace("M1,Rats", "M2,Mus"))
    )
    assert LabelSet.load(saved_model.with_name("file.jsonl"))[-1].count == 300  # a file is of any model


def test_a_label_can_be_added_below_others(run, saved_model):
    run("labels", "add", saved_model, "M1", "Rats", "--broader", "Iron", "--broader", " M9 ")
    assert LabelSet.load(saved_model / "labels.jsonl")[-1].broader == ("Iron", "M9")


@pytest.mark.parametrize("position", range(3))
def test_a_text_of_a_label_that_is_not_utf8_is_refused(run, saved_model, position):
    texts = ["M1", "Rats", "rodents"]
    texts[position] = "R\udcff"
    message = run("labels", "add", saved_model, *texts[:2], "--description", texts[2], ends=1).stderr
    assert "'R\\udcff' contains a lone surrogate" in message


def test_dry_runs_change_nothing_and_raise_the_same_errors(run, saved_model, tmp_path, make_model):
    before = contents(saved_model)
    result = run("labels", "retire", saved_model, "Iron", "Blood", "--dry-run")
    assert result.stdout == "- Iron  Iron\n- Blood  Blood\n"
    assert "not written" in result.stderr
    assert contents(saved_model) == before

    file = tmp_path / "labels.csv"
    save_labels(LabelSet.from_names(["Iron", "Milk"]), file)
    assert run("labels", "retire", file, "Iron", "--dry-run").stdout
    assert "Iron" in file.read_text()

    for part in make_model(output_layer="linear", problem_type="multi_label_classification"):
        part.save_pretrained(tmp_path / "linear")
    for flags in ([], ["--dry-run"]):
        result = run("labels", "add", tmp_path / "linear", "M1", "Rats", *flags, ends=1)
        assert "a linear unit scores only the labels it was trained on" in result.stderr


def test_failed_changes_have_no_effect(run, saved_model, monkeypatch):
    before = contents(saved_model)
    monkeypatch.setattr(GileProcessor, "save_pretrained", lambda *_, **__: 1 / 0)
    result = run("labels", "add", saved_model, "M1", "Rats", ends=1)
    assert "ZeroDivisionError: division by zero (unexpected error" in result.stderr
    assert contents(saved_model) == before


def test_a_change_keeps_a_card_written_by_hand(run, saved_model):
    (saved_model / "README.md").write_text("# Ours")
    result = run("labels", "add", saved_model, "M1", "Rats")
    assert (saved_model / "README.md").read_text() == "# Ours"
    assert result.stderr == (
        f"1 added, 0 removed, 0 changed: {saved_model} has 6 labels\n"
        f"README.md predates this change: edit it, or replace it with hf-gile card {saved_model}\n"
    )


def test_new_labels_without_known_words_are_reported(run, saved_model):
    for command, *rest in (["add", "Z", "Zebrafish"], ["rename", "Iron", "Ferrum"]):
        message = run("labels", command, saved_model, *rest, "--dry-run").stderr
        assert f"the model knows no word of 1 label: '{rest[1]}'; all such labels get the same score" in message
    assert "knows" not in run("labels", "add", saved_model, "Z2", "Zebrafish", "--description", "milk").stderr


def test_a_model_with_rows_notes_new_labels_without_known_words(run, tmp_path, make_model):
    folder = tmp_path / "model"
    for part in make_model(problem_type="multi_label_classification", label_rows="full"):
        part.save_pretrained(folder)
    assert "no word of 1 label: 'Zebrafish'" in run("labels", "add", folder, "Z", "Zebrafish", "--dry-run").stderr


def test_a_model_that_counts_shared_words_notes_only_labels_without_a_word(run, tmp_path, make_model):
    folder = tmp_path / "model"
    for part in make_model(problem_type="multi_label_classification", lexical=True):
        part.save_pretrained(folder)
    assert "knows no word" not in run("labels", "add", folder, "Z", "Zebrafish", "--dry-run").stderr
    assert "no word of 1 label: '\N{VIOLIN}'" in run("labels", "add", folder, "V", "\N{VIOLIN}", "--dry-run").stderr


def test_a_new_name_that_differs_in_case_from_a_known_name_is_noted(run, write):
    path = write("labels.csv", "id,name,description,language,seen,count\n1,Mice,,,false,0\n")
    said = run("labels", "add", path, "2", "mice").stderr
    assert "2 labels differ from others in case, spaces or punctuation only, such as 'Mice' and 'mice'" in said
    assert "differ from" not in run("labels", "add", path, "3", "rats").stderr


def test_a_changed_label_file_keeps_its_format(run, tmp_path):
    path = tmp_path / "labels.csv"
    save_labels(LabelSet.from_names({"Iron": "", "Milk": "white; a drink"}), path)
    run("labels", "add", path, "r", "Rats", "--threshold", 0.25)
    run("labels", "rename", path, "Milk", "Milk, Human")
    run("labels", "retire", path, "Iron")
    milk, rats = 'Milk,"Milk, Human",white; a drink,,false,0,,,', "r,Rats,,,false,0,0.25,,"
    assert path.read_text().splitlines()[1:] == [milk, rats]
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_with_other_columns_is_not_changed(run, write):
    path = write("labels.csv", "id,name,shelf\nIron,Iron,3\n")
    message = run("labels", "add", path, "r", "Rats", ends=1).stderr
    assert "columns not read: 'shelf', and would be lost by a change" in message
    assert path.read_text() == "id,name,shelf\nIron,Iron,3\n"


def test_the_error_for_a_name_instead_of_an_id_names_the_id(run, write):
    path = write("labels.csv", "id,name,description\nS11,Maps,\nS12,Rare Books,\n")
    message = run("labels", "rename", path, "Rare Books", "Old Books", ends=1).stderr
    assert f"{path} has no label with the id 'Rare Books', which is the name of 'S12': pass the id" in message
    path.write_text(f"{path.read_text()}S13,Rare Books,of the town\n")
    assert "which is the name of 'S12' and 'S13'" in run("labels", "retire", path, "Rare Books", ends=1).stderr


@pytest.mark.slow
def test_concurrent_changes_are_made_in_turn(start, saved_model, tmp_path):
    file = tmp_path / "files" / "labels.jsonl"
    file.parent.mkdir()
    LabelSet.from_names(["Iron"]).save(file)
    waiting = "waiting for another hf-gile process that is changing"
    with exclusive_lock(file), exclusive_lock(saved_model):  # other commands are running
        processes = [start("labels", "add", target, "r", "Rats") for target in (file, saved_model)]
        said = [process.stderr.readline() for process in processes]
        assert said == [f"{waiting} {file}\n", f"{waiting} {saved_model}\n"]
        LabelSet.from_names(["Iron"]).rename("Iron", "Iron, Dietary").save(file)
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert LabelSet.load(file).names == ["Iron, Dietary", "Rats"]
    assert len(LabelSet.load(saved_model / "labels.jsonl")) == 6
    assert list(file.parent.iterdir()) == [file]


def test_a_vocabulary_can_be_imported_into_a_file_or_a_model(run, saved_model, tmp_path, write):
    pytest.importorskip("rdflib")
    terms = write("terms.ttl", SKOS)
    created = run("labels", "import", tmp_path / "new.jsonl", terms, "--label-language", "de")
    assert created.stdout == "+ http://a.org/1  Ratten\n"
    assert LabelSet.load(tmp_path / "new.jsonl").names == ["Ratten"]
    run("labels", "import", saved_model, terms)
    assert LabelSet.load(saved_model / "labels.jsonl").names[-1] == "Rats"
    repeated = run("labels", "import", saved_model, terms)
    assert repeated.stdout == ""
    assert "0 added, 0 removed, 0 changed" in repeated.stderr


def test_invalid_rows_of_a_label_file_are_named_or_skipped(run, tmp_path):
    (tmp_path / "terms.csv").write_text("id,name\n1,Rats\n2,\n")
    new = tmp_path / "new.jsonl"
    result = run("labels", "import", new, tmp_path / "terms.csv", ends=1)
    assert "line 3: the label '2' has no name; fix it, or skip it with --on-error skip" in result.stderr
    assert not new.exists()
    assert "malformed label (1)" in run("labels", "import", new, tmp_path / "terms.csv", "--on-error", "skip").stderr
    assert LabelSet.load(new).ids == ["1"]
