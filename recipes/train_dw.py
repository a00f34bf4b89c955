r"""Train GILE and the paper's baselines on news in several languages, in the published Deutsche Welle format.

    python recipes/train_dw.py --data dw_format/general --languages english                   # one language
    accelerate launch recipes/train_dw.py --data dw_format/specific --languages english german --units linear gile
    accelerate launch recipes/train_dw.py --data dw_format/general --sharing both             # all available languages

`DATA/{train,dev,test}/LANGUAGE.json` contain documents and labels as word ids, `DATA/../word_vectors/LANGUAGE.pkl.gz`
the words and their vectors; papers/deutsche_welle.py describes the format, and recipes/write_dw.py writes it
from texts. Labels are scored with documents of the same language. The epoch is selected on
the development documents of all languages.

Defaults are from section 4.2.1 of the GILE paper, if stated. All flags of `transformers.TrainingArguments` work, and
all flags can be set in a file: `--config mine.yaml`.
"""

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from news_models import LIMITS, TEXT_FIELDS, calibrate_on, make_model, make_trainer, measure, model_fields, table
from papers.news import read_news
from papers.settings import add_settings, setting
from papers.units import UNITS
from transformers import BatchFeature, TrainingArguments, set_seed

from hf_gile import GileConfig, GileProcessor, GileTextConfig
from hf_gile.publishing.card import write_card
from hf_gile.publishing.report import REPORT_FILE, make_report
from hf_gile.training.experiment import save_model, train
from hf_gile.training.options import ReportOptions
from hf_gile.training.reporting import printer, saved_settings, say_calibration, write_results
from hf_gile.training.settings import check_choice, check_files
from hf_gile.training.task import problem_type_of
from hf_gile_cli.flags import card_info, parse_settings, reading


@dataclass(kw_only=True)
@add_settings(GileConfig, ["sharing", "joint_size"], joint_size=None)
@add_settings(GileTextConfig, [*TEXT_FIELDS, *LIMITS], text_encoder_type="han")
class Recipe(ReportOptions):
    """Settings of data and model, with quotes from section 4.2.1 of the paper.

    In the paper, encoder and attention have 100 dimensions, documents are read 'at a length of 30 sentences', sentences
    are 'truncated at a length of 30 words', and the joint size follows Eq. 19, for equal capacity.
    """

    data: str = setting(MISSING, "Folder with train, dev and test, each with LANGUAGE.json.")
    word_vectors: str | None = setting(None, "Folder of word vectors; by default word_vectors next to DATA.")
    languages: list[str] = setting([], "Languages; by default all.")
    units: list[str] = setting(["linear", "gile"], f"Output layers: {', '.join(UNITS)}.", UNITS)
    train_word_vectors: bool = setting(False, "'kept fixed during training'")
    epoch_size: int = setting(25_000, "'epoch size 25k'; 0: the number of documents of the largest language.")
    label_share: float = setting(1.0, "'no negative sampling'; below 1, the share of labels to sample per batch.")
    percent: float = setting(100.0, "Share of the training documents of the last language to use.")
    held_out: float = setting(0.0, "Share of the labels to hold out from training, chosen by a hash of their ids.")
    patience: int = setting(5, "'until convergence': epochs without improvement on development documents.")
    save_models: bool = setting(True, "Save each calibrated model in OUTPUT_DIR/UNIT/model, with a card.")


SMALL_JOINT_SIZE = 32
"""Joint sizes below this get a hint: with few labels, equal capacity leaves little room."""

DEFAULTS = {
    "output_dir": "runs/dw",
    "per_device_train_batch_size": 16,  # "batch size 16"
    "learning_rate": 1e-3,  # "optimization with ADAM until convergence"; the paper does not give the rate
    "num_train_epochs": 20,
}


