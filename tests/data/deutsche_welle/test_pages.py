"""Pages in the layout of the site, reproduced from descriptions."""
# ruff: noqa: RUF001 - letters of other scripts are intended

import json
import zlib

import numpy as np
import pytest

from hf_gile.data import ReadReport, WordVectors, load_dw, load_dw_pages, write_dw
from hf_gile.data.deutsche_welle.crawl import MAX_PAGE_BYTES, open_answers
from hf_gile.data.deutsche_welle.pages import parse_dw_page

TODAY = """<!DOCTYPE html><html class="x" lang="{lang}" dir="ltr"><head><meta charset="utf-8">
<title data-rh="true">{title}</title><meta data-rh="true" name="date" value="2017-03-31T09:00:00.000Z">
<meta data-rh="true" value="{title}" name="og:title">
</head><body><div id="root">
<nav><a>Latest videos</a></nav>
<article class="s1"><div class="content-area"><header class="s2">
<div data-tracking-name="content-detail-kicker" class="kicker"><span><a>{section}</a></span><span>{second}</span></div>
<h1 class="d1">{title}</h1><div class="author-details"><a>A. Author</a></div>
<span class="publication"><time aria-hidden="true">03/31/2017</time><span>March 31, 2017</span></span>
<p class="teaser-text t1">{teaser}</p></header>
<section data-tracking-name="sharing-icons-inline"><a title="share">Share</a><span>https://p.dw.com/p/10o55</span></section>
<figure><figcaption>A mouse<small class="copyright">Image: A. Author</small></figcaption></figure>
<div class="a1 advertisement"><span>Advertisement</span></div>
<div data-tracking-skip="true" data-tracking-name="rich-text" class="c1 rich-text t1"><p>{first}</p>

<figure class="placeholder-image"><img alt="mouse"><figcaption class="img-caption">A mouse</figcaption></figure>
<h2>{heading}</h2>
<p>{last}</p>
<div class="vjs-wrapper embed"><p>To view this video please enable JavaScript</p></div>
<blockquote class="tweet embed" data-id="1"></blockquote>
<p><em>{more}: <a class="internal-link" href="/a-3">On rats, and all that is known of them</a></em></p>
<ul><li><a>On rats</a></li><li><a>On cats</a></li></ul></div>
<footer><div class="author"><a>A. Author</a> writes of mice.</div>
<div class="feedback">Send us your feedback</div></footer>
</div></article>
<aside data-tracking-name="related-topics"><a>{keyword}</a><a>{other}</a></aside>
<section data-tracking-name="section-related"><h3><a>On cats</a></h3><p>Cats were seen.</p></section>
</div></body></html>"""

# fmt: off
PARTS = ("title", "section", "second", "teaser", "first", "heading",
         "last", "more", "keyword", "other")
WORDS = {
    "en": ("On mice", "Science", "Germany", "Mice are small.", "Mice were seen.", "Where?",
           "In a house.", "Read more", "mice", "houses"),
    "de": ("Über Mäuse", "Wissen", "Deutschland", "Mäuse sind klein.", "Es gab Mäuse.", "Wo?",
           "In einem Haus.", "Mehr zum Thema", "Mäuse", "Häuser"),
    "es": ("Sobre ratones", "Ciencia", "Alemania", "Son pequeños.", "Se vieron ratones.", "¿Dónde?",
           "En una casa.", "Lea también", "ratones", "casas"),
    "pt": ("Sobre ratos", "Ciência", "Alemanha", "São pequenos.", "Viram-se ratos.", "Onde?",
           "Numa casa.", "Leia mais", "ratos", "casas"),
    "ru": ("О мышах", "Наука", "Германия", "Мыши малы.", "Видели мышей.", "Где?",
           "В доме.", "Читайте также", "мыши", "дома"),
    "uk": ("Про мишей", "Наука", "Німеччина", "Миші малі.", "Бачили мишей.", "Де?",
           "У хаті.", "Читайте також", "миші", "хати"),
    "ar": ("عن الفئران", "علوم", "ألمانيا", "الفئران صغيرة.", "شوهدت الفئران.", "أين؟",
           "في بيت.", "اقرأ أيضا", "فئران", "بيوت"),
    "fa": ("درباره موش‌ها", "دانش", "آلمان", "موش‌ها کوچک‌اند.", "موش‌ها دیده شدند.", "کجا؟",
           "در خانه‌ای.", "بیشتر بخوانید", "موش", "خانه"),
}
# fmt: on
WORDS = {language: dict(zip(PARTS, words, strict=True)) for language, words in WORDS.items()}


