"""Every row of every table and figure of both papers: what the paper says, and the runs that measure it here.

GILE is Pappas & Henderson (TACL 2019), and the sibling is "Beyond Weight Tying" (Pappas, Miculicich & Henderson, WMT
2018). `benchmarks/paper_tables.py` runs the rows and writes docs/paper_tables.md. Numbers are copied from the papers; a
dash stands for a number that the paper does not print.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SEEDS = 3
"""Runs of each row of GILE, with the seeds 1, 2 and 3."""

SIBLING_SEEDS = 2
"""Runs of each row of the sibling, with the seeds 1 and 2."""


@dataclass(frozen=True)
class Run:
    """A run of a recipe, without its seed. Rows with the same flags share it.

    Args:
        kind: A key of `KINDS`.
        flags: Flags of the recipe; `DATA` stands for the folder of all data.
        price: Estimated CPU seconds.
        seeds: Number of seeds that a page needs.
    """

    kind: str
    flags: str
    price: float = field(compare=False)
    seeds: int = field(default=SEEDS, compare=False)

    @property
    def name(self) -> str:
        """The key of the run in the results file."""
        return f"{self.kind}: {self.flags}"


Figure = tuple[Run, str]
"""A figure of a run, by its name."""


@dataclass(frozen=True)
class Cell:
    """A number of a paper, and the figures whose mean is its counterpart here.

    Args:
        paper: The number, if it is printed.
        groups: Groups of figures; the counterpart is the mean over groups of the mean in each. Empty: cannot be
            measured here.
    """

    paper: float | None
    groups: tuple[tuple[Figure, ...], ...] = ()

    @property
    def runs(self) -> set[Run]:
        """The runs with these figures."""
        return {run for group in self.groups for run, _ in group}


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper.

    Args:
        title: Its name, as a heading of the page.
        about: What the rows are here, as text of the page.
        columns: Names of the columns.
        rows: Cells by column, by row.
        beside: Pairs of rows whose order in each column the page compares with the paper.
        columns_beside: Pairs of columns whose order in each row it compares.
        falling: Columns in which lower is better.
        compared: Columns in which it compares; by default all with numbers of the paper.
        missing: Why some rows have no cells here.
        why: Why orders differ from the paper, where it is known; shown if one does.
    """

    title: str
    about: str
    columns: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Cell]]
    beside: tuple[tuple[str, str], ...] = ()
    columns_beside: tuple[tuple[str, str], ...] = ()
    falling: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    missing: str = ""
    why: str = ""

    @property
    def runs(self) -> set[Run]:
        """The runs of all rows."""
        return {run for row in self.rows.values() for cell in row.values() for run in cell.runs}


@dataclass(frozen=True)
class Kind:
    """What runs of a kind have in common.

    Args:
        module: Module of the recipe, in the folder recipes, or of the benchmark.
        data: Folders of DATA that it reads.
        rooms: Files and folders with the code that its figures depend on.
        flags: Flags of all runs.
        seeded: Whether figures depend on the seed.
    """

    module: str
    data: tuple[str, ...]
    rooms: tuple[str, ...]
    flags: str = ""
    seeded: bool = True


MODELS = ("hf_gile/models", "hf_gile/metrics", "hf_gile/training", "hf_gile/tokenizing.py")
READ_NEWS = ("recipes/papers/news.py", "recipes/papers/deutsche_welle.py", "hf_gile/data/word_vectors.py")

KINDS = {
    "news": Kind(
        "train_dw",
        ("dw_format",),
        (
            *("recipes/train_dw.py", "recipes/news_models.py", "recipes/papers/multilingual.py"),
            *("recipes/papers/units.py", "hf_gile/data/zero_shot.py", *READ_NEWS, *MODELS),
        ),
        "--learning_rate 5e-3 --hidden_act tanh --save_models false"
        " --problem_type multi_label_classification --use_cpu true --disable_tqdm true",
    ),
    "words": Kind(
        "baselines.bag_of_words",
        ("dw_format",),
        ("recipes/baselines/bag_of_words.py", *READ_NEWS, "hf_gile/metrics", "hf_gile/training/calibration"),
        seeded=False,
    ),
    "biomedical": Kind(
        "train_bioasq",
        ("pubmed_mesh",),
        (
            *("recipes/train_bioasq.py", "recipes/baselines", "recipes/papers/record_source.py"),
            *("recipes/papers/zero_shot.py", "recipes/papers/records.py", "recipes/papers/columns.py"),
            *("recipes/papers/units.py", "recipes/papers/unit_runs.py", "recipes/papers/unit_settings.py"),
            *("recipes/papers/bioasq.py", "hf_gile/data/zero_shot.py", *MODELS),
        ),
        "--train_files DATA/pubmed_mesh/train.jsonl.gz --validation_files DATA/pubmed_mesh/validation.jsonl.gz"
        " --test_files DATA/pubmed_mesh/test.jsonl.gz --unseen_file DATA/pubmed_mesh/unseen_labels.json"
        " --no_baselines --lexical false --make_cards false --calibration none --use_cpu true --disable_tqdm true",
    ),
    "translation": Kind(
        "train_nmt",
        ("multi30k",),
        (
            *("recipes/train_nmt.py", "recipes/papers/translation.py", "recipes/papers/sentence_pairs.py"),
            "recipes/papers/continuous.py",
            *("hf_gile/language_models", "hf_gile/tokenizing.py", "hf_gile/training/experiment.py"),
        ),
        "--data DATA/multi30k --use_cpu true --disable_tqdm true --per_device_eval_batch_size 256",
    ),
    "speed": Kind(
        "translation",
        (),
        ("benchmarks/translation.py", "hf_gile/language_models"),
        seeded=False,
    ),
    "describe": Kind(
        "describe_data",
        ("dw_format", "pubmed_mesh"),
        (
            *("benchmarks/describe_data.py", "hf_gile_cli/describe.py", "recipes/papers/deutsche_welle.py"),
            *("recipes/papers/records.py", "hf_gile/tokenizing.py"),
        ),
        seeded=False,
    ),
}


