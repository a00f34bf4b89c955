"""The sections of benchmarks/gpu.py: functions that measure rows on a GPU, or on a CPU with tiny models."""

import argparse
import gc
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch
from measuring import high_water_mark, in_turns, seconds
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    BertConfig,
    BertTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from hf_gile import (
    GileConfig,
    GileForSequenceClassification,
    GileProcessor,
    LabelIndex,
    LabelSet,
    build_tokenizer,
)
from hf_gile.language_models import NmtConfig, NmtForConditionalGeneration, replace_output_embeddings
from hf_gile.models import text_encoders_gile
from hf_gile.scoring import GileScorer
from hf_gile.settings import PRETRAINED_DEFAULTS, only_read
from hf_gile.training import GileDataCollator, LabelSampler

sys.path.append(str(Path(__file__).resolve().parents[1] / "recipes"))

from papers.chunked_training import ChunkedLoss

ROOT = Path(__file__).resolve().parents[1]

ENCODERS = {"HAN": None, "MiniLM": (6, 384), "e5-small": (12, 384), "e5-base": (12, 768)}
"""Layers and hidden sizes of the encoders; HAN reads words."""

PEAKS = {"H100 PCIe": 756, "H100": 989, "H200": 989, "A100": 312, "L40S": 362, "L4": 121}
"""Dense bfloat16 TFLOP/s of the data sheets, by a part of the name of the card."""

MESH = 26_104
MILLION = 1_000_000
SIXTEEN = torch.bfloat16


@dataclass(frozen=True)
class Bench:
    """Writes the rows of a section, and chooses sizes.

    Args:
        device: "cuda" or "cpu".
        tiny: Whether sizes are tiny.
        seed: Random seed.
        path: File of the rows, a JSON object per line.
        data: Folder of data, for sections that train on documents.
        encoder: Folder of a pretrained encoder, for the same.
    """

    device: str
    tiny: bool
    seed: int
    path: Path
    data: Path | None = None
    encoder: Path | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.device == "cuda"

    def of(self, real: Any, tiny: Any) -> Any:
        """Returns the real or the tiny size."""
        return tiny if self.tiny else real

    def write(self, name: str, **figures: Any) -> None:
        """Adds a row."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: figures}) + "\n")
        print(name, figures, flush=True)

    @contextmanager
    def row(self, *names: str) -> Iterator[None]:
        """Writes the error of a block for these rows, and goes on; frees the memory of the block."""
        try:
            yield
        except Exception as error:
            for name in names:
                self.write(name, error=f"{type(error).__name__}: {error!s:.300}".replace(str(ROOT), "."))
        gc.collect()
        if self.is_gpu:
            torch.cuda.empty_cache()

    def autocast(self, dtype: torch.dtype) -> torch.autocast:
        """Returns autocast, which is off for float32."""
        return torch.autocast(self.device, dtype, enabled=dtype != torch.float32)

    def added_mib(self, run: Callable[[], object]) -> float:
        """Returns the memory that a run adds at its peak."""
        if not self.is_gpu:
            before = high_water_mark()
            run()
            return high_water_mark() - before
        before = start_peak()
        run()
        return torch.cuda.max_memory_allocated() / 2**20 - before


def start_peak() -> float:
    """Starts to measure the peak of the GPU memory; returns the MiB in use."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated() / 2**20


def name_of(dtype: torch.dtype) -> str:
    """Returns a short name of a type."""
    return {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]


# --- Models with random weights --------------------------------------------------------------------------------------


def make_model(bench: Bench, encoder: str, labels: int, **fields: Any) -> tuple[Any, GileProcessor]:
    """Creates a classifier with stored labels of random words, in evaluation mode, and its processor."""
    torch.manual_seed(bench.seed)
    words = [f"w{number}" for number in range(bench.of(29_998, 95))]
    fields = {"num_labels": labels, "problem_type": "multi_label_classification", "label_prior": 0.0005, **fields}
    fields["joint_size"] = bench.of(500, 13)
    fields["text_encoder_type"] = "han" if encoder == "HAN" else "transformer"
    if encoder == "HAN":
        tokenizer: Any = build_tokenizer(vocabulary=words)
        sizes = bench.of({}, {"embedding_size": 7, "hidden_size": 11, "attention_size": 5})
        config = GileConfig(vocab_size=len(tokenizer), **only_read(**sizes, **fields))
    else:
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokenizer = BertTokenizer(vocab={word: row for row, word in enumerate([*special, ".", *words])})
        layers, size = bench.of(ENCODERS[encoder], (2, 12))
        bert = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=size,
            num_hidden_layers=layers,
            num_attention_heads=bench.of(12, 2),
            intermediate_size=4 * size,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        fields = {"label_encoder_type": "text_encoder", "max_words": 256} | PRETRAINED_DEFAULTS["transformer"] | fields
        config = GileConfig(text_encoder_config=bert, **only_read(**fields))
    model = GileForSequenceClassification(config).to(bench.device).eval()
    if config.output_layer != "linear":
        model.stored_labels.input_ids = torch.randint(
            6, config.text_config.vocab_size, (labels, 5), device=bench.device
        )
        config.label_length = 5
    return model, GileProcessor.for_config(tokenizer, config)