def long(text):
    """Repeats a text to the length of a paragraph, since trafilatura drops short paragraphs."""
    return " ".join([text] * 20)


def today(language="en", **changes):
    words = {part: long(text) if part in ("first", "last") else text for part, text in WORDS[language].items()}
    return TODAY.format(lang=language, **words | changes)


@pytest.mark.parametrize("language", WORDS)
def test_an_article_is_read_in_each_language(language):
    words = WORDS[language]
    article = parse_dw_page(today(language).encode(), "https://www.dw.com/x/y/a-2")
    assert article.title == words["title"]
    assert list(article.paragraphs) == [words["teaser"], long(words["first"]), words["heading"], long(words["last"])]
    assert article.sections == (words["section"], words["second"])
    assert article.keywords == (words["keyword"], words["other"])
    assert article.language == language
    assert article.text == "\n".join([words["title"], *article.paragraphs])


def test_teasers_equal_to_the_title_are_not_repeated():
    assert parse_dw_page(today(teaser="On mice").encode()).paragraphs[0].startswith("Mice were seen.")


def test_an_article_with_another_layout_is_read():
    body = f"<p>{long('Mice were <b>seen</b> in <a>houses</a>.')}</p><ul><li>{long('One.')}</li></ul>"
    page = f"<html><head><title>On mice | DW | 2026</title></head><body><main>{body}</main></body></html>"
    article = parse_dw_page(page.encode())
    assert (article.title, article.sections, article.language) == ("On mice", (), None)
    assert article.paragraphs == (long("Mice were seen in houses."), long("One."))


NO_ARTICLES = {
    "the address belongs to g-NUMBER, not to an article": ("<p>", "https://www.dw.com/en/mice/g-5"),
    "the address belongs to audio-NUMBER, not to an article": ("<p>", "https://www.dw.com/en/mice/audio-5/"),
    "no text": ("<html><body><h1>On mice</h1></body></html>", ""),
    "no title": ("<html><body><div><p>Mice.</p></div></body></html>", ""),
    "error page": ("<html><body><h1>Error 404</h1><p>The page was not found.</p></body></html>", ""),
    "empty page": ("", ""),
}


@pytest.mark.parametrize(("page", "url"), NO_ARTICLES.values(), ids=NO_ARTICLES)
def test_a_page_without_an_article_is_refused_with_the_reason(page, url, request):
    with pytest.raises(ValueError, match=f"^{request.node.callspec.id}$"):
        parse_dw_page(page.encode(), url)


@pytest.mark.parametrize(
    ("written", "header"),
    [("utf-8", None), ("utf-8", "utf-8"), ("cp1251", "windows-1251"), ("utf-8", "klingon"), ("utf-8-sig", "utf-8")],
)
def test_the_charset_comes_from_the_header_or_defaults_to_utf_8(written, header):
    assert parse_dw_page(today("ru").encode(written, "replace"), charset=header).title == "О мышах"


def test_latin_1_is_read_as_windows_1252_like_in_browsers():
    page = today("de", teaser="„Mäuse“ – klein…")
    for charset in ("latin-1", "ISO-8859-1", "us-ascii"):
        assert parse_dw_page(page.encode("cp1252"), charset=charset).paragraphs[0] == "„Mäuse“ – klein…"


def test_bytes_invalid_in_the_charset_are_named():
    with pytest.raises(UnicodeDecodeError, match="can't decode byte 0xdc in position"):
        parse_dw_page(today("de").encode("latin-1"))


def test_direction_marks_and_joiners_stay_but_soft_hyphens_are_removed():
    title = "\u200fموش\u200cها و\xa0گربه\u200cها\u200e"
    assert parse_dw_page(today("fa", title=title).encode()).title == title.replace("\xa0", " ")
    assert parse_dw_page(today(title="Rat&shy;haus &#8211; \0 x").encode()).title == "Rathaus – x"


def test_deeply_nested_pages_are_read_without_a_crash():
    page = today(first=long("Deep.") + "<div>" * 5003 + "deep")
    assert parse_dw_page(page.encode()).title == "On mice"


