"""Script of test_processes.py and benchmarks/gpu.py: trains three steps in each process, and saves the weights.

python processes.py OUT MODE... trains each MODE, a combination of words: single (a single process), ddp or fsdp; shared
(labels shared by the processes); logits (no chunks); softmax; trainer (a Trainer with an uneven last
batch); cuda (on GPUs, with NCCL); gloo (on GPUs, with Gloo, which allows several processes on a GPU). "differ" runs
steps with different inputs in the processes, and writes the errors to a file per process.
"""

import os
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch import distributed
from torch.distributed import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from transformers import Trainer, TrainingArguments

from hf_gile import GileConfig, GileForSequenceClassification, GileProcessor, LabelSet, build_tokenizer
from hf_gile.training import GileDataCollator

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

from papers.chunked_training import ChunkedLoss

NAMES = [f"word{i} word{(7 * i) % 23}" for i in range(23)]
DOCUMENTS = 8


def make_model(mode):
    torch.manual_seed(0)
    tokenizer = build_tokenizer(NAMES, min_count=1)
    sizes = {"embedding_size": 5, "hidden_size": 7, "joint_size": 11, "joint_act": "tanh"}
    problem_type = f"{'single' if 'softmax' in mode else 'multi'}_label_classification"
    config = GileConfig(vocab_size=len(tokenizer), num_labels=len(NAMES), problem_type=problem_type, **sizes)
    model = GileForSequenceClassification(config)
    model.set_labels(LabelSet.from_names(NAMES), GileProcessor.for_config(tokenizer, config))
    return model.double().train()


def make_loss(mode):
    return ChunkedLoss(chunk_size=0 if "logits" in mode else 4, share_labels="shared" in mode)


def join_processes(mode):
    """Joins the process group; returns the device of this process, its rank and their number."""
    if "single" in mode:
        return torch.device("cuda" if "cuda" in mode else "cpu"), 0, 1
    if "cuda" not in mode:
        accelerator = Accelerator(cpu=True)
        assert accelerator.num_processes == 2
        return accelerator.device, accelerator.process_index, 2
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    if not distributed.is_initialized():
        distributed.init_process_group("gloo" if "gloo" in mode else "nccl")
    return device, distributed.get_rank(), distributed.get_world_size()


def train(mode):
    device, rank, size = join_processes(mode)
    model = make_model(mode).to(device)
    model.loss_function = make_loss(mode)
    wrapped = model
    if "ddp" in mode:
        wrapped = DistributedDataParallel(model, None if device.type == "cpu" else [device])
    elif "fsdp" in mode:
        # Called by accelerate on GPUs; on CPUs it ignores the FSDP plugin and runs DDP.
        fully_shard(model, mesh=init_device_mesh(device.type, (size,)))
        assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(3):
        words = torch.randint(2, model.config.text_config.vocab_size, (DOCUMENTS, 6), generator=generator)
        gold = torch.stack([torch.randperm(len(NAMES), generator=generator)[:3] for _ in range(DOCUMENTS)])
        gold[3, 1:] = -100
        local = slice(rank * DOCUMENTS // size, (rank + 1) * DOCUMENTS // size)
        labels = gold[local, 0] if "softmax" in mode else gold[local]
        loss = wrapped(input_ids=words[local].to(device), labels=labels.to(device)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if "single" not in mode:
            distributed.all_reduce(losses[-1])
            losses[-1] /= size
    weights = {"losses": torch.stack(losses)}
    for name, tensor in model.state_dict().items():
        weights[name] = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return rank, {name: tensor.cpu().contiguous() for name, tensor in weights.items()}


def train_with_trainer(mode):
    """Trains two steps with 8 and 5 documents: with two processes 4 and 4, then 4 and 1."""
    quiet = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True}
    arguments = TrainingArguments(
        "unused",
        per_device_train_batch_size=8 if "single" in mode else 4,
        train_sampling_strategy="sequential",
        num_train_epochs=1,
        optim="sgd",
        learning_rate=0.1,
        accelerator_config={"even_batches": False},  # otherwise documents are repeated in the last batch
        **quiet,
    )
    assert arguments.world_size == (1 if "single" in mode else 2)
    model = make_model(mode)
    model.loss_function = make_loss(mode)
    generator = torch.Generator().manual_seed(1)
    documents = []
    for number in range(13):
        gold = torch.randperm(len(NAMES), generator=generator)[: number % 4].tolist()
        words = torch.randint(2, model.config.text_config.vocab_size, (6,), generator=generator).tolist()
        documents.append({"input_ids": words, "labels": (gold or [3])[0] if "softmax" in mode else gold})
    processor = GileProcessor.for_config(build_tokenizer(NAMES, min_count=1), model.config)
    trainer = Trainer(model, arguments, data_collator=GileDataCollator(processor), train_dataset=documents)
    trainer.train()
    assert trainer.state.global_step == 2
    return arguments.process_index, {name: tensor.contiguous() for name, tensor in model.state_dict().items()}


def differ(folder):
    """Runs steps in which the processes have different batches or labels."""
    accelerator = Accelerator(cpu=True)
    second = accelerator.process_index == 1
    model = make_model(["shared"])
    model.loss_function = ChunkedLoss(chunk_size=4, share_labels=True)
    words, gold = torch.full((4, 6), 2), torch.tensor([[1], [2], [3], [1]])
    columns = torch.arange(1, 13)
    steps = [
        {"input_ids": words[second:], "labels": gold[second:]},
        {"input_ids": words, "labels": gold, "sampled_columns": columns + 2 * second * (columns > 3)},
        {"input_ids": words, "labels": gold, "sampled_columns": None if second else torch.arange(23)},
        {"input_ids": words, "labels": gold} | ({"excluded_columns": torch.full((4, 1), 9)} if second else {}),
        {"input_ids": words, "labels": gold, "column_weights": torch.ones(23)},
        {"input_ids": words, "labels": gold, "excluded_columns": torch.full((4, 1 + second), 9)},
    ]
    lines = []
    for step in steps:
        try:
            lines.append(f"{model(**step).loss.item():.6f}")
        except ValueError as error:
            lines.append(str(error))
    (folder / f"differ-{accelerator.process_index}.txt").write_text("\n".join(lines))


def main(folder, modes):
    if modes == ["differ"]:
        differ(folder)
    else:
        for mode in modes:
            rank, weights = (train_with_trainer if "trainer" in mode else train)(mode.split("-"))
            if rank == 0:
                save_file(weights, folder / f"{mode}.safetensors")
    if distributed.is_initialized():
        # A process that exits while threads of the group are running sometimes aborts.
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":  # doctests import all files
    main(Path(sys.argv[1]), sys.argv[2:])
