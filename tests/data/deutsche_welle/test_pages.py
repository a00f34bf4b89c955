"""Pages of each form the site has had, written here after descriptions of them."""
# ruff: noqa: RUF001 - letters of other scripts are what they look like

import gzip
import json
import re
from dataclasses import asdict
from hashlib import sha256

import numpy as np
import pytest

from hf_gile.data import ReadReport, WordVectors, load_dw
from hf_gile.data.deutsche_welle.crawl import Answer
from hf_gile.data.deutsche_welle.pages import parse_dw_page
from hf_gile.data.deutsche_welle.texts import load_dw_pages, write_dw
from hf_gile.data.deutsche_welle.web_text import html_tree, paragraphs

OLD = """<!DOCTYPE html><html lang="{lang}"><head>
<meta charset="utf-8"><title>{title} | Science | DW | 31.03.2017</title>
<meta property="og:title" content="{title} | Science | DW | 31.03.2017"></head><body>
<div id="navPath"><ul><li><a href="/">DW.COM</a></li><li><a>{section}</a></li><li><a>{second}</a></li></ul></div>
<div id="bodyContent"><div class="col3"><h4 class="artikel">Mice</h4><h1>{title}</h1>
<p class="intro">{teaser}</p>
<div class="group"><div class="longText">
<div class="picBox full"><a><img alt="A mouse"></a><p>A mouse, pictured</p></div>
<p>{first}</p><h2>{heading}</h2><p>{last}</p>
<p><strong>{more}: <a href="/a-3">On rats</a></strong></p>
<p>ab/cde (dpa, afp)</p>
<script>var share = "no text";</script>
</div></div>
<ul class="smallList"><li><strong>{date}</strong> 31.03.2017</li>
<li><strong>{label}</strong> <a>{keyword}</a>,&nbsp;<a>{other}</a></li>
<li><strong>Share</strong> <a>Facebook</a></li></ul>
</div></div></body></html>"""

TODAY = """<!DOCTYPE html><html class="x" lang="{lang}" dir="ltr"><head><meta charset="utf-8">
<title data-rh="true">{title}</title><meta data-rh="true" name="date" value="2017-03-31T09:00:00.000Z">
<meta data-rh="true" value="{title}" name="og:title">
<script data-rh="true" type="application/ld+json">{data}</script></head><body><div id="root">
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
<p><em>{more}: <a class="internal-link" href="/a-3">On rats</a></em></p>
<ul><li><a>On rats</a></li><li><a>On cats</a></li></ul></div>
<footer><div class="author"><a>A. Author</a> writes of mice.</div>
<div class="feedback">Send us your feedback</div></footer>
</div></article>
<aside data-tracking-name="related-topics"><a>{keyword}</a><a>{other}</a></aside>
<section data-tracking-name="section-related"><h3><a>On cats</a></h3><p>Cats were seen.</p></section>
</div>{state}</body></html>"""

# fmt: off
PARTS = ("title", "section", "second", "teaser", "first", "heading",
         "last", "more", "date", "label", "keyword", "other")
WORDS = {
    "en": ("On mice", "Science", "Germany", "Mice are small.", "Mice were seen.", "Where?",
           "In a house.", "Read more", "Date", "Keywords", "mice", "houses"),
    "de": ("Über Mäuse", "Wissen", "Deutschland", "Mäuse sind klein.", "Es gab Mäuse.", "Wo?",
           "In einem Haus.", "Mehr zum Thema", "Datum", "Schlagwörter", "Mäuse", "Häuser"),
    "es": ("Sobre ratones", "Ciencia", "Alemania", "Son pequeños.", "Se vieron ratones.", "¿Dónde?",
           "En una casa.", "Lea también", "Fecha", "Palabras clave", "ratones", "casas"),
    "pt": ("Sobre ratos", "Ciência", "Alemanha", "São pequenos.", "Viram-se ratos.", "Onde?",
           "Numa casa.", "Leia mais", "Data", "Palavras-chave", "ratos", "casas"),
    "ru": ("О мышах", "Наука", "Германия", "Мыши малы.", "Видели мышей.", "Где?",
           "В доме.", "Читайте также", "Дата", "Ключевые слова", "мыши", "дома"),
    "uk": ("Про мишей", "Наука", "Німеччина", "Миші малі.", "Бачили мишей.", "Де?",
           "У хаті.", "Читайте також", "Дата", "Ключові слова", "миші", "хати"),
    "ar": ("عن الفئران", "علوم", "ألمانيا", "الفئران صغيرة.", "شوهدت الفئران.", "أين؟",
           "في بيت.", "اقرأ أيضا", "تاريخ", "كلمات مفتاحية", "فئران", "بيوت"),
    "fa": ("درباره موش‌ها", "دانش", "آلمان", "موش‌ها کوچک‌اند.", "موش‌ها دیده شدند.", "کجا؟",
           "در خانه‌ای.", "بیشتر بخوانید", "تاریخ", "کلیدواژه‌ها", "موش", "خانه"),
}
# fmt: on
WORDS = {language: dict(zip(PARTS, words, strict=True)) for language, words in WORDS.items()}


