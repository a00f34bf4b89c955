"""Trains a classifier on documents with labels: what `hf-gile train` does.

study = Study(Options(), args, TextTask(parts, labels))
experiment = fit(study)                # chooses an encoder, and fits a model over it
study.record("auto", experiment)       # calibrates it, measures it on the test documents, saves it with a card
study.show()
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import set_seed

from ..models import GileConfig, GileForSequenceClassification, GileProcessor
from ..settings import only_read
from .automatic import Start, choose_start
from .convex import READ_OF_MANY, is_feasible
from .distillation import MOST_TEXTS, distill, teach
from .experiment import Experiment, encode_parts, pretrained_optimizer, run_arguments, with_a_label
from .label_sampling import LabelSampler
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
from .task import in_hash_order, stored_rule, words_of

_MIN_COUNT = 2
"""Rarer words count as unknown, except words of seen labels."""

_LATENT_SIZE = 300
"""Size of word vectors computed from the documents."""

_NUM_NEGATIVES = 1500
"""Number of labels sampled per batch, if a model is trained in steps."""


def fit(study: Study) -> Experiment:
    """Trains a model on the documents of a study, by its options. Their order does not matter.

    Args:
        study: Documents, labels and options.

    Returns:
        The trained model with its documents; `fitted` says how it was trained.
    """
    set_seed(study.args.seed)
    study.task = in_hash_order(study.task)
    experiment, start = _prepare(study)
    if start.is_convex:
        experiment.fit_convex(start.neighbours)  # which chooses the output layer, and so the number of parameters
    study.say(f"\n{AUTO}: {experiment.num_parameters:,} parameters")
    if start.is_convex:
        study.say(_describe_form(experiment.fitted["chosen"]))
    else:
        experiment.fit(study.options.patience)
    return experiment


def _describe_form(chosen: Mapping[str, float]) -> str:
    """Says whether the joint space of GILE or a bilinear form compares documents and labels, and why.

    Args:
        chosen: What `fit_convex` chose.
    """
    form = "the joint space of GILE" if "pull" in chosen else "a bilinear form"
    sentence = f"  documents and labels are compared by {form}"
    if "joint_loss" not in chosen:
        return sentence
    return (
        f"{sentence}: on documents and labels left out, the loss of a document is {chosen['joint_loss']:.3f} with the "
        f"joint space, {chosen['bilinear_loss']:.3f} with the bilinear form"
    )


def _prepare(study: Study) -> tuple[Experiment, Start]:
    """Returns a new or a saved model with encoded documents, and what it starts from."""
    options = study.options
    args = study.args
    if options.start_from is not None:
        start = Start(is_convex=False, neighbours=bool(options.neighbours))
        changes: dict[str, Any] = {} if options.lexical is None else {"lexical": options.lexical}
        model, processor = saved_model(study, options.start_from, options.freeze_text_encoder, **changes)
    else:
        with args.main_process_first(desc="text encoder"):
            start = choose_start(study.task, study.num_seen, options, study.say)
        model, processor = new_model(study, start)
    config = model.config
    if start.neighbours and not (start.is_convex and config.lexical):
        raise ValueError("neighbours need a convex fit with lexical terms: leave out --neighbours")
    if not study.has_one_label:  # such a document gets its best label in any case
        config.thresholds = stored_rule(study.task.parts, study.task.gold)
    labels = study.labels_of(model)
    model.set_labels(labels, processor)
    if options.text_encoder == STATIC:
        model, processor = _distilled(study, model, processor)
    config = model.config
    text_config = config.text_config
    model.loss_function = GileLoss()
    most = None
    if start.is_convex and not is_feasible(study.num_documents, study.num_seen, text_config.pooled_size):
        most = READ_OF_MANY
    with args.main_process_first(desc="words and columns"):
        parts = encode_parts(study.task, model, processor, labels, args, most, start.neighbours)
    if study.has_one_label:
        parts = with_a_label(parts)
    optimizer = None
    if start.is_convex:  # the fit sets lexical weights itself
        if start.location is None and options.word_vectors is None:
            special_ids = processor.tokenizer.all_special_ids
            words = parts["train"]["input_ids"]
            vectors = latent_word_vectors(words, text_config.vocab_size, text_config.embedding_size, special_ids)
            set_word_vectors(model, vectors)
    else:
        if config.lexical:
            set_lexical_weights(model, parts["train"]["lexical_ids"])
        if text_config.reads_pretrained:
            optimizer = pretrained_optimizer(model, args, options.text_encoder_learning_rate)
    experiment = Experiment(
        model,
        processor,
        parts,
        LabelSampler(len(labels), _NUM_NEGATIVES, columns=range(study.num_seen), seed=args.seed),
        run_arguments(args, Path(args.output_dir) / AUTO, study.metric_for(labels)),
        held_out=study.held_out,
        one_label=study.has_one_label,
        num_documents=study.num_documents,
        optimizer=optimizer,
        encoder=options.start_from or start.location,
    )
    return experiment, start


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
    """Creates a model over a pretrained encoder or over words, and its processor.

    Args:
        study: Documents and labels, whose words are the vocabulary of a model over words.
        start: The encoder, and how the model will be trained.
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
        fields |= {"output_layer": "bilinear", "cosine_score": True, "label_rows": True}
    if start.max_words is not None:
        fields["max_words"] = start.max_words
    if start.location is not None:
        fields |= {"text_encoder_type": "transformer", "freeze_text_encoder": start.is_convex}
        model = model_from_text_encoder(start.location, **only_read(**fields))
        return model, processor_from_text_encoder(start.location, model.config, **options.prompts(start.prompt))
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
    freeze: bool | None = None,
    encoder_options: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[GileForSequenceClassification, GileProcessor]:
    """Loads a saved model to train it further, and its processor.

    Args:
        study: Documents and labels.
        folder: Folder of the model.
        freeze: Whether its encoder is frozen; by default as it was.
        encoder_options: Changed fields of the configuration of a pretrained encoder.
        changes: Changed fields of `GileConfig`.
    """
    # Calibration and thresholds belong to the old weights, and perhaps to another problem type.
    changes |= {"calibration": {}, "thresholds": {}, "usual_score": 0.0, "problem_type": study.problem_type}
    if freeze is not None:
        changes["freeze_text_encoder"] = freeze
    config = GileConfig.from_pretrained(folder, **changes)
    for name, value in (encoder_options or {}).items():
        setattr(config.text_config.text_encoder_config, name, value)
    model = GileForSequenceClassification.from_pretrained(folder, config=config)
    processor = GileProcessor.from_pretrained(folder, trust_remote_code=False)
    processor.lexical = config.lexical
    return model, processor