def main() -> None:
    recipe, args = parse_settings(Recipe, DEFAULTS, check_recipe)
    say, folder = printer(args), Path(args.output_dir)
    info = card_info(recipe.card, dataset_name="Deutsche Welle", tags=["news"])

    # 1. Read documents as word ids, with a common vocabulary and label table for all languages.
    with reading(args, "the news"):
        limits = {name: getattr(recipe, name) for name in LIMITS}
        names = ("data", "languages", "word_vectors", "held_out", "percent")
        news = read_news(**{name: getattr(recipe, name) for name in names}, **limits, seed=args.seed)
        documents = news.corpus.documents.items()
        all_rows = {f"{part}/{language}": rows for language, parts in documents for part, rows in parts.items()}
        problem_type = problem_type_of(all_rows, requested=recipe.problem_type)
        recipe.check_problem_type(problem_type)
    say({language: {part: len(rows) for part, rows in parts.items()} for language, parts in news.parts.items()})
    num_unseen = len(news.labels) - sum(news.labels.seen)
    say(f"{len(news.corpus.words):,} words; {len(news.labels):,} labels, {num_unseen} of them unseen in training")

    results: dict[str, Any] = {}
    for unit in recipe.units:
        # 2. Create a model: NN, HNN, HAN, or MHAN for several languages, with or without GILE.
        set_seed(args.seed)
        model, processor = make_model(recipe, unit, news, problem_type)
        input_news = news if model.config.text_config.reads_sentences else news.flat()

        # 3. Train on a document of each language at each step, with all seen labels of its language.
        trainer = make_trainer(recipe, args, unit, model, processor, input_news)
        joint = "" if UNITS[unit].is_linear else f", joint size {model.config.joint_size}"
        say(f"\n{unit}: {model.num_parameters(only_trainable=True):,} parameters{joint}")
        if joint and recipe.joint_size is None and model.config.joint_size < SMALL_JOINT_SIZE:
            say("  Eq. 19 gives few labels a small joint space: --joint_size sets its size, such as --joint_size 128")
        results[unit] = train(trainer, recipe.patience)

        # 4. Evaluate each language separately.
        for language in news.parts:
            results[unit][language] = measure(trainer, language, input_news, recipe)
        if recipe.save_models:
            say_calibration(calibrate_on(trainer, news.seen, recipe.calibration), say)
        with saved_settings(recipe, args):
            if recipe.save_models:
                save_model(trainer, folder / unit / "model")
            if args.process_index == 0:
                write_results(folder, results)
        if args.process_index == 0 and recipe.save_models:
            test = input_news.all("test")
            gold = [[news.labels[column].id for column in row] for row in test["labels"]]
            report = make_report(
                trainer.model,
                WordIdProcessor(processor),
                test["input_ids"],
                gold,
                batch_size=args.per_device_eval_batch_size,
                bf16=args.bf16,
                language=test["language"],
                dataset=info.dataset_name,
            )
            report.save(folder / unit / "model" / REPORT_FILE)
            write_card(folder / unit / "model", trainer.model, info, report)

    say(table(results, list(news.parts)))
    say(f"ranking metrics, separately for seen and unseen labels: {folder / 'results.json'}")


class WordIdProcessor:
    """A processor for documents that are already word ids.

    Args:
        processor: The processor.
    """

    def __init__(self, processor: GileProcessor) -> None:
        self.processor = processor

    def __call__(self, text: list[Any], language: str | list[str] | None = None, **_: Any) -> BatchFeature:
        """Pads documents, and hands on their language, which a multilingual model needs."""
        words = BatchFeature(self.processor.pad_documents(text))
        if language is not None:
            words["language"] = language
        return words


def check_recipe(recipe: Recipe, args: TrainingArguments) -> None:
    """Reports conflicting settings and missing files before any file is read."""
    recipe.check_problem_type(recipe.problem_type)
    check_files(recipe, ["card"])
    data = Path(recipe.data)
    for part in ("train", "dev", "test"):
        if not (data / part).exists():
            inner = [str(data / kind) for kind in ("general", "specific") if (data / kind / part).exists()]
            hint = f"; did you mean {' or '.join(inner)}?" if inner else ""
            raise FileNotFoundError(f"data: no file {data / part} (in {Path.cwd()}){hint}")
    for language in recipe.languages:
        check_choice("languages", language, sorted(file.stem for file in (data / "train").glob("*.json")))
    card_info(recipe.card)
    for unit in recipe.units:
        UNITS[unit].config(**model_fields(recipe))


if __name__ == "__main__":
    main()
