"""Translation with the output layers of "Beyond Weight Tying": its Tables 1 to 4 and Figure 3, at a small size.

    python benchmarks/translation.py -- --data multi30k --vocab_size 2000 --layers nmt tied bilinear joint128 joint512
    python benchmarks/translation.py --speed nmt tied joint512 joint2048 joint4096 --size 128 --batch 16 25

The first runs recipes/train_nmt.py, German to English, with the flags after `--`. It writes the results after each
model. Runs with another vocabulary, size or seed stay in the file. Nearest neighbours of a few words are those among
the rows of E and among the classifiers that the output layer computes from them. The second times training steps on
random words, with a softmax over part of 128,000 words (Table 4 of the paper) and with the exact loss that stores no
logits. Layers have the names of the paper; with --size 128 instead of 512, joint sizes are a quarter, too. Times are
CPU times.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, provenance, write_json, write_results
from torch import nn
from torch.nn import functional
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, set_seed

from hf_gile.language_models import NmtConfig, NmtForConditionalGeneration, replace_output_embeddings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "recipes"))

import train_nmt
from papers.sentence_pairs import load_sentence_pairs
from papers.translation import compare_translations

QUERIES = ("walking", "small", "friend")  # a verb, an adjective and a noun, as in Table 1
SHARES = (0.5, 0.25, 0.05)
LAYERS = {"nmt": 0, "tied": 0, "joint512": 512, "joint2048": 2048, "joint4096": 4096}
PAPER_BLEU = {  # Table 3: German to English, 32,000 pieces, 5.8 million pairs; output and context are its Eq. 7a and 7b
    "nmt": 15.85,
    "tied": 16.51,
    "bilinear": 16.23,
    "output": 16.01,
    "context": 17.52,
    "joint512": 17.54,
    "joint2048": 18.11,
}
PAPER = {  # Table 4: thousands of target words a second, with shares of 50, 25 and 5 %
    "nmt": (4.3, 5.7, 7.1),
    "tied": (5.2, 6.0, 7.8),
    "joint512": (4.9, 5.9, 7.2),
    "joint2048": (2.8, 4.2, 7.0),
    "joint4096": (1.7, 2.9, 6.0),
}


def train(folder: str, flags: list[str]) -> Iterator[dict[str, Any]]:
    """Yields the results of a run after each of its models."""
    sys.argv = ["train_nmt.py", "--output_dir", folder, "--use_cpu", "--disable_tqdm", "true", *flags]
    recipe, args = train_nmt.settings()
    references = [*load_sentence_pairs(recipe.data, recipe.source, recipe.target)["test"]["target"]]
    sizes = {name: getattr(recipe, name) for name in train_nmt.SIZES}
    rates = {"learning_rate": args.learning_rate, "epochs": args.num_train_epochs}
    setting = {**sizes, **rates, "batch_size": args.per_device_train_batch_size}
    models: dict[str, dict[str, Any]] = {}
    translations = {}
    for name in recipe.layers:
        figures = train_nmt.run(replace(recipe, layers=[name]), args)[name]
        last = figures["history"][-1]
        models[name] = {
            "parameters": figures["parameters"],
            "training_cpu_seconds": last["training_cpu_seconds"],
            "epochs": last["epoch"],
            "validation_bleu": 100 * max(epoch["eval_bleu"] for epoch in figures["history"]),
            **figures["test"],
            "nearest": nearest(Path(folder) / name / "model"),
        }
        translations[name] = (Path(folder) / name / "test.txt").read_text(encoding="utf-8").split("\n")[:-1]
        for other, compared in compare_translations(translations, references).items():
            models[other] |= compared
        yield {**provenance(args.seed), "setting": setting, "models": models}


@torch.inference_mode()
def nearest(folder: Path, number: int = 5) -> dict[str, dict[str, list[str]]]:
    """Returns the whole words with the highest cosine to each query, in E and among the classifiers."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    head = model.get_output_embeddings()
    tables = {"input": model.get_input_embeddings().weight, "output": head.weight}
    if not isinstance(head, nn.Linear):
        tables["output"] = head.codes()
    neighbours: dict[str, dict[str, list[str]]] = {}
    for query in QUERIES:
        row = tokenizer.convert_tokens_to_ids(f"▁{query}")
        if row == tokenizer.unk_token_id:
            continue
        for side, table in tables.items():
            ranked = functional.cosine_similarity(table, table[row], dim=-1).argsort(descending=True)[1:].tolist()
            words = (piece for piece in tokenizer.convert_ids_to_tokens(ranked) if piece.startswith("▁"))
            neighbours.setdefault(query, {})[side] = [word[1:] for word, _ in zip(words, range(number), strict=False)]
    return neighbours


