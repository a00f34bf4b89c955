"""The progress of a recipe: a bar, and one line an epoch with the time left."""

import time
from typing import Any

from tqdm.auto import tqdm
from transformers.trainer_callback import ProgressCallback


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