def linked(words, **more):
    data = {"@context": "https://schema.org", "@type": "NewsArticle", "headline": words["title"]}
    return (
        data
        | {"datePublished": "2017-03-31T09:00:00.000Z", "author": [{"@type": "Person", "name": "A. Author"}]}
        | more
    )


def old(language="en", **changes):
    return OLD.format(lang=language, **WORDS[language] | changes)


def today(language="en", state="", data=None, **changes):
    words = WORDS[language] | changes
    data = linked(words) if data is None else data
    return TODAY.format(lang=language, state=state, data=json.dumps(data, ensure_ascii=False), **words)


@pytest.mark.parametrize("language", WORDS)
@pytest.mark.parametrize("form", [old, today])
def test_an_article_of_each_form_and_language(form, language):
    words = WORDS[language]
    article = parse_dw_page(form(language).encode(), "https://www.dw.com/x/y/a-2")
    assert article.url == "https://www.dw.com/x/y/a-2"
    assert article.title == words["title"]
    assert list(article.paragraphs) == [words[part] for part in ("teaser", "first", "heading", "last")]
    assert article.categories == (words["section"], words["second"])
    assert article.keywords == (words["keyword"], words["other"])
    assert article.date[:10] == "2017-03-31"
    assert article.language == language
    assert article.text == "\n".join([words[part] for part in ("title", "teaser", "first", "heading", "last")])


BODY = "<p>Mice &amp; rats were <b>seen</b>.</p><figure><figcaption>A mouse</figcaption></figure><p>Again.</p>"


@pytest.mark.parametrize(
    "script",
    [
        '<script>window.__APP_STATE__ = {};</script>',
        '<script>var a = 1; window.__APP_STATE__={}\nwindow.b = 2;</script>',
        '<script id="__NEXT_DATA__" type="application/json">{}</script>',
    ],
)  # fmt: skip
def test_the_data_of_the_sites_program_goes_before_the_page(script):
    content = {
        "__typename": "Article",
        "id": 77,
        "title": "On mice &quot;here&quot;",
        "teaser": "They are small.",
        "text": BODY,
        "thematicFocusCategory": {"name": "Nature"},
        "relatedAutoTopics": [{"name": "rodents"}, {"name": "Rodents"}, {"name": " "}, "rats"],
        "contentDate": "2018-01-01",
    }
    teaser = {"__typename": "Article", "id": 3, "title": "On rats", "text": "<p>" + "Rats. " * 100}
    state = {"/x": {"data": {"content": content, "related": [teaser]}}, "n": None}
    page = "<html><h1>Other</h1><div class=longText><p>Other.</p></div>" + script.replace("{}", json.dumps(state))
    article = parse_dw_page(page.encode(), "https://www.dw.com/en/x/a-77")
    assert article.title == 'On mice "here"'
    assert article.paragraphs == ("They are small.", "Mice & rats were seen.", "Again.")
    assert article.categories == ("Nature",)
    assert article.keywords == ("rodents", "rats")
    assert article.date == "2018-01-01"