def numbers(text: str) -> dict[str, list[float | None]]:
    """Reads rows of a name and numbers, separated by two spaces or more; a dash stands for no number."""
    rows = {}
    for line in text.strip().splitlines():
        name, _, rest = line.strip().partition("  ")
        rows[name] = [None if cell == "-" else float(cell) for cell in rest.split()]
    return rows


def one(run: Run | None, figure: str, paper: float | None = None) -> Cell:
    """A cell with a single figure."""
    return Cell(paper, () if run is None else (((run, figure),),))


def mean(figures: Iterable[Figure], paper: float | None = None) -> Cell:
    """A cell with the mean of figures."""
    return Cell(paper, tuple((figure,) for figure in figures))


# --- News: the data ----------------------------------------------------------------------------------------------

LANGUAGES = {
    "en": "english", "de": "german", "es": "spanish", "pt": "portuguese",
    "uk": "ukrainian", "ru": "russian", "ar": "arabic", "fa": "persian",
}  # fmt: skip
OTHERS = tuple(LANGUAGES)[1:]
WITH_SPECIFIC = ("en", "de")
"""Languages with specific labels here."""

GENERAL_FLAGS = "--epoch_size 2103 --num_train_epochs 4 --patience 2 --per_device_train_batch_size 16 --joint_size 100"
"""An epoch reads the 701 documents of a language three times."""

SPECIFIC_FLAGS = "--epoch_size 0 --num_train_epochs 5 --per_device_train_batch_size 64 --held_out 0.1"
UNITS = {
    "Linear": "linear", "BIL [YH15]": "bilinear_yh15", "BIL [N16]": "bilinear_n16", "GILE": "gile",
    "- constrained dj": "constrained", "- only label": "only_label", "- only input": "only_input",
}  # fmt: skip


def news(
    kind: str,
    languages: Iterable[str],
    unit: str = "linear",
    encoder: str = "han",
    cell: str = "dense",
    sharing: str = "",
    more: str = "",
) -> Run:
    """A run of recipes/train_dw.py on general or specific labels."""
    codes = [*languages]
    flags = [f"--data DATA/dw_format/{kind} --languages", *(LANGUAGES[code] for code in codes), f"--units {unit}"]
    if encoder != "han":
        flags.append(f"--text_encoder_type {encoder}")
    if cell != "dense":
        flags.append(f"--encoder_cell {cell}")
    if sharing:
        flags.append(f"--sharing {sharing}")
    flags += [GENERAL_FLAGS if kind == "general" else SPECIFIC_FLAGS, *([more] if more else [])]
    return Run("news", " ".join(flags), price_of_news(kind, len(codes), encoder, cell))


def price_of_news(kind: str, languages: int, encoder: str, cell: str) -> float:
    """Estimates CPU seconds, from runs on a busy machine."""
    price = {"general": 8.0, "specific": 52.0}[kind]
    price *= {"nn": 0.5, "hnn": 0.8, "han": 1.0}[encoder]
    price *= {"dense": 1.0, "gru": 2.2, "bigru": 3.3}[cell]
    return price * (0.3 + 0.7 * languages)


def f1(code: str) -> str:
    """Name of the micro-F1 of a language."""
    return f"{LANGUAGES[code]} F1"


# --- GILE, Table 1 -----------------------------------------------------------------------------------------------

TABLE_1 = """
BioASQ  11705534  528156  214  26104  35.0
DW        598304  884272  436   5637   2.3
- en      112816  110971  516   1385   2.1
- de      132709  261280  424   1176   1.8
- es       75827  130661  412    843   4.7
- pt       39474   58849  571    396   1.8
- uk       35423  105240  342    288   1.7
- ru      108076  123493  330    916   1.8
- ar       57697   58922  357    435   2.4
- fa       36282   34856  538    198   2.5
"""


def table_1() -> Table:
    columns = ("documents", "words", "words per document", "labels", "words per label")
    rows: dict[str, dict[str, Cell]] = {}
    sources = {
        "BioASQ": "records",
        "DW": "general all",
        **{f"- {code}": f"general {LANGUAGES[code]}" for code in LANGUAGES},
    }
    for name, printed in numbers(TABLE_1).items():
        run = Run("describe", sources[name], 5, seeds=1)
        rows[name] = {column: one(run, column, paper) for column, paper in zip(columns, printed, strict=True)}
        if name[2:] in WITH_SPECIFIC:
            run = Run("describe", f"specific {LANGUAGES[name[2:]]}", 8, seeds=1)
            rows[f"{name}, specific labels"] = {column: one(run, column) for column in columns}
    about = (
        "The data of the paper is not available. Instead of BioASQ: MEDLINE abstracts of 1976 to 1980 and of reviews. "
        "Instead of Deutsche Welle: for general labels, the sentences of SIB-200 on seven topics in the same eight "
        "languages; for specific labels, library records of TIBKAT with their subject headings, in English and German. "
        "Counted as `hf-gile describe` counts."
    )
    return Table("GILE, Table 1: data", about, columns, rows)


# --- GILE, Table 2 -----------------------------------------------------------------------------------------------

TABLE_2 = """
WSABIE+                 5.21  36.64  41.72  48.81   0.37  99.94  722.10
AiTextML avg            3.54  32.78  25.99  52.89   0.39  99.94  724.47
AiTextML inf            3.54  32.78  25.99  21.62   2.66  98.61  724.47
WAN                     1.53  42.37  11.23      -      -      -   55.60
BIL-WAN [YH15]          1.21  40.68  17.52  18.72   9.50  93.89   52.85
BIL-WAN [N16]           1.12  41.91  16.94  16.26  10.55  93.23   52.84
GILE-WAN                0.78  44.39  11.60   9.06  12.95  91.90   52.93
- constrained dj        1.01  37.71  16.16  10.34  11.21  93.38   52.85
- only label (Eq. 6a)   1.06  40.81  13.77   9.77  14.71  90.56   52.84
- only input (Eq. 6b)   1.07  39.78  15.67  19.28   7.18  95.91   52.84
"""