def make_documents(bench: Bench, encoder: str, number: int) -> Tensor:
    """Draws documents of 300 words in 12 sentences for HAN, or of 256 tokens; frequent words more often."""
    shape = bench.of((number, 12, 25), (number, 2, 5)) if encoder == "HAN" else (number, bench.of(256, 11))
    vocabulary = bench.of(29_998, 95)
    draws = torch.rand(shape, generator=torch.Generator().manual_seed(bench.seed))
    return (6 + (vocabulary - 7) * draws**3).long().to(bench.device)


def count_flops(run: Callable[[], object]) -> float:
    """Counts the floating-point operations of the matrix products of a run."""
    counter = FlopCounterMode(display=False)
    with counter:
        run()
    return float(counter.get_total_flops())


# --- Correctness -----------------------------------------------------------------------------------------------------


def run_tests(bench: Bench) -> None:
    """Runs the tests that are marked gpu."""
    files = [str(path) for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.gpu" in path.read_text("utf-8")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        flags = ["-q", "-m", "gpu", "-W", "default", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *flags, *files]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            bench.write("pytest", error=(result.stdout + result.stderr)[-500:].replace(str(ROOT), "."))
            return
        for case in ElementTree.parse(report).iter("testcase"):
            problems = [(child.tag, child.get("message", "")) for child in case if child.tag != "properties"]
            outcome, message = problems[0] if problems else ("passed", "")
            bench.write(case.get("name", ""), outcome=outcome, message=message[:300])


def run_processes(bench: Bench) -> None:
    """Trains by DDP and FSDP2, with whole and shared labels, and compares weights to those of a single process."""
    sys.path.insert(0, str(ROOT / "tests" / "recipes"))
    import processes

    losses = bench.of(["sigmoid", "softmax"], ["sigmoid"])
    device = "-cuda" if bench.is_gpu else ""
    expected = {loss: processes.train(["single", "logits", loss, device[1:]])[1] for loss in losses}
    launches = [("cpu", 2, ["ddp", "fsdp"])]
    if bench.is_gpu:
        launches = [("NCCL", 1, ["ddp"]), ("NCCL", 1, ["fsdp"])]
        on_cards = "NCCL" if torch.cuda.device_count() > 1 else "Gloo on one GPU"
        launches.append((on_cards, 2, ["ddp"]))
        if on_cards == "NCCL":
            launches.append((on_cards, 2, ["fsdp"]))
        else:
            bench.write(
                "FSDP2, 2 processes", not_run="needs two GPUs: with Gloo on one, the processes end without weights"
            )
    with tempfile.TemporaryDirectory() as name:
        runs = []
        for backend, number, kinds in launches:
            words = f"{device}-gloo" if backend.startswith("Gloo") else device
            labels = bench.of(["whole", "shared"], ["shared"])
            modes = [f"{kind}-{which}-{loss}{words}" for kind in kinds for which in labels for loss in losses]
            folder = Path(name) / f"{number}-{backend[:4]}-{kinds[0]}"
            folder.mkdir()
            runs.append((backend, number, modes, folder, launch(bench, number, folder, modes)))
        stop = time.perf_counter() + bench.of(60, 600)
        for backend, number, modes, folder, started in runs:
            processes_of = f"{backend}, {number} process{'es' if number > 1 else ''}"
            compare_weights(bench, processes_of, modes, folder, expected, wait_for(started, folder, stop))


def launch(bench: Bench, number: int, folder: Path, modes: list[str]) -> list["subprocess.Popen[bytes]"]:
    """Starts processes that train these modes; not by torchrun, which needs the name of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(ROOT / "tests" / "recipes" / "processes.py"), str(folder), *modes]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(number)}
    group |= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    if not bench.is_gpu:
        group["ACCELERATE_USE_CPU"] = "true"
    started = []
    for rank in range(number):
        environment = os.environ | group | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        with (folder / f"errors-{rank}").open("wb") as errors:
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors))
    return started


def wait_for(started: list["subprocess.Popen[bytes]"], folder: Path, stop: float) -> str:
    """Waits until processes end, or ends them at a time; returns the last error of each."""
    errors = []
    for rank, process in enumerate(started):
        try:
            process.wait(max(0.1, stop - time.perf_counter()))
        except subprocess.TimeoutExpired:
            process.kill()
            errors.append(f"process {rank} did not end in time")
        lines = (folder / f"errors-{rank}").read_text(encoding="utf-8", errors="replace").splitlines()
        errors += [line for line in lines if "Error" in line][-1:]
    return "; ".join(errors)[:300].replace(str(ROOT), ".")


def compare_weights(
    bench: Bench, where: str, modes: list[str], folder: Path, expected: dict[str, Any], error: str
) -> None:
    """Writes a row for each mode: the largest difference of weights and losses from those of a single process."""
    from safetensors.torch import load_file

    for mode in modes:
        kind, labels, loss = mode.split("-")[:3]
        row = f"{ {'ddp': 'DDP', 'fsdp': 'FSDP2'}[kind] }, {labels} labels, {loss}, {where}"
        path = folder / f"{mode}.safetensors"
        if not path.exists():
            bench.write(row, error=error or "no weights were written")
            continue
        weights = load_file(path)
        difference = max(
            float((weights[name].double() - tensor.double()).abs().max()) for name, tensor in expected[loss].items()
        )
        bench.write(row, largest_difference=difference, equal=difference < 1e-9)


def run_attention(bench: Bench) -> None:
    """Compares the attention implementations that the class flags claim to the plain one, forward and backward."""
    documents = make_documents(bench, "MiniLM", bench.of(64, 5))
    lengths = torch.randint(2, documents.shape[1] + 1, (len(documents), 1), device=bench.device)
    mask = (torch.arange(documents.shape[1], device=bench.device) < lengths).long()
    expected: dict[str, Tensor] = {}
    ways = [("eager", torch.float32), ("sdpa", torch.float32), ("eager", SIXTEEN), ("sdpa", SIXTEEN)]
    ways += [("flex_attention", SIXTEEN), ("flex_attention", torch.float32)]
    for implementation, dtype in ways:
        name = f"{implementation}, {name_of(dtype)}"
        if implementation == "flex_attention" and not bench.is_gpu:
            bench.write(name, not_run="needs a GPU: on a CPU, it is compiled as C++")
            continue
        # A new model with the same weights: transformers before 5.23 changes the encoder of a model only once.
        gile = make_model(bench, "MiniLM", 23)[0].gile
        encoder = gile.text_encoder.transformer

        def step(dtype: torch.dtype = dtype, gile: Any = gile, encoder: Any = encoder) -> dict[str, Tensor]:
            gile.zero_grad()
            with bench.autocast(dtype):
                codes = gile.project_texts(documents, mask)
            codes.float().square().mean().backward()
            gradient = encoder.get_input_embeddings().weight.grad
            return {"codes": codes.detach().float(), "gradient": gradient.clone()}

        with bench.row(name):
            gile.set_attn_implementation(implementation)
            if encoder.config._attn_implementation != implementation:
                raise RuntimeError(f"the encoder still uses {encoder.config._attn_implementation}")
            tensors = step()
            expected = expected or tensors
            times = in_turns({"step": step}, bench.of(7, 1))
            figures = {
                f"difference_of_{key}": float((tensor - expected[key]).norm() / expected[key].norm())
                for key, tensor in tensors.items()
            }
            figures |= {"ms": 1000 * times["step"]["median_s"], "added_mib": bench.added_mib(step)}
            bench.write(name, **figures)


class Clock(TrainerCallback):
    """Notes when steps end."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *arguments: Any, **kwargs: Any) -> None:
        """Adds the time of a step."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


RATES = {"HAN": 1e-3, "MiniLM": 3e-5}
"""Learning rates: at 1e-3 the loss of MiniLM jumps more than a hundredfold in its second step."""


def run_precision(bench: Bench) -> None:
    """Trains by the Trainer in float32, in bfloat16 and in float16 with a gradient scaler, and compares the losses."""
    for encoder in ("HAN", "MiniLM"):
        for loss in ("all labels", "chunks"):
            expected: list[float] = []
            for precision in ("fp32", "bf16", "fp16"):
                name = f"{encoder}, {loss}, {precision}"
                if precision == "fp16" and not bench.is_gpu:
                    bench.write(name, not_run="needs a GPU")
                    continue
                with bench.row(name):
                    losses, milliseconds = train(bench, encoder, loss, precision, RATES[encoder])
                    expected = expected or losses
                    pairs = zip(losses, expected, strict=True)
                    bench.write(
                        name,
                        learning_rate=RATES[encoder],
                        first_loss=losses[0],
                        last_loss=losses[-1],
                        largest_relative_difference=max(abs(here - there) / there for here, there in pairs),
                        ms_per_step=milliseconds,
                    )


def train(bench: Bench, encoder: str, loss: str, precision: str, learning_rate: float) -> tuple[list[float], float]:
    """Trains a model on documents that contain the words of their labels; returns the losses and the time of a step."""
    labels = bench.of(1000, 23)
    model, processor = make_model(bench, encoder, labels)
    model.loss_function = ChunkedLoss(chunk_size=bench.of(256, 5) if loss == "chunks" else 0)
    documents = make_documents(bench, encoder, bench.of(512, 8)).cpu()
    gold = torch.randint(labels, (len(documents), 3), generator=torch.Generator().manual_seed(bench.seed + 1))
    words = model.label_input_ids.cpu()[gold].flatten(1)[:, : documents.shape[-1]]
    if encoder == "HAN":
        documents[:, 0, : words.shape[1]] = words
    else:
        documents[:, : words.shape[1]] = words
    rows = [
        {"input_ids": ids.tolist(), "labels": row.unique().tolist()} for ids, row in zip(documents, gold, strict=True)
    ]
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=bench.of(32, 4),
            max_steps=bench.of(40, 2),
            learning_rate=learning_rate,
            bf16=precision == "bf16",
            fp16=precision == "fp16",
            use_cpu=not bench.is_gpu,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=bench.seed,
        )
        trainer = Trainer(
            model, arguments, data_collator=GileDataCollator(processor), train_dataset=rows, callbacks=[clock]
        )
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    durations = sorted(end - start for start, end in pairwise(clock.ends))
    return losses, 1000 * durations[len(durations) // 2]


# --- Speed -----------------------------------------------------------------------------------------------------------


def peak_of_card(bench: Bench) -> float | None:
    """Returns the bfloat16 TFLOP/s of the data sheet, if known."""
    name = torch.cuda.get_device_name() if bench.is_gpu else ""
    return next((float(peak) for part, peak in PEAKS.items() if all(word in name for word in part.split())), None)


def shares(bench: Bench, flops: float, duration: float) -> dict[str, float]:
    """Returns TFLOP/s, and their share of the peak of the card, if known."""
    speed, peak = flops / duration / 1e12, peak_of_card(bench)
    return {"tflops": speed} | ({} if peak is None else {"share_of_peak": speed / peak})


def run_speed(bench: Bench) -> None:
    """Scores documents against labels in bfloat16: the encoder, then the ten best labels."""
    name = "bare product of bf16 matrices"
    with bench.row(name):
        size = bench.of(8192, 64)
        matrix = torch.randn(size, size, device=bench.device, dtype=SIXTEEN)
        times = in_turns({"product": partial(torch.matmul, matrix, matrix)}, bench.of(20, 1))
        bench.write(name, **shares(bench, 2 * size**3, times["product"]["median_s"]))
        del matrix
    for encoder in ENCODERS:
        with bench.row(encoder), torch.no_grad(), bench.autocast(SIXTEEN):
            score_documents(bench, encoder)


def score_documents(bench: Bench, encoder: str) -> None:
    """Writes the rows of an encoder: by number of labels, by size of batches, and for a single document."""
    gile = make_model(bench, encoder, 23)[0].gile
    documents = make_documents(bench, encoder, bench.of(1024, 3))
    encode = partial(gile.project_texts, documents)
    texts, flops = encode(), math.nan
    with bench.row(f"{encoder}, operations"):
        flops = count_flops(encode)
    most = bench.of(MILLION, 300)
    for labels, dtype in ((1000, texts.dtype), (MESH, texts.dtype), (most, texts.dtype), (most, SIXTEEN)):
        labels = min(labels, most)
        name = f"{encoder}, {labels:,} labels in {name_of(dtype)}"
        with bench.row(name):
            codes = torch.randn(labels, texts.shape[1], device=bench.device, dtype=dtype)
            index: Any = LabelIndex(range(labels), codes, 0.0, None, "")  # type: ignore[arg-type]
            runs: dict[str, Callable[[], Any]] = {
                "encode": encode,
                "search": partial(index.top_k, texts, 10),
                "search, texts cast": partial(index.top_k, texts.to(dtype), 10),
                "product": partial(torch.matmul, texts.to(dtype), codes.T),
                "all": partial(encode_and_search, encode, index),
            }
            times = {way: figures["median_s"] for way, figures in in_turns(runs, bench.of(5, 1)).items()}
            all_flops = flops + 2 * len(documents) * codes.numel()
            bench.write(
                name,
                documents_per_second=len(documents) / times["all"],
                **shares(bench, all_flops, times["all"]),
                encoder_ms=1000 * times["encode"],
                search_ms=1000 * times["search"],
                search_of_cast_texts_ms=1000 * times["search, texts cast"],
                bare_product_ms=1000 * times["product"],
                added_mib=bench.added_mib(runs["all"]),
            )
    name = f"{encoder}, {len(index):,} labels, a single document"
    with bench.row(name):
        single = partial(gile.project_texts, documents[:1])
        runs = {"encode": single, "all": partial(encode_and_search, single, index)}
        times = {way: figures["median_s"] for way, figures in in_turns(runs, bench.of(20, 1)).items()}
        bench.write(name, documents_per_second=1 / times["all"], encoder_ms=1000 * times["encode"])
    if encoder != "HAN":
        compare_batches(bench, encoder, encode, flops)


def encode_and_search(encode: Callable[[], Tensor], index: Any) -> Any:
    """Returns the ten best labels of documents."""
    return index.top_k(encode(), 10)


def compare_batches(bench: Bench, encoder: str, encode: Callable[[], Tensor], flops: float) -> None:
    """Times an encoder with batches of several sizes."""
    limit = "GPU_TOKENS_AT_ONCE" if bench.is_gpu else "TOKENS_AT_ONCE"
    default = getattr(text_encoders_gile, limit)
    for tokens in (8_192, 32_768, 131_072):
        name = f"{encoder}, {tokens:,} tokens at once"
        with bench.row(name):
            setattr(text_encoders_gile, limit, tokens)
            duration = in_turns({"encode": encode}, bench.of(5, 1))["encode"]["median_s"]
            added = bench.added_mib(encode)
            bench.write(name, encoder_ms=1000 * duration, **shares(bench, flops, duration), added_mib=added)
    setattr(text_encoders_gile, limit, default)


def run_texts(bench: Bench) -> None:
    """Scores strings by `GileScorer`, which tokenizes them on the CPU, and builds an index of labels."""
    for encoder in ("HAN", "MiniLM"):
        with bench.row(encoder):
            score_texts(bench, encoder)


def score_texts(bench: Bench, encoder: str) -> None:
    """Writes the rows of an encoder."""
    labels = bench.of(MESH, 50)
    model, processor = make_model(bench, encoder, labels)
    model.set_labels(LabelSet.from_names(f"w{number} w{number // 7}" for number in range(labels)), processor)
    start = time.perf_counter()
    index = LabelIndex.build(model, processor)
    building = time.perf_counter() - start
    ids = make_documents(bench, encoder, bench.of(2048, 3)).flatten(1).tolist()
    texts = [" ".join(f"w{word}{'.' * (word % 25 == 0)}" for word in row) for row in ids]
    for bf16 in (False, True) if bench.is_gpu else (False,):
        scorer = GileScorer(model, index, processor=processor, bf16=bf16, device=bench.device)
        scorer({"text": texts[:50]})
        duration = seconds(partial(scorer, {"text": texts}))
        figures = {"texts_per_second": len(texts) / duration, "labels_indexed_per_second": labels / building}
        bench.write(f"{encoder}, {'bf16' if bf16 else 'fp32'}", **figures)


def run_search(bench: Bench) -> None:
    """Searches the best labels of a million by `LabelIndex.top_k` and by `torch.topk` of the bare product."""
    labels, size = bench.of(MILLION, 301), bench.of(500, 17)
    cases = bench.of(((1, 10), (256, 10), (256, 100), (2048, 10)), ((1, 10), (7, 100)))
    for dtype in (torch.float32, torch.float16, SIXTEEN):
        codes = torch.randn(labels, size, device=bench.device).to(dtype)
        index: Any = LabelIndex(range(labels), codes, 0.0, None, "")  # type: ignore[arg-type]
        for documents, k in cases:
            name = f"{name_of(dtype)}, {documents:,} documents, k {k}"
            with bench.row(name), torch.no_grad():
                texts = torch.randn(documents, size, device=bench.device).to(dtype)
                runs: dict[str, Callable[[], Any]] = {
                    "ours": partial(index.top_k, texts, k),
                    "bare": partial(multiply_and_select, texts, codes, k),
                }
                ours, bare = runs["ours"]().columns, runs["bare"]().indices
                times = {way: figures["median_s"] for way, figures in in_turns(runs, bench.of(5, 1)).items()}
                is_same = (ours[:, :, None] == bare[:, None]).any(-1).float().mean()
                bench.write(
                    name,
                    documents_per_second=documents / times["ours"],
                    ms=1000 * times["ours"],
                    bare_ms=1000 * times["bare"],
                    times_bare=times["ours"] / times["bare"],
                    share_of_same_labels=float(is_same),
                    added_mib=bench.added_mib(runs["ours"]),
                    bare_added_mib=bench.added_mib(runs["bare"]),
                )


def multiply_and_select(texts: Tensor, codes: Tensor, k: int) -> Any:
    """Returns the best labels by torch alone."""
    return torch.topk(texts @ codes.T, k)


# --- Training steps --------------------------------------------------------------------------------------------------


def run_training(bench: Bench) -> None:
    """Times training steps of word encoders and of a pretrained encoder with a linear unit and with GILE."""
    import training_step

    systems = [system for system in training_step.SYSTEMS if system != "GILE, formula as printed"]
    labels, size = bench.of(MESH, 300), bench.of(64, 3)
    for documents, dtype in ((size, torch.float32), (size, SIXTEEN), (8 * size, SIXTEEN)):
        name = f"words, {documents} documents, {name_of(dtype)}"
        with bench.row(name):
            make = partial(training_step.make, documents=documents, device=bench.device, dtype=dtype, labels=labels)
            write_steps(bench, name, {system: make(system) for system in systems})
    name = f"tokens, {bench.of(32, 3)} documents, bf16"
    with bench.row(name):
        ways: dict[str, dict[str, Any]] = {
            "linear unit": {"output_layer": "linear"},
            "GILE, labels are means, all in chunks": {"label_encoder_type": "mean"},
            "GILE, labels are read, sampled 0.3 %": {},
        }
        write_steps(bench, name, {way: token_step(bench, way, labels, **fields) for way, fields in ways.items()})
    for system in ("GILE, sampled 0.3 %", "GILE, all labels in chunks"):
        name = f"words, {size} documents, {bench.of(MILLION, 3000):,} labels, fp32, {system}"
        with bench.row(name):
            if bench.is_gpu:
                start_peak()
            step = training_step.make(system, size, bench.device, torch.float32, bench.of(MILLION, 3000))
            duration = in_turns({"step": step}, bench.of(3, 1))["step"]["median_s"]
            peak = torch.cuda.max_memory_allocated() / 2**20 if bench.is_gpu else high_water_mark()
            bench.write(name, ms=1000 * duration, peak_mib=peak, within_8_gib=peak < 8192)


def write_steps(bench: Bench, name: str, steps: dict[str, Callable[[], object]]) -> None:
    """Times steps in turns and writes a row for each; the first is the linear unit."""
    times = {way: figures["median_s"] for way, figures in in_turns(steps, bench.of(7, 1)).items()}
    linear = next(iter(times.values()))
    for way, step in steps.items():
        figures = {"ms": 1000 * times[way], "times_linear": times[way] / linear, "added_mib": bench.added_mib(step)}
        bench.write(f"{name}, {way}", **figures)


def token_step(bench: Bench, way: str, labels: int, **fields: Any) -> Callable[[], object]:
    """Returns a training step of a pretrained encoder."""
    model, _ = make_model(bench, "MiniLM", labels, **fields)
    model.loss_function = ChunkedLoss(chunk_size=bench.of(4096, 64) if "chunks" in way else 0)
    model.train()
    documents = make_documents(bench, "MiniLM", bench.of(32, 3))
    gold = torch.randint(labels, (len(documents), 12), generator=torch.Generator().manual_seed(bench.seed))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    sampler, rows = LabelSampler(labels, num_negatives=round(0.003 * labels)), [set(row) for row in gold.tolist()]
    labels_of_documents = torch.full_like(gold, -100)
    for number, row in enumerate(rows):
        labels_of_documents[number, : len(row)] = torch.tensor(sorted(row))
    labels_of_documents = labels_of_documents.to(bench.device)
    count = iter(range(1 << 30))

    def step() -> None:
        sample = {}
        if "sampled" in way:
            columns, weights = sampler([sorted(row) for row in rows], next(count))
            assert weights is not None
            sample = {"sampled_columns": columns.to(bench.device), "column_weights": weights.to(bench.device)}
        optimizer.zero_grad()
        with bench.autocast(SIXTEEN):
            loss = model(input_ids=documents, labels=labels_of_documents, **sample).loss
        loss.backward()
        optimizer.step()

    return step


def run_vocabulary(bench: Bench) -> None:
    """Times training steps of a translation and of a language model with 32,000 words, and of the output layer."""
    words, size = bench.of(32_000, 97), bench.of(512, 12)
    for dtype in (torch.float32, SIXTEEN):
        for loss, sample in (("full", None), ("chunked", None), ("sampled", 0.25)):
            milliseconds: list[float] = []
            for layer, joint_size in {"tied": 0, "joint 512": size, "joint 2048": 4 * size}.items():
                name = f"translation, {name_of(dtype)}, {loss}, {layer}"
                with bench.row(name):
                    config = NmtConfig(vocab_size=words, embedding_size=size, hidden_size=size)
                    model: Any = NmtForConditionalGeneration(config)
                    form = "joint" if joint_size else "tied"
                    replace_output_embeddings(model, joint_size or size, form=form, loss=loss, sample=sample)
                    time_words(bench, name, model, dtype, bench.of((2, 64, 25), (2, 3, 5)), milliseconds)
    milliseconds = []
    for layer, loss in (("plain", "full"), ("joint 512", "full"), ("joint 512", "chunked")):
        name = f"GPT-2, bf16, {loss}, {layer}"
        with bench.row(name):
            heads = bench.of(8, 2)
            model = GPT2LMHeadModel(GPT2Config(vocab_size=words, n_embd=size, n_layer=bench.of(6, 1), n_head=heads))
            if layer != "plain":
                replace_output_embeddings(model, size, loss=loss)
            time_words(bench, name, model, SIXTEEN, bench.of((2, 16, 512), (2, 3, 7)), milliseconds)
    run_output_layers(bench)


def time_words(
    bench: Bench, name: str, model: Any, dtype: torch.dtype, shape: tuple[int, int, int], milliseconds: list[float]
) -> None:
    """Times training steps with Adam, and writes a row beside the first time in `milliseconds`."""
    model.to(bench.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    words = torch.randint(3, bench.of(32_000, 97), shape, device=bench.device)
    if isinstance(model, GPT2LMHeadModel):
        words = words[:1].expand(shape)

    def step() -> None:
        with bench.autocast(dtype):
            loss = model(input_ids=words[0], labels=words[1]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    duration = in_turns({"step": step}, bench.of(7, 1))["step"]["median_s"]
    milliseconds.append(1000 * duration)
    bench.write(
        name,
        ms=milliseconds[-1],
        times_first=milliseconds[-1] / milliseconds[0],
        words_per_second=words[1].numel() / duration,
        added_mib=bench.added_mib(step),
    )


def run_output_layers(bench: Bench) -> None:
    """Times the softmax of output layers by benchmarks/output_layers.py."""
    import output_layers

    options = argparse.Namespace(device=bench.device, tokens=bench.of(4096, 5), repeats=bench.of(5, 1))
    for words in bench.of((32_000, 128_000), (97,)):
        for way in output_layers.EXACT:
            name = f"softmax of {words:,} words, {options.tokens:,} positions, joint 512, {way}"
            if way == "torch" and not hasattr(nn.functional, "linear_cross_entropy"):
                bench.write(name, not_run=f"torch {torch.__version__} has no linear_cross_entropy")
                continue
            with bench.row(name):
                if bench.is_gpu:
                    start_peak()
                figures = output_layers.measure("joint 512", words, way, options)
                bench.write(name, ms=1000 * figures["seconds"], peak_mib=figures["memory_mib"], loss=figures["loss"])


# --- Compilation -----------------------------------------------------------------------------------------------------


def run_compile(bench: Bench) -> None:
    """Compiles models by inductor and compares logits and time."""
    backend = "inductor" if bench.is_gpu else "eager"
    cases = [
        ("HAN", torch.float32, 256),
        ("MiniLM", torch.float32, 64),
        ("HAN", SIXTEEN, 256),
        ("MiniLM", SIXTEEN, 256),
    ]
    cases = bench.of([*cases, ("MiniLM", SIXTEEN, 1)], [("HAN", torch.float32, 3)])
    for encoder, dtype, documents in cases:
        name = f"{encoder}, {name_of(dtype)}, {documents} documents"
        with bench.row(name), torch.no_grad(), bench.autocast(dtype):
            torch.compiler.reset()
            model, _ = make_model(bench, encoder, bench.of(MESH, 50))
            inputs = {"input_ids": make_documents(bench, encoder, documents)}
            plain, compiled = partial(model, **inputs), partial(torch.compile(model, backend=backend), **inputs)
            expected = plain().logits.float()
            first = seconds(compiled)
            logits = compiled().logits.float()
            times = in_turns({"plain": plain, "compiled": compiled}, bench.of(10, 1))
            medians = {way: figures["median_s"] for way, figures in times.items()}
            bench.write(
                name,
                largest_difference=float((logits - expected).abs().max()),
                standard_deviation=float(expected.std()),
                compilation_s=first,
                ms=1000 * medians["plain"],
                compiled_ms=1000 * medians["compiled"],
                speedup=medians["plain"] / medians["compiled"],
            )


# --- Tuning of an encoder --------------------------------------------------------------------------------------------


def run_tuning(bench: Bench) -> None:
    """Tunes a pretrained encoder by LoRA with mined negatives, and compares it to the same encoder frozen."""
    import tuning

    with tempfile.TemporaryDirectory() as name, bench.row("tuning"):
        machine = tuning.Machine(bench.device, bench.seed, Path(name))
        if bench.tiny:
            sizes = tuning.Sizes(tokens=11, batch=8, rank=2, negatives=2, fits=True)
            rows = tuning.measure(tiny_task(), save_tiny_encoder(bench, Path(name)), sizes, machine)
        elif bench.data is None or bench.encoder is None:
            bench.write("tuning", not_run="needs --data FOLDER of tibkat, and --encoder FOLDER of all-MiniLM-L6-v2")
            return
        else:
            sizes = tuning.Sizes(MILLION, 1000, MILLION, tokens=256, batch=64, rates=(1e-4, 5e-4, 1e-3), fits=True)
            rows = tuning.measure(tuning.read_task(bench.data, sizes), bench.encoder, sizes, machine)
        for row, figures in rows:
            bench.write(row, **figures)


def tiny_task() -> Any:
    """Returns documents of the names of their labels; the test has labels without training documents."""
    from obvious_sets import make_task

    from hf_gile import Label

    names = [f"w{number} w{number + 1}" for number in range(30)]
    pairs = [(f"{names[row % 30]} {names[row * 7 % 30]}", [names[row % 30], names[row * 7 % 30]]) for row in range(160)]
    known = [(text, labels) for text, labels in pairs if not {*labels} & {*names[:5]}]
    documents = {"train": known[:80], "validation": known[80:], "test": pairs[:40]}
    return make_task("tiny", documents, [Label(name, name) for name in names])


def save_tiny_encoder(bench: Bench, folder: Path) -> Path:
    """Saves an encoder with random weights and its tokenizer; returns their folder."""
    model, processor = make_model(bench, "MiniLM", 3)
    model.gile.text_encoder.transformer.save_pretrained(folder / "tiny")
    processor.tokenizer.save_pretrained(folder / "tiny")
    return folder / "tiny"


@dataclass(frozen=True)
class Section:
    """A section of the results and of the page.

    Args:
        title: Heading.
        text: What is measured.
        run: Writes the rows.
        limit: Most seconds, imports included.
    """

    title: str
    text: str
    run: Callable[[Bench], None]
    limit: float


SECTIONS = {
    "tests": Section("Tests", "Tests that need a CUDA device, `pytest -m gpu`.", run_tests, 90),
    "processes": Section(
        "DDP and FSDP2",
        "Three training steps in float64 give the weights and losses of a single process, with all labels in each "
        "process and with labels shared by the processes. Differences below 1e-9 count as equal.",
        run_processes,
        120,
    ),
    "attention": Section(
        "Attention",
        "A step, forward and backward, of an encoder of the size of MiniLM on padded documents, with each "
        "implementation of attention that models support. Differences are relative to eager attention in float32. "
        "FlashAttention 2 is not supported, since it was not run: its package was missing.",
        run_attention,
        75,
    ),
    "precision": Section(
        "16 bits in training",
        "Training by the Trainer, with autocast: losses of all steps beside those in float32, and milliseconds a step. "
        "fp16 scales gradients, and leaves out steps until it has found the scale. Rows without a learning rate were "
        "run at 1e-3. With eight documents a batch on a CPU, the loss of MiniLM then jumps more than a hundredfold in "
        "its second step, in float32 too, so the largest difference may be between other steps.",
        run_precision,
        75,
    ),
    "speed": Section(
        "Documents a second",
        "1,024 documents in bfloat16, as token ids on the GPU: the encoder, then the ten best labels by "
        '`LabelIndex.top_k`. Text codes are in float32 even with autocast; "cast texts" have the type of the label '
        "codes. The bare product multiplies text codes and label codes and selects nothing. The share of the peak is "
        "that of the dense bfloat16 TFLOP/s of the data sheet.",
        run_speed,
        90,
    ),
    "search": Section(
        "Search among a million labels",
        "`LabelIndex.top_k`, which is exact and breaks ties by order, and `torch.topk` of the bare product, which "
        "stores all scores in the type of the codes.",
        run_search,
        60,
    ),
    "training": Section(
        "Training steps",
        "Labels as in MeSH: 26,104, or a million. The encoder of words is a WAN that reads 250 words, as on the page "
        "on scale; the encoder of tokens has the size of MiniLM and reads 256 tokens.",
        run_training,
        90,
    ),
    "texts": Section(
        "From strings",
        "`GileScorer` with 26,104 labels: tokenization on the CPU, encoder, and the ten best labels. Labels are "
        "indexed by `LabelIndex.build`.",
        run_texts,
        60,
    ),
    "vocabulary": Section(
        "Language models with 32,000 words",
        "Training steps with Adam: the LSTM translation model of the paper, 64 sentences of 25 words, and GPT-2 with 6 "
        "layers of size 512, 16 texts of 512 tokens.",
        run_vocabulary,
        75,
    ),
    "compile": Section(
        "torch.compile",
        "Logits of 26,104 labels by a model compiled with inductor beside those of the plain model.",
        run_compile,
        120,
    ),
    "tuning": Section(
        "Tuning of a pretrained encoder",
        "LoRA with mined negatives on all English library records of TIBKAT, as in benchmarks/tuning.py: the encoder "
        "as it is and tuned, by the cosine alone and with a head that is fitted over it, in percent.",
        run_tuning,
        300,
    ),
}
"""The sections, most valuable first."""