@pytest.fixture
def crawl(tmp_path):
    """Writes the files of a crawl: `crawl(train=[(name, page)], ...)`."""

    def write(labels="general", language="english", leads=None, **splits):
        folder = tmp_path / "crawl"
        for split in ("train", "dev", "test"):
            pages = splits.get(split, [])
            path = folder / "lists" / labels / split / f"{language}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"urls": [f"http://dw.com/p/{name}" for name, _ in pages]}))
            for name, page in pages:
                if page is None:
                    continue
                if isinstance(page, str):
                    page = page.encode()
                reason, packed = (None, zlib.compress(page)) if isinstance(page, bytes) else (page["reason"], b"")
                where = f"https://www.dw.com/en/x/a-{name if leads is None else leads.get(name, name)}"
                with open_answers(folder) as table:
                    row = (f"http://dw.com/p/{name}", where, None, reason, False, packed)
                    table.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", row)
        return folder

    return write


def rows(dataset, *columns):
    return [tuple(row[column] for column in columns) for row in dataset]


def test_a_crawl_becomes_documents_and_labels(crawl):
    crawl(
        train=[("2", today()), ("3", today(section="Sports", second="Germany"))],
        dev=[("5", today())],
        test=[("7", today())],
    )
    folder = crawl(language="german", train=[("11", today("de"))])
    documents, labels = load_dw_pages(folder, "english")
    train = documents["train"]
    assert train.column_names == ["id", "url", "title", "text", "labels", "language"]
    assert rows(train, "id", "labels") == [
        ("http://dw.com/p/2", ["english:science", "english:germany"]),
        ("http://dw.com/p/3", ["english:sports", "english:germany"]),
    ]
    assert train[0]["url"] == "https://www.dw.com/en/x/a-2"
    assert train[0]["text"].startswith("On mice\nMice are small.\nMice were seen. ")
    assert {split: len(rows) for split, rows in documents.items()} == {"train": 2, "dev": 1, "test": 1}
    assert [(label.id, label.name, label.language, label.seen, label.count) for label in labels] == [
        ("english:germany", "germany", "english", True, 2),
        ("english:science", "science", "english", True, 1),
        ("english:sports", "sports", "english", True, 1),
    ]
    assert load_dw_pages(folder, "german")[1].names == ["wissen", "deutschland"]


def test_specific_labels_are_keywords_of_the_specific_lists(crawl):
    folder = crawl("specific", train=[("2", today()), ("3", today(keyword="Rats"))])
    assert load_dw_pages(folder, "english", "specific")[1].names == ["houses", "mice", "rats"]
    with pytest.raises(FileNotFoundError, match=r"no list .*general.train.english\.json"):
        load_dw_pages(folder, "english")
    with pytest.raises(ValueError, match="labels must be one of general, specific, got 'all'"):
        load_dw_pages(folder, "english", "all")


def test_rare_labels_are_left_out_of_all_splits(crawl):
    folder = crawl(
        train=[
            ("2", today()),
            ("3", today()),
            ("5", today(second="Rare")),
            ("7", today(section="Rare", second="Rarer")),
        ],
        dev=[("11", today(section="Of dev only"))],
    )
    report = ReadReport()
    documents, labels = load_dw_pages(folder, "english", min_count=2, report=report)
    assert labels.names == ["science", "germany", "rare"]
    assert rows(documents["dev"], "labels") == [(["english:germany"],)]
    documents, labels = load_dw_pages(folder, "english", min_count=3, report=report)
    assert labels.names == ["science"]
    assert report.left_out == {"without labels": 2}
    assert report.examples["without labels"] == ["http://dw.com/p/7", "http://dw.com/p/11"]