BIOMEDICAL_UNITS = {
    "WSABIE+": "wsabie", "AiTextML avg": "aitextml", "AiTextML inf": "aitextml", "WAN": "linear",
    "BIL-WAN [YH15]": "bilinear_yh15", "BIL-WAN [N16]": "bilinear_n16", "GILE-WAN": "gile",
    "- constrained dj": "constrained", "- only label (Eq. 6a)": "only_label", "- only input (Eq. 6b)": "only_input",
}  # fmt: skip
RANKING = tuple(f"{metric} {group}" for group in ("seen", "unseen") for metric in ("RL", "AvgPr", "OneErr"))
PARAMETERS = "parameters, M"


def biomedical(unit: str, more: str = "") -> Run:
    """A run of recipes/train_bioasq.py."""
    flags = f"--units {unit} --num_train_epochs 4 --patience 2{more}"
    return Run("biomedical", flags, {"wsabie": 200, "aitextml": 220, "linear": 100}.get(unit, 140))


def table_2() -> Table:
    columns = (*RANKING, PARAMETERS)
    rows = {}
    for name, printed in numbers(TABLE_2).items():
        unit = BIOMEDICAL_UNITS[name]
        prefix = "inferred " if name == "AiTextML inf" else ""
        cells = {
            column: one(biomedical(unit), prefix + column, paper)
            for column, paper in zip(columns, printed, strict=True)
        }
        if unit == "linear":
            cells = {column: cell for column, cell in cells.items() if "unseen" not in column}
        rows[name] = cells
    for name, unit, more in (
        ("GILE-WAN, tanh", "gile", " --hidden_act tanh"),
        ("WAN, tanh", "linear", " --hidden_act tanh"),
    ):
        shown = [column for column in columns if unit == "gile" or "unseen" not in column]
        rows[name] = {column: one(biomedical(unit, more), column) for column in shown}
    beside = [(name, "WAN") for name in rows if name in BIOMEDICAL_UNITS and name != "WAN"]
    beside += [("GILE-WAN", name) for name in rows if name in BIOMEDICAL_UNITS and name not in ("WAN", "GILE-WAN")]
    about = (
        "MEDLINE abstracts: 23,260 for training, with 11.9K headings. 512 headings are held out of training; the test "
        "documents have 362 of them, the unseen candidates. All rows: 4 epochs, the best chosen on validation "
        "documents, Adam with 5e-3, word dropout 0.5, 1,500 negatives in a batch weighted to all labels. The paper's "
        "WSABIE+ and AiTextML are quoted from Nam et al. (2016), who also learn a vector for each training document; "
        "the rows here encode documents by their words. The last two rows are not in the paper."
    )
    why = (
        "WSABIE+ and AiTextML are other programs in the paper (see above), and its models read 11.7 million abstracts "
        "until convergence. The activation has a part in it: with tanh, GILE-WAN ranks unseen labels better than the "
        "bilinear rows, which have the ReLU of the paper. Beyond this it is not known."
    )
    return Table(
        "GILE, Table 2: biomedical text", about, columns, rows, tuple(beside),
        falling=tuple(column for column in columns if column.startswith(("RL", "OneErr"))), compared=RANKING, why=why,
    )  # fmt: skip


# --- GILE, Table 3 -----------------------------------------------------------------------------------------------
#                       en    de    es    pt    uk    ru    ar    fa

TABLE_3_GENERAL = """
NN (Avg)              50.7  53.1  70.0  57.2  80.9  59.3  64.4  66.6
HNN (Avg)             70.0  67.9  82.5  70.5  86.8  77.4  79.0  76.6
HAN (Att)             71.2  71.8  82.8  71.3  85.3  79.8  80.5  76.6
GILE-NN (Avg)         60.1  60.3  76.6  62.1  82.0  65.7  77.4  68.6
GILE-HNN (Avg)        74.8  71.3  83.3  72.6  88.3  81.5  81.9  77.1
GILE-HAN (Att)        76.5  74.2  83.4  71.9  86.1  82.7  81.0  77.2
"""
TABLE_3_SPECIFIC = """
NN (Avg)              24.4  21.8  22.1  24.3  33.0  26.0  24.1  32.1
HNN (Avg)             39.3  39.6  37.9  33.6  42.2  39.3  34.6  43.1
HAN (Att)             43.4  44.8  46.3  41.9  46.4  45.8  41.2  49.4
GILE-NN (Avg)         27.5  27.5  28.4  29.2  36.8  31.6  32.1  35.6
GILE-HNN (Avg)        43.1  43.4  42.0  37.7  43.0  42.9  36.6  44.1
GILE-HAN (Att)        45.9  47.3  47.4  42.6  46.6  46.9  41.9  48.6
"""

#                     English, with the help of               the other language, with the help of English
#                       de    es    pt    uk    ru    ar    fa    de    es    pt    uk    ru    ar    fa

TABLE_3_GENERAL_TWO = """
MHAN-Enc              71.0  69.9  69.2  70.8  71.5  70.0  71.3  69.7  82.9  69.7  86.8  80.3  79.0  76.0
MHAN-Att              74.0  74.2  74.1  72.9  73.9  73.8  73.3  72.5  82.5  70.8  87.7  80.5  82.1  76.3
MHAN-Both             72.8  71.2  70.5  65.6  71.1  68.9  69.2  70.4  82.8  71.6  87.5  80.8  79.1  77.1
GILE-MHAN-Enc         75.1  74.0  72.7  70.7  74.4  73.5  73.2  72.7  83.4  73.0  88.7  82.8  83.3  77.4
GILE-MHAN-Att         76.5  76.5  76.3  75.3  76.1  75.6  75.2  74.5  83.5  72.7  88.0  83.4  82.1  76.7
GILE-MHAN-Both        75.3  73.7  72.1  67.2  72.5  73.8  69.7  72.6  84.0  73.5  89.0  81.9  82.0  77.7
"""
TABLE_3_SPECIFIC_TWO = """
MHAN-Enc              45.4  45.9  44.3  41.1  42.1  44.9  41.0  43.9  46.2  39.3  47.4  45.0  37.9  48.6
MHAN-Att              46.3  46.0  45.9  45.6  46.4  46.4  46.1  46.5  46.7  43.3  47.9  45.8  41.3  48.0
MHAN-Both             45.7  45.6  41.5  41.2  45.6  44.6  43.0  45.9  46.4  40.3  46.3  46.1  40.7  50.3
GILE-MHAN-Enc         46.0  46.6  41.2  42.5  46.4  43.4  41.8  47.2  47.7  41.5  49.5  46.6  41.4  50.7
GILE-MHAN-Att         47.3  47.0  45.8  45.5  46.2  46.5  45.5  47.6  47.9  43.5  49.1  46.5  42.2  50.3
GILE-MHAN-Both        47.0  46.7  42.8  42.0  45.6  42.8  39.3  48.0  47.6  43.1  48.5  46.0  42.1  49.0
"""

