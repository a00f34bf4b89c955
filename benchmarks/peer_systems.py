"""What benchmarks/peers.py runs for one system, by the interpreter that has it: ours, or that of the peers.

    python benchmarks/peer_systems.py --system sbert-minilm --work work.json

Prints one line of JSON for each number of labels. A system is a function that prepares for a list of label names and
returns what gives texts their ten best labels. Batches have the size that was fastest on a CPU: one text for GLiClass
(its default, 8 unsorted, took twice as long), 8 sorted by length for transformers that encode once (the default 32 of
sentence-transformers took 1.15 times as long). Weights are random, of the published sizes, except where a package
carries the published ones (all-MiniLM-L6-v2); its tokenizer also stands in for those of DeBERTa, ModernBERT and BART.
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
Score = Callable[[list[str]], Best]  # texts to the ten best labels of each

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
    """A system that is ready for any label names.

    Args:
        prepare: Takes label names; returns figures for the record, and what scores texts with these labels.
        linear: Whether the time of a document grows along a line with the labels, as it does with a pass for each or
            for so many, so that two measured sizes tell what a third one takes.
    """

    prepare: Callable[[list[str]], tuple[dict[str, Any], Score]]
    linear: bool


class LabelsOnce:
    """The `prepare` of systems that encode labels once and keep the codes.

    Encoding goes on for a limited time only; where it is over before the labels are, the rest get random codes (speed
    does not depend on them) and the time is extrapolated.
    """

    def __init__(
        self, encode: Callable[[list[str]], Tensor], index: Callable[[list[str], Tensor], Score], limit: float
    ) -> None:
        self.encode, self.index, self.limit = encode, index, limit
        self.per_label: float | None = None

    def __call__(self, names: list[str]) -> tuple[dict[str, Any], Score]:
        """Encodes the labels and makes their index."""
        taken, done, size, parts = 0.0, 0, 256, []
        limit = 0.0 if self.per_label else self.limit  # once is enough
        while done < len(names) and (not done or taken < limit):
            start = time.perf_counter()
            parts.append(self.encode(names[done : done + size]))
            taken += time.perf_counter() - start
            done = min(len(names), done + size)
            size = min(2 * size, 16_384)
        if done < len(names):
            self.per_label = self.per_label or taken / done
            taken = self.per_label * len(names)
            parts.append(torch.randn(len(names) - done, parts[0].shape[1]))
        codes = torch.cat(parts)
        del parts
        figures = {"label_seconds": taken, "label_seconds_extrapolated": done < len(names)}
        return figures, self.index(names, codes)


def by_length(texts: Sequence[str], batch_size: int, encode: Callable[[list[str]], Tensor]) -> Tensor:
    """Encodes texts in batches of like length, which need little padding; rows come in the order of the texts."""
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    rows = torch.cat([encode([texts[place] for place in batch]) for batch in batches])
    return rows[torch.tensor(order).argsort()]


def named(scores: Tensor, columns: Tensor, names: list[str]) -> Best:
    """Scores and columns `(B, K)` with the names of the columns."""
    return [
        [(names[column], score) for column, score in zip(*row, strict=True)]
        for row in zip(columns.tolist(), scores.tolist(), strict=True)
    ]


def best(scored: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """The ten best of the predictions of a GLiClass pipeline."""
    scored = sorted(scored, key=lambda one: -one["score"])[:TOP]
    return [(one["label"], one["score"]) for one in scored]


def gile(work: dict[str, Any], encoder: str) -> System:
    """Ours, as the README shows it: a processor, a model and a label index."""
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
    """A transformer of the size of all-MiniLM-L6-v2 under our joint embedding; it reads documents and labels."""
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
    """sentence-transformers with the published all-MiniLM-L6-v2, and its `semantic_search` over normalised vectors."""
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
    """GLiClass where one encoder reads labels and text together, within 1,024 tokens (the pipeline's default).

    More labels than fit go through its `ZeroShotClassificationWithChunkingPipeline`, as many in a chunk as fit beside
    19 of 20 documents: the larger the chunk, the fewer times the text is read.
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
    most = 1024
    settings = {"device": "cpu", "progress_bar": False, "max_length": most}
    whole = ZeroShotClassificationPipeline(model, tokenizer, **settings)
    chunked = ZeroShotClassificationWithChunkingPipeline(model, tokenizer, **settings)
    lengths = sorted(len(ids) for ids in tokenizer(work["documents"])["input_ids"])
    room = most - lengths[int(0.95 * len(lengths))]
    sizes = (1 + len(tokenizer(name, add_special_tokens=False)["input_ids"]) for name in work["names"][:most])
    fitting = max(1, sum(filled < room for filled in accumulate(sizes)))

    def prepare(names: list[str]) -> tuple[dict[str, Any], Score]:
        fits = len(names) <= fitting
        pipe = whole if fits else partial(chunked, labels_chunk_size=fitting)

        def score(texts: list[str]) -> Best:
            return [best(row) for row in pipe(texts, names, threshold=0.0, batch_size=1)]

        return {"mode": "one pass" if fits else f"does not fit one pass; {fitting} labels a pass"}, score

    return System(prepare, linear=True)


def gliclass_bi(work: dict[str, Any], once: bool) -> System:
    """GLiClass with an encoder for texts and another for labels, the sizes that its train.py has as defaults.

    Its pipeline encodes the labels again with every text. `once` is not in its documentation: the model's own
    `encode_text` and `encode_classes`, called apart, and the matrix product that is its "simple" scorer.
    """
    from gliclass import GLiClassModel, GLiClassModelConfig, ZeroShotClassificationPipeline
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(work["minilm"], trust_remote_code=False)
    config = GLiClassModelConfig(
        encoder_config=dict(DEBERTA_V3_SMALL),
        encoder_model="deberta-v2",
        label_model_config={"model_type": "bert", **BGE_SMALL},
        label_model_name=work["minilm"],  # a folder, which it reads the tokenizer from
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
    """The zero-shot classification pipeline of transformers: one pass for each text and label."""
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
            # On a CPU its documentation advises against batches.
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
    """Seconds of a matrix product of fixed size, to know a slow moment of the machine from a slow system."""
    matrix = torch.randn(1024, 1024)
    return statistics.median(seconds(lambda: matrix @ matrix) for _ in range(15))


def spread(documents: list[str], count: int) -> list[str]:
    """So many documents, evenly over the range of lengths, so that few have about the mean length of all."""
    ordered = sorted(documents, key=len)
    chosen = [ordered[int((place + 0.5) * len(ordered) / count)] for place in range(count)]
    random.Random(0).shuffle(chosen)
    return chosen


def timed(score: Score, wanted: int, documents: list[str], count: int, limit: float) -> dict[str, Any]:
    """Seconds for each document: so many, then as many as fit the limit; all of them as often as they fit."""

    def run(count: int) -> tuple[float, float]:
        texts = spread(documents, count)
        start, cpu_start = time.perf_counter(), time.process_time()
        answer = score(texts)
        taken = time.perf_counter() - start, time.process_time() - cpu_start
        if [len(row) for row in answer] != [wanted] * count:
            raise RuntimeError(f"{count} documents did not each get {wanted} labels: {answer[:3]}")
        return taken

    count = min(count, len(documents))
    times = [run(count)]
    if times[0][0] < limit:
        count = min(len(documents), math.ceil(limit / times[0][0]) * count)
        times = [run(count)]
        while count == len(documents) and sum(taken for taken, _ in times) < limit:
            times.append(run(count))
    taken, cpu_taken = (statistics.median(each) / count for each in zip(*times, strict=True))
    return {"documents": count, "seconds_per_document": taken, "cpu_seconds_per_document": cpu_taken}


@torch.no_grad()
def measure(system: System, work: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The figures for each number of labels, smallest first."""
    points: list[tuple[int, float]] = []
    for size in sorted(work["sizes"]):
        prepared, score = system.prepare(work["names"][:size])
        figures = {"labels": size, "calibration_seconds": calibrate(), **prepared}
        expected = 0.0
        if len(points) > 1 and system.linear:
            (fewer, first), (more, second) = points[-2:]
            if second > 1.5 * first:  # less could be noise, which a line would carry far
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
    parser.add_argument("--work", type=Path, required=True, help="what benchmarks/peers.py has written")
    options = parser.parse_args()
    work = json.loads(options.work.read_text(encoding="utf-8"))
    torch.set_num_threads(work["threads"])
    torch.manual_seed(0)
    for figures in measure(SYSTEMS[options.system](work), work):
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