@pytest.mark.parametrize(
    "wrap", [lambda item: item, lambda item: [item], lambda item: {"@graph": [{"@type": "WebPage"}, item]}]
)
def test_linked_data_alone_is_an_article(wrap):
    item = linked(
        WORDS["en"],
        articleBody="Mice &amp; rats were seen.\n\nAgain.",
        articleSection=["Science", "Germany"],
        keywords="mice, rats، houses",
        inLanguage="en-US",
        description="Mice are small.",
    )
    page = f'<script type="application/ld+json">{json.dumps(wrap(item))}</script>'
    article = parse_dw_page(page.encode())
    assert article.title == "On mice"
    assert article.paragraphs == ("Mice are small.", "Mice & rats were seen.", "Again.")
    assert (article.categories, article.keywords) == (("Science", "Germany"), ("mice", "rats", "houses"))
    assert (article.date, article.language) == ("2017-03-31T09:00:00.000Z", "en")


def test_keywords_of_linked_data_may_be_a_list_and_sections_a_path():
    path = {
        "@type": "BreadcrumbList",
        "itemListElement": [
            {"@type": "ListItem", "position": 1, "name": "Home"},
            {"@type": "ListItem", "position": 2, "item": {"@id": "https://www.dw.com/en/s-2", "name": "Science"}},
        ],
    }
    data = [path, linked(WORDS["en"], keywords=["mice", "houses, old"], articleBody=BODY)]
    article = parse_dw_page(f'<script type="application/ld+json">{json.dumps(data)}</script>'.encode())
    assert article.categories == ("Science",)
    assert article.keywords == ("mice", "houses", "old")
    assert article.paragraphs == ("Mice & rats were seen.", "Again.")


def test_what_one_form_lacks_comes_from_another():
    page = today(data=linked(WORDS["en"], keywords=["rodents"]), teaser="")
    article = parse_dw_page(page.encode())
    assert article.keywords == ("rodents",)  # JSON-LD
    assert article.categories == ("Science", "Germany")  # the page
    assert article.paragraphs[0] == "Mice were seen."
    words = "<meta name=keywords content='mice, houses'><meta property=og:title content='On mice'>"
    article = parse_dw_page(f"<html>{words}<div class=longText>Mice were seen.<br><br>Again.</div></html>".encode())
    assert (article.title, article.keywords, article.language) == ("On mice", ("mice", "houses"), None)
    assert article.paragraphs == ("Mice were seen.", "Again.")


@pytest.mark.parametrize(
    "script",
    ['{"@type": ', "[" * 100_003, "null", '"text"', '{"@type": 5, "@graph": {"@type": "NewsArticle"}}', "[[], 5]"],
)
def test_damaged_data_is_passed_over_and_the_page_read(script):
    page = today(data=0).replace(">0</script>", f">{script}</script><script>window.__APP_STATE__ = {script}</script>")
    assert parse_dw_page(page.encode()).title == "On mice"


NO_ARTICLES = {
    "gallery": (old(), "https://www.dw.com/en/mice/g-5"),
    "video": (old(), "https://www.dw.com/en/mice/av-5"),
    "audio": (old(), "https://www.dw.com/en/mice/audio-5/"),
    "section": (old(), "https://www.dw.com/en/science/s-12526"),
    "live blog": ('<script type="application/ld+json">{"@type": "LiveBlogPosting"}</script>' + old(), ""),
    "no text": ("<html><h1>On mice</h1><p>Cookies?</p></html>", ""),
    "no title": ("<html><div class=longText><p>Mice.</p></div></html>", ""),
    "error page": ("<h1>Error 404</h1><article><p>The page was not found.</p></article>", ""),
    "empty page": ("", ""),
}


@pytest.mark.parametrize(("page", "url"), NO_ARTICLES.values(), ids=NO_ARTICLES)
def test_a_page_without_an_article_says_why(page, url, request):
    with pytest.raises(ValueError, match=f"^{request.node.callspec.id}$"):
        parse_dw_page(page.encode(), url)


def test_an_article_with_a_video_in_it_is_an_article():
    data = [{"@type": "VideoObject", "name": "Mice"}, linked(WORDS["en"])]
    assert parse_dw_page(today(data=data).encode()).title == "On mice"
    data = [{"@type": "VideoObject", "name": "Mice"}]
    assert parse_dw_page(today(data=data).encode(), "https://www.dw.com/en/mice/a-5").title == "On mice"
    with pytest.raises(ValueError, match=r"^video$"):
        parse_dw_page(today(data=data).encode())