ENCODERS = {"NN (Avg)": "nn", "HNN (Avg)": "hnn", "HAN (Att)": "han"}
SHARING = {"Enc": "encoders", "Att": "attention", "Both": "both"}
ABOUT_GENERAL = (
    "Micro-F1 in percent, at the threshold that is best on development documents. Each language has 701 training and "
    "204 test sentences on 7 topics, read 12 times in batches of 16, the best of 4 points chosen on development "
    "documents; Adam with 5e-3, tanh. With 7 labels, Eq. 19 would leave "
    "4 dimensions, so the joint size is 100. A difference of three points may be noise."
)
WHY_GENERAL = (
    "the test has 204 sentences of a language, so that a point is two of them, and seven labels, whose names are a "
    "word or two. Beyond this it is not known."
)
ABOUT_SPECIFIC = (
    "Micro-F1 in percent, at the threshold that is best on development documents. Library records: 17,002 in English "
    "with 850 labels, 11,118 in German with 650, a tenth of the labels held out of training. 5 epochs, batches of 64, "
    "Adam with 5e-3, tanh, joint size by Eq. 19."
)


def monolingual(title: str, text: str, kind: str) -> Table:
    """Table 3, models of a single language."""
    rows: dict[str, dict[str, Cell]] = {}
    here = LANGUAGES if kind == "general" else WITH_SPECIFIC
    for name, printed in numbers(text).items():
        unit = "gile" if name.startswith("GILE") else "linear"
        encoder = ENCODERS[name.removeprefix("GILE-")]
        rows[name] = {}
        for code, paper in zip(LANGUAGES, printed, strict=True):
            run = news(kind, [code], unit, encoder) if code in here else None
            rows[name][code] = one(run, f1(code), paper)
    beside = tuple((f"GILE-{name}", name) for name in ENCODERS)
    missing = "" if kind == "general" else "No specific labels in the other six languages."
    return Table(
        title, ABOUT_GENERAL if kind == "general" else ABOUT_SPECIFIC, (*LANGUAGES,), rows, beside, missing=missing,
        why=WHY_GENERAL if kind == "general" else "",
    )  # fmt: skip


def bilingual(title: str, text: str, kind: str) -> Table:
    """Table 3, models of English and another language; columns name the languages of training, then of the test."""
    columns = [f"en + {code}, {tested}" for tested in ("en", "other") for code in OTHERS]
    columns = [column.replace("other", column[5:7]) for column in columns]
    rows: dict[str, dict[str, Cell]] = {}
    here = OTHERS if kind == "general" else WITH_SPECIFIC
    for name, printed in numbers(text).items():
        unit = "gile" if name.startswith("GILE") else "linear"
        sharing = SHARING[name.rpartition("-")[2]]
        rows[name] = {}
        for column, paper in zip(columns, printed, strict=True):
            run = news(kind, ["en", column[5:7]], unit, sharing=sharing) if column[5:7] in here else None
            rows[name][column] = one(run, f1(column[-2:]), paper)
    beside = tuple((f"GILE-MHAN-{name}", f"MHAN-{name}") for name in SHARING)
    missing = "" if kind == "general" else "No specific labels in the other six languages."
    return Table(
        title, ABOUT_GENERAL if kind == "general" else ABOUT_SPECIFIC, tuple(columns), rows, beside, missing=missing,
        why=WHY_GENERAL if kind == "general" else "",
    )  # fmt: skip


# --- GILE, Table 4 -----------------------------------------------------------------------------------------------
#                    en    de    es    pt    uk    ru    ar    fa  parameters  mean

TABLE_4 = """
LogReg-BOW         75.8  72.9  81.4  74.3  91.0  79.2  82.0  77.0  26  79.19
LogReg-BOW-10%     74.7  70.1  80.6  71.1  89.5  76.5  80.8  75.5  5  77.35
HAN-BIGRU          76.3  74.1  84.5  72.9  87.7  82.9  81.7  75.3  0.377  79.42
HAN-GRU            77.1  72.5  84.0  70.8  86.6  83.0  82.9  76.0  0.138  79.11
HAN-DENSE          71.2  71.8  82.8  71.3  85.3  79.8  80.5  76.6  0.050  77.41
GILE-HAN-BIGRU     78.1  73.6  84.9  72.5  89.0  82.4  82.5  75.8  0.377  79.85
GILE-HAN-GRU       77.1  72.6  84.7  72.4  88.6  83.6  83.4  76.0  0.138  79.80
GILE-HAN-DENSE     76.5  74.2  83.4  71.9  86.1  82.7  82.6  77.2  0.050  79.12
"""


def table_4() -> Table:
    columns = (*LANGUAGES, PARAMETERS, "mean")
    rows = {}
    for name, printed in numbers(TABLE_4).items():
        papers = dict(zip(columns, printed, strict=True))
        if name.startswith("LogReg"):
            runs = {code: bag_of_words(code, "0.1" if name.endswith("%") else "1") for code in LANGUAGES}
        else:
            unit = "gile" if name.startswith("GILE") else "linear"
            cell = name.rpartition("-")[2].lower()
            runs = {code: news("general", [code], unit, cell=cell) for code in LANGUAGES}
        cells = {code: one(run, f1(code), papers[code]) for code, run in runs.items()}
        cells[PARAMETERS] = mean([(run, PARAMETERS) for run in runs.values()], papers[PARAMETERS])
        cells["mean"] = mean([(run, f1(code)) for code, run in runs.items()], papers["mean"])
        rows[name] = cells
    beside = [(f"GILE-HAN-{cell}", f"HAN-{cell}") for cell in ("BIGRU", "GRU", "DENSE")]
    beside += [("GILE-HAN-BIGRU", "LogReg-BOW"), ("LogReg-BOW", "LogReg-BOW-10%")]
    about = ABOUT_GENERAL + " Logistic regression has no seed."
    return Table(
        "GILE, Table 4: encoders", about, columns, rows, tuple(beside),
        compared=(*LANGUAGES, "mean"), why=WHY_GENERAL,
    )  # fmt: skip


