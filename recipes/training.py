"""What the recipes have in common: an evaluation after every epoch, a stop when it gets no better, a line an epoch."""

import time
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import EarlyStoppingCallback, Trainer
from transformers.trainer_callback import ProgressCallback
from transformers.trainer_utils import get_last_checkpoint

DEFAULTS = {
    "per_device_eval_batch_size": 256,
    "lr_scheduler_type": "linear",
    "max_grad_norm": 0.0,
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 1,
    "load_best_model_at_end": True,
    "batch_eval_metrics": True,  # metrics are summed batch by batch: no (documents, labels) matrix
    "logging_strategy": "epoch",
    "dataloader_pin_memory": torch.cuda.is_available(),
    "report_to": "none",
}
"""Training arguments of every recipe, where the user says nothing else."""


def train(trainer: Trainer, patience: int) -> dict[str, Any]:
    """Trains until `args.metric_for_best_model` stops rising, with a progress bar and a line an epoch.

    Args:
        trainer: What to train; with `--resume_from_checkpoint` from its last checkpoint, if there is one.
        patience: Epochs without a better figure before training stops.

    Returns:
        `seconds`, the number of trainable `parameters`, and `history`, what was logged after each epoch.
    """
    stop, clock = EarlyStoppingCallback(patience), Clock(trainer.args.metric_for_best_model)
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(clock)
    trainer.add_callback(stop)
    folder = trainer.args.output_dir
    resume = trainer.args.resume_from_checkpoint and Path(folder).is_dir()
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder) if resume else None)
    trainer.remove_callback(stop)  # it would miss its metric in what is evaluated later
    return {
        "seconds": time.perf_counter() - clock.start,
        "parameters": count_parameters(trainer.model),
        "history": [entry for entry in trainer.state.log_history if "seconds" in entry],
    }


def count_parameters(model: torch.nn.Module) -> int:
    """Numbers that training changes."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


class Clock(ProgressCallback):
    """A progress bar, and one line an epoch; all the figures go to the history, with the seconds so far.

    Args:
        metric: Name of the figure of the line, in 0..1.
    """

    def __init__(self, metric: str) -> None:
        super().__init__()
        self.metric = metric
        self.start = time.perf_counter()

    def on_log(self, *_: Any, **__: Any) -> None:
        """Says nothing: `on_evaluate` has the line."""

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any) -> None:
        """Writes the line of an epoch, and the time into the history."""
        super().on_evaluate(args, state, control, **kwargs)
        if state.epoch and state.log_history and "seconds" not in state.log_history[-1]:
            state.log_history[-1]["seconds"] = seconds = time.perf_counter() - self.start
            if self.metric in metrics and state.is_world_process_zero:
                left = seconds * (args.num_train_epochs / state.epoch - 1)
                losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
                tqdm.write(
                    f"  epoch {state.epoch:4.0f} of {args.num_train_epochs:.0f}  loss {losses[-1]:7.2f}  "
                    f"validation AvgPr {100 * metrics[self.metric]:6.2f}  {seconds:5.0f} s, at most {left:.0f} s left"
                )
