"""Words that a language model learns after training: rows added to the table of embeddings, whose meaning is known.

    python recipes/new_words.py --texts DATA/train.jsonl.gz --test DATA/test.jsonl.gz \
        --word_vectors english.pkl.gz --output_dir new_words

A small GPT-2 of whole words is trained on sentences with none of 500 words; then these are added, and it is asked how
probable they are where they stand in test sentences. Compared are the joint output layer over given word vectors,
weight tying over the same ones, and weight tying with vectors that are trained, as is usual; and what new rows start
as: their word vectors, or the mean or Gaussian noise, as `resize_token_embeddings` has it. It works as far as the word
vectors are good. `--choose` measures on 100 further words, to choose settings on.
"""

import argparse
import gzip
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, PreTrainedModel, set_seed

from hf_gile import build_tokenizer
from hf_gile.data import load_word_vectors
from hf_gile.language_models import replace_output_embeddings

WORDS, NEW, CHOOSE, FREQUENT = 8000, 500, 100, 1000  # of the FREQUENT most frequent ones, none comes late
MODELS = {"joint": {}, "tied": {"form": "tied"}, "tied, trained vectors": {"form": "tied"}}
STARTS = ("vectors", "mean", "gaussian")


def sentences(path: str, limit: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["abstractText"] for line, _ in zip(file, range(limit), strict=False)]
    return [sentence for text in texts for sentence in re.split(r"(?<=[.?!])\s+", text) if len(sentence) > 20]


def choose_words(texts: list[str], vectors: dict[str, np.ndarray], seed: int) -> tuple[list[str], list[str], list[str]]:
    """Words to train on, words that come later, and further ones to choose settings on."""
    split = build_tokenizer(vocabulary=list(vectors))
    counts = Counter(word for ids in split(texts, add_special_tokens=False)["input_ids"] for word in ids if word > 1)
    ranked = [split.convert_ids_to_tokens(word) for word, _ in counts.most_common(WORDS + NEW + CHOOSE)]
    held = np.random.default_rng(seed).choice(np.arange(FREQUENT, len(ranked)), NEW + CHOOSE, replace=False)
    late = [ranked[place] for place in held]
    return [word for word in ranked if word not in set(late)], late[:NEW], late[NEW:]


def table_of(words: list[str], vectors: dict[str, np.ndarray], size: int) -> torch.Tensor:
    """Rows of E: word vectors, each dimension standardised over all words, turned at random into the model's size."""
    rows = torch.from_numpy(np.stack([vectors[word] for word in words]))
    known = torch.from_numpy(np.stack(list(vectors.values())))
    rows = (rows - known.mean(0)) / known.std(0)
    turn = torch.linalg.qr(torch.randn(size, rows.shape[1], generator=torch.Generator().manual_seed(0)))[0]
    return rows @ turn.T * (size / rows.shape[1]) ** 0.5 * 0.5


def make_model(name: str, rows: torch.Tensor, options: argparse.Namespace) -> PreTrainedModel:
    set_seed(options.seed)
    config = GPT2Config(
        vocab_size=2 + len(rows),
        n_embd=options.size,
        n_layer=options.layers,
        n_head=4,
        n_positions=64,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
        loss_type="ForCausalLM",
    )
    model = replace_output_embeddings(GPT2LMHeadModel(config), options.joint_size, **MODELS[name])
    table = model.get_input_embeddings().weight
    table.data[2:] = rows
    table.requires_grad_(name == "tied, trained vectors")
    return model


