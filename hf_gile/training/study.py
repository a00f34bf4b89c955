"""Documents and labels of a run, prepared for training, and the results of the models that are trained on them."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from datasets import Dataset
from torch import Tensor
from transformers import TrainingArguments

from ..data.schema import clean_label
from ..data.zero_shot import drop_labels
from ..models import GileForSequenceClassification, GileProcessor, LabelSet
from ..models.search_gile import calibrated
from ..publishing import CardInfo
from ..publishing.card import LANGUAGE_CODE, LICENSE_ID, write_card
from ..publishing.card_sections import RESULTS
from ..publishing.report import REPORT_FILE, Report
from ..publishing.run_report import PAGE_FILE, Mistake, Run, worst_mistakes, write_page
from .collator import LabelSampler
from .convex import refit_convex
from .encoders import is_foreign, origin_of
from .encoding import ReadBefore
from .experiment import Experiment, run_arguments, save_model, short_name
from .options import TOP_K, Options
from .reporting import (
    AMONG_ALL,
    printer,
    saved_settings,
    say_calibration,
    table_of_results,
    without_nan,
    write_results,
)
from .task import TextTask, as_read, check_unseen, hold_out, metric_name, problem_type_of

_FITTED_AGAIN = (
    "All figures are of the model fitted on {:,} training documents. It was then fitted again on all {:,} documents, "
    "with those of {}."
)

_MOST_LANGUAGES = 5
"""Maximum number of languages that a card lists; an encoder of more is called multilingual."""

_MOST_READ = 2000
"""Maximum number of documents that are searched for mistakes, or whose language is checked."""

_SKEWED = 0.8
"""Share of the test documents above which the most frequent label is named beside the figures."""

_FEW = 20
"""With fewer training documents, more of them are likely to help a label."""


class Study:
    """Documents and labels, prepared for training, and the results of models on the same test documents.

    Args:
        options: The options, which are saved with the results.
        args: The training arguments; a folder for each model, `results.json` and `report.html` are written to
            `output_dir`.
        task: Documents and labels.
        info: Description of the data for the cards of the models.
        tested_on: The name of the test documents in the cards; by default that of the data.

    Attributes:
        task: The task without held-out labels in training, and with labels as the model reads them.
        described: The labels with their full descriptions.
        held_out: Ids of the labels that are held out for validation.
        num_documents: Number of training documents.
        problem_type: One of `PROBLEM_TYPES`.
        has_one_label: Whether each document has one label.
        prior: Mean share of the seen labels that a training document has, at most one half.
        results: The content of `results.json`, see `record` and `obvious_rows`.
    """

    def __init__(
        self,
        options: Options,
        args: TrainingArguments,
        task: TextTask,
        info: CardInfo | None = None,
        tested_on: str = "",
    ) -> None:
        self.options = options
        self.args = args
        self.said: list[str] = []
        self.info = info or CardInfo()
        self.tested_on = tested_on
        self.results: dict[str, Any] = {}
        self.problem_type = problem_type_of(task.parts, task.gold, options.problem_type)
        options.check_problem_type(self.problem_type)
        self.has_one_label = self.problem_type == "single_label_classification"
        if self.has_one_label and options.problem_type is None:
            self.say(
                "every document has exactly one label: trained with softmax, chosen by accuracy (--problem_type "
                "multi_label_classification scores each label on its own)"
            )
        self.described = task.labels
        self.held_out: set[str] = set()
        held_out = ""
        if options.held_out_labels:
            self.described, self.held_out = hold_out(task.labels, options.held_out_labels)
            held_out = f", {len(self.held_out):,} of them held out for validation"
            with args.main_process_first(desc="held-out labels"):
                train = drop_labels(task.parts["train"], self.held_out, task.gold)
            task = replace(task, parts={**task.parts, "train": train})
        else:
            check_unseen(args.metric_for_best_model, task)
        self.task = replace(task, labels=as_read(self.described, options.label_texts))
        self.num_documents = len(task.parts["train"])
        labels_per_document = sum(label.count for label in self.described) / self.num_documents
        self.prior = min(0.5, labels_per_document / self.num_seen)
        names = ", ".join(label.name for label in self.task.labels[:3])
        self.say(f"{len(self.task.labels):,} labels, such as {names}{held_out}")

    @property
    def num_seen(self) -> int:
        """The number of labels seen in training."""
        return sum(self.described.seen)

    def say(self, line: str) -> None:
        """Prints a line in the main process, which the report of the run repeats."""
        self.said.append(line)
        printer(self.args)(line)

    def labels_of(self, model: GileForSequenceClassification) -> LabelSet:
        """Returns the labels that a model can score: a linear model scores only those that it is trained on."""
        labels = self.task.labels
        return labels[: self.num_seen] if model.config.output_layer == "linear" else labels

    def experiment(
        self,
        name: str,
        model: GileForSequenceClassification,
        processor: GileProcessor,
        parts: Mapping[str, Dataset],
        sampler: LabelSampler,
        **options: Any,
    ) -> Experiment:
        """Returns an experiment with a model and encoded documents, whose files are written to OUTPUT_DIR/NAME."""
        has_unseen = model.config.num_labels > self.num_seen
        metric = metric_name(self.args.metric_for_best_model, has_unseen, self.has_one_label)
        args = run_arguments(self.args, Path(self.args.output_dir) / name, metric)
        return Experiment(
            model, processor, parts, sampler, args, self.held_out, num_documents=self.num_documents, **options
        )

    def record(self, name: str, experiment: Experiment) -> None:
        """Calibrates a trained model, measures it on the test documents, and saves it in OUTPUT_DIR/NAME/model.

        1. `calibrate` fits probabilities and thresholds on documents left out.
        2. `Experiment.test` measures the model on the test documents; its report is that of the card.
        3. `fit_again` fits it also on the parts that were cut from the training documents.
        4. The results, the model, its card and the report of the run are saved.

        The entry in `results` has the result of `calibrate`, the metrics as `test`, and `fitted_again_on`,
        the number of documents of the last fit, or 0.
        """
        result = self.calibrate(experiment)
        report = experiment.test(dataset=self.tested_on or self.info.dataset_name)
        result["test"] = test_metrics(report)
        is_saved = type(experiment.model) is GileForSequenceClassification  # baselines of the paper are only evaluated
        has_report = is_saved and self.options.make_cards and self.args.process_index == 0
        if has_report:
            mistakes = self._find_mistakes(experiment)
        number = self.fit_again(experiment)
        self.results[name] = {**result, "fitted_again_on": number}
        folder = Path(self.args.output_dir) / name / "model"
        with saved_settings(self.options, self.args):
            self.write()
            if is_saved:
                save_model(experiment.trainer, folder)
        if has_report:
            report.save(folder / REPORT_FILE)
            write_card(folder, experiment.model, self._card_info(experiment, number), report)
            metric = str(experiment.args.metric_for_best_model)
            self._write_page(name, metric, report, mistakes)

    def calibrate(self, experiment: Experiment) -> dict[str, Any]:
        """Fits the calibration and the thresholds of a trained model on documents left out.

        Returns:
            The result of the fit, and `calibration`, which is empty if validation documents were fitted on.
        """
        calibration: dict[str, Any] = {}
        fit = experiment.convex_fit
        if fit is not None and fit.fits_validation:
            self.num_documents = fit.num_documents
            counts = {label.id: label.count for label in experiment.labels}
            self.described = self.described.with_counts(counts)
            rule = "a document gets its best label"
            if experiment.model.config.problem_type == "multi_label_classification":
                rule += ", and others that are more probable than not"
            self.say(f"  too few documents to calibrate on: {rule}")
        else:
            method = self.options.calibration
            calibration = experiment.calibrate(method)
            say_calibration(calibration, self.say, not all(experiment.labels.seen), method)
        return {**experiment.fitted, "calibration": calibration}

    def fit_again(self, experiment: Experiment) -> int:
        """Fits a model also on the parts that were cut from the training documents, once they served their purpose.

        The rows of labels and words and the bilinear form are fitted again, with the same settings. Thresholds,
        probabilities and figures stay those of documents that were left out.

        Returns:
            The number of documents that it is fitted on; 0 if it stays as it is, or was fitted on all of them before.
        """
        fit = experiment.convex_fit
        if not self.task.cut or self.held_out or fit is None:
            return 0
        number = refit_convex(
            experiment.model,
            {part: experiment.parts[part] for part in ("train", *self.task.cut)},
            fit.regularisation,
        )
        if number == self.num_documents:
            return 0
        printer(self.args)(f"  fitted again, with the same settings, on all {number:,} documents")
        return number

    def write(self) -> None:
        """Writes `results.json`, in the main process."""
        if self.args.process_index == 0:
            write_results(Path(self.args.output_dir), self.results)

    def _card_info(self, experiment: Experiment, number: int) -> CardInfo:
        """Returns the description of the data, with what is known of the encoder and of the last fit."""
        info = self.info
        limits = list(info.limits)
        if number:
            limits.append(_FITTED_AGAIN.format(self.num_documents, number, " and ".join(self.task.cut)))
        text_config = experiment.model.config.text_config
        if experiment.encoder is None or not text_config.reads_pretrained:
            return replace(info, limits=limits)
        origin = origin_of(experiment.encoder)
        licenses = [text for text in origin.licenses if re.fullmatch(LICENSE_ID, text)] or ["unknown"]
        languages = [text for text in origin.languages if re.fullmatch(LANGUAGE_CODE, text)]
        if len(languages) > _MOST_LANGUAGES:
            languages = ["multilingual"]
        elif languages == ["en"] and is_foreign(experiment.processor.tokenizer, self.task.texts("train", _MOST_READ)):
            languages = []
        content = "the weights"
        if text_config.text_encoder_type == "static":
            content = "vectors of words and labels that come from outputs"
        encoder = f"the pretrained encoder {origin.name}" if origin.name else "a pretrained encoder of unknown name"
        limits.append(f"It contains {content} of {encoder}; their licence is {' or '.join(licenses)}.")
        return replace(
            info,
            base_model=info.base_model or origin.name,
            license=info.license or licenses[0],
            language=info.language or languages,
            limits=limits,
        )

    def show(self) -> None:
        """Prints the usual metrics of the test part, and how to use a model."""
        num_scored = len(self.described) - len(self.held_out)
        num_unseen = num_scored - self.num_seen
        recall = {f"recall_at_{k}": f"R@{k}" for k in TOP_K if k < num_scored}
        columns = {"average_precision": "AvgPr"} | recall | {"micro_f1": "micro-F1"}
        groups = ["all"]
        sizes = f"{self.num_seen:,} seen, {num_unseen:,} unseen"
        notes = [f"test documents: {len(self.task.parts['test']):,}; labels: {sizes}"]
        if num_unseen:
            groups += ["seen", "unseen", AMONG_ALL]
            notes.append("Seen labels are ranked among the seen, unseen among the unseen, and once more among all.")
        if all("test_accuracy" in result["test"] for result in self.results.values()):
            columns = {
                "accuracy": "Acc",
                "macro_f1": "MacroF1",
                "average_precision": "AvgPr",
                **dict(list(recall.items())[:1]),
            }
            notes.append("Acc and MacroF1 (macro-F1) are of the label with the highest score of all labels.")
        notes += self._notes_on_evidence()
        for number in {result.get("fitted_again_on") for result in self.results.values()}:
            if number:
                notes.append(_FITTED_AGAIN.format(self.num_documents, number, " and ".join(self.task.cut)))
        self.say(table_of_results(self.results, columns, groups, "\n".join(notes)))
        folder = Path(self.args.output_dir)
        saved = [name for name in self.results if (folder / name / "model").is_dir()]
        page = f"{PAGE_FILE}, " if saved and self.options.make_cards else ""
        self.say(f"\nwritten to {folder}: {page}results.json, settings.yaml, and each model")
        if saved:
            model = f'"zero-shot-classification", model="{folder}/{saved[-1]}/model", trust_remote_code=True'
            self.say(f"to use one:\n  from transformers import pipeline\n  pipe = pipeline(\n      {model}\n  )")

    def _find_mistakes(self, experiment: Experiment) -> list[Mistake]:
        """Returns the worst mistakes of a model among the first test documents."""
        model = experiment.model.eval()
        rows = experiment.parts["test"].select(range(min(_MOST_READ, len(experiment.parts["test"]))))
        read = ReadBefore(experiment.processor, rows)

        def probabilities(positions: range) -> Tensor:
            logits = model(**read(positions).to(model.device)).logits
            logits = calibrated(logits, model.stored_labels.seen(), model.config.calibration)
            return logits.softmax(-1) if self.has_one_label else logits.sigmoid()

        def score(texts: list[str]) -> Tensor:
            return model(**experiment.processor(text=texts, return_tensors="pt").to(model.device)).logits

        return worst_mistakes(
            probabilities,
            rows["labels"],
            experiment.in_test,
            score,
            list(self.task.texts("test", len(rows))),
            experiment.labels,
        )

    def _write_page(self, name: str, metric: str, report: Report, mistakes: list[Mistake]) -> None:
        """Writes the report of the run for people."""
        metrics = ("accuracy", "average_precision", "micro_f1", "macro_f1")
        table: dict[str, dict[str, float]] = {}
        for system in [*(other for other in self.results if other != name), name]:
            test = without_nan(self.results[system]["test"])
            values = {RESULTS[key]: test.get(f"test_{key}") for key in metrics}
            table[system] = {key: value for key, value in values.items() if value is not None}
        folder = Path(self.args.output_dir)
        steps = [
            f"Score new texts: hf-gile score {folder}/{name}/model texts.txt --threshold stored",
            f"Correct the model as you use it: hf-gile serve {folder}/{name}/model --learn FOLDER",
        ]
        labels = self.task.labels
        poor = [row["id"] for row in report.labels if row["count"] < _FEW and row["f1"] is not None and row["f1"] < 0.5]
        if poor:
            names = ", ".join(labels[labels.column(label_id)].name for label_id in poor[:5])
            steps.append(f"Add training documents: {len(poor):,} labels have few and are found poorly, such as {names}")
        bare = [label.name for label in self.described if not label.description and not label.synonyms]
        if bare:
            steps.append(f"Describe labels, or add synonyms: {len(bare):,} have none, such as {', '.join(bare[:5])}")
        result = self.results[name]
        measured = [(entry["step"], entry[metric]) for entry in result["history"] if entry.get(metric) is not None]
        curves = {"training loss": result["losses"], f"validation {short_name(metric)}": measured}
        title = self.tested_on or self.info.dataset_name or "Training"
        run = Run(title, self.said.copy(), table, curves, steps)
        write_page(folder, run, report, labels, mistakes)

    def _notes_on_evidence(self) -> list[str]:
        """Returns what limits the meaning of the figures of the test part."""
        test = self.task.parts["test"]
        gold = test[self.task.gold]
        names = {label.id: clean_label(label.name) for label in self.described}
        counts = Counter(chain.from_iterable(gold))
        texts = zip(self.task.texts("test"), gold, strict=True)
        without = sum(not ids for ids in gold)
        untested = len(names.keys() - counts)
        few = sum(label.count == 1 for label in self.described)
        same = sum(clean_label(text) in {names.get(label_id) for label_id in ids} for text, ids in texts)
        [(usual, number)] = counts.most_common(1) or [("", 0)]
        is_skewed = self.has_one_label and number > _SKEWED * len(test)
        notes = {
            f"{number:,} of {len(test):,} test documents have the label {names.get(usual)!r}": is_skewed,
            f"{without:,} of {len(test):,} test documents have no label": without,
            f"{untested:,} of {len(names):,} labels have no test document, and are left out of macro-F1": untested,
            f"{few:,} of {self.num_seen:,} seen labels have a single training document": few,
            f"{same:,} of {len(test):,} test documents consist of the name of their label": same,
        }
        return [note for note, number in notes.items() if number]


def test_metrics(report: Report) -> dict[str, float]:
    """Returns the metrics of a report as in `results.json`, with the prefix `test_`."""
    return {f"test_{name}": value for name, value in report.metrics.items()}