def bag_of_words(code: str, share: str) -> Run:
    """A run of recipes/baselines/bag_of_words.py."""
    flags = f"--data DATA/dw_format/general --language {LANGUAGES[code]} --share_of_words {share}"
    return Run("words", flags, 3, seeds=1)


# --- GILE, Table 5 -----------------------------------------------------------------------------------------------
#                      en    de    es    pt    uk    ru    ar    fa

TABLE_5_GENERAL = """
Linear               71.2  71.8  82.8  71.3  85.3  79.8  80.5  76.6
BIL [YH15]           71.7  70.5  82.0  71.1  86.6  80.6  80.4  76.0
BIL [N16]            69.8  69.1  80.9  67.4  87.5  79.9  78.4  75.1
GILE                 76.5  74.2  83.4  71.9  86.1  82.7  82.6  77.2
- constrained dj     73.6  73.1  83.3  71.0  87.1  81.6  80.4  76.4
- only label         71.4  69.6  82.1  70.3  86.2  80.6  81.1  76.2
- only input         55.1  54.2  80.6  66.5  85.6  60.8  78.9  74.0
"""
TABLE_5_SPECIFIC = """
Linear               43.4  44.8  46.3  41.9  46.4  45.8  41.2  49.4
BIL [YH15]           40.7  37.8  38.1  33.5  44.6  38.1  39.1  42.6
BIL [N16]            34.4  30.2  34.4  33.6  31.4  22.8  35.6  38.9
GILE                 45.9  47.3  47.4  42.6  46.6  46.9  41.9  48.6
- constrained dj     38.5  38.0  36.8  35.1  42.1  36.1  36.7  48.7
- only label         38.4  41.5  42.9  38.3  44.0  39.3  37.2  43.4
- only input         12.1  10.8   8.8  20.5  11.8   7.8  12.0  24.6
"""


def ablation(title: str, text: str, kind: str) -> Table:
    """Table 5: output layers over HAN."""
    rows: dict[str, dict[str, Cell]] = {}
    here = LANGUAGES if kind == "general" else WITH_SPECIFIC
    for name, printed in numbers(text).items():
        rows[name] = {}
        for code, paper in zip(LANGUAGES, printed, strict=True):
            run = news(kind, [code], UNITS[name]) if code in here else None
            rows[name][code] = one(run, f1(code), paper)
        if kind == "specific" and name != "Linear":
            for code in here:
                rows[name][f"AvgPr unseen, {code}"] = one(
                    news(kind, [code], UNITS[name]), f"{LANGUAGES[code]} AvgPr unseen"
                )
    same = {"GILE"} if kind == "specific" else {"GILE", "- constrained dj"}
    beside = tuple(("GILE", name) for name in UNITS if name not in same)
    more = tuple(f"AvgPr unseen, {code}" for code in here) if kind == "specific" else ()
    about = (
        f"{ABOUT_GENERAL} Codes of texts have size 100, too, so that a constrained joint size changes nothing: the two "
        "rows are the same model, and are not compared."
        if kind == "general"
        else f"{ABOUT_SPECIFIC} The paper has no figures of unseen labels here."
    )
    missing = "" if kind == "general" else "No specific labels in the other six languages."
    return Table(
        title, about, (*LANGUAGES, *more), rows, beside,
        compared=(*LANGUAGES,), missing=missing, why=WHY_GENERAL if kind == "general" else "",
    )  # fmt: skip


# --- GILE, Table 6 -----------------------------------------------------------------------------------------------
#                       general: parameters and F1 a language; specific

TABLE_6 = """
HAN, 1 language          0.050  77.41  0.090  44.90
MHAN, 2 languages        0.040  78.30  0.080  45.72
MHAN, 8 languages        0.032  77.91  0.072  45.82
GILE-HAN, 1 language     0.050  79.12  0.090  45.90
GILE-MHAN, 2 languages   0.040  79.68  0.080  46.49
GILE-MHAN, 8 languages   0.032  79.48  0.072  46.32
"""


def table_6() -> Table:
    columns = ("general, parameters a language, M", "general, F1", "specific, parameters a language, M", "specific, F1")
    rows = {}
    for name, printed in numbers(TABLE_6).items():
        unit = "gile" if name.startswith("GILE") else "linear"
        cells: dict[str, Cell] = {}
        for kind, codes, (parameters, paper) in (
            ("general", tuple(LANGUAGES), printed[:2]),
            ("specific", WITH_SPECIFIC, printed[2:]),
        ):
            groups: list[tuple[Figure, ...]] = []
            if "1 language" in name:
                groups = [((news(kind, [code], unit), f1(code)),) for code in codes]
            elif "2 languages" in name:
                pairs = {code: news(kind, ["en", code], unit, sharing="attention") for code in codes[1:]}
                groups = [tuple((run, f1("en")) for run in pairs.values())]
                groups += [((run, f1(code)),) for code, run in pairs.items()]
            elif kind == "general":
                together = news(kind, codes, unit, sharing="attention")
                groups = [((together, f1(code)),) for code in codes]
            runs = {run: None for group in groups for run, _ in group}
            cells[f"{kind}, parameters a language, M"] = mean(
                [(run, "parameters a language, M") for run in runs], parameters
            )
            cells[f"{kind}, F1"] = Cell(paper, tuple(groups))
        rows[name] = cells
    beside = tuple((f"GILE-{name}", name) for name in rows if not name.startswith("GILE"))
    beside += (("MHAN, 2 languages", "HAN, 1 language"), ("GILE-MHAN, 2 languages", "GILE-HAN, 1 language"))
    about = (
        "The mean micro-F1 of all languages, with shared attention; a model of two languages has English and another "
        "language, and English counts once, as the mean over its pairs. Settings as in Table 3."
    )
    missing = "Only two languages have specific labels here."
    return Table(
        "GILE, Table 6: number of languages", about, columns, rows, beside,
        compared=("general, F1", "specific, F1"), missing=missing, why=WHY_GENERAL,
    )  # fmt: skip