def test_pages_without_a_usable_document_are_skipped_and_counted(crawl):
    folder = crawl(
        train=[
            ("2", today()),
            ("3", None),
            ("5", {"reason": "404 Not Found"}),
            ("7", "<html><body><h1>Only a title</h1></body></html>"),
            ("11", today("de")),
            ("13", today(section="", second="")),
            ("17", today()),
            ("19", today("de").encode("latin-1")),
        ],
        test=[("23", today())],
        leads={"17": "23"},  # its article stays in the test part
    )
    with pytest.raises(
        ValueError, match=r"http://dw\.com/p/19: https://www\.dw\.com/en/x/a-19: byte [\d,]+ is not utf-8; fix it"
    ):
        load_dw_pages(folder, "english")
    report = ReadReport(on_error="skip")
    documents, _ = load_dw_pages(folder, "english", report=report)
    assert rows(documents["train"], "id") == [("http://dw.com/p/2",)]
    assert report.records == 2
    assert report.left_out == {
        "without page: not fetched yet": 1,
        "without page: 404 Not Found": 1,
        "no article: no text": 1,
        "in another language": 1,
        "same article as another address": 1,
        "page not in its charset": 1,
        "without labels": 1,
    }


def test_damaged_pages_are_named_and_can_be_skipped(crawl):
    folder = crawl(train=[("2", today()), ("3", today()), ("5", b"")])
    with open_answers(folder) as table:
        table.execute("UPDATE answers SET page = ? WHERE url = 'http://dw.com/p/2'", (b"no page",))
    with pytest.raises(ValueError, match=r"http://dw.com/p/2: .*/a-2: Error -3 .*incorrect header.*; fix it"):
        load_dw_pages(folder, "english")
    report = ReadReport(on_error="skip")
    assert len(load_dw_pages(folder, "english", report=report)[0]["train"]) == 1
    assert report.left_out == {"damaged page": 1, "no article: empty page": 1}


def test_a_page_that_decompresses_to_a_huge_size_is_cut(crawl, monkeypatch):
    folder = crawl(train=[("2", today() + " " * 2 * MAX_PAGE_BYTES)])
    monkeypatch.setattr("hf_gile.data.deutsche_welle.pages.parse_dw_page", lambda page, *_: lengths.append(len(page)))
    lengths = []
    with pytest.raises(ValueError, match="no article"):
        load_dw_pages(folder, "english")
    assert lengths == [MAX_PAGE_BYTES]


def test_a_crawl_without_documents_is_refused_with_counts(crawl):
    folder = crawl(train=[("2", None)], dev=[("3", today())])
    with pytest.raises(ValueError, match=r"no article .* in train of english: .*not fetched yet.*; crawl more"):
        load_dw_pages(folder, "english")


VOCABULARY = ["mice", "were", "seen", "on", "science", "germany", "in", "house", "a"]


def vectors(words=VOCABULARY):
    return WordVectors(words, np.ones((len(words), 3), np.float32))


def test_word_ids_are_written_in_the_published_format(crawl, tmp_path):
    folder = crawl(
        train=[
            ("2", today()),
            ("3", today(section="The Science", second="Elsewhere")),
            ("5", today(section="Elsewhere", second="Nowhere")),
            ("7", today(**dict.fromkeys(PARTS, "words " * 40) | {"section": "Science", "second": "", "more": ""})),
        ],
        dev=[("11", today())],
    )
    report = ReadReport()
    documents, labels = load_dw_pages(folder, "english")
    write_dw(documents, labels, tmp_path / "ids", "english", vectors(), report)
    content = json.loads((tmp_path / "ids" / "train" / "english.json").read_text())
    # On mice / Mice are small. / Mice were seen. ... / Where? / In a house. ...
    sentences = [[3, 0], [0], *[[0, 1, 2]] * 20, *[[6, 8, 7]] * 20]
    assert content == {"X_ids": [sentences, sentences], "Y_ids": [[0, 1], [0]], "label_ids": ["4", "5"]}
    assert json.loads((tmp_path / "ids" / "test" / "english.json").read_text()) == content | {"X_ids": [], "Y_ids": []}
    assert report.left_out == {"label without word vectors": 2, "without labels": 1, "without words": 1}
    assert report.records == 3
    corpus = load_dw(tmp_path / "ids", word_vectors={"english": vectors()})
    assert corpus.label_sets["english"].names == ["science", "germany"]
    assert rows(corpus.documents["english"]["dev"], "input_ids", "labels") == [(sentences, [0, 1])]


def test_word_vectors_of_another_language_are_refused(crawl, tmp_path):
    documents, labels = load_dw_pages(crawl(train=[("2", today())]), "english")
    with pytest.raises(
        ValueError, match="english: no label has a word with a vector; are these the vectors of english"
    ):
        write_dw(documents, labels, tmp_path, "english", vectors(["maus", "[UNK]"]))
