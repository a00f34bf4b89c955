import _codecs
import gzip
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from papers.pickled_vectors import load_pickled_vectors
from papers.safe_pickle import load_pickle


class Call:
    """An object that an attacker pickles as a function call."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


@pytest.fixture
def load(write):
    """Writes bytes or a pickled object to a file, and loads the file."""

    def load_object(content, protocol=2, name="vectors.pkl"):
        data = content if isinstance(content, bytes) else pickle.dumps(content, protocol)
        return load_pickle(write(name, data))

    return load_object


PLAIN = {
    "words": (["the", "žižek", "كلمة"], [1, 2.5, None, True, 1 << 70]),
    "containers": {"a": {"b": [b"bytes", b"", 1j]}, "c": ({1, 2}, frozenset("d"))},
}


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_plain_data_is_restored(load, content, protocol):
    assert load(content, protocol) == content


MATRICES = [np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=">i2").reshape(3, 2).T]
ARRAYS = [*MATRICES, np.array(["the", "žižek"]), np.array(["the", None, (1, [2])], dtype=object), np.float32(2.5)]


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_arrays_are_restored(load, array, protocol):
    got = load([array, array], protocol)[1]
    assert np.array_equal(got, array)
    assert got.dtype == array.dtype.newbyteorder("=")  # numpy converts them when reading


def test_pickles_of_python_2_are_read(load):
    # (['\xc5\xbe', u'\xe9'], array([1.5], dtype=float32)), as cPickle of Python 2 with numpy 1 writes them
    data = (
        b"\x80\x02]q\x01(U\x02\xc5\xbeq\x02X\x02\x00\x00\x00\xc3\xa9q\x03ecnumpy.core.multiarray\n_reconstruct\nq\x04"
        b"cnumpy\nndarray\nq\x05K\x00\x85U\x01b\x87Rq\x06(K\x01K\x01\x85cnumpy\ndtype\nq\x07U\x02f4K\x00K\x01\x87Rq\x08"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x04\x00\x00\xc0?tb\x86."
    )
    words, vector = load(data)
    assert words == ["ž".encode(), "é"]  # bytes remain bytes and are not decoded as Latin-1
    assert vector.tolist() == [1.5]
    assert vector.dtype == np.float32


def test_gzip_is_detected_by_its_first_bytes(load):
    assert load([1], name="vectors.pkl.gz") == [1]
    assert load(gzip.compress(pickle.dumps([1]))) == [1]


ATTACKS = {
    "os.system": lambda mark: Call(os.system, f"touch {mark}"),
    "getattr": lambda mark: Call(getattr, mark, "upper"),
    "numpy.memmap": lambda mark: Call(np.memmap, mark, "u1", "w+", 0, 8),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_functions_named_in_a_pickle_are_never_called(load, tmp_path, attack):
    mark = tmp_path / "mark"
    call = attack(str(mark))
    for protocol in (0, 5):
        for content in (call, (["the"], [call]), np.array([call], dtype=object)):
            with pytest.raises(ValueError, match=r"vectors\.pkl: expected .*: the global [\w.]+ is forbidden"):
                load(content, protocol)
    assert not mark.exists()


OPCODES = {
    "GLOBAL": b"cos\nsystem\n(S'touch mark'\ntR.",
    "INST": b"(S'touch mark'\nios\nsystem\n.",
    "OBJ": b"(cos\nsystem\nS'touch mark'\no.",
    "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.",
    "another of _codecs": b"c_codecs\nlookup\n(S'hex'\ntR.",
}


@pytest.mark.parametrize("data", OPCODES.values(), ids=OPCODES)
def test_every_opcode_that_names_a_function_is_refused(load, data):
    with pytest.raises(ValueError, match=r"the global [\w.]+ is forbidden|the opcode b'[io]' is forbidden"):
        load(data)


FIELDS = Call(np.dtype, "f8", False, True, state=(3, "<", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0))
OBJECTS = Call(np.dtype, "O8", False, True, state=(3, "|", None, None, None, -1, -1, 63))
NUMBERS = Call(np.dtype, "f8", False, True, state=(3, "<", None, None, None, -1, -1, 0))


def array(*state):
    return Call(np.zeros(0).__reduce__()[0], np.ndarray, (0,), b"b", state=state)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (array(1, (1,), FIELDS, False, b"AAAAAAAA"), "dtype with fields"),
        (array(1, (3,), OBJECTS, False, ["a"]), "a wrong number of objects"),
        (array(1, (3,), NUMBERS, False, b"AAAAAAAA"), "buffer size"),
        (array(1, (1,), "f8", False, b"AAAAAAAA"), "no dtype"),
        (Call(np.dtype, "f8,O"), "dtype 'f8,O' is forbidden"),
        (Call(np.dtype, "f8", state=(3, "2", None, None, None, -1, -1, 0)), "dtype '2f8' is forbidden"),
        (Call(_codecs.encode, "ab", "rot13"), "encoding 'rot13' is forbidden"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_that_would_crash_numpy_are_refused(load, content, message):
    with pytest.raises(ValueError, match=message):
        load([content])


def test_a_pickle_cannot_affect_the_next_read(load):
    # The state (None, {name: value}) sets attributes, here of the placeholder of a function.
    for stand_in in (b"cnumpy\ndtype\n", b"c_codecs\nencode\n", b"c__builtin__\nset\n"):
        load(stand_in + b"(N}V__setstate__\nc__builtin__\nset\nstb.")
    assert load(np.arange(3)).tolist() == [0, 1, 2]
    assert load({1, 2}) == {1, 2}


def _doubled(data, times):
    """Returns nested tuples, each with the previous tuple twice."""
    for index in range(times):
        data += b"q" + bytes([index]) + b"h" + bytes([index]) + b"\x86"
    return data


def _number(value):
    return b"\x8a\x09" + value.to_bytes(9, "little")


ARRAY = pickle.dumps(np.zeros(100_000, np.int8), 2)[2:-1]
EMPTY_TEXTS = (
    b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01(M\xff\xffM\xff\xffM\xff\xfftcnumpy\ndtype\n(U\x02S0tR\x89U\x00tb."
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Nr\xff\xff\xff\x1f.", "pair"),  # the unpickler in C allocates four gigabytes for these nine bytes
        (b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b".", "EOFError"),
        (b"\x80\x04\x8d" + (1 << 40).to_bytes(8, "little") + b".", "EOFError"),
        (_doubled(b"N", 60) + b".", "repeated too often"),
        (b"c__builtin__\nset\n(" + _doubled(b")", 60) + b"l\x85R.", "keys and set members"),
        (ARRAY + b"q\xff0](" + b"h\xff" * 1_000 + b"e.", "repeated too often"),
        (b"c__builtin__\nset\n](" + _number(0) + _number(1 << 61) + b"e\x85R.", "keys and set members"),
        (EMPTY_TEXTS, "too large"),
    ],
    ids=range(8),
)
def test_a_small_file_takes_little_memory_and_time(write, data, message):
    path = write("vectors.pkl", data)
    tracemalloc.start()
    with pytest.raises(ValueError, match=rf"vectors\.pkl: .*({message})"):
        load_pickled_vectors(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def test_a_compressed_pickle_that_expands_too_much_is_refused(load, monkeypatch):
    monkeypatch.setattr("papers.safe_pickle._MIN_LIMIT", 1 << 12)
    data = b"\x80\x02](" + b"N" * (5 << 10) + b"e."
    with pytest.raises(ValueError, match=r"vectors\.pkl\.gz: .*if you trust it, decompress it \(gunzip\)"):
        load(data, name="vectors.pkl.gz")
    assert len(load(data)) == 5 << 10
