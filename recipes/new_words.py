"""Add new words to a trained language model, with embeddings computed from vectors of the words.

    python recipes/new_words.py --texts DATA/train.jsonl.gz --test DATA/test.jsonl.gz --output_dir new_words

A small GPT-2 over whole words is trained on sentences without 500 held-out words. Then these words are added, and their
probability at their positions in test sentences is measured, before and after a few steps that train only the new
rows. The recipe compares the joint output layer and weight tying over fixed word vectors, which a pretrained encoder
computes from each word, with the usual weight tying over trained vectors. New rows start as their vectors (mapped to
trained vectors by least squares), or as the mean or Gaussian noise, as in `resize_token_embeddings`. The result depends
on the quality of the vectors. `--choose` measures 100 further words, for choosing settings.
"""

import argparse
import copy
import gzip
import json
import math
import re
import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
from papers.pickled_vectors import load_vectors
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    set_seed,
)

from hf_gile import build_tokenizer
from hf_gile.language_models import replace_output_embeddings
from hf_gile.training.encoders import best_text_encoder

WORDS, NEW, CHOOSE, FREQUENT = 8000, 500, 100, 1000  # no new word is among the FREQUENT most frequent words
LENGTH = 64
TRAINED = "tied, trained vectors"
MODELS = {"joint": {}, "tied": {"form": "tied"}, TRAINED: {"form": "tied"}}
STARTS = ("vectors", "mean", "gaussian")
LATER = (1, 5, 20)


