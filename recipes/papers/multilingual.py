"""Combines datasets for multilingual training with a document of each language per row (Eq. 16 of GILE)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset


class MultilingualDataset(Dataset[list[dict[str, Any]]]):
    """A dataset whose rows contain a document of each language, which the collator concatenates.

    A batch of `per_device_train_batch_size` rows has that many documents of every language, regardless of the sizes of
    the datasets; small datasets are repeated. The order depends on the seed and the epoch, which `EpochCallback` sets.

    Args:
        datasets: Encoded dataset of each language (`hf_gile.training.encode_dataset`).
        rounds: Number of rows in an epoch; by default the size of the largest dataset. The paper uses 25,000.
        seed: Seed of the order.

    Raises:
        ValueError: If there are no datasets, a dataset is empty, or `rounds` is below 1.

    Example:
        >>> rows = MultilingualDataset({"english": [{"input_ids": [2]}] * 3, "german": [{"input_ids": [5]}]})
        >>> len(rows), rows[0]
        (3, [{'input_ids': [2], 'language': 'english'}, {'input_ids': [5], 'language': 'german'}])
    """

    def __init__(self, datasets: Mapping[str, Sequence[Any]], rounds: int | None = None, seed: int = 0) -> None:
        if not datasets:
            raise ValueError("datasets is empty; pass a dataset for each language")
        for language, dataset in datasets.items():
            if len(dataset) == 0:
                raise ValueError(f"the dataset of {language} is empty; leave the language out")
        self.datasets = dict(datasets)
        self.rounds = max(map(len, datasets.values())) if rounds is None else rounds
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")
        self.seed = seed
        # Shared memory, so that persistent workers of a DataLoader see the next epoch.
        self._epoch = torch.zeros(1, dtype=torch.long).share_memory_()
        self._cached_orders: tuple[int, list[Any]] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which changes the order."""
        self._epoch[0] = epoch

    def __len__(self) -> int:
        return self.rounds

    def __getitem__(self, row: int) -> list[dict[str, Any]]:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: list[int]) -> list[list[dict[str, Any]]]:
        """Returns the rows of a batch at once, as requested by a DataLoader; several times faster with Arrow."""
        by_language = []
        for (language, dataset), order in zip(self.datasets.items(), self._orders(), strict=True):
            positions = [int(order[row]) for row in rows]
            read_batch = getattr(dataset, "__getitems__", None)
            documents = read_batch(positions) if read_batch else [dataset[position] for position in positions]
            by_language.append([{**document, "language": language} for document in documents])
        return [list(row) for row in zip(*by_language, strict=True)]

    def _orders(self) -> list[Any]:
        """Returns the order of each dataset in the current epoch."""
        epoch = int(self._epoch)
        if self._cached_orders is None or self._cached_orders[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            orders = []
            for dataset in self.datasets.values():
                times = -(-self.rounds // len(dataset))
                orders.append(np.concatenate([rng.permutation(len(dataset)) for _ in range(times)])[: self.rounds])
            self._cached_orders = (epoch, orders)
        return self._cached_orders[1]
