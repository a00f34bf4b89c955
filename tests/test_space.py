"""HTML of the page; tests/hf_gile_cli/test_space_command.py looks at it in a browser."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from hf_gile import Label, LabelScoringPipeline, LabelSet
from hf_gile.space import LABEL_LENGTH, NUM_LABELS, SHOWN, TEXT_LENGTH, Page, add_label, read_labels

TEXT = "Breast milk for infants. Blood was drawn."
ATTACK = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>${alert(3)}{{alert(4)}}"


class Tags(HTMLParser):
    """The tags of a page and its texts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.attributes = set(), [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def make_page(make_model):
    def make(labels=None, **options):
        model, processor = make_model(**{"problem_type": "multi_label_classification"} | options)
        return Page(LabelScoringPipeline(model=model, processor=processor), labels)

    return make


def bars(page, text=TEXT, typed="", stored=True, one=False, language=None, search=""):
    return page.bars(text, typed, stored, one, language, search)


def shown(html):
    """Names and shares by headings."""
    parts = re.split(r"<h3>(.*?) <small>", html)[1:]
    bar = r"<span dir=auto>(.*?)</span>.*?<b>(.*?)</b>"
    return {heading: dict(re.findall(bar, body)) for heading, body in zip(parts[::2], parts[1::2], strict=True)}


def test_bars_show_the_probabilities_of_the_pipeline(make_page):
    page = make_page()
    groups = shown(bars(page, typed="Iron\nRats: fed"))
    for heading, candidates in (("The vocabulary", None), ("Your labels", {"Iron": "", "Rats": "fed"})):
        answer = page.pipe(TEXT, candidates)
        assert groups[heading] == {
            name: f"{score:.1%}" for name, score in zip(answer["labels"], answer["scores"], strict=True)
        }
        assert list(groups[heading]) == answer["labels"]


def test_typed_and_stored_labels_share_a_softmax(make_page):
    groups = shown(bars(make_page(), typed="Iron\nRats: fed", one=True))
    assert list(groups["Your labels"]) == ["Rats"]  # Iron is stored
    assert len(groups["The vocabulary"]) == 5
    shares = [float(share.strip("%")) for group in groups.values() for share in group.values()]
    assert sum(shares) == pytest.approx(100, abs=0.3)


def test_an_added_label_joins_the_typed_labels():
    assert add_label("Iron\n", "  Milk,\tHuman ", " breast\nmilk ") == ("Iron\nMilk, Human: breast milk", "", "")
    assert add_label("Iron", " ", "metal") == ("Iron", "", "metal")
    assert read_labels(add_label("", "Milk, Human", "breast milk")[0])[0].text == "Milk, Human: breast milk"


def test_search_matches_names_synonyms_and_ids(make_page):
    labels = LabelSet([Label("C14", "Heart Failure", synonyms=("cardiac failure",)), Label("G07", "Iron")])
    page = make_page(labels)
    for search in ("heart", "FAIL hea", "cardiac", "c14"):
        assert list(shown(bars(page, search=search))["The vocabulary"]) == ["Heart Failure"]
    assert shown(bars(page, search="zebra")) == {"The vocabulary": {}}
    assert shown(bars(page, text=" ", search="iron")) == {"The vocabulary": {"Iron": ""}}
    assert "Type a text" in bars(page, text="")


def test_ancestors_are_shown_from_the_top_down(make_page):
    labels = LabelSet(
        [
            Label("1", "Heart <b>", broader=("9", "2", "3")),  # no label has the id 9
            Label("2", "Organs", broader=("3", "1")),
            Label("3", "Body", broader=("1",)),  # a circle
            Label("4", "Iron"),
        ]
    )
    html = bars(make_page(labels), typed="Rats")
    assert "<small dir=auto>Body &gt; Organs</small><span dir=auto>Heart &lt;b&gt;</span>" in html
    assert "<div><span dir=auto>Iron</span>" in html
    assert "<div><span dir=auto>Rats</span>" in html


def test_parents_of_stored_labels_are_shown(make_model):
    model, processor = make_model(problem_type="multi_label_classification")
    labels = LabelSet(replace(one, broader=("Blood",)) if one.id == "Iron" else one for one in model.label_set)
    model.set_labels(labels, processor)
    html = bars(Page(LabelScoringPipeline(model=model, processor=processor)))
    assert "<small dir=auto>Blood</small><span dir=auto>Iron</span>" in html
    assert html.count("<small dir=auto>") == 1


def test_only_the_best_of_many_labels_are_shown(make_page):
    groups = bars(make_page(), typed="\n".join(f"milk {number}" for number in range(30)), stored=False)
    assert len(shown(groups)["Your labels"]) == SHOWN
    assert f"<small>{SHOWN} of 30</small>" in groups


def test_descriptions_follow_a_tab_or_colon():
    labels = read_labels("Iron\tFe: a metal\n\n Milk, Human: breast milk\nRe:search\nIron\tFe: a metal\n")
    assert [(label.name, label.description) for label in labels] == [
        ("Iron", "Fe: a metal"),
        ("Milk, Human", "breast milk"),
        ("Re:search", ""),
    ]
    assert read_labels(" \n") is None
    with pytest.raises(ValueError, match="'Iron' in line 2 has another description above"):
        read_labels("Iron: Fe\nIron: a metal")


def test_typed_html_is_escaped(make_page):
    above = Label("2", f"above {ATTACK}")
    page = make_page(LabelSet([Label("1", f"stored {ATTACK}", ATTACK, broader=("2",)), above]))
    for text in (f"{ATTACK} milk", ""):
        html = bars(page, text, f"typed {ATTACK}: {ATTACK}", search=ATTACK[:4]) + page.heat_map(
            text, f"typed {ATTACK}", True, False, None
        )
        read = Tags(html)
        assert read.tags <= {"p", "h3", "small", "ul", "li", "div", "span", "i", "b"}
        assert read.attributes <= {"title", "dir", "style", "class"}
        assert f"stored {ATTACK}" in read.texts


def test_excessive_input_is_refused_with_the_limit(make_page):
    page = make_page()
    said = {
        f"The text has {TEXT_LENGTH + 1:,} characters, more than {TEXT_LENGTH:,}": {"text": "a" * (TEXT_LENGTH + 1)},
        f"at most {NUM_LABELS:,} labels, got {NUM_LABELS + 1:,}": {"typed": "\n".join(map(str, range(NUM_LABELS + 1)))},
        f"line 2 has {LABEL_LENGTH + 1:,} characters": {"typed": "a\n" + "b" * (LABEL_LENGTH + 1)},
        "There are no labels": {"stored": False},
    }
    for message, wrong in said.items():
        html = bars(page, **wrong)
        assert message in html
        assert 'role="alert"' in html
    assert list(page.answer("a" * 30_000, "", True, False, None, ""))[-1][1] == ""


def test_a_model_with_attention_shows_its_attention(make_page):
    html = make_page(text_encoder_type="han").heat_map(TEXT, "", True, False, None)
    assert html.count("<aside>") == 2
    assert "the attention of the model" in html


def test_without_attention_words_are_left_out_in_turn(make_page):
    page = make_page(text_encoder_type="nn")
    html = page.heat_map(TEXT, "", True, False, None)
    (best,) = page.pipe([TEXT], top_k=1)
    name, words = best["labels"][0], TEXT.split()
    falls = []
    for place in range(len(words)):
        (answer,) = page.pipe([" ".join(words[:place] + words[place + 1 :])])
        falls.append(max(0, best["scores"][0] - answer["scores"][answer["labels"].index(name)]))
    drawn = re.findall(r'<span style="--a:([\d.]+)" title="([\d.]+%)">(.*?)</span>', html)
    assert [word for _, _, word in drawn] == words
    assert [float(share) for share, _, _ in drawn] == pytest.approx([fall / max(falls) for fall in falls], abs=0.02)
    assert f"<b dir=auto>{name}</b> falls" in html


def test_long_texts_are_explained_by_runs_of_words(make_page):
    page = make_page(text_encoder_type="nn")
    html = page.heat_map(" ".join(["milk", "blood"] * 100), "Iron: blood", False, True, None)
    assert html.count("<span style=") == 200


def test_bars_appear_before_the_heat_map(make_page):
    first, second = make_page().answer(TEXT, "", True, False, None, "")
    assert first == (second[0], "")
    assert "Evidence" in second[1]


def test_a_linear_model_refuses_typed_labels(make_page):
    page = make_page(output_layer="linear")
    assert len(shown(bars(page))["The vocabulary"]) == 5
    assert 'role="alert"' in bars(page, typed="Rats")
    assert "Evidence" in page.heat_map(TEXT, "", True, False, None)