@pytest.mark.parametrize(
    ("written", "header", "meta"),
    [
        ("utf-8", None, None),
        ("utf-8", "utf-8", "iso-8859-1"),
        ("cp1251", "windows-1251", "utf-8"),
        ("cp1251", None, "windows-1251"),
        ("cp1251", "klingon", "windows-1251"),
        ("utf-8-sig", "windows-1251", "windows-1251"),
        ("utf-16", "utf-8", None),
        ("utf-8", "utf-16", "utf-8"),
    ],
)
def test_the_charset_comes_from_mark_header_page_or_is_utf_8(written, header, meta):
    page = old("ru").replace(
        '<meta charset="utf-8">', f'<meta http-equiv=Content-Type content="text/html; charset={meta}">' * bool(meta)
    )
    assert parse_dw_page(page.encode(written, "replace"), charset=header).title == "О мышах"


def test_latin_1_is_read_as_browsers_do():
    page = old("de", teaser="„Mäuse“ – klein…")
    for charset in ("latin-1", "ISO-8859-1", "us-ascii"):
        assert parse_dw_page(page.encode("cp1252"), charset=charset).paragraphs[0] == "„Mäuse“ – klein…"


def test_bytes_that_are_not_of_the_charset_are_named():
    with pytest.raises(UnicodeDecodeError, match="can't decode byte 0xdc in position 67"):
        parse_dw_page(old("de").encode("latin-1"))


def test_marks_of_direction_and_joiners_stay_and_soft_hyphens_go():
    title = "\u200fموش\u200cها و\xa0گربه\u200cها\u200e"
    assert parse_dw_page(old("fa", title=title).encode()).title == title.replace("\xa0", " ")
    assert parse_dw_page(old(title="Rat&shy;haus&nbsp;&#8211; \0 &lt;b&gt;").encode()).title == "Rathaus – <b>"


TEXTS = {
    "icons do not cut": ("<p>Seen <a>here<svg><title>x</title></svg></a>, again.</p>", ["Seen here, again."]),
    "links stay": ("<p>See <a>the mice</a>.</p>", ["See the mice."]),
    "paragraphs of links go": ("<p><a>On rats</a> <a>On cats</a></p><p>1. <a>x</a></p>", ["1. x"]),
    "leads go": ("<p>Read more: On rats</p><p>Read more <a>On rats</a></p><p>Watch this video: x</p>", []),
    "sentences stay": ("<p>Read more books, she said.</p>Watch out.", ["Read more books, she said.", "Watch out."]),
    "Arabic leads go": ("<p>اقرأ أيضاً: عن الجرذان</p><p>اقرأ الكتاب.</p>", ["اقرأ الكتاب."]),
    "signatures go": ("<p>ab/cd/ef (AP, Reuters)</p><p>ab (dpa)</p><p>Mice (small)</p>", ["Mice (small)"]),
    "lists": ("<ul><li>One</li><li>Two</li></ul>", ["One", "Two"]),
    "tables": ("<table><tr><td>a</td><td>b</td></tr></table>", ["a", "b"]),
    "bare text": ("One<br>two <i>three</i><div>four</div>five<!-- six -->!", ["One", "two three", "four", "five!"]),
    "quotes": ("<blockquote><p>Mice!</p></blockquote>", ["Mice!"]),
    "asides": ("One<aside><p>x</p></aside>two<div class='teaser-wrap'>x</div><p id=related>x</p>", ["One", "two"]),
}


@pytest.mark.parametrize(("html", "lines"), TEXTS.values(), ids=TEXTS)
def test_lines_of_text(html, lines):
    assert paragraphs(html_tree(html)) == lines


def test_what_is_nested_without_end_is_read_without_a_crash():
    assert paragraphs(html_tree("<p>One" + "<div>" * 5003 + "deep"))[0] == "One"


@pytest.fixture
def crawl(tmp_path):
    """Writes what a crawl writes: `crawl(train=[(name, page)], ...)`."""

    def write(labels="general", language="english", damage=None, **splits):
        folder = tmp_path / "crawl"
        for split in ("train", "dev", "test"):
            pages = splits.get(split, [])
            path = folder / "lists" / labels / split / f"{language}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"urls": [f"http://dw.com/p/{name}" for name, _ in pages]}))
            for name, page in pages:
                answer = asdict(Answer(f"http://dw.com/p/{name}", f"https://www.dw.com/en/x/a-{name}", 200, ""))
                if isinstance(page, str | bytes):
                    file = folder / "pages" / language / "aa" / f"{sha256(name.encode()).hexdigest()}.html.gz"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(gzip.compress(page.encode() if isinstance(page, str) else page))
                    answer["file"] = file.relative_to(folder).as_posix()
                elif page is not None:
                    answer |= page
                if page is not None:
                    with (folder / "index.jsonl").open("a") as index:
                        index.write(json.dumps(answer) + "\n")
        return folder

    return write


