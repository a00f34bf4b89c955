"""A split by year, the protocol of GILE for BioASQ (section 4.1.1, after Nam et al., 2016).

Documents up to 2004 are for training, except 100,000 random documents for validation; documents from 2005 to 2015 are
for testing. No labels are held out: labels of test documents without training documents are unseen.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from hf_gile.data.zero_shot import SALT, hash_fraction
from papers.columns import as_table, count_labels, iterate_pmids, read_years, select_rows
from papers.medline import Record
from papers.zero_shot import ZeroShotSplit

if TYPE_CHECKING:
    from datasets import Dataset
    from numpy.typing import NDArray

_TRAIN, _VALIDATION, _TEST, _OTHER = range(4)


def year_split(
    records: Iterable[Record] | Dataset,
    *,
    train_until: int = 2004,
    test_from: int | None = None,
    test_until: int | None = None,
    validation: int | float = 100_000,
    salt: str = SALT,
) -> ZeroShotSplit:
    """Splits records by year and keeps all their labels.

    Args:
        records: A `datasets.Dataset`, or any records.
        train_until: Last training year.
        test_from: First test year; by default the following year.
        test_until: Last test year, 2015 in the paper; by default unlimited.
        validation: Number of validation documents among those up to `train_until`, or their fraction if it is a float.
            They are drawn by a hash of the pmid.
        salt: Salt of the hash, for a different choice.

    Returns:
        The parts and their labels. `dropped` counts documents `without year` and of `other years`.

    Raises:
        ValueError: If the years overlap, or the training or test part would be empty.

    Example:
        >>> record = {"title": "", "abstractText": "Mice.", "meshMajor": ["Mice"]}
        >>> years = {"3": 1976, "5": 2004, "7": 2005, "11": None}
        >>> records = [record | {"pmid": pmid, "year": year, "meshUI": [f"D{year}"]} for pmid, year in years.items()]
        >>> split = year_split(records, validation=1)
        >>> split.train[0]["pmid"], split.validation[0]["pmid"], split.test[0]["pmid"], split.unseen
        ('5', '3', '7', {'D2005': 1})
    """
    test_from = train_until + 1 if test_from is None else test_from
    if not train_until < test_from or (test_until is not None and test_until < test_from):
        raise ValueError(
            f"test years must come after training years, got train_until={train_until}, "
            f"test_from={test_from}, test_until={test_until}"
        )
    table = as_table(records)
    years = read_years(table)
    parts = np.full(len(table), _OTHER, np.int8)
    parts[(years > 0) & (years <= train_until)] = _TRAIN
    parts[(years >= test_from) & (years <= (test_until or years.max(initial=0)))] = _TEST
    for part, purpose in ((_TRAIN, f"training, until {train_until}"), (_TEST, f"the test, from {test_from}")):
        if not np.any(parts == part):
            known = years[years > 0]
            available = f"are from {known.min()} to {known.max()}" if len(known) else "have no year"
            raise ValueError(f"no documents for {purpose}: all {len(table):,} {available}")
    _draw_validation(parts, table, validation, salt)
    seen, _, test_counts = count_labels(table, parts, 3)
    return ZeroShotSplit(
        train=select_rows(table, parts == _TRAIN),
        validation=select_rows(table, parts == _VALIDATION),
        test=select_rows(table, parts == _TEST),
        seen=dict(sorted(seen.items())),
        unseen={label: count for label, count in sorted(test_counts.items()) if label not in seen},
        unseen_by_chance={},
        dropped={
            "without year": int(np.sum(years == 0)),
            "other years": int(np.sum((parts == _OTHER) & (years > 0))),
        },
    )


def _draw_validation(parts: NDArray[np.int8], table: object, validation: float, salt: str) -> None:
    """Turns some of the training documents into validation documents."""
    is_train = parts == _TRAIN
    rows = np.flatnonzero(is_train)
    if not 0 <= validation < (1 if isinstance(validation, float) else len(rows)):
        raise ValueError(
            f"validation must be a fraction (a float) below 1, or a number below the {len(rows):,} documents of the "
            f"training years, got {validation!r}"
        )
    pmids = compress(iterate_pmids(table), is_train.tobytes())
    fractions = np.fromiter((hash_fraction("document", pmid, salt) for pmid in pmids), float, len(rows))
    if isinstance(validation, float):
        parts[rows[fractions < validation]] = _VALIDATION
    else:
        parts[rows[np.argpartition(fractions, validation)[:validation]]] = _VALIDATION