class Texts:
    """The vocabulary, with words that are added later, and the sentences without and with these words."""

    def __init__(self, options: argparse.Namespace) -> None:
        texts, tests = (_read_sentences(path, options.documents) for path in (options.texts, options.test))
        full_tokenizer = build_tokenizer(texts, max_vocabulary=2 + WORDS + NEW + CHOOSE)
        ranked = full_tokenizer.convert_ids_to_tokens(range(2, len(full_tokenizer)))
        generator = np.random.default_rng(options.seed)
        added = [
            ranked[rank] for rank in generator.choice(np.arange(FREQUENT, len(ranked)), NEW + CHOOSE, replace=False)
        ]
        self.new = added[NEW:] if options.choose else added[:NEW]
        others = added[:NEW] if options.choose else added[NEW:]
        self.known = [word for word in ranked if word not in {*added}]
        self.first_new = 2 + len(self.known)
        self.tokenizer = build_tokenizer(vocabulary=[*self.known, *self.new])
        self._all = build_tokenizer(vocabulary=[*self.known, *self.new, *others])
        known, self.later, _ = self._split(texts)
        stream = torch.cat(known)
        self.blocks = stream[: len(stream) // LENGTH * LENGTH].view(-1, LENGTH)
        _, test, every = self._split(tests)
        self.test, every = test[: options.test_sentences], every[: options.test_sentences]
        self.rest = [row for row in every if row.max() < self.first_new]
        self.mixed = [row for row in every if row.max() >= self.first_new]

    def _split(self, texts: list[str]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Returns sentences without added words, with new words, and both; drops sentences with other added words."""
        parts: tuple[list[Tensor], ...] = [], [], []
        for ids in self._all(texts, add_special_tokens=False)["input_ids"]:
            highest = max(ids, default=0)
            if highest < len(self.tokenizer):
                row = torch.tensor([0, *ids[: LENGTH - 1]])
                parts[highest >= self.first_new].append(row)
                parts[2].append(row)
        return parts


def _read_sentences(path: str, limit: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["abstractText"] for line in islice(file, limit)]
    return [sentence for text in texts for sentence in re.split(r"(?<=[.?!])\s+", text) if len(sentence) > 20]


@torch.inference_mode()
def compute_word_vectors(words: list[str], path: str | None) -> list[Tensor]:
    """Computes vectors of words: mean hidden states of an encoder for each word, and vectors from a file, if any."""
    tables = []
    encoder = best_text_encoder([])  # for English; it cannot detect the language from single words
    if encoder is not None:
        tokenizer = AutoTokenizer.from_pretrained(encoder.folder, trust_remote_code=False)
        model = AutoModel.from_pretrained(encoder.folder, trust_remote_code=False).eval()
        means = []
        for start in range(0, len(words), 64):
            encoded = tokenizer(words[start : start + 64], padding=True, return_tensors="pt")
            mask = encoded["attention_mask"][..., None]
            means.append((model(**encoded).last_hidden_state * mask).sum(1) / mask.sum(1))
        tables.append(torch.cat(means))
    if path:
        file = load_vectors(path).normalized()
        known = dict(zip(file.words, file.vectors, strict=True))
        zeros = np.zeros_like(file.vectors[0])
        tables.append(torch.from_numpy(np.stack([known.get(word, zeros) for word in words])))
    if not tables:
        raise SystemExit("no pretrained encoder is available: pass a file of word vectors as --word_vectors")
    return tables


def compute_rows(tables: list[Tensor], known: int, size: int, scale: float) -> Tensor:
    """Computes rows of E: principal components of vectors, fitted on the first `known` words."""
    centered = [table - table[:known].mean(0) for table in tables]
    vectors = torch.cat([table / table[:known].square().sum(1).mean().sqrt() for table in centered], 1)
    rows = vectors @ torch.linalg.svd(vectors[:known], full_matrices=False).Vh[:size].T
    return functional.pad(rows / rows[:known].std() * scale, (0, size - rows.shape[1]))


def make_model(name: str, rows: Tensor, options: argparse.Namespace) -> PreTrainedModel:
    set_seed(options.seed)
    config = GPT2Config(
        vocab_size=2 + len(rows),
        n_embd=options.size,
        n_layer=options.layers,
        n_head=4,
        n_positions=LENGTH,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0),
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
        loss_type="ForCausalLM",
    )
    model = replace_output_embeddings(GPT2LMHeadModel(config), options.joint_size, **MODELS[name])
    if name != TRAINED:
        table = model.get_input_embeddings().weight.requires_grad_(False)
        table[:2] *= rows.std() / table[:2].std()
        table[2:] = rows
    return model


def train_steps(
    optimizer: torch.optim.Optimizer, model: PreTrainedModel, batches: Iterable[Tensor], rates: list[float]
) -> Iterator[int]:
    """Trains a step for each learning rate and yields its number, with the model in evaluation mode."""
    for step, (rate, batch) in enumerate(zip(rates, batches, strict=False), 1):
        optimizer.param_groups[0]["lr"] = rate
        loss = model.train()(input_ids=batch, labels=batch.masked_fill(batch == 1, -100)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        model.eval()
        if step % 100 == 0:
            print(f"{step} steps, loss {loss.item():.2f}", flush=True)
        yield step


def iterate_batches(rows: list[Tensor] | Tensor, size: int, seed: int) -> Iterator[Tensor]:
    """Yields endless batches of shuffled rows; short rows are padded with unknown words, which are ignored."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for indices in torch.randperm(len(rows), generator=generator).split(size):
            yield pad_sequence([rows[index] for index in indices], batch_first=True, padding_value=1)


def train(model: PreTrainedModel, texts: Texts, options: argparse.Namespace) -> None:
    """Trains everything except fixed vectors, with a linear decay."""
    warmup_steps = max(1, options.steps // 20)
    shares = [min((step + 1) / warmup_steps, 1 - step / options.steps) for step in range(options.steps)]
    batches = iterate_batches(texts.blocks, options.batch_size, options.seed)
    optimizer = torch.optim.Adam(
        [parameter for parameter in model.parameters() if parameter.requires_grad], betas=(0.9, 0.98)
    )
    for _ in train_steps(optimizer, model, batches, [share * options.learning_rate for share in shares]):
        pass


def train_rows(model: PreTrainedModel, texts: Texts, options: argparse.Namespace) -> Iterator[int]:
    """Trains only the rows of new words, in E and b; Adam would also move the rows of words absent from a batch."""
    is_new = torch.arange(len(texts.tokenizer)) >= texts.first_new
    model.requires_grad_(False)
    parameters = model.lm_head.weight, model.lm_head.bias
    for parameter in parameters:
        mask = is_new.view(-1, *[1] * (parameter.dim() - 1))
        parameter.requires_grad_(True).register_hook(lambda gradient, mask=mask: gradient * mask)
    batches = iterate_batches(texts.later, options.batch_size, options.seed)
    return train_steps(torch.optim.SGD(parameters), model, batches, [options.later_rate] * max(LATER))


@torch.no_grad()
def compute_logits(model: PreTrainedModel, texts: list[Tensor], first: int) -> tuple[Tensor, Tensor]:
    """Computes the logits at the positions of word ids >= `first`; returns them and these word ids."""
    logits, words = [], []
    for start in range(0, len(texts), 64):
        batch = pad_sequence(texts[start : start + 64], batch_first=True)
        is_measured = batch[:, 1:] >= first
        words.append(batch[:, 1:][is_measured])
        logits.append(model.lm_head(model.transformer(input_ids=batch).last_hidden_state[:, :-1][is_measured]))
    return torch.cat(logits), torch.cat(words)


def measure_words(logits: Tensor, words: Tensor) -> dict[str, float]:
    """Measures the probability of words; words with equal scores, as from the same mean row, share their ranks."""
    loss = functional.cross_entropy(logits, words).item()
    target_logits = logits.gather(1, words[:, None])
    rank = ((logits > target_logits).sum(1) + (logits >= target_logits).sum(1) + 1) / 2
    return {"positions": len(rank), "nll": loss, "perplexity": math.exp(loss), "median_rank": rank.median().item()}


def measure(model: PreTrainedModel, texts: Texts) -> dict[str, dict[str, float]]:
    """Measures new words at their positions, among all words and among new words, and a sample of ordinary text."""
    first = texts.first_new
    logits, words = compute_logits(model, texts.test, first)
    rest, rest_words = compute_logits(model, texts.rest, 2)
    mixed, mixed_words = compute_logits(model, texts.mixed, 2)
    return {
        "new": measure_words(logits, words),
        "among_new": measure_words(logits[:, first:], words - first),
        "rest": measure_words(rest, rest_words),
        "every": measure_words(torch.cat([rest, mixed]), torch.cat([rest_words, mixed_words])),
    }


def add_words(model: PreTrainedModel, rows: Tensor, start: str) -> None:
    """Adds the new words, the last rows of E."""
    table = model.get_input_embeddings().weight
    old, number = len(table), len(rows) + 2 - len(table)
    if table.requires_grad:  # trained vectors
        rows = functional.pad(rows, (0, 1), value=1)
        rows = rows @ torch.linalg.lstsq(rows[:-number], table.detach()[2:]).solution
    model.resize_token_embeddings(old + number, mean_resizing=start == "mean")
    if start == "vectors":
        table.data[old:] = rows[-number:]


def generate_texts(folder: Path, tests: list[Tensor], first_new: int) -> tuple[float, list[list[int]]]:
    """Generates texts from prompts with a saved model; returns the share of new words in them, and the texts."""
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    ids = torch.stack([text[:6] for text in tests if len(text) > 6])
    set_seed(0)
    generated = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=True, top_k=0)
    new = generated[:, 6:]
    return ((new >= first_new).sum() / (new > 1).sum()).item(), generated.tolist()


def run(options: argparse.Namespace) -> dict[str, dict[str, object]]:
    texts = Texts(options)
    print(f"{texts.blocks.numel():,} words for training, {len(texts.test):,} sentences with new words for the test")
    tables = compute_word_vectors([*texts.known, *texts.new], options.word_vectors)
    rows = compute_rows(tables, len(texts.known), options.size, options.scale)
    trained_figures: dict[str, object] = {}
    runs: dict[str, object] = {}
    for name in MODELS:
        original = make_model(name, rows[: len(texts.known)], options)
        started = time.process_time()
        train(original, texts, options)
        seconds = time.process_time() - started
        logits, words = compute_logits(original, texts.rest, 2)
        rare = words >= 2 + FREQUENT  # as rare as the new words, but trained
        trained_figures[name] = {
            "cpu_seconds": seconds,
            "rest": measure_words(logits, words),
            "rare": measure_words(logits[rare], words[rare]),
        }
        print(f"{name}: {json.dumps(trained_figures[name])}", flush=True)
        for start in STARTS:
            model = copy.deepcopy(original)
            add_words(model, rows, start)
            folder = Path(options.output_dir) / f"{name}-{start}".replace(" ", "_").replace(",", "")
            model.save_pretrained(folder)
            texts.tokenizer.save_pretrained(folder)
            share, generated = generate_texts(folder, texts.test[:50], texts.first_new)
            examples = [texts.tokenizer.decode(ids[1:]) for ids in generated if max(ids[6:]) >= texts.first_new]
            figures: dict[str, object] = {"share_written": share, "written": examples[:5]}
            for step in chain((0,), train_rows(model, texts, options)):
                if step in (0, *LATER):
                    figures[str(step)] = measure(model, texts)
            runs[f"{name}, {start}"] = figures
            print(f"{name}, {start}: {json.dumps(figures)}", flush=True)
    all_words = torch.cat([*texts.rest, *texts.mixed])
    share = ((all_words >= texts.first_new).sum() / (all_words > 1).sum()).item()
    return {"trained": trained_figures, "runs": runs, "texts": {"words": texts.blocks.numel(), "share_of_new": share}}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", required=True, help="training texts, JSON lines with abstractText")
    parser.add_argument("--test", required=True, help="test texts in the same format")
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--word_vectors", help="word vectors to use in addition to those of the encoder")
    parser.add_argument(
        "--documents", type=int, default=12000, help="maximum number of abstracts to read from each file"
    )
    parser.add_argument(
        "--test_sentences", type=int, default=250, help="number of sentences with new words, and of all"
    )
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--joint_size", type=int, default=128)
    parser.add_argument("--scale", type=float, default=0.3, help="standard deviation of the fixed rows")
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument(
        "--later_rate", type=float, default=2, help="learning rate of the steps that train only new rows"
    )
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    results = run(options)
    (Path(options.output_dir) / "results.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