def rows(dataset, *columns):
    return [tuple(row[column] for column in columns) for row in dataset]


def test_documents_and_labels_of_a_crawl(crawl):
    crawl(
        train=[("2", old()), ("3", old(section="Sports", second="Germany"))], dev=[("5", old())], test=[("7", today())]
    )
    folder = crawl(language="german", train=[("11", old("de"))])
    texts = load_dw_pages(folder)
    assert texts.languages == ["english", "german"]
    train = texts.documents["english"]["train"]
    assert train.column_names == ["id", "url", "title", "text", "labels", "language"]
    assert rows(train, "id", "labels") == [
        ("http://dw.com/p/2", ["english:science", "english:germany"]),
        ("http://dw.com/p/3", ["english:sports", "english:germany"]),
    ]
    assert train[0]["url"] == "https://www.dw.com/en/x/a-2"
    assert train[0]["text"] == "On mice\nMice are small.\nMice were seen.\nWhere?\nIn a house."
    assert {split: len(documents) for split, documents in texts.documents["english"].items()} == {
        "train": 2,
        "dev": 1,
        "test": 1,
    }
    labels = texts.label_sets["english"]
    assert [(label.id, label.name, label.language, label.seen, label.count) for label in labels] == [
        ("english:germany", "germany", "english", True, 2),
        ("english:science", "science", "english", True, 1),
        ("english:sports", "sports", "english", True, 1),
    ]
    assert texts.label_sets["german"].names == ["wissen", "deutschland"]
    assert load_dw_pages(folder, languages=["german"]).languages == ["german"]


def test_specific_labels_are_keywords_of_the_specific_lists(crawl):
    folder = crawl("specific", train=[("2", old()), ("3", today(keyword="Rats"))])
    assert load_dw_pages(folder, "specific").label_sets["english"].names == ["houses", "mice", "rats"]
    with pytest.raises(FileNotFoundError, match=r"no list LANGUAGE\.json in .*general"):
        load_dw_pages(folder)
    with pytest.raises(ValueError, match="labels must be one of general, specific, got 'all'"):
        load_dw_pages(folder, "all")


def test_rare_labels_are_left_out_of_all_splits(crawl):
    folder = crawl(
        train=[("2", old()), ("3", old()), ("5", old(second="Rare")), ("7", old(section="Rare", second="Rarer"))],
        dev=[("11", old(section="Of dev only"))],
    )
    report = ReadReport()
    texts = load_dw_pages(folder, min_count=2, report=report)
    assert texts.label_sets["english"].names == ["science", "germany", "rare"]
    assert rows(texts.documents["english"]["dev"], "labels") == [(["english:germany"],)]
    texts = load_dw_pages(folder, min_count=3, report=report)
    assert texts.label_sets["english"].names == ["science"]
    assert report.left_out == {"without labels": 2}
    assert report.examples["without labels"] == ["http://dw.com/p/7", "http://dw.com/p/11"]


def test_what_is_no_document_is_left_out_and_counted(crawl):
    folder = crawl(
        train=[
            ("2", old()),
            ("3", None),
            ("5", {"reason": "404 Not Found", "status": 404}),
            ("7", "<h1>Only a title</h1>"),
            ("11", old("de")),
            ("13", old(section="", second="")),
            ("17", {"file": "elsewhere"}),
            ("19", old("de").encode("latin-1")),
        ],
        test=[("23", old())],
    )
    # 17 leads to the article of 23, which stays in test.
    index = folder / "index.jsonl"
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    (test,) = [line for line in lines if line["url"].endswith("/23")]
    for line in lines:
        if line["url"].endswith("/17"):
            line |= {key: test[key] for key in ("final_url", "file")}
    index.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"url": "half')
    with pytest.raises(
        ValueError, match=r"aa/.*\.html\.gz: https://www\.dw\.com/en/x/a-19: byte [\d,]+ is not utf-8; mend it"
    ):
        load_dw_pages(folder)
    report = ReadReport(on_error="skip")
    texts = load_dw_pages(folder, report=report)
    assert rows(texts.documents["english"]["train"], "id") == [("http://dw.com/p/2",)]
    assert report.records == 2
    assert report.left_out == {
        "without page: not asked yet": 1,
        "without page: 404 Not Found": 1,
        "no article: no text": 1,
        "in another language": 1,
        "same article as another address": 1,
        "page not in its charset": 1,
        "without labels": 1,
    }


