"""The blocks of docs/integrations.md run in the tools that they are for."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "integrations.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n.*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
LIBRARIES = {"spaCy": "spacy", "Haystack": "haystack", "LangChain": "langchain_core"}


def test_every_section_has_a_test():
    assert SECTIONS.keys() == LIBRARIES.keys()


@pytest.fixture
def block(tmp_path, monkeypatch, make_model):
    """Runs the block of a section beside a saved model, and returns its names and the labels of the model."""

    def run(section):
        pytest.importorskip(LIBRARIES[section], reason=f"needs {section}")
        monkeypatch.chdir(tmp_path)
        model, processor = make_model(problem_type="multi_label_classification")
        for part in (model, processor):
            part.save_pretrained("runs/mine/auto/model")
        names = {"__name__": "block"}
        exec(compile(SECTIONS[section], section, "exec"), names)
        return names, {label.name for label in model.label_set}

    return run


@pytest.mark.filterwarnings("ignore")
def test_a_spacy_pipe_sets_the_categories_of_documents(block):
    names, labels = block("spaCy")
    docs = list(names["nlp"].pipe(["Rats were fed iron.", "Breast milk."]))
    assert all(doc.cats.keys() == labels for doc in docs)


@pytest.mark.filterwarnings("ignore")
def test_a_haystack_pipeline_adds_labels_to_documents(block):
    names, labels = block("Haystack")
    documents = [names["Document"](content=text) for text in ("Rats were fed iron.", "Breast milk.")]
    result = names["indexing"].run({"labels": {"documents": documents}})
    assert [set(document.meta["labels"]) for document in result["labels"]["documents"]] == [labels] * 2


@pytest.mark.filterwarnings("ignore")
def test_a_langchain_tool_suggests_labels(block):
    names, labels = block("LangChain")
    tool = names["suggest_labels"]
    assert set(tool.invoke({"text": "Rats were fed iron."})) == labels
    assert tool.args.keys() == {"text"}