def train(model: PreTrainedModel, blocks: torch.Tensor, steps: int, options: argparse.Namespace, rate: float) -> None:
    """AdamW with a linear decay, over blocks drawn at random."""
    model.train()
    draw = torch.Generator().manual_seed(options.seed)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], rate, weight_decay=0.01)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 20) * (1 - step / steps))
    for _ in range(steps):
        batch = blocks[torch.randint(len(blocks), (options.batch_size,), generator=draw)]
        model(input_ids=batch, labels=batch.masked_fill(batch == 1, -100)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()
        optimizer.zero_grad()
    model.eval()


@torch.no_grad()
def measure(model: PreTrainedModel, texts: list[torch.Tensor], first_new: int) -> dict[str, float]:
    """How probable new words are where they stand, and the others of the same sentences."""
    found: dict[str, list[torch.Tensor]] = {"new": [], "others": [], "rank": [], "rank_among_new": []}
    for start in range(0, len(texts), 64):
        ids = pad_sequence(texts[start : start + 64], batch_first=True)
        logits, words = model(input_ids=ids).logits[:, :-1], ids[:, 1:]
        losses = functional.cross_entropy(logits.transpose(1, 2), words, reduction="none")
        is_new = words >= first_new
        found["new"].append(losses[is_new])
        found["others"].append(losses[(words > 1) & ~is_new])
        at_new, right = logits[is_new], words[is_new][:, None]
        # Words of the same score, as those of one mean row are, share the ranks that they take.
        above = (at_new > at_new.gather(1, right)).double() + (at_new >= at_new.gather(1, right)).double()
        found["rank"].append((above.sum(1) + 1) / 2)
        found["rank_among_new"].append((above[:, first_new:].sum(1) + 1) / 2)
    joined = {name: torch.cat(parts).double() for name, parts in found.items()}
    return {
        "positions": len(joined["new"]),
        "nll": joined["new"].mean().item(),
        "perplexity": joined["new"].mean().exp().item(),
        "median_rank": joined["rank"].median().item(),
        "in_first_100": (joined["rank"] <= 100).double().mean().item(),
        "median_rank_among_new": joined["rank_among_new"].median().item(),
        "perplexity_of_others": joined["others"].mean().exp().item(),
    }


def add_words(model: PreTrainedModel, rows: torch.Tensor, start: str) -> None:
    """Adds rows to E as `resize_token_embeddings` does, or with their vectors."""
    table, old = model.get_input_embeddings().weight, model.config.vocab_size
    model.resize_token_embeddings(old + len(rows), mean_resizing=start != "gaussian")
    if start == "vectors":
        table.data[old:] = rows


def written(folder: Path, starts: list[torch.Tensor], first_new: int) -> tuple[float, list[list[int]]]:
    """The share of new words in what a saved model writes, and all that it writes."""
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    ids = torch.stack([text[:6] for text in starts if len(text) > 6])
    set_seed(0)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=True, top_p=0.9)
    new = out[:, 6:]
    return ((new >= first_new).sum() / (new > 1).sum()).item(), out.tolist()


def run(options: argparse.Namespace) -> dict[str, dict[str, object]]:
    read = load_word_vectors(options.word_vectors).normalized()
    vectors = dict(zip(read.words, read.vectors, strict=True))
    texts = sentences(options.texts, options.documents)
    known, *late_words = choose_words(texts, vectors, options.seed)
    new = late_words[1 if options.choose else 0]
    tokenizer = build_tokenizer(vocabulary=[*known, *new])
    held_back = build_tokenizer(vocabulary=[*late_words[0], *late_words[1]])  # of no use but to find these words
    first_new = 2 + len(known)

    def encode(texts: list[str], start: int = 0) -> list[torch.Tensor]:
        return [torch.tensor([0, *ids[:62]]) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"][start:]]

    late = [any(word > 1 for word in ids) for ids in held_back(texts, add_special_tokens=False)["input_ids"]]
    before = encode([text for text, is_late in zip(texts, late, strict=True) if not is_late])
    stream, later = torch.cat(before), torch.cat([text for text in encode(texts) if (text >= first_new).any()])
    blocks, later = (one[: len(one) // 64 * 64].view(-1, 64) for one in (stream, later))
    test = [text for text in encode(sentences(options.test, options.documents)) if (text >= first_new).any()][:300]
    say = f"{len(before):,} of {len(texts):,} sentences and {len(stream):,} words have no late word; {len(test):,} test"
    print(say)
    rows = table_of(known, vectors, options.size), table_of(new, vectors, options.size)
    results: dict[str, dict[str, object]] = {}
    for name in MODELS:
        model = make_model(name, rows[0], options)
        train(model, blocks, options.steps, options, options.learning_rate)
        trained = {key: value.clone() for key, value in model.state_dict().items()}
        for start in STARTS:
            model = make_model(name, rows[0], options)
            model.load_state_dict(trained)
            add_words(model.eval(), rows[1], start)
            figures: dict[str, object] = {"before": measure(model, test, first_new)}
            folder = Path(options.output_dir) / f"{name}-{start}".replace(" ", "_").replace(",", "")
            model.save_pretrained(folder)
            figures["share_written"], texts_written = written(folder, test[:30], first_new)
            tokenizer.save_pretrained(folder)
            if start == "vectors":
                some = [tokenizer.decode(ids[1:]) for ids in texts_written if max(ids) >= first_new]
                figures["written"] = some[:5]
            model.get_input_embeddings().requires_grad_(True)
            train(model, later, options.later_steps, options, options.learning_rate / 4)
            figures["after"] = measure(model, test, first_new)
            results[f"{name}, {start}"] = figures
            print(f"{name}, {start}: {json.dumps(figures)}", flush=True)
    share = sum((text >= first_new).sum().item() for text in test[:30]) / sum(len(text) - 1 for text in test[:30])
    return {"runs": results, "texts": {"sentences": len(before), "words": len(stream), "share_in_test": share}}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", required=True, help="JSON lines with abstractText, to train on")
    parser.add_argument("--test", required=True, help="the same, to measure on")
    parser.add_argument("--word_vectors", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--documents", type=int, default=6000, help="abstracts read of each file at most")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--joint_size", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--later_steps", type=int, default=10)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    results = run(options)
    (Path(options.output_dir) / "results.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