# --- GILE, Table 7 -----------------------------------------------------------------------------------------------
#             HAN  MHAN  GILE-MHAN

TABLE_7 = """
de, 0.3 %    29.9  39.4  42.9
de, 3 %      51.3  52.6  51.6
de, 10 %     63.5  63.8  65.9
es, 0.3 %    39.5  41.5  39.0
es, 3 %      45.6  50.1  50.9
es, 10 %     74.2  75.2  76.4
pt, 0.3 %    30.9  33.8  39.6
pt, 3 %      44.6  47.3  48.9
pt, 10 %     60.9  62.1  62.3
uk, 0.3 %    60.4  60.9  61.1
uk, 3 %      68.2  69.0  69.4
uk, 10 %     76.4  76.7  76.5
ru, 0.3 %    27.6  29.1  27.9
ru, 3 %      39.3  40.2  40.2
ru, 10 %     69.2  69.4  70.4
ar, 0.3 %    35.4  36.6  46.1
ar, 3 %      45.6  46.6  49.5
ar, 10 %     48.9  47.8  61.8
fa, 0.3 %    36.0  41.3  42.5
fa, 3 %      55.0  55.5  55.4
fa, 10 %     69.2  70.0  69.7
"""


def table_7() -> Table:
    columns = ("HAN", "MHAN", "GILE-MHAN")
    printed = numbers(TABLE_7)
    rows: dict[str, dict[str, Cell]] = {}
    for code in OTHERS:
        for percent in ("0.3", "3", "10", "100"):
            more = "" if percent == "100" else f"--percent {percent}"
            runs = (
                news("general", [code], "linear", more=more),
                news("general", ["en", code], "linear", sharing="both", more=more),
                news("general", ["en", code], "gile", sharing="both", more=more),
            )
            name = f"{code}, {percent} %"
            papers = printed.get(name, [None] * 3)
            cells = zip(columns, runs, papers, strict=True)
            rows[name] = {column: one(run, f1(code), paper) for column, run, paper in cells}
    about = (
        "Micro-F1 in percent of a language with a share of its training documents, and all 701 English ones. The paper "
        "reports means over 0.1 to 0.5 %, 1 to 5 % and 10 to 50 %; here are 0.3, 3, 10 and 100 %: of 701 sentences, 2, "
        "21, 70 and 701, repeated as often as it takes. The threshold is the best on development documents of the "
        "language. Other settings as in Table 3; encoders and attention are shared."
    )
    beside = (("GILE-MHAN", "MHAN"), ("GILE-MHAN", "HAN"), ("MHAN", "HAN"))
    return Table("GILE, Table 7: few documents", about, columns, rows, columns_beside=beside, why=WHY_GENERAL)


# --- GILE, Figure 2 ----------------------------------------------------------------------------------------------


def figure_2() -> Table:
    columns = ("general, F1", "general, CPU s an epoch", "specific, F1", "specific, CPU s an epoch")
    rows: dict[str, dict[str, Cell]] = {}
    for name in ("HNN", "GILE-HNN, 100 %", "75 %", "60 %", "50 %", "25 %", "10 %"):
        unit = "linear" if name == "HNN" else "gile"
        share = name.removeprefix("GILE-HNN, ").removesuffix(" %")
        more = "" if name == "HNN" or share == "100" else f"--label_share {int(share) / 100}"
        rows[name] = {}
        for kind in ("general", "specific"):
            run = news(kind, ["en"], unit, "hnn", more=more)
            rows[name][f"{kind}, F1"] = one(run, f1("en"))
            rows[name][f"{kind}, CPU s an epoch"] = one(run, "CPU s an epoch")
    about = (
        "English. The paper prints a curve without numbers: with sampled labels, GILE-HNN rises with the share and "
        "levels off; it reaches HNN with 25 % of the general and 60 % of the specific labels, and is best with 40 to "
        "50 % (22 to 18 % faster) and 60 to 70 % (40 to 36 % faster). Of the 7 general labels here, 10 % is a single "
        "label. Settings as in Table 3."
    )
    return Table("GILE, Figure 2: sampled labels", about, columns, rows)


# --- The sibling -------------------------------------------------------------------------------------------------

NMT_FLAGS = "--dropout 0.1 --learning_rate 5e-3 --num_train_epochs 3 --per_device_train_batch_size 64"
SHARED = "Both languages share a vocabulary; in the paper, each has one. "
MINIATURE = (
    "Multi30k in place of WMT: 29,000 pairs instead of 2.5 to 5.8 million, and models of d = 64 instead of 512, with "
    f"joint sizes that are the same multiples of d. 3 epochs, the best by validation BLEU; beam size 5. {SHARED}"
    "BLEU is that of sacrebleu. So few steps show how fast an output layer learns, not how good it becomes."
)
WHY_MINIATURE = (
    "three epochs on 29,000 pairs show which layer learns fast, not which is best in the end. Beyond this it is "
    "not known."
)
NO_FINNISH = "Multi30k has no Finnish."


def translation(
    direction: str, layer: str, vocabulary: int = 4000, size: int = 64, depth: int = 2, separate: bool = False
) -> Run:
    """A run of recipes/train_nmt.py."""
    source, target = direction.split("-")
    flags = (
        f"--source {source} --target {target} --layers {layer} --vocab_size {vocabulary} --embedding_size {size}"
        f" --hidden_size {size} --num_hidden_layers {depth} {NMT_FLAGS}{' --separate_vocabularies' * separate}"
    )
    joint = int(layer.removeprefix("joint")) if layer.startswith("joint") else size
    step = 0.02 * depth + 1e-5 * vocabulary * (size + joint) / 128
    return Run("translation", flags, 30 + 1360 * step, SIBLING_SEEDS)


# Table 1 has words instead of numbers: the nearest to these queries, a verb, an adjective and a noun.
QUERIES = ("walking", "small", "friend")
WORDS_OF = {"NMT": "nmt", "NMT-tied": "tied", "NMT-joint": "joint256"}


