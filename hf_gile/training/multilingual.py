"""Training on several languages at once: one document of each language at every step (Eq. 16 of GILE)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset


class MultilingualDataset(Dataset[list[dict[str, Any]]]):
    """Rows that are one document of each language, for the collator to lay out one after the other.

    A batch of `per_device_train_batch_size` rows has that many documents of every language, whatever the sizes of their
    datasets; a small dataset is gone through several times. The draw is a function of seed and epoch: `EpochCallback`
    tells the epoch.

    Args:
        datasets: An encoded dataset for each language (`hf_gile.training.encode_dataset`).
        rounds: Rows of an epoch; by default as many as the largest dataset has documents. The paper has 25,000.
        seed: Seed of the draw.

    Raises:
        ValueError: No datasets, an empty one, or rows below one.

    Example:
        >>> rows = MultilingualDataset({"english": [{"input_ids": [2]}] * 3, "german": [{"input_ids": [5]}]})
        >>> len(rows), rows[0]
        (3, [{'input_ids': [2], 'language': 'english'}, {'input_ids': [5], 'language': 'german'}])
    """

    def __init__(self, datasets: Mapping[str, Sequence[Any]], rounds: int | None = None, seed: int = 0) -> None:
        if not datasets:
            raise ValueError("datasets is empty; pass one for each language")
        for language, dataset in datasets.items():
            if len(dataset) == 0:
                raise ValueError(f"the dataset of {language} is empty; leave the language out")
        self.datasets = dict(datasets)
        self.rounds = max(map(len, datasets.values())) if rounds is None else rounds
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")
        self.seed = seed
        # Shared memory: workers of a DataLoader that outlive an epoch see the next one.
        self._epoch = torch.zeros(1, dtype=torch.long).share_memory_()
        self._drawn: tuple[int, list[Any]] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Makes the rows of another epoch draw anew."""
        self._epoch[0] = epoch

    def __len__(self) -> int:
        return self.rounds

    def __getitem__(self, row: int) -> list[dict[str, Any]]:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: list[int]) -> list[list[dict[str, Any]]]:
        """The rows of a batch at once: a DataLoader asks for them so, and Arrow reads them several times as fast."""
        by_language = []
        for (language, dataset), order in zip(self.datasets.items(), self._orders(), strict=True):
            places = [int(order[row]) for row in rows]
            read = getattr(dataset, "__getitems__", None)
            documents = read(places) if read else [dataset[place] for place in places]
            by_language.append([{**document, "language": language} for document in documents])
        return [list(row) for row in zip(*by_language, strict=True)]

    def _orders(self) -> list[Any]:
        epoch = int(self._epoch)
        if self._drawn is None or self._drawn[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            orders = []
            for dataset in self.datasets.values():
                times = -(-self.rounds // len(dataset))
                orders.append(np.concatenate([rng.permutation(len(dataset)) for _ in range(times)])[: self.rounds])
            self._drawn = (epoch, orders)
        return self._drawn[1]