def speeds(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    """Yields the target words per CPU second of training steps, for each layer by share of the vocabulary."""
    for name in options.speed:
        rows = {}
        for share in (*SHARES, 1.0):
            if share == 1 and LAYERS[name] > 512:
                continue
            set_seed(0)
            sizes = {"embedding_size": options.size, "hidden_size": options.size, "num_hidden_layers": 2}
            loss = {"loss": "chunked"} if share == 1 else {"loss": "sampled", "sample": share}
            form = "joint" if LAYERS[name] else "tied"
            model = NmtForConditionalGeneration(NmtConfig(vocab_size=options.words, **sizes))
            model = replace_output_embeddings(model, max(1, LAYERS[name] * options.size // 512), form=form, **loss)
            if name == "nmt":  # the same layer, untied
                model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
            rows[f"{share:g}"] = step_speed(model, options)
            print(name, share, rows[f"{share:g}"], flush=True)
        yield name, rows


def step_speed(model: PreTrainedModel, options: argparse.Namespace) -> dict[str, float]:
    """Times two training steps with Adam, the first of which creates its state; returns the faster."""
    optimizer = torch.optim.Adam(model.train().parameters(), fused=True)
    words = torch.randint(3, options.words, (2, *options.batch))
    seconds = []
    for _ in range(2):
        start = time.process_time()
        model(input_ids=words[0], labels=words[1]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.process_time() - start)
    return {"seconds": min(seconds), "tokens_per_second": words[1].numel() / min(seconds)}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", nargs="+", choices=LAYERS, default=[], help="time these layers instead, nmt first")
    parser.add_argument("--words", type=int, default=128_000, help="of --speed")
    parser.add_argument("--size", type=int, default=512, help="of embeddings and hidden states, of --speed")
    parser.add_argument("--batch", type=int, nargs=2, default=[64, 25], help="sentences and their words, of --speed")
    parser.add_argument("recipe", nargs="*", help="flags of the recipe, after --")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    if options.speed:
        paper: dict[str, dict[str, float]] = {}
        for layer, by_share in PAPER.items():
            ratios = [of / nmt for of, nmt in zip(by_share, PAPER["nmt"], strict=True)]
            paper[layer] = {f"{share:g}": ratio for share, ratio in zip(SHARES, ratios, strict=True)}
        layers: dict[str, dict[str, dict[str, float]]] = {}
        setting = {name: getattr(options, name) for name in ("words", "size", "batch")}
        for name, rows in speeds(options):
            layers[name] = rows
            for share, row in rows.items():
                row["times_nmt"] = row["tokens_per_second"] / layers["nmt"][share]["tokens_per_second"]
            write_results("translation_speed", {"setting": setting, "layers": layers, "paper": paper})
        return
    path = RESULTS / "translation.json"
    with tempfile.TemporaryDirectory() as folder:
        for run in train(folder, options.recipe):
            runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}  # others may write too
            key = "V {vocab_size}, d {hidden_size}, L {num_hidden_layers}, {epochs:g} epochs".format(**run["setting"])
            write_json(path, {"runs": runs | {f"{key}, seed {run['seed']}": run}, "paper": PAPER_BLEU})


if __name__ == "__main__":
    main()