def sibling_1() -> Table:
    columns = tuple(f"{query}, {side}" for query in QUERIES for side in ("input", "output"))
    rows = {
        name: {column: one(translation("de-en", layer), f"nearest {column}") for column in columns}
        for name, layer in WORDS_OF.items()
    }
    about = (
        "The words nearest by cosine, with seed 1: among the rows of E (input), and among the classifiers that the "
        "output layer computes from them (output). In the paper, those of NMT-joint agree most with the query in "
        "meaning and part of speech. German to English, 4,000 subwords. " + MINIATURE
    )
    return Table("Beyond Weight Tying, Table 1: nearest words", about, columns, rows)


#                       En-Fi  Fi-En  En-De  De-En  parameters of De-En

SIBLING_2 = """
2K (32K), NMT           12.68   9.42  18.46  15.85   65.0
2K (32K), NMT-tied      12.58   9.59  18.48  16.51   46.7
2K (32K), NMT-joint     13.03  10.19  19.79  18.11   48.8
4K (64K), NMT           13.32  12.29  20.70  20.01  114.0
4K (64K), NMT-tied      13.59  11.74  20.85  19.19   79.4
4K (64K), NMT-joint     13.84  12.08  21.62  20.61   79.9
8K (128K), NMT         13.52  11.64  22.48  19.12  178.3
8K (128K), NMT-tied    13.90  11.97  21.43  19.43  111.6
8K (128K), NMT-joint   13.93  12.07  22.73  20.60  115.8
"""


def sibling_2() -> Table:
    columns = ("En-Fi", "Fi-En", "En-De", "De-En", PARAMETERS)
    rows: dict[str, dict[str, Cell]] = {}
    for name, printed in numbers(SIBLING_2).items():
        vocabulary = 1000 * int(name.partition("K")[0])
        layer = WORDS_OF[name.rpartition(", ")[2]]
        directions = {"En-De": "en-de", "De-En": "de-en"}
        rows[name] = {}
        for column, paper in zip(columns, printed, strict=True):
            run = translation(directions[column], layer, vocabulary) if column in directions else None
            rows[name][column] = one(run, "BLEU", paper)
        rows[name][PARAMETERS] = one(translation("de-en", layer, vocabulary), PARAMETERS, printed[-1])
    for name, layer in WORDS_OF.items():
        run = translation("de-en", layer, 32000)
        rows[f"32K, {name}"] = {"De-En": one(run, "BLEU"), PARAMETERS: one(run, PARAMETERS)}
    sizes = ("2K (32K)", "4K (64K)", "8K (128K)")
    beside = [(f"{size}, {first}", f"{size}, {second}") for size in sizes
              for first, second in (("NMT-tied", "NMT"), ("NMT-joint", "NMT"), ("NMT-joint", "NMT-tied"))]  # fmt: skip
    about = (
        "BLEU with 2,000, 4,000 and 8,000 subwords (in brackets: those of the paper), and, from German to English, "
        "with 32,000: nearly every word is then a subword of its own, seen a few times. NMT-joint has the joint size "
        "4 d; in the paper, its size is chosen on validation data. In the paper, rows with 128K are trained with a "
        "quarter of the vocabulary; here all are trained with the full softmax. " + MINIATURE
    )
    return Table(
        "Beyond Weight Tying, Table 2: translation", about, columns, rows, tuple(beside),
        compared=("En-De", "De-En"), missing=NO_FINNISH, why=WHY_MINIATURE,
    )  # fmt: skip


SIBLING_3 = """
NMT                          15.85  65.0
NMT-tied                     16.51  46.7
Eq. 6, bilinear              16.23  47.0
Eq. 7a, output structure     16.01  47.0
Eq. 7b, context structure    17.52  47.0
Eq. 15, joint, d             17.54  47.2
Eq. 15, joint, 4 d           18.11  48.8
"""
FORMS = dict(
    zip(numbers(SIBLING_3), ("nmt", "tied", "bilinear", "output", "context", "joint64", "joint256"), strict=True)
)


def sibling_3() -> Table:
    rows = {}
    for name, printed in numbers(SIBLING_3).items():
        run = translation("de-en", FORMS[name])
        rows[name] = {"BLEU": one(run, "BLEU", printed[0]), PARAMETERS: one(run, PARAMETERS, printed[1])}
    beside = [(name, "NMT") for name in FORMS if name != "NMT"]
    beside += [("Eq. 15, joint, 4 d", name) for name in FORMS if name not in ("NMT", "Eq. 15, joint, 4 d")]
    about = "BLEU, German to English, 4,000 subwords. " + MINIATURE
    columns = ("BLEU", PARAMETERS)
    return Table(
        "Beyond Weight Tying, Table 3: ablations", about, columns, rows, tuple(beside),
        compared=("BLEU",), why=WHY_MINIATURE,
    )  # fmt: skip


def sibling_3_separate() -> Table:
    rows = {}
    for name in ("NMT", "NMT-tied", "Eq. 6, bilinear", "Eq. 15, joint, d", "Eq. 15, joint, 4 d"):
        shared = translation("de-en", FORMS[name])
        separate = translation("de-en", FORMS[name], separate=True)
        bleu, parameters = numbers(SIBLING_3)[name]
        rows[name] = {
            "shared, BLEU": one(shared, "BLEU"),
            "BLEU": one(separate, "BLEU", bleu),
            "shared, F1 high": one(shared, "F1 high"),
            "F1 high": one(separate, "F1 high"),
            PARAMETERS: one(separate, PARAMETERS, parameters),
        }
    beside = [(name, "NMT") for name in rows if name != "NMT"]
    beside += [("Eq. 15, joint, 4 d", name) for name in rows if name not in ("NMT", "Eq. 15, joint, 4 d")]
    about = (
        "As in the paper, each language has a vocabulary: 4,000 subwords of German and 4,000 of English, beside the "
        "4,000 that both languages share in the tables above. F1 is that of the most frequent third of the words. "
        "German to English. " + MINIATURE.replace(SHARED, "")
    )
    return Table(
        "Beyond Weight Tying, Table 3: a vocabulary for each language", about, tuple(rows["NMT"]), rows, tuple(beside),
        compared=("BLEU",), why=WHY_MINIATURE,
    )  # fmt: skip


