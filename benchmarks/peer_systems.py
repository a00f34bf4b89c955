"""Measures a single system for benchmarks/peers.py, in the Python environment where the system is installed.

    python benchmarks/peer_systems.py --system sbert-minilm --work work.json

Prints a line of JSON for each number of labels. A system is prepared with a list of label names and returns a function
that finds the ten best labels of texts. Batch sizes are the fastest on a CPU: a single text for GLiClass (its default,
8 unsorted texts, took twice as long), and 8 texts sorted by length for transformers that encode labels once (the
default of sentence-transformers, 32, took 1.15 times as long). Models have random weights of the published sizes,
except all-MiniLM-L6-v2, whose weights a package contains; its tokenizer also replaces those of DeBERTa, ModernBERT and
BART.
"""

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from measuring import seconds
from torch import Tensor

TOP = 10
Best = list[list[tuple[str, float]]]
Score = Callable[[list[str]], Best]  # returns the ten best labels of each text

MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
XTREMEDISTIL = {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 1024}
BGE_SMALL = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 1536}
DEBERTA_V3_SMALL = {
    "model_type": "deberta-v2",
    "vocab_size": 128_100,
    "hidden_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 256,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}
ETTIN_32M = {
    "model_type": "modernbert",
    "vocab_size": 50_368,
    "hidden_size": 384,
    "num_hidden_layers": 10,
    "num_attention_heads": 6,
    "intermediate_size": 576,
    "pad_token_id": 0,
}
BART_LARGE = {
    "vocab_size": 50_265,
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
}


@dataclass
class System:
    """Holds a system that accepts any label names.

    Args:
        prepare: Takes label names; returns figures to record and a function that scores texts with these labels.
        linear: Whether the time per document grows linearly with the number of labels, as it does with a pass for each
            label or chunk of labels, so that the time of a third size can be extrapolated from two measured sizes.
    """

    prepare: Callable[[list[str]], tuple[dict[str, Any], Score]]
    linear: bool


class LabelsOnce:
    """Prepares systems that encode labels once and store the codes.

    Encoding stops after a time limit. The remaining labels get random codes, which does not affect speed, and the
    encoding time is extrapolated.
    """

    def __init__(
        self, encode: Callable[[list[str]], Tensor], index: Callable[[list[str], Tensor], Score], limit: float
    ) -> None:
        self.encode, self.index, self.limit = encode, index, limit
        self.per_label: float | None = None

    def __call__(self, names: list[str]) -> tuple[dict[str, Any], Score]:
        """Encodes the labels and builds their index."""
        elapsed, encoded, size, chunks = 0.0, 0, 256, []
        limit = 0.0 if self.per_label else self.limit  # the speed is already known
        while encoded < len(names) and (not encoded or elapsed < limit):
            start = time.perf_counter()
            chunks.append(self.encode(names[encoded : encoded + size]))
            elapsed += time.perf_counter() - start
            encoded = min(len(names), encoded + size)
            size = min(2 * size, 16_384)
        if encoded < len(names):
            self.per_label = self.per_label or elapsed / encoded
            elapsed = self.per_label * len(names)
            chunks.append(torch.randn(len(names) - encoded, chunks[0].shape[1]))
        codes = torch.cat(chunks)
        del chunks
        figures = {"label_seconds": elapsed, "label_seconds_extrapolated": encoded < len(names)}
        return figures, self.index(names, codes)


def by_length(texts: Sequence[str], batch_size: int, encode: Callable[[list[str]], Tensor]) -> Tensor:
    """Encodes texts in batches of similar length, which need little padding; rows follow the order of the texts."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    rows = torch.cat([encode([texts[row] for row in batch]) for batch in batches])
    return rows[torch.tensor(order).argsort()]


def named(scores: Tensor, columns: Tensor, names: list[str]) -> Best:
    """Pairs `(B, K)` scores with the label names of their columns."""
    return [
        [(names[column], score) for column, score in zip(*row, strict=True)]
        for row in zip(columns.tolist(), scores.tolist(), strict=True)
    ]


def best(scored: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Returns the ten best predictions of a GLiClass pipeline."""
    scored = sorted(scored, key=lambda prediction: -prediction["score"])[:TOP]
    return [(prediction["label"], prediction["score"]) for prediction in scored]


def gile(work: dict[str, Any], encoder: str) -> System:
    """Prepares GILE with a processor, a model and a label index."""
    from hf_gile import GileConfig, GileModel, GileProcessor, LabelIndex, LabelSet, build_tokenizer

    tokenizer = build_tokenizer(work["documents"], label_texts=work["names"][: work["real_names"]], min_count=1)
    config = GileConfig(vocab_size=len(tokenizer), text_encoder_type=encoder)
    processor = GileProcessor.for_config(tokenizer, config)
    model = GileModel(config).eval()
    fingerprint = LabelIndex.build(model, processor, LabelSet.from_names(["one"])).model_fingerprint

    def encode_labels(names: list[str]) -> Tensor:
        return LabelIndex.build(model, processor, LabelSet.from_names(names)).codes

    def encode_texts(texts: list[str]) -> Tensor:
        return model.project_texts(**processor(texts, return_tensors="pt"))

    def index(names: list[str], codes: Tensor) -> Score:
        bias = model.output_layer.classifier.bias.item()
        labels = LabelIndex(LabelSet.from_names(names), codes, bias, None, fingerprint)

        def score(texts: list[str]) -> Best:
            return named(*labels.top_k(by_length(texts, 64, encode_texts), min(TOP, len(names))), names)

        return score

    return System(LabelsOnce(encode_labels, index, work["label_seconds"]), linear=False)


def gile_minilm(work: dict[str, Any]) -> System:
    """Prepares our joint embedding on a transformer of the size of all-MiniLM-L6-v2, for documents and labels."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from hf_gile import GileConfig, LabelIndex, LabelSet
    from hf_gile.models.scoring_gile import JointInputLabelEmbedding

    tokenizer = AutoTokenizer.from_pretrained(work["minilm"], trust_remote_code=False)
    encoder = BertModel(BertConfig(**MINILM), add_pooling_layer=False).eval()
    joint = JointInputLabelEmbedding(GileConfig(embedding_size=384, hidden_size=384))

    def pooled(texts: list[str]) -> Tensor:
        words = tokenizer(texts, truncation=True, max_length=256, padding=True, return_tensors="pt")
        mask = words["attention_mask"][..., None]
        return (encoder(**words).last_hidden_state * mask).sum(1) / mask.sum(1)

    def encode_labels(names: list[str]) -> Tensor:
        return joint.project_labels(by_length(names, 32, pooled))

    def index(names: list[str], codes: Tensor) -> Score:
        labels = LabelIndex(LabelSet.from_names(names), codes, joint.classifier.bias.item(), None, "")

        def score(texts: list[str]) -> Best:
            text_codes = joint.project_texts(by_length(texts, 8, pooled))
            return named(*labels.top_k(text_codes, min(TOP, len(names))), names)

        return score

    return System(LabelsOnce(encode_labels, index, work["label_seconds"]), linear=False)


def sbert(work: dict[str, Any]) -> System:
    """Prepares sentence-transformers: the published all-MiniLM-L6-v2 and `semantic_search` over normalised vectors."""
    from sentence_transformers import SentenceTransformer, util

    model = SentenceTransformer(work["minilm"], device="cpu")
    encode = partial(model.encode, convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False)

    def index(names: list[str], codes: Tensor) -> Score:
        def score(texts: list[str]) -> Best:
            hits = util.semantic_search(encode(texts, batch_size=8), codes, top_k=TOP, score_function=util.dot_score)
            return [[(names[hit["corpus_id"]], hit["score"]) for hit in row] for row in hits]

        return score

    return System(LabelsOnce(encode, index, work["label_seconds"]), linear=False)


def gliclass_uni(work: dict[str, Any], encoder: dict[str, Any]) -> System:
    """Prepares GLiClass with a single encoder for labels and text together, limited to 1,024 tokens (its default).

    If the labels do not fit, its `ZeroShotClassificationWithChunkingPipeline` splits them. The chunks are as large as
    19 of 20 documents permit: the larger the chunk, the fewer times the text is read.
    """
    from gliclass import (
        GLiClassModel,
        GLiClassModelConfig,
        ZeroShotClassificationPipeline,
        ZeroShotClassificationWithChunkingPipeline,
    )
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work["minilm"], trust_remote_code=False)
    tokenizer.add_tokens(["<<LABEL>>", "<<SEP>>"], special_tokens=True)
    config = GLiClassModelConfig(
        encoder_config=dict(encoder),
        encoder_model=encoder["model_type"],
        class_token_index=tokenizer.convert_tokens_to_ids("<<LABEL>>"),
        text_token_index=tokenizer.convert_tokens_to_ids("<<SEP>>"),
        problem_type="multi_label_classification",
        prompt_first=True,
    )
    model = GLiClassModel(config).eval()
    max_length = 1024
    settings = {"device": "cpu", "progress_bar": False, "max_length": max_length}
    whole = ZeroShotClassificationPipeline(model, tokenizer, **settings)
    chunked = ZeroShotClassificationWithChunkingPipeline(model, tokenizer, **settings)
    lengths = sorted(len(ids) for ids in tokenizer(work["documents"])["input_ids"])
    room = max_length - lengths[int(0.95 * len(lengths))]
    sizes = (1 + len(tokenizer(name, add_special_tokens=False)["input_ids"]) for name in work["names"][:max_length])
    fitting = max(1, sum(filled < room for filled in accumulate(sizes)))

    def prepare(names: list[str]) -> tuple[dict[str, Any], Score]:
        fits = len(names) <= fitting
        pipe = whole if fits else partial(chunked, labels_chunk_size=fitting)

        def score(texts: list[str]) -> Best:
            return [best(row) for row in pipe(texts, names, threshold=0.0, batch_size=1)]

        return {"mode": "one pass" if fits else f"does not fit one pass; {fitting} labels a pass"}, score

    return System(prepare, linear=True)


def gliclass_bi(work: dict[str, Any], once: bool) -> System:
    """Prepares GLiClass with separate encoders for texts and labels, in the default sizes of its train.py.

    Its pipeline encodes the labels again with every text. `once` is undocumented: it calls the model's `encode_text`
    and `encode_classes` separately, followed by the matrix product of its "simple" scorer.
    """
    from gliclass import GLiClassModel, GLiClassModelConfig, ZeroShotClassificationPipeline
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work["minilm"], trust_remote_code=False)
    config = GLiClassModelConfig(
        encoder_config=dict(DEBERTA_V3_SMALL),
        encoder_model="deberta-v2",
        label_model_config={"model_type": "bert", **BGE_SMALL},
        label_model_name=work["minilm"],  # the folder of the tokenizer
        architecture_type="bi-encoder",
        pooling_strategy="avg",
        problem_type="multi_label_classification",
    )
    model = GLiClassModel(config).eval()
    if not once:
        pipe = ZeroShotClassificationPipeline(model, tokenizer, device="cpu", progress_bar=False)

        def prepare(names: list[str]) -> tuple[dict[str, Any], Score]:
            def score(texts: list[str]) -> Best:
                return [best(row) for row in pipe(texts, names, threshold=0.0, batch_size=1)]

            return {"mode": "labels encoded with every text"}, score

        return System(prepare, linear=True)

    def words(texts: list[str]) -> Any:
        return tokenizer(texts, truncation=True, max_length=1024, padding=True, return_tensors="pt")

    def classes(names: list[str]) -> Tensor:
        batch = words(names)
        return model.model.encode_classes(batch["input_ids"][None], batch["attention_mask"][None])[0]

    def encode_text(texts: list[str]) -> Tensor:
        batch = words(texts)
        return model.model.encode_text(batch["input_ids"], batch["attention_mask"])

    def index(names: list[str], codes: Tensor) -> Score:
        def score(texts: list[str]) -> Best:
            logits = by_length(texts, 1, encode_text) @ codes.T * model.model.logit_scale
            return named(*logits.topk(min(TOP, len(names))), names)

        return score

    def encode_labels(names: list[str]) -> Tensor:
        return by_length(names, 32, classes)

    return System(LabelsOnce(encode_labels, index, work["label_seconds"]), linear=False)


def nli(work: dict[str, Any], size: str) -> System:
    """Prepares the zero-shot classification pipeline of transformers: a pass for each text and label."""
    from transformers import (
        AutoTokenizer,
        BartConfig,
        BartForSequenceClassification,
        BertConfig,
        BertForSequenceClassification,
        pipeline,
    )

    tokenizer = AutoTokenizer.from_pretrained(work["minilm"], trust_remote_code=False)
    tokenizer.model_max_length = 512
    model: Any
    if size == "bart-large":
        answers = {0: "contradiction", 1: "neutral", 2: "entailment"}
        special = {
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.cls_token_id,
            "eos_token_id": tokenizer.sep_token_id,
            "decoder_start_token_id": tokenizer.sep_token_id,
        }
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
        model = BartForSequenceClassification(BartConfig(**BART_LARGE, **special, id2label=answers))
    else:
        answers = {0: "entailment", 1: "not_entailment"}
        model = BertForSequenceClassification(BertConfig(**XTREMEDISTIL, id2label=answers))
    model.config.label2id = {answer: column for column, answer in answers.items()}
    pipe = pipeline("zero-shot-classification", model=model.eval(), tokenizer=tokenizer, device="cpu")

    def prepare(names: list[str]) -> tuple[dict[str, Any], Score]:
        def score(texts: list[str]) -> Best:
            # Its documentation advises against batches on a CPU.
            rows = pipe(texts, candidate_labels=names, multi_label=True)
            return [list(zip(row["labels"][:TOP], row["scores"][:TOP], strict=True)) for row in rows]

        return {"mode": "one pass a label"}, score

    return System(prepare, linear=True)


SYSTEMS: dict[str, Callable[[dict[str, Any]], System]] = {
    "gile-wan": partial(gile, encoder="wan"),
    "gile-han": partial(gile, encoder="han"),
    "gile-minilm": gile_minilm,
    "sbert-minilm": sbert,
    "gliclass-bi-once": partial(gliclass_bi, once=True),
    "gliclass-bi": partial(gliclass_bi, once=False),
    "gliclass-uni-edge": partial(gliclass_uni, encoder=ETTIN_32M),
    "gliclass-uni-small": partial(gliclass_uni, encoder=DEBERTA_V3_SMALL),
    "nli-xtremedistil": partial(nli, size="xtremedistil"),
    "nli-bart-large": partial(nli, size="bart-large"),
}


def calibrate() -> float:
    """Times a matrix product of fixed size, to distinguish a slow system from a machine that is slow at the moment."""
    matrix = torch.randn(1024, 1024)
    return statistics.median(seconds(lambda: matrix @ matrix) for _ in range(15))


def spread(documents: list[str], count: int) -> list[str]:
    """Chooses documents spread evenly over the range of lengths, so that even few have about the mean length."""
    ordered = sorted(documents, key=len)
    chosen = [ordered[int((index + 0.5) * len(ordered) / count)] for index in range(count)]
    random.Random(0).shuffle(chosen)
    return chosen


def timed(score: Score, num_labels: int, documents: list[str], count: int, limit: float) -> dict[str, Any]:
    """Measures seconds per document within a time limit.

    Args:
        score: Function that scores texts.
        num_labels: Expected number of labels per text.
        documents: Texts to choose from.
        count: Number of documents in the first run. Further runs use as many as fit the limit, and repeat all documents
            as often as they fit.
        limit: Seconds for all runs.
    """

    def run(count: int) -> tuple[float, float]:
        texts = spread(documents, count)
        start, cpu_start = time.perf_counter(), time.process_time()
        answer = score(texts)
        elapsed = time.perf_counter() - start, time.process_time() - cpu_start
        if [len(row) for row in answer] != [num_labels] * count:
            raise RuntimeError(f"expected {num_labels} labels for each of {count} documents, got {answer[:3]}")
        return elapsed

    count = min(count, len(documents))
    times = [run(count)]
    if times[0][0] < limit:
        count = min(len(documents), math.ceil(limit / times[0][0]) * count)
        times = [run(count)]
        while count == len(documents) and sum(elapsed for elapsed, _ in times) < limit:
            times.append(run(count))
    wall, cpu = (statistics.median(values) / count for values in zip(*times, strict=True))
    return {"documents": count, "seconds_per_document": wall, "cpu_seconds_per_document": cpu}


@torch.no_grad()
def measure(system: System, work: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the figures for each number of labels in ascending order."""
    points: list[tuple[int, float]] = []
    for size in sorted(work["sizes"]):
        prepared, score = system.prepare(work["names"][:size])
        figures = {"labels": size, "calibration_seconds": calibrate(), **prepared}
        expected = 0.0
        if len(points) > 1 and system.linear:
            (fewer, first), (more, second) = points[-2:]
            if second > 1.5 * first:  # a smaller difference may be noise, which extrapolation would amplify
                expected = second + (size - more) * (second - first) / (more - fewer)
        if expected > work["most_seconds"]:
            figures |= {"seconds_per_document": expected, "extrapolated_from": [labels for labels, _ in points[-2:]]}
        else:
            first = 1 if system.linear else 32
            figures |= timed(score, min(TOP, size), work["documents"], first, work["seconds"])
            points.append((size, figures["seconds_per_document"]))
        yield figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=SYSTEMS, required=True)
    parser.add_argument("--work", type=Path, required=True, help="file written by benchmarks/peers.py")
    options = parser.parse_args()
    work = json.loads(options.work.read_text(encoding="utf-8"))
    torch.set_num_threads(work["threads"])
    torch.manual_seed(0)
    for figures in measure(SYSTEMS[options.system](work), work):
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
