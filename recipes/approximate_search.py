"""Approximate top-k search in a label index with faiss: most of the best labels for a fraction of the work.

    index = FastIndex.build(model, processor, label_set)
    index.search = ApproximateSearch.build(index, text_codes)
    index.top_k(text_codes, 10, approximate=True)

Shapes: B documents, L labels, J joint size, N documents of a sample, K labels returned.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import pad

from hf_gile import GileProcessor, Label, LabelIndex
from hf_gile.extras import needs_extra
from hf_gile.models import Scorer, get_towers
from hf_gile.models.lexical_gile import LexicalFeatures
from hf_gile.models.search_gile import (
    SCORES_AT_ONCE,
    TopLabels,
    check_text_codes,
    search_top_k,
    select_best,
    wide_type,
)
from hf_gile.writing import whole_file

SEARCH_FILE = "label_search.safetensors"
"""File name of a saved search in the folder of its index."""

FORMAT_VERSION = 1
"""Incremented when the meaning of a saved search changes, so that older code refuses to load it."""

# faiss recommends at least 39 labels per list for training; more do not improve recall.
_SAMPLES_PER_LIST = 40
_FEWEST = 32
_CHUNK = 1 << 16
# By default, x' has enough dimensions for this share of the trace of C, at least _SIZE.
_SHARE = 0.95
_SIZE = 64
# faiss reads 8-bit codes many times faster if their size is a multiple of this, so x' is padded with zeros.
_MULTIPLE = 16
# By default, enough lists are read for this recall@10 on some documents of the sample, unless more lists hardly help.
_RECALL = 0.95
_LEAST_GAIN = 0.01
_TRIALS = 256
# Candidates whose codes are gathered together.
_CANDIDATES = 1 << 13
# Documents searched together: each needs the scores of all lists.
_DOCUMENTS = 1 << 12


class ApproximateSearch:
    """Finds candidates for the best labels of a document; `FastIndex.top_k` compares their exact scores.

    The text codes of a model span a small subspace of its joint space, so most of a label code never affects a score.
    Let C be the mean of q q^T over the text codes q of a sample of documents, with the largest eigenvalues W and their
    eigenvectors V. Label codes x are mapped to

        x' = W^(1/2) V^T x,  and text codes  q' = W^(-1/2) V^T q,  so that  q' . x' = q . x

    up to the component of q outside V. The squared distance of x' and y' is the mean squared difference of their
    scores. The x' are quantized to 8 bits and divided into `4 sqrt(L)` lists by k-means. A search reads the lists whose
    centres score highest.

    Changes of the index (add, remove, rename) update the search. The lists and C stay fixed, so rebuild the search
    after adding labels of a different kind, or about as many labels as before.

    Create a search with `build` or `load`.

    Attributes:
        size: Size of x' and q', padded with zeros to a multiple of 16.
        num_lists: Number of lists.
        probes: Number of lists that a search reads, initially 4 sqrt(num_lists), or more if documents of the sample
            need more for a recall@10 of 95 %. Higher values increase recall and time. Like `oversampling`, it can be
            changed at any time.
        oversampling: Number of candidates per requested label, initially 4. There are at least 32 candidates.
    """

    def __init__(
        self, lists: Any, into_text: Tensor, into_label: Tensor, numbers: Tensor, probes: int, oversampling: int
    ) -> None:
        self._lists = lists
        self.size: int = lists.d
        self.num_lists: int = lists.nlist
        self._centres = torch.from_numpy(lists.quantizer.reconstruct_n(0, self.num_lists))  # (lists, size)
        self._into_text = into_text  # (J, size)
        self._into_label = into_label
        # (L,) ascending: the faiss id of the label at each index.
        self._numbers = numbers
        self._next = int(numbers[-1]) + 1 if len(numbers) else 0
        self.probes = probes
        self.oversampling = oversampling

    @classmethod
    def build(cls, index: LabelIndex, text_codes: Tensor, *, size: int | None = None) -> "ApproximateSearch":
        """Builds the search of an index. The result is deterministic.

        Args:
            index: The label index. It is not changed; assign the result to its `search`.
            text_codes: `(N, J)` from `project_texts`, of documents like those to be searched for; a thousand are
                enough.
            size: Size of x' and q'. Smaller sizes are faster and have lower recall. By default the smallest size, at
                least 64, that retains 95 % of the trace of C.

        Raises:
            ImportError: If faiss is not installed.
            ValueError: If text codes have a wrong shape, or there are fewer than `size`.
        """
        faiss = _import_faiss()
        joint_size = index.codes.shape[1]
        least = min(_SIZE if size is None else size, joint_size)
        if least < 1 or text_codes.dim() != 2 or text_codes.shape[1] != joint_size or len(text_codes) < least:
            raise ValueError(
                f"text_codes must have shape (N, {joint_size}) with N at least size, got {tuple(text_codes.shape)} for "
                f"size {least}; encode about a thousand documents with project_texts"
            )
        sample = text_codes.detach().cpu().double()
        eigenvalues, eigenvectors = torch.linalg.eigh(sample.T @ sample / len(sample))  # ascending
        shares = eigenvalues.flip(0).cumsum(0) / eigenvalues.sum()
        size = least if size is not None else max(least, 1 + int((shares < _SHARE).sum()))
        is_used = eigenvalues[-size:] > 1e-10 * eigenvalues[-1]
        eigenvectors = eigenvectors[:, -size:][:, is_used]
        scale = eigenvalues[-size:][is_used].sqrt()
        padding = (0, -eigenvectors.shape[1] % _MULTIPLE)
        into_label, into_text = (pad((eigenvectors * power).float(), padding) for power in (scale, 1 / scale))

        num_lists = max(1, min(int(4 * len(index) ** 0.5), len(index) // _SAMPLES_PER_LIST))
        lists = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatL2(into_label.shape[1]),
            into_label.shape[1],
            num_lists,
            faiss.ScalarQuantizer.QT_8bit,
            faiss.METRIC_INNER_PRODUCT,
        )
        # Centres are means, not directions. The minimum avoids a warning for very few labels.
        lists.cp.spherical = False
        lists.cp.min_points_per_centroid = 1
        lists.cp.niter = 10
        generator = torch.Generator().manual_seed(0)
        chosen = torch.randperm(len(index), generator=generator)[: num_lists * _SAMPLES_PER_LIST].sort().values
        lists.train(_product(index.codes[chosen.to(index.codes.device)], into_label).numpy())
        numbers = torch.empty(0, dtype=torch.long)
        search = cls(lists, into_text, into_label, numbers, probes=int(4 * num_lists**0.5), oversampling=4)
        search.add(index.codes)
        search._raise_probes(index.codes, sample[:_TRIALS].float())
        return search

    @torch.no_grad()
    @torch.autocast("cpu", enabled=False)
    def _raise_probes(self, codes: Tensor, sample: Tensor) -> None:
        """Doubles `probes` until enough of the ten best labels of sample documents are candidates."""
        sample = sample.to(codes.device)
        exact = search_top_k(sample, codes, 0.0, 10)
        k = exact.scores.shape[1]

        def recall() -> float:
            columns = self.candidates(sample, k).to(codes.device)
            scores = (codes[columns.clamp(min=0)].float() @ sample[:, :, None]).squeeze(-1)  # (B, candidates)
            return share_found(TopLabels(*scores.masked_fill(columns < 0, -torch.inf).topk(k)), exact)

        current = recall()
        before = -1.0
        while current < _RECALL and current >= before + _LEAST_GAIN and self.probes < self.num_lists:
            self.probes *= 2
            before = current
            current = recall()
        if current < before + _LEAST_GAIN:
            self.probes //= 2

    def __len__(self) -> int:
        """Returns the number of labels L."""
        return len(self._numbers)

    def candidates(self, text_codes: Tensor, k: int) -> Tensor:
        """Finds labels that are likely among the best.

        Args:
            text_codes: `(B, J)` from `project_texts`.
            k: Number of requested labels.

        Returns:
            `(B, min(max(k * oversampling, 32), L))` label indices on the CPU, approximately best first, padded with -1
            where the lists read contain fewer labels.
        """
        num_candidates = min(max(k * self.oversampling, _FEWEST), len(self._numbers))
        # Labels are assigned to the list of the nearest centre, but lists are read in order of their scores.
        self._lists.nprobe = min(self.probes, self.num_lists)
        matches = []
        for part in text_codes.split(_DOCUMENTS):
            codes = _product(part, self._into_text)
            scores, chosen = _product(codes, self._centres.T).topk(self._lists.nprobe)
            matches.append(
                self._lists.search_preassigned(codes.numpy(), num_candidates, chosen.numpy(), scores.numpy())[1]
            )
        numbers = torch.cat(list(map(torch.from_numpy, matches)))
        return torch.searchsorted(self._numbers, numbers).masked_fill_(numbers < 0, -1)

    def add(self, codes: Tensor) -> None:
        """Appends labels.

        Args:
            codes: `(C, J)` codes of the labels.
        """
        numbers = torch.arange(self._next, self._next + len(codes))
        self._add_codes(codes, numbers)
        self._numbers = torch.cat([self._numbers, numbers])
        self._next += len(codes)

    def remove(self, columns: Tensor) -> None:
        """Removes labels. The indices of later labels decrease.

        Args:
            columns: `(C,)` indices of the labels.
        """
        remaining = torch.ones(len(self._numbers), dtype=torch.bool)
        remaining[columns.cpu()] = False
        self._lists.remove_ids(self._numbers[~remaining].numpy())
        self._numbers = self._numbers[remaining]

    def replace(self, columns: Tensor, codes: Tensor) -> None:
        """Replaces the codes of labels.

        Args:
            columns: `(C,)` indices of the labels.
            codes: `(C, J)` the new codes.
        """
        numbers = self._numbers[columns.cpu()]
        self._lists.remove_ids(numbers.numpy())
        self._add_codes(codes, numbers)

    def _add_codes(self, codes: Tensor, numbers: Tensor) -> None:
        """Adds label codes to the lists under faiss ids."""
        for start in range(0, len(codes), _CHUNK):  # memory-mapped codes need not fit in memory
            chunk = slice(start, start + _CHUNK)
            self._lists.add_with_ids(_product(codes[chunk], self._into_label).numpy(), numbers[chunk].numpy())

    def save(self, folder: str | PathLike[str], index: LabelIndex) -> None:
        """Saves the search as `label_search.safetensors`, usually in the folder of its index.

        Args:
            folder: Folder of the index.
            index: The index of this search.
        """
        faiss = _import_faiss()
        tensors = {
            "lists": torch.from_numpy(faiss.serialize_index(self._lists)),
            "into_text": self._into_text.contiguous(),
            "into_label": self._into_label.contiguous(),
            "numbers": self._numbers,
        }
        head = {
            "format_version": FORMAT_VERSION,
            "labels": _labels_state(index),
            "probes": self.probes,
            "oversampling": self.oversampling,
        }
        head["checksum"] = _checksum(head, tensors)
        with whole_file(Path(folder) / SEARCH_FILE) as written:
            save_file(tensors, written, metadata={"search": json.dumps(head)})

    @classmethod
    def load(cls, folder: str | PathLike[str], index: LabelIndex) -> "ApproximateSearch":
        """Loads the search of an index. Load trusted files only: faiss does not validate everything it reads.

        Args:
            folder: Folder passed to `save`.
            index: The index to search.

        Raises:
            FileNotFoundError: If the folder has no search.
            ImportError: If faiss is not installed.
            ValueError: If the search is damaged, belongs to other labels, or was saved by newer code.
        """
        faiss = _import_faiss()
        file = Path(folder) / SEARCH_FILE
        try:
            with safe_open(file, framework="pt") as opened:
                head = json.loads((opened.metadata() or {}).get("search", "{}"))
                if head.get("format_version") != FORMAT_VERSION:
                    raise ValueError(
                        f"{file} has format_version {head.get('format_version')}, this code reads {FORMAT_VERSION}: "
                        "upgrade hf-gile (pip install -U hf-gile), or build the search again"
                    )
                if head["labels"] != _labels_state(index):
                    raise ValueError(
                        f"{file} belongs to other labels or to another model than this index: build the search again, "
                        "and save it after every change of the index"
                    )
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118, not a mapping
            if head.pop("checksum") != _checksum(head, tensors):
                raise ValueError(f"{file} is damaged (checksum mismatch): build the search again and save it")
            lists = faiss.deserialize_index(tensors.pop("lists").numpy())
            return cls(lists, **tensors, probes=head["probes"], oversampling=head["oversampling"])
        except (SafetensorError, RuntimeError, KeyError, AttributeError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{file} is damaged ({error!s:.300}): build the search again and save it") from None


class FastIndex(LabelIndex):
    """A `LabelIndex` with an approximate search, which follows its changes.

    Attributes:
        search: The search of `top_k(..., approximate=True)`, from `ApproximateSearch.build` or `load`; initially None.
    """

    search: ApproximateSearch | None = None

    @torch.no_grad()
    def top_k(
        self,
        text_codes: Tensor,
        k: int,
        lexical: LexicalFeatures | None = None,
        approximate: bool = False,
    ) -> TopLabels:
        """Returns the k best labels of each document.

        Args:
            text_codes: As in `LabelIndex.top_k`, with the result.
            k: As in `LabelIndex.top_k`.
            lexical: As in `LabelIndex.top_k`.
            approximate: Whether `search` selects the candidates by their codes. Their scores are exact. Documents with
                fewer than k candidates are searched exactly.

        Raises:
            ValueError: As in `LabelIndex.top_k`, or if the search is missing or has a different number of labels.
        """
        if not approximate:
            return super().top_k(text_codes, k, lexical)
        if self.search is None:
            raise ValueError(
                "this index has no approximate search: build it (index.search = ApproximateSearch.build(index, "
                "text_codes)), load it with ApproximateSearch.load(folder, index), or call top_k without "
                "approximate=True"
            )
        if len(self.search) != len(self):
            raise ValueError(
                f"index.search has {len(self.search)} labels, but the index has {len(self)}: it was built for "
                "another index; build it again"
            )
        k = min(check_text_codes(text_codes, self.codes, k), len(self))
        bias = self._bias(text_codes, lexical)
        text_codes = text_codes.to(self.codes.device, wide_type(text_codes, self.codes))
        columns = self.search.candidates(text_codes, k).to(self.codes.device)
        columns = columns.sort(-1).values  # for equal scores, the lower index comes first
        answers = []
        size = _CANDIDATES // columns.shape[1]
        if callable(bias):  # it computes the biases of all labels
            size = min(size, SCORES_AT_ONCE // len(self))
        for rows in torch.arange(len(columns), device=columns.device).split(max(1, size)):
            # index_select and this order of the product are three times as fast on a CPU as shorter code.
            codes = self.codes.index_select(0, columns[rows].clamp(min=0).flatten()).to(text_codes)
            codes = codes.view(len(rows), columns.shape[1], codes.shape[1])  # (rows, candidates, J)
            with torch.autocast(codes.device.type, enabled=False):
                scores = torch.bmm(text_codes[rows, None], codes.mT).squeeze(1) + (0.0 if callable(bias) else bias)
            if callable(bias):
                scores += bias(slice(int(rows[0]), int(rows[-1]) + 1)).to(scores).gather(1, columns[rows].clamp(min=0))
            answers.append(select_best(scores.masked_fill(columns[rows] < 0, -torch.inf), columns[rows], k))
        best = TopLabels(*map(torch.cat, zip(*answers, strict=True)))
        rows = (best.columns < 0).any(-1).nonzero().squeeze(1)
        if len(rows):  # too few candidates
            words = lexical and lexical.to(rows.device).take(rows)
            exact = search_top_k(text_codes[rows], self.codes, self._bias(text_codes[rows], words), k)
            best.scores[rows], best.columns[rows] = exact
        return best

    def add(self, labels: Label | Iterable[Label], model: Scorer, processor: GileProcessor) -> None:
        """Appends labels; see the base class."""
        before = len(self)
        super().add(labels, model, processor)
        if self.search is not None:
            self.search.add(self.codes[before:])

    def remove(self, *label_ids: str) -> None:
        """Removes labels; see the base class."""
        columns = torch.tensor(self.label_set.columns(label_ids), dtype=torch.long)
        super().remove(*label_ids)
        if self.search is not None:
            self.search.remove(columns)

    def rename(self, label_id: str, name: str, model: Scorer, processor: GileProcessor) -> None:
        """Renames a label; see the base class."""
        super().rename(label_id, name, model, processor)
        if self.search is not None and get_towers(model).config.output_layer != "linear":
            column = self.label_set.column(label_id)
            self.search.replace(torch.tensor([column]), self.codes[[column]])


@torch.no_grad()
def recall(index: FastIndex, text_codes: Tensor, k: int, lexical: LexicalFeatures | None = None) -> float:
    """Computes recall@k of an approximate search: the fraction of the k best labels it finds, averaged over documents.

    Labels whose scores are equal up to float precision (relative 1e-5) are interchangeable.

    Args:
        index: An index with a `search`.
        text_codes: `(B, J)` from `project_texts`; use other documents than for building the search.
        k: Number of requested labels.
        lexical: As in `LabelIndex.top_k`. The search ignores the lexical terms of the score.

    Returns:
        A fraction, 0..1.

    Raises:
        ValueError: If the index has no search, or as in `LabelIndex.top_k`.
    """
    approximate = index.top_k(text_codes, k, approximate=True, lexical=lexical)
    return share_found(approximate, index.top_k(text_codes, k, lexical=lexical))


def share_found(approximate: TopLabels, exact: TopLabels) -> float:
    """Computes `recall` from existing search results.

    Args:
        approximate: Result of an approximate search.
        exact: Exact result for the same documents and the same k.

    Returns:
        A fraction, 0..1.
    """
    least = exact.scores[:, -1:]
    return (approximate.scores >= least - 1e-5 * least.abs()).double().mean().item()


@torch.autocast("cpu", enabled=False)
def _product(codes: Tensor, matrix: Tensor) -> Tensor:
    """Multiplies codes by a matrix in float32 on the CPU."""
    return codes.detach().cpu().float() @ matrix


def _checksum(head: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Computes a checksum to detect damage, which faiss may not notice."""
    checksum = zlib.crc32(json.dumps(head, sort_keys=True).encode())
    for _, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(tensor.contiguous().flatten().view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"


def _labels_state(index: LabelIndex) -> str:
    """Hashes everything that determines the codes of an index: the model and the ordered texts of its labels."""
    digest = hashlib.blake2b(digest_size=32)
    digest.update(f"{index.model_fingerprint} {index.language} {index.label_language} ".encode())
    for label in index.label_set:
        digest.update(json.dumps([label.id, label.text, label.language]).encode())
    return digest.hexdigest()


def _import_faiss() -> Any:
    """Imports faiss; without it, the error names the extra to install."""
    with needs_extra("serve", "approximate search"):
        import faiss
    return faiss