def test_damaged_pages_are_named_and_can_be_skipped(crawl):
    folder = crawl(train=[("2", old()), ("3", old()), ("5", old()), ("7", old())])
    first, second, third, _ = sorted((folder / "pages").rglob("*.gz"))
    first.write_bytes(first.read_bytes()[:-7])
    with pytest.raises(
        ValueError, match=r"\.html\.gz: damaged gzip file: Compressed file ended .*; crawl again; mend it"
    ):
        load_dw_pages(folder)
    first.write_bytes(b"")
    second.unlink()
    with pytest.raises(ValueError, match=r"the index has it, but there is no such file; crawl again"):
        load_dw_pages(folder)
    third.write_bytes(b"\x1f\x8b\x08")
    report = ReadReport(on_error="skip")
    assert len(load_dw_pages(folder, report=report).documents["english"]["train"]) == 1
    assert report.left_out == {"no article: empty page": 1, "damaged page": 2}


def test_without_a_document_there_is_an_error_that_counts(crawl):
    folder = crawl(train=[("2", None)], dev=[("3", old())])
    with pytest.raises(ValueError, match=r"no article with general labels in train: .*not asked yet"):
        load_dw_pages(folder)
    crawl(language="german", train=[("5", old("de"))])
    report = ReadReport()
    assert load_dw_pages(folder, report=report).languages == ["german"]
    assert report.left_out["language without documents"] == 1


VOCABULARY = ["mice", "were", "seen", "on", "science", "germany", "in", "house", "a"]


def vectors(words=VOCABULARY):
    return {"english": WordVectors(words, np.ones((len(words), 3), np.float32))}


def test_word_ids_are_written_in_the_published_format(crawl, tmp_path):
    folder = crawl(
        train=[
            ("2", old()),
            ("3", old(section="The Science", second="Elsewhere")),
            ("5", old(section="Elsewhere", second="Nowhere")),
            ("7", re.sub("(?<=>)[^<>]+(?=<)", "words", old()).replace(">words</a></li>", ">Science</a></li>")),
        ],
        dev=[("11", today())],
    )
    report = ReadReport()
    texts = load_dw_pages(folder)
    write_dw(texts, tmp_path / "ids", vectors(), report)
    content = json.loads((tmp_path / "ids" / "train" / "english.json").read_text())
    # On mice / Mice are small. / Mice were seen. / Where? / In a house.
    sentences = [[3, 0], [0], [0, 1, 2], [6, 8, 7]]
    assert content == {"X_ids": [sentences, sentences], "Y_ids": [[0, 1], [0]], "label_ids": ["4", "5"]}
    assert json.loads((tmp_path / "ids" / "test" / "english.json").read_text()) == content | {"X_ids": [], "Y_ids": []}
    assert report.left_out == {"label without word vectors": 2, "without labels": 1, "without words": 1}
    assert report.records == 3
    corpus = load_dw(tmp_path / "ids", word_vectors=vectors())
    assert corpus.label_sets["english"].names == ["science", "germany"]
    assert rows(corpus.documents["english"]["dev"], "input_ids", "labels") == [(sentences, [0, 1])]


def test_word_vectors_of_another_language_are_refused(crawl, tmp_path):
    texts = load_dw_pages(crawl(train=[("2", old())]))
    with pytest.raises(
        ValueError, match="english: no label has a word with a vector; are these the vectors of english"
    ):
        write_dw(texts, tmp_path, vectors(["maus", "[UNK]"]))
    with pytest.raises(ValueError, match="word_vectors has no 'english', only german"):
        write_dw(texts, tmp_path, {"german": vectors()["english"]})
