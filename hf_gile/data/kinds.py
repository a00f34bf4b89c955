"""The kinds of content, how they start, and what to do with those that no reader accepts."""

import re

from .json_text import is_json_object

_BINARY = {
    "ods": rb"PK\x03\x04.*mimetypeapplication/vnd\.oasis",
    "xlsx": rb"\xd0\xcf\x11\xe0|PK\x03\x04.*(\[Content_Types\]\.xml|xl/workbook\.xml)",
    "parquet": b"PAR1",
    "feather": rb"ARROW1|FEA1|\xff\xff\xff\xff[^\0]",
    "pickle": rb"\x80[\x02-\x05]",
    "sqlite": b"SQLite format 3",
    "statistics": rb"<stata_dta>|[\x6e-\x73][\x01\x02]\x01|\$FL[23]@|\0{12}\xc2\xea\x81|RD[ABX][23]\n|[XAB]\n\0\0",
    "archive": rb"\x28\xb5\x2f\xfd|7z\xbc\xaf|Rar!|.{257}ustar",
    "marc": rb"\d{5}[a-z]{2}..[ a]22",
    "other": rb"\$HDT|\x89HDF|\x93NUMPY|%PDF|ORC|Obj\x01|\{\\rtf",
}
_KINDS = {  # by suffix, if the content does not tell
    **{".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".nt": "ntriples", ".nq": "ntriples"},
    **dict.fromkeys((".ttl", ".trig", ".n3"), "turtle"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
}
_MARKDOWN = r"(?:\+[+-]+\r?\n)?(?=[^\n\w]*\w)(?=[^\n|]*\|)[^\n]*\n(?=[^\n]*(?:---|:-|-:))[ |:+-]+\r?\n"
_COMMENTS = r"(?:\s*\#.*\n)*\s*"
# Of PubMed, RIS, EndNote and Web of Science; of MARC and PICA as text; BibTeX; two relations of terms in a thesaurus.
_REFERENCES = (
    r"PMID- \d|TY  - [A-Z]|%0 [A-Z]|FN [A-Z][\w ]*\r?\nVR "
    r"|=LDR  |\d{9} (LDR|\d{3}).. L |\d{3}[A-Z@](/\d\d)? [$\x1f]"
    r"|(%.*\n|\s)*@\w+\{[^\s,{}]*,\s*\n"
    r"|(?=([^\n]*\n){1,20}?[ \t]*(?P<tag>(SN|UF|BT|NT|TT|USE):|(?<=[ \t])(SN|UF|BT|NT|TT|USE)[ \t]))"
    r"(?=([^\n]*\n){1,40}?[ \t]*(?!(?P=tag))((SN|UF|BT|NT|RT|TT):|(?<=[ \t])(SN|UF|BT|NT|RT|TT)[ \t]))"
)

# How texts of each kind start, in order of preference; those below a `csv` are never in a file with a suffix of CSV.
_STARTS: tuple[tuple[str, str], ...] = (
    ("lfs", r"version https://git-lfs\.github\.com/spec"),
    ("html", r"(?i:<!doctype html|<html|<table)|(?is:(<\?xml|<!).{0,2000}<html[\s>])"),
    ("references", _REFERENCES),
    ("marc", r"(<\?xml[^>]*>\s*)?<(\w+:)?(collection|record)\s[^>]*(loc\.gov/MARC21|marcxchange)"),
    ("drawn", r"(%.*\n|\s)*(?i:@relation\s)|-\[ RECORD 1 \]|\*{9,} 1\. row"),
    ("vectors", r"(\d+ \d+ \d+\s+)?([\d,.+-]+[ \t]+)?(\d+:(\d|-?\d*\.\S+)\s){2}"),
    ("sparql", r"\?\w+(\t\?\w+)+\r?\n"),
    ("ascii", r"\*NEWRECORD"),
    ("mesh", r"(?=<)(?s:.{0,9999}?)<DescriptorRecordSet\b"),
    ("medline", r"(?=<)(?s:.{0,9999}?)<(Pubmed(Book)?Article(Set)?|MedlineCitationSet)\b"),
    ("xml", r"<\?xml|<!"),
    ("fasttext", r"__label__[^\s,;]+[ \t]"),
    ("object", r"\{"),
    ("turtle", _COMMENTS + r"(?i:@prefix|@base|prefix\s+[\w.-]*:|base\s*<)"),
    (
        "ontology",
        r"([\w-]+:.*\n|!.*\n|\s)*\[(Term|Typedef)\]|(!.*\n)*format-version:\s*1"
        r"|Prefix\(|Ontology\(|(Prefix:\s*[\w.-]*:\s*<|Ontology:\s*<)",
    ),
    (
        "sql",
        r"(--.*\n|/\*.*\n|\s)*((CREATE|DROP) TABLE |INSERT INTO .*VALUES|COPY .*FROM stdin"
        r"|SET \w+ =|PRAGMA \w+ ?=|BEGIN( TRANSACTION)?;)",
    ),
    ("csv", _MARKDOWN),
    ("csv", ""),
    ("fasttext", r"[^\n]+[ \t]__label__\S"),
    ("drawn", r"[┌╭┏╔][─━═]"),
    ("json", r"\[\s*([\[{\"\d\]]|-\d|$)"),
    ("ntriples", _COMMENTS + r"(<[^<>\s]*>|_:\w+)[ \t]+(<[^<>\s]*>|a\s|\w*:\w+)"),
    ("xml", r"<[\w.-]+(:[\w.-]+)?(\s+[\w:.-]+\s*=|\s*/?>)"),
)

VOCABULARIES = {
    **dict.fromkeys(
        ("ascii", "mesh", "xml", "turtle", "ntriples"),
        "pass vocabularies as a label file, and write tables as CSV",
    ),
    "medline": "train on it with --recipe bioasq",
}
"""Kinds of content that are no tables, and what to do."""

REFUSED = {
    "html": "is a web page (HTML), not data: download the file itself, "
    'or if it opens as a table in Excel, save it as "CSV UTF-8"',
    "sql": "is a dump of a database (SQL): load it, and export a table as CSV",
    "drawn": "is a table as ARFF, or as psql and MySQL draw it for a terminal: export it as CSV",
    "vectors": "has features by number (LIBSVM), and no text: write a table of texts and labels; "
    "train --recipe xmc reads the raw-text sets of the Extreme Classification Repository",
    "sparql": "has results of SPARQL as TSV, in the syntax of RDF: ask the endpoint for CSV",
    "lfs": "is a pointer of Git LFS, not the data: run `git lfs pull`, or download the file itself",
    "ontology": "is an ontology in OBO, Manchester or functional syntax: convert it to RDF, for example with ROBOT "
    "(robot convert --input terms.obo --output terms.owl)",
    "yaml": "is YAML: write a table, or labels as a JSON list of names",
    "packed": "is a compressed Parquet file: decompress it first",
    "xlsx": 'is an Excel workbook: in Excel, save it as "CSV UTF-8", or in Python as '
    'pandas.read_excel(...).to_csv("table.csv")',
    "ods": "is a spreadsheet of LibreOffice: save it as CSV, or convert it, as in soffice --convert-to csv FILE",
    "feather": 'is a Feather or Arrow file: convert it, as in pandas.read_feather(...).to_parquet("table.parquet")',
    "pickle": "is a pickle, which runs code when it is read: if you trust it, convert it, as in "
    'pandas.read_pickle(...).to_parquet("table.parquet")',
    "sqlite": "is a database of SQLite: export a table, as in sqlite3 -header -csv FILE 'select * from a' > a.csv",
    "statistics": "is a file of Stata, SPSS, SAS or R: export it as CSV, or in Python as "
    'pandas.read_stata(...).to_csv("table.csv")',
    "archive": "is an archive of an unknown kind: unpack it first",
    "marc": "is a MARC file: convert it to a table or to SKOS, for example with MarcEdit or pymarc",
    "references": "has references, or records of a catalogue or thesaurus, as text, such as RIS, BibTeX, MARC or BT: "
    "export them as CSV or SKOS, for example with Zotero or MarcEdit (PubMed has XML)",
    "other": "is a binary file: write it as CSV, JSON lines or Parquet",
}
"""Kinds of content that no reader accepts, and what to do."""


def see_binary(head: bytes) -> str:
    """Returns the kind of the first bytes of a file that is no text; empty for a text."""
    return next((kind for kind, start in _BINARY.items() if re.match(start, head[:4096], re.DOTALL)), "")


def see_kind(text: str, suffix: str) -> str:
    """Returns the kind of a text without white space before it."""
    is_csv = suffix in (".csv", ".tsv", ".tab")
    kind = next(
        (kind for kind, start in _STARTS if (is_csv or start) and re.match(start, text)),
        _KINDS.get(suffix, "text"),
    )
    if (
        _KINDS.get(suffix) == "turtle"
        and kind in ("object", "json", "ntriples")
        and not re.match(r"[\[{][\s\[{]*\"", text)
    ):
        return "turtle"
    if kind != "object":
        return kind
    # JSON lines, a single object, or a CSV file whose first cell starts with a brace.
    first, _, rest = text.partition("\n")
    is_line = is_json_object(first)
    if is_csv or suffix in (".jsonl", ".ndjson"):
        return "csv" if is_csv and not is_line else "jsonl"
    return "jsonl" if is_line and (rest.lstrip().startswith("{") or suffix not in (".json", ".jsonld")) else "json"