SIBLING_4 = """
NMT               4.3  5.7  7.1
NMT-tied          5.2  6.0  7.8
NMT-joint, d      4.9  5.9  7.2
NMT-joint, 4 d    2.8  4.2  7.0
NMT-joint, 8 d    1.7  2.9  6.0
"""
SPEED_LAYERS = ("nmt", "tied", "joint512", "joint2048", "joint4096")


def sibling_4() -> Table:
    columns = ("50 %", "25 %", "5 %")
    run = Run("speed", f"{' '.join(SPEED_LAYERS)} --size 128 --batch 16 25", 90, seeds=1)
    rows = {}
    for (name, printed), layer in zip(numbers(SIBLING_4).items(), SPEED_LAYERS, strict=True):
        rows[name] = {
            column: one(run, f"{layer} {column}", paper) for column, paper in zip(columns, printed, strict=True)
        }
    beside = tuple((name, "NMT") for name in rows if name != "NMT")
    about = (
        "Thousands of target words in a second of training steps, with a softmax over a share of 124,000 subwords: on "
        "a GPU in the paper; here CPU seconds of one thread, random words, and d = 128."
    )
    why = "the paper times a GPU, and here it is a CPU. Whether this is the reason is not known."
    return Table("Beyond Weight Tying, Table 4: speed", about, columns, rows, beside, why=why)


#             1      2      3      4 layers

SIBLING_5 = """
NMT          16.49  15.85  17.71  17.74
NMT-tied     15.93  16.51  17.72  17.60
NMT-joint    16.93  17.54  17.83  18.13
"""


def sibling_5() -> Table:
    columns = ("1 layer", "2 layers", "3 layers", "4 layers", "8 layers")
    layers = {"NMT": "nmt", "NMT-tied": "tied", "NMT-joint": "joint64"}
    rows = {}
    for name, printed in numbers(SIBLING_5).items():
        rows[name] = {
            column: one(translation("de-en", layers[name], depth=int(column[0])), "BLEU", paper)
            for column, paper in zip(columns, [*printed, None], strict=True)
        }
    beside = (("NMT-joint", "NMT"), ("NMT-joint", "NMT-tied"), ("NMT-tied", "NMT"))
    about = (
        "BLEU, German to English, by the layers of encoder and decoder, joint size d, 4,000 subwords. The paper names "
        "depths of up to 8, and prints those up to 4. " + MINIATURE
    )
    return Table("Beyond Weight Tying, Table 5: depth", about, columns, rows, beside, why=WHY_MINIATURE)


SIBLING_FIGURE_2 = """
En-De    18.46  18.48  19.79      -  -
De-En    15.85  16.51  17.54  18.11  -
"""


def sibling_figure_2() -> Table:
    columns = ("NMT", "NMT-tied", "joint, d", "joint, 4 d", "joint, 8 d")
    layers = ("nmt", "tied", "joint64", "joint256", "joint512")
    rows = {}
    for name, printed in numbers(SIBLING_FIGURE_2).items():
        cells = zip(columns, layers, printed, strict=True)
        rows[name] = {column: one(translation(name.lower(), layer), "BLEU", paper) for column, layer, paper in cells}
    beside = (("joint, d", "NMT-tied"), ("joint, d", "NMT"), ("joint, 4 d", "joint, d"))
    about = (
        "BLEU by joint size, 4,000 subwords. The paper draws the curve for four pairs and prints a part: the best "
        "size is 4 d from German to English, and d from English to German. " + MINIATURE
    )
    return Table(
        "Beyond Weight Tying, Figure 2: joint size", about, columns, rows,
        columns_beside=beside, missing=NO_FINNISH, why=WHY_MINIATURE,
    )  # fmt: skip


def sibling_figure_3() -> Table:
    columns = tuple(f"{direction}, {third}" for direction in ("En-De", "De-En") for third in ("high", "medium", "low"))
    rows = {
        name: {column: one(translation(column[:5].lower(), layer), f"F1 {column[7:]}") for column in columns}
        for name, layer in WORDS_OF.items()
    }
    about = (
        "The F1 of words, in percent, by their frequency in training: each group has a third of the distinct words. "
        "The paper draws METEOR by frequency, without numbers: from German to English, NMT-joint is best in all "
        "groups, and from English to German among frequent and rare words. 4,000 subwords. " + MINIATURE
    )
    return Table("Beyond Weight Tying, Figure 3: frequency of words", about, columns, rows)


def today() -> Table:
    """A comparison that neither paper has."""
    layers = {"untied": "nmt", "tied": "tied", "joint, d": "joint256", "joint, 4 d": "joint1024"}
    layers["continuous input map, untied"] = "continuous"
    columns = ("BLEU", "F1 high", "F1 medium", "F1 low", PARAMETERS)
    rows = {}
    for name, layer in layers.items():
        run = translation("de-en", layer, size=256)
        rows[name] = {column: one(run, column) for column in columns}
    about = (
        "Not in the papers: the comparison that the field would ask for now, with d = 256, from German to English, "
        "4,000 subwords. A continuous input map (a small form of Leviathan, arXiv:2601.22040) computes the vector of a "
        "word from the digits of its number, in place of the tables of input embeddings. "
        + MINIATURE.replace("d = 64", "d = 256")
    )
    return Table("Output layers at d = 256", about, columns, rows)


def tables() -> list[Table]:
    """Returns all tables and figures, in the order of the papers."""
    return [
        table_1(),
        table_2(),
        monolingual("GILE, Table 3: general labels, one language", TABLE_3_GENERAL, "general"),
        bilingual("GILE, Table 3: general labels, two languages", TABLE_3_GENERAL_TWO, "general"),
        monolingual("GILE, Table 3: specific labels, one language", TABLE_3_SPECIFIC, "specific"),
        bilingual("GILE, Table 3: specific labels, two languages", TABLE_3_SPECIFIC_TWO, "specific"),
        table_4(),
        ablation("GILE, Table 5: output layers, general labels", TABLE_5_GENERAL, "general"),
        ablation("GILE, Table 5: output layers, specific labels", TABLE_5_SPECIFIC, "specific"),
        table_6(),
        table_7(),
        figure_2(),
        sibling_1(),
        sibling_2(),
        sibling_3(),
        sibling_3_separate(),
        sibling_4(),
        sibling_5(),
        sibling_figure_2(),
        sibling_figure_3(),
        today(),
    ]
