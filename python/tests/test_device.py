"""Arrays on a device, by the emulator: the same calls that a GPU's arrays take."""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys

import numpy as np
import pytest

import lanetree
from lanetree import _arrays, _native

from conftest import DEVICES
from test_index import KEYS, draw, model

pytestmark = pytest.mark.skipif("emulated" not in DEVICES, reason="the wheel has no emulator")


def put(array: np.ndarray) -> lanetree.Array:
    return lanetree.asarray(array, device="emulated")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["uint32", "float64"])
def test_every_query_agrees_with_numpy(key: str, value: str) -> None:
    rng = np.random.default_rng(7)
    keys, values, queries = draw(rng, key, 300), draw(rng, value, 300), draw(rng, key, 101, 1100)
    sorted_keys, sorted_values = model(keys, values)
    index = lanetree.Index(put(keys), put(values))
    assert index.device.name == "emulated" and index.key_dtype == keys.dtype
    asked = put(queries)
    ranks = np.searchsorted(sorted_keys, queries)
    hits = np.isin(queries, sorted_keys)

    got, found = index.get(asked, default=7 if value == "uint32" else 0.5)
    assert isinstance(got, lanetree.Array) and found.shape == (101,) and found.dtype == np.bool_
    assert np.array_equal(found.numpy(), hits)
    assert np.array_equal(got.numpy()[hits], sorted_values[ranks[hits]])
    assert set(got.numpy()[~hits].tolist()) <= {7 if value == "uint32" else 0.5}
    assert np.array_equal(index.contains(asked).numpy(), hits)
    for side in ("left", "right"):
        assert np.array_equal(index.searchsorted(asked, side).numpy(), np.searchsorted(sorted_keys, queries, side))
    near, near_values, has = (array.numpy() for array in index.predecessor(asked))
    at = np.searchsorted(sorted_keys, queries, "right") - 1
    assert np.array_equal(has, at >= 0) and np.array_equal(near[has], sorted_keys[at[has]])
    assert np.array_equal(near_values[has], sorted_values[at[has]])
    near, near_values, has = (array.numpy() for array in index.successor(asked))
    assert np.array_equal(has, ranks < sorted_keys.size) and np.array_equal(near[has], sorted_keys[ranks[has]])
    assert np.array_equal(index.asof(asked)[1].numpy(), at >= 0)

    starts, ends = draw(rng, key, 20, 1100), draw(rng, key, 20, 1100)
    low, high = np.searchsorted(sorted_keys, starts), np.searchsorted(sorted_keys, ends, "right")
    counts = np.maximum(high - low, 0)
    assert np.array_equal(index.count_range(put(starts), put(ends)).numpy(), counts)
    found_ranges = index.range(put(starts), put(ends))
    rows = np.concatenate([np.arange(at, at + count) for at, count in zip(low, counts)]).astype(int)
    assert np.array_equal(np.diff(found_ranges.offsets.numpy()), counts)
    on_host = lanetree.Index(keys, values, "cpu")
    for inclusive in ("left", "right", "neither"):
        options = {"inclusive": inclusive}
        got_counts = index.count_range(put(starts), put(ends), **options).numpy()  # type: ignore[arg-type]
        assert np.array_equal(got_counts, on_host.count_range(starts, ends, **options))  # type: ignore[arg-type]
        for limit in (None, 2):
            expected = on_host.range(starts, ends, limit=limit, **options)  # type: ignore[arg-type]
            got_ranges = index.range(put(starts), put(ends), limit=limit, **options)  # type: ignore[arg-type]
            assert all(np.array_equal(a.numpy(), b) for a, b in zip(got_ranges, expected))
    assert np.array_equal(found_ranges.keys.numpy(), sorted_keys[rows])
    assert np.array_equal(found_ranges.values.numpy(), sorted_values[rows])
    scan_counts, scan_keys, _ = index.scan(put(starts), 3)
    for i, count in enumerate(scan_counts.numpy()):
        assert count == min(3, sorted_keys.size - low[i])
        assert np.array_equal(scan_keys.numpy()[i * 3 : i * 3 + count], sorted_keys[low[i] : low[i] + count])


@pytest.mark.parametrize("key", ["int64", "float32"])
def test_changes(key: str) -> None:
    index = lanetree.Index(put(np.arange(50).astype(key)), put(np.arange(50)))
    report = index.insert(put(np.array([49, 50]).astype(key)), put(np.array([1, 2])))
    assert (report.inserted, report.replaced) == (1, 1)
    assert index.update(put(np.array([0, 99]).astype(key)), put(np.array([5, 6]))).replaced == 1
    assert index.remove(put(np.array([7, 99]).astype(key))).removed == 1
    kinds = np.array([2, 0], np.uint32)
    assert index.apply(put(kinds), put(np.array([8, 60]).astype(key)), put(np.array([0, 9])))[:3] == (1, 0, 1)
    expected = {k: k for k in range(50)} | {49: 1, 50: 2, 0: 5, 60: 9}
    del expected[7], expected[8]
    assert dict(zip(index.keys().tolist(), index.values().tolist())) == expected
    with pytest.raises(lanetree.errors.LengthMismatch):
        index.insert(put(np.array([1, 2]).astype(key)), put(np.array([1])))


def test_sets_and_multi_indexes() -> None:
    numbers = lanetree.Set(put(np.array([3, 1, 2], np.uint32)))
    assert numbers.contains(put(np.array([1, 9], np.uint32))).numpy().tolist() == [True, False]
    assert numbers.insert(put(np.array([4], np.uint32))).inserted == 1
    assert numbers.remove(put(np.array([1], np.uint32))).removed == 1
    keys, found = numbers.successor(put(np.array([1, 5], np.uint32)))
    assert (keys.numpy()[0], found.numpy().tolist()) == (2, [True, False])
    assert numbers.range(put(np.array([0], np.uint32)), put(np.array([3], np.uint32))).keys.numpy().tolist() == [2, 3]
    for key in ("int64", "float64"):
        index = lanetree.MultiIndex(put(np.array([5, 3, 5]).astype(key)), put(np.array([1, 2, 3])))
        offsets, values = index.get(put(np.array([5, 4, 3]).astype(key)))
        assert (offsets.numpy().tolist(), values.numpy().tolist()) == ([0, 2, 2, 3], [1, 3, 2])
        assert index.count(put(np.array([5, 4]).astype(key))).numpy().tolist() == [2, 0]
        assert index.insert(put(np.array([4]).astype(key)), put(np.array([9]))).inserted == 1
        assert index.remove(put(np.array([5]).astype(key))).removed == 2
        assert index.items()[1].tolist() == [2, 9]


def test_outputs_of_the_callers() -> None:
    index = lanetree.Index(put(np.array([1, 2])), put(np.array([10, 20])))
    queries = put(np.array([2, 3, 1]))
    # Three bytes: the kernel writes words, so these are copied.
    out = put(np.zeros(3, np.int64)), put(np.zeros(3, np.bool_))
    assert index.get(queries, out=out) is out
    assert (out[0].numpy().tolist(), out[1].numpy().tolist()) == ([20, 0, 10], [True, False, True])
    with pytest.raises(RuntimeError, match="in use"):
        index.get(queries, out=(queries, out[1]))
    with pytest.raises(ValueError, match="2 elements for 3 queries"):
        index.get(queries, out=(put(np.zeros(2, np.int64)), out[1]))
    with pytest.raises(TypeError, match="int64 is needed"):
        index.get(queries, out=(put(np.zeros(3, np.int32)), out[1]))


def test_dlpack_without_a_copy() -> None:
    array = put(np.arange(1000))
    again = np.from_dlpack(array)
    assert again.ctypes.data == array._memory.address and again.tolist() == list(range(1000))
    del array
    gc.collect()
    assert again[999] == 999
    index = lanetree.Index(put(np.array([3, 1])), put(np.array([0.5, 1.5])))
    values, found = index.get(put(np.array([1, 2, 3])))
    assert np.from_dlpack(values).tolist() == [1.5, 0, 0.5]
    # The output of bytes has room for whole words, but is as long as the queries.
    assert np.from_dlpack(found).tolist() == [True, False, True] and np.from_dlpack(found).dtype == np.bool_
    # A capsule that nobody takes, of both versions.
    for version in (None, (1, 0)):
        capsule = values.__dlpack__(max_version=version)
        assert ("versioned" in repr(capsule)) == (version is not None)
        del capsule
    with pytest.raises(BufferError, match="emulated"):
        values.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint32", "int64", "float64", "bool"])
def test_import_of_dlpack(dtype: str) -> None:
    device = lanetree.Device("emulated")
    stream = _native.Stream(device._native)
    made = np.zeros(512, dtype)
    start = -made.ctypes.data % 256 // made.itemsize
    for first in (start, start + 1):
        copies = _native.copies()
        source = made[first : first + 16]
        source[:] = np.arange(16) % 2
        memory, number = _native.dlpack_import(source.__dlpack__(), stream, True)
        assert divmod(number, 256) == ({"u": 1, "i": 0, "f": 2, "b": 6}[source.dtype.kind], source.itemsize * 8)
        out = np.empty(16, dtype)
        memory.download(out)
        assert np.array_equal(out, source)
        # Only what does not begin as kernels need it is copied.
        assert _native.copies() - copies == (first != start)


class Table(ctypes.Structure):
    """DLPack's table of a producer's functions."""

    _fields_ = [("version", ctypes.c_uint32 * 2), ("earlier", ctypes.c_void_p), ("allocate", ctypes.c_void_p)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("take", "give", "view", "current_stream")]


def producer(major: int = 1, earlier: Table | None = None) -> tuple[type, Table]:
    """A type of arrays around NumPy's that has such a table, and the table."""
    api = ctypes.pythonapi
    api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
    def take(array, out):  # type: ignore[no-untyped-def]
        if array.fails:
            return -1
        capsule = array.array.__dlpack__(max_version=(1, 0))
        out[0] = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        api.PyCapsule_SetName(capsule, used)
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def current_stream(kind, number, out):  # type: ignore[no-untyped-def]
        out[0] = Producer.stream
        return 0

    used, name = b"used_dltensor_versioned", b"dlpack_exchange_api"
    table = Table((ctypes.c_uint32 * 2)(major, 3), ctypes.addressof(earlier) if earlier is not None else None)
    table.take, table.current_stream = (ctypes.cast(it, ctypes.c_void_p) for it in (take, current_stream))

    class Producer:
        __dlpack_c_exchange_api__ = api.PyCapsule_New(ctypes.addressof(table), name, None)
        kept = (take, current_stream, table, used, name)
        stream: int | None = None

        def __init__(self, array: np.ndarray, fails: bool = False) -> None:
            self.array, self.fails = array, fails

    return Producer, table


def test_arrays_are_taken_by_a_table_of_functions() -> None:
    device = lanetree.Device("emulated")._native
    kind, table = producer()
    exchange = _native.Exchange.of(kind, True)
    assert exchange is not None
    made = np.zeros(512, np.int64)
    start = -made.ctypes.data % 256 // made.itemsize
    for first in (start, start + 1):
        source, copies = made[first : first + 16], _native.copies()
        source[:] = np.arange(16)
        references = sys.getrefcount(made)
        taken = exchange.take(kind(source), device)
        assert taken is not None
        memory, number, stream = taken
        out = np.empty(16, np.int64)
        memory.download(out)
        assert np.array_equal(out, source) and number == 64
        assert _native.copies() - copies == (first != start)
        # The stream of a handle is one object, and another one's array is not taken for it.
        again = exchange.take(kind(source), device, stream)
        assert again is not None and again[2] is stream
        kind.stream = 0x1000
        assert exchange.take(kind(source), device, stream) is None
        kind.stream = None
        del memory, taken, again
        gc.collect()
        assert sys.getrefcount(made) == references, "the producer's deleter has run"
    # What has another form is left to the general way, and its deleter runs, too.
    for other in (np.zeros((2, 2)), np.zeros(8)[::2], np.zeros(8, np.int16), np.zeros(8, np.complex64)):
        references = sys.getrefcount(other)
        assert exchange.take(kind(other), device) is None
        assert sys.getrefcount(other) == references
    assert exchange.take(kind(made, fails=True), device) is None
    # A newer table names an older one.
    assert _native.Exchange.of(producer(major=2)[0], True) is None
    assert _native.Exchange.of(producer(major=2, earlier=table)[0], True) is not None
    assert _native.Exchange.of(int, True) is None


def test_look_ups_take_their_arrays_in_one_native_call(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, _ = producer()
    exchange = _native.Exchange.of(kind, True)
    keys, values = np.arange(0, 200, 2), np.arange(100).astype(np.float32)
    index, numbers = lanetree.Index(put(keys), put(values)), lanetree.Set(put(keys))
    # As if the emulator were a GPU, which has asked for an array of this type before.
    monkeypatch.setitem(_arrays.exchanges, kind, exchange)
    for it in (index, numbers):
        it._numbers = 64, 2 << 8 | 32, 6 << 8 | 8
    source = np.array([4, 5, 198, -1, 0])
    found, there = index.get(kind(source), default=0.5)
    assert found.dtype == np.float32 and found.numpy().tolist() == [2.0, 0.5, 99.0, 0.5, 0.0]
    assert there.dtype == np.bool_ and there.size == 5 and there.numpy().tolist() == [True, False, True, False, True]
    for it in (index, numbers):
        assert it.contains(kind(source)).numpy().tolist() == [True, False, True, False, True]
        assert it.searchsorted(kind(source)).numpy().tolist() == [2, 3, 99, 0, 0]
        assert it.searchsorted(kind(source), "right").numpy().tolist() == [3, 3, 100, 0, 1]
    room = np.zeros(1024, np.uint8)
    at = -room.ctypes.data % 256
    # Kernels write to arrays that begin at a multiple of 256 bytes.
    out = kind(room[at : at + 20].view(np.float32)), kind(room[at + 256 : at + 261].view(np.bool_))
    aslant = kind(room[at + 260 : at + 265].view(np.bool_))
    references = sys.getrefcount(source)
    assert index.get(kind(source), out=out) is out
    index.device.synchronize()
    gc.collect()
    assert out[0].array.tolist() == [2.0, 0.0, 99.0, 0.0, 0.0] and out[1].array.tolist() == there.numpy().tolist()
    assert sys.getrefcount(source) == references, "the producer's deleter has run"
    # What does not fit is left to the general way, which has the messages, and nothing is written.
    assert exchange is not None and index._numbers is not None
    taking = exchange, index.device._native, index._numbers
    for queries, results in (
        (np.zeros(5, np.int32), out),
        (np.zeros((5, 1), np.int64), out),
        (source, (kind(np.zeros(6, np.float32)), out[1])),
        (source, (out[0], kind(np.zeros(4, np.bool_)))),
        (source, (kind(np.zeros(5)), out[1])),
    ):
        arrays = tuple(array.array.copy() for array in results)
        assert _native.get_of(index._index, kind(queries), results, taking, 0) is None
        assert all(np.array_equal(array.array, before) for array, before in zip(results, arrays))
    for other in (np.zeros(5, np.int32), np.zeros(10, np.int64)[::2]):
        assert _native.get_of(index._index, kind(other), None, taking, 0) is None
        assert _native.rank_of(index._index, kind(other), False, taking) is None
    before = room.copy()
    for one in ((out[0], aslant), (kind(room[at + 4 : at + 24].view(np.float32)), out[1])):
        with pytest.raises(ValueError, match="does not begin at a multiple of 256 bytes"):
            index.get(kind(source + 1), out=one)
    index.device.synchronize()
    assert np.array_equal(room, before)
    index.close()
    with pytest.raises(RuntimeError, match="closed"):
        index.get(kind(source))


def test_joins_agree_with_those_in_host_memory() -> None:
    rng = np.random.default_rng(5)
    for key in KEYS:
        keys, probes = draw(rng, key, 300, 400), draw(rng, key, 101, 500)
        for value in ("int32", "float64"):
            values = draw(rng, value, 300)
            for kind in (lanetree.Index, lanetree.MultiIndex):
                on_host, on_device = kind(keys, values, device="cpu"), kind(put(keys), put(values))
                for asked in (probes, probes[:0], keys[:3]):
                    for how in ("inner", "left", "semi", "anti"):
                        expected, got = on_host.join(asked, how), on_device.join(put(asked), how)
                        if how in ("semi", "anti"):
                            expected, got = (expected,), (got,)
                        assert [array.dtype for array in got] == [array.dtype for array in expected]
                        for a, b in zip(got, expected):
                            assert np.array_equal(a.numpy(), b), (key, value, kind, how)
                        assert got[0].dtype == np.int64 and all(array.size == expected[0].size for array in got)
                with pytest.raises(ValueError, match="how is 'outer', where"):
                    on_device.join(put(probes), "outer")
    with pytest.raises(TypeError, match="dtype float64, but int64 is needed"):
        lanetree.Index(put(np.arange(3))).join(put(np.zeros(3)))


@pytest.mark.parametrize("inclusive", ["both", "left", "right", "neither"])
def test_joins_by_ranges_agree_with_those_in_host_memory(inclusive: str) -> None:
    rng = np.random.default_rng(6)
    for key in KEYS:
        keys = draw(rng, key, 200, 400)
        lows, highs = draw(rng, key, 50, 450), draw(rng, key, 50, 450)
        on_host, on_device = lanetree.Index(keys, device="cpu"), lanetree.Index(put(keys))
        pairs = [(on_host.range_join(lows, highs, inclusive=inclusive), on_device.range_join(put(lows), put(highs), inclusive=inclusive))]
        if key.startswith("float"):
            with pytest.raises(lanetree.errors.OptionValue, match="distances of floats"):
                on_device.band_join(put(lows), 1)
        else:
            pairs.append((on_host.band_join(lows, 7), on_device.band_join(put(lows), 7)))
        for expected, got in pairs:
            assert all(np.array_equal(a.numpy(), b) and a.dtype == b.dtype for a, b in zip(got, expected))


def test_wrong_capsules() -> None:
    stream = _native.Stream(lanetree.Device("emulated")._native)
    with pytest.raises(ValueError, match="2 dimensions"):
        _native.dlpack_import(np.zeros((2, 2)).__dlpack__(), stream, True)
    with pytest.raises(ValueError, match="strided"):
        _native.dlpack_import(np.zeros(8)[::2].__dlpack__(), stream, True)
    with pytest.raises(TypeError, match="16 bits"):
        _native.dlpack_import(np.zeros(8, np.int16).__dlpack__(), stream, True)
    capsule = np.zeros(8).__dlpack__()
    _native.dlpack_import(capsule, stream, True)
    with pytest.raises(BufferError, match="taken already"):
        _native.dlpack_import(capsule, stream, True)


def test_results_reuse_memory_without_a_wait() -> None:
    pool = lanetree.Pool("emulated")
    index = lanetree.Index(lanetree.asarray(np.arange(100), pool.device), lanetree.asarray(np.arange(100), pool.device))
    queries = lanetree.asarray(np.arange(50, 150), pool.device)
    index.get(queries)
    before = pool.stats()
    for _ in range(10):
        values, found = index.get(queries)
        assert index.contains(queries).numpy().sum() == 50
    after = pool.stats()
    assert (after["allocations"], after["waits"]) == (before["allocations"], before["waits"])
    assert values.numpy().sum() == sum(range(50, 100)) and found.numpy().sum() == 50
    # What another library has taken for streams that are not known goes back to the pool, which waits before it lends it.
    stream = _native.Stream(pool.device._native)
    address = values._memory.lend_on(stream)
    del values
    assert index.get(queries)[0]._memory.address != address or pool.stats()["waits"] > after["waits"]
    assert pool.trim() > 0


def test_arrays() -> None:
    array = put(np.arange(5, dtype=np.uint32))
    assert (array.shape, array.size, array.nbytes, len(array)) == ((5,), 5, 20, 5)
    assert "5 uint32 on emulated" in repr(array)
    with pytest.raises(TypeError, match="numpy"):
        np.asarray(array)
    assert not hasattr(array, "__cuda_array_interface__")
    with pytest.raises(ValueError, match="NumPy's"):
        lanetree.asarray(np.zeros(3), device="cpu")
    index = lanetree.Index(np.arange(3), device="cpu")
    with pytest.raises(ValueError, match="on emulated, but the index is on cpu"):
        index.get(put(np.arange(3)))
    with pytest.raises(TypeError, match="different memories"):
        lanetree.Index(put(np.arange(3)), np.arange(3))
    on_device = lanetree.Index(put(np.arange(3)))
    with pytest.raises(TypeError, match="the values are in host memory, where an array on emulated is needed"):
        on_device.insert(put(np.arange(3)), np.arange(3))
    with pytest.raises(TypeError, match="the values are on a device, where an array in host memory is needed"):
        on_device.insert(np.arange(3), put(np.arange(3)))
    assert pickle.loads(pickle.dumps(on_device)).keys().tolist() == [0, 1, 2]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["uint32", "float64"])
def test_multi_indexes_agree_with_those_in_host_memory(key: str, value: str) -> None:
    rng = np.random.default_rng(8)
    keys, values, queries = draw(rng, key, 300, 60), draw(rng, value, 300), draw(rng, key, 101, 70)
    starts, ends = draw(rng, key, 40, 70), draw(rng, key, 40, 70)
    on_host, on_device = lanetree.MultiIndex(keys, values, "cpu"), lanetree.MultiIndex(put(keys), put(values))
    assert np.array_equal(on_device.contains(put(queries)).numpy(), on_host.contains(queries))
    for got, expected in zip(on_device.first(put(queries), default=3), on_host.first(queries, default=3)):
        assert np.array_equal(got.numpy(), expected) and got.dtype == expected.dtype
    for inclusive in ("both", "left", "right", "neither"):
        options = {"inclusive": inclusive}
        counts = on_device.count_range(put(starts), put(ends), **options)  # type: ignore[arg-type]
        assert np.array_equal(counts.numpy(), on_host.count_range(starts, ends, **options))  # type: ignore[arg-type]
        for limit in (None, 3):
            found = on_device.range(put(starts), put(ends), limit=limit, **options)  # type: ignore[arg-type]
            expected = on_host.range(starts, ends, limit=limit, **options)  # type: ignore[arg-type]
            assert all(np.array_equal(a.numpy(), b) and a.dtype == b.dtype for a, b in zip(found, expected))
    empty = put(queries[:0])
    assert on_device.range(empty, empty).offsets.numpy().tolist() == [0] and on_device.first(empty).found.size == 0


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_asof_agrees_with_that_in_host_memory(key: str, direction: str) -> None:
    rng = np.random.default_rng(9)
    keys, queries = draw(rng, key, 60, 300), np.append(draw(rng, key, 100, 320), draw(rng, key, 3, 1))
    on_host, on_device = lanetree.Index(keys, device="cpu"), lanetree.Index(put(keys))
    for exact in (True, False):
        for tolerance in (None, 0, 7):
            limit = np.timedelta64(tolerance, np.datetime_data(keys.dtype)[0]) if keys.dtype.kind in "mM" and tolerance is not None else tolerance
            options = {"direction": direction, "tolerance": limit, "allow_exact_matches": exact, "default": -1}
            if key.startswith("float") and (direction == "nearest" or tolerance is not None):
                with pytest.raises(lanetree.errors.OptionValue, match="distances of floats"):
                    on_device.asof(put(queries), **options)  # type: ignore[arg-type]
                continue
            got, expected = on_device.asof(put(queries), **options), on_host.asof(queries, **options)  # type: ignore[arg-type]
            assert all(np.array_equal(a.numpy(), b) and a.dtype == b.dtype for a, b in zip(got, expected)), options


class OfArrow:
    """An array that tells of itself as Arrow's device arrays alone."""

    def __init__(self, array: lanetree.Array) -> None:
        self.array = array

    def __arrow_c_device_array__(self, requested_schema: object = None, **_: object) -> tuple[object, object]:
        return self.array.__arrow_c_device_array__(requested_schema)


@pytest.mark.parametrize("dtype", KEYS)
def test_arrays_of_arrow_on_a_device(dtype: str) -> None:
    rng = np.random.default_rng(3)
    keys, queries = np.unique(draw(rng, dtype, 200)), draw(rng, dtype, 50)
    index = lanetree.Index(OfArrow(put(keys)), OfArrow(put(np.arange(keys.size))), device="emulated")
    assert index.key_dtype == keys.dtype
    array = put(queries)
    found = index.contains(OfArrow(array))
    assert np.array_equal(found.numpy(), np.isin(queries, keys))
    # It is read in place, and held no longer than the call.
    memory = array._memory
    references = sys.getrefcount(memory)
    index.searchsorted(OfArrow(array))
    gc.collect()
    assert sys.getrefcount(memory) == references
    array.__arrow_c_device_array__()
    gc.collect()
    assert sys.getrefcount(memory) == references, "capsules that nobody takes free what they hold"
    pyarrow = pytest.importorskip("pyarrow")
    made = pyarrow.array(OfArrow(array))
    assert made.null_count == 0 and np.array_equal(made.to_numpy(zero_copy_only=False).astype(dtype), queries)
    assert made.buffers()[1].address == array._memory.address
    assert pyarrow.array(OfArrow(found)).to_pylist() == [int(it) for it in np.isin(queries, keys)]
    stream = _native.Stream(lanetree.Device("emulated")._native)
    schema, capsule = array.__arrow_c_device_array__()
    _native.arrow_device_import(schema, capsule, lanetree.Device("emulated")._native, stream, print)
    with pytest.raises(ValueError, match="released|taken already"):
        _native.arrow_device_import(array.__arrow_c_device_array__()[0], capsule, lanetree.Device("emulated")._native, stream, print)


def test_outputs_on_a_device() -> None:
    index, queries = lanetree.Index(put(np.arange(0, 100, 2)), put(np.arange(50))), put(np.array([7, 8, -1]))
    out = put(np.zeros(3, np.int64)), put(np.zeros(3, np.bool_))
    assert index.contains(queries, out=out[1]) is out[1] and out[1].numpy().tolist() == [False, True, False]
    assert index.searchsorted(queries, "right", out=out[0]) is out[0] and out[0].numpy().tolist() == [4, 5, 0]
    assert index.asof(queries, tolerance=1, default=-5, out=out) is out
    assert out[0].numpy().tolist() == [3, 4, -5] and out[1].numpy().tolist() == [True, True, False]
    with pytest.raises(ValueError, match="an output of 3 elements for 2 queries"):
        index.searchsorted(put(np.array([1, 2])), out=out[0])


@pytest.mark.parametrize("key", KEYS)
def test_pairs_of_multi_indexes_agree_with_those_in_host_memory(key: str) -> None:
    rng = np.random.default_rng(8)
    keys, values, queries = draw(rng, key, 200, 60), draw(rng, "float32", 200), draw(rng, key, 70, 80)
    on_host, on_device = lanetree.MultiIndex(keys, values, device="cpu"), lanetree.MultiIndex(put(keys), put(values))
    for side in ("left", "right"):
        ranks = on_device.searchsorted(put(queries), side)  # type: ignore[arg-type]
        assert np.array_equal(ranks.numpy(), on_host.searchsorted(queries, side))  # type: ignore[arg-type]
    for name in ("first", "last", "predecessor", "successor"):
        *expected, hits = getattr(on_host, name)(queries, default=2.5)
        *got, found = (array.numpy() for array in getattr(on_device, name)(put(queries), default=2.5))
        assert np.array_equal(found, hits), name
        for a, b in zip(got, expected):
            assert a.dtype == b.dtype and np.array_equal(a[hits], b[hits]), name
        assert np.array_equal(got[-1], expected[-1]), "the default's places, too"


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_joins_of_every_kind_agree_with_those_in_host_memory(how: Any) -> None:
    rng = np.random.default_rng(7)
    for key in KEYS:
        keys, values = draw(rng, key, 200, 150), draw(rng, "int64", 200)
        # One probe more than words of the bitmap hold, none, and an index without pairs.
        for count, size in ((97, 200), (0, 200), (33, 0)):
            lows, highs, valid = draw(rng, key, count, 170), draw(rng, key, count, 170), rng.random(count) < 0.7
            words = np.zeros((count + 31) // 32 * 4, np.uint8)
            words[: (count + 7) // 8] = np.packbits(valid, bitorder="little")
            for kind in (lanetree.Index, lanetree.MultiIndex):
                on_host, on_device = kind(keys[:size], values[:size], device="cpu"), kind(put(keys[:size]), put(values[:size]))
                for mask, given in ((None, None), (valid, valid), (valid, put(words.view(np.uint32)))):
                    pairs = [(on_host.join(lows, how, valid=mask), on_device.join(put(lows), how, valid=given))]
                    between = on_host.range_join(lows, highs, how, inclusive="left", valid=mask)
                    pairs.append((between, on_device.range_join(put(lows), put(highs), how, inclusive="left", valid=given)))
                    if not key.startswith("float"):
                        pairs.append((on_host.band_join(lows, 7, how, valid=mask), on_device.band_join(put(lows), 7, how, valid=given)))
                    if kind is lanetree.Index:
                        options: Any = {} if key.startswith("float") else {"direction": "nearest", "ties": "forward"}
                        near = on_host.asof_join(lows, how, valid=mask, **options)
                        pairs.append((near, on_device.asof_join(put(lows), how, valid=given, **options)))
                    for expected, got in pairs:
                        expected, got = ((expected,), (got,)) if how in ("semi", "anti") else (expected, got)
                        assert [array.dtype for array in got] == [array.dtype for array in expected]
                        for i, (a, b) in enumerate(zip(got, expected)):
                            a, b = a.numpy(), np.asarray(b)
                            if how == "left" and len(expected) == 4 and i == 1:
                                # Keys of what has no match are any.
                                a, b = a[expected[3]], b[expected[3]]
                            assert np.array_equal(a, b), (key, kind, count, size, i)


def test_k_nearest_and_last_pairs_agree_with_those_in_host_memory() -> None:
    rng = np.random.default_rng(8)
    for key in KEYS:
        keys, at, ends = draw(rng, key, 200, 300), draw(rng, key, 50, 350), draw(rng, key, 50, 350)
        on_host, on_device = lanetree.Index(keys, device="cpu"), lanetree.Index(put(keys))
        pairs = [(on_host.range_last(at, ends, 3, inclusive="right"), on_device.range_last(put(at), put(ends), 3, inclusive="right"))]
        for direction in ("backward", "forward", "nearest"):
            options: Any = {"direction": direction, "allow_exact_matches": False}
            if direction == "nearest" and key.startswith("float"):
                with pytest.raises(lanetree.errors.OptionValue):
                    on_device.k_nearest(put(at), 3, **options)
                continue
            pairs.append((on_host.k_nearest(at, 4, **options), on_device.k_nearest(put(at), 4, **options)))
        for expected, got in pairs:
            assert all(np.array_equal(a.numpy(), b) and a.dtype == b.dtype for a, b in zip(got, expected))


def test_wrong_joins_on_a_device() -> None:
    index, probes = lanetree.Index(put(np.arange(3))), put(np.arange(40))
    with pytest.raises(ValueError, match="1 words for 40 probes: 2 are needed"):
        index.join(probes, valid=put(np.zeros(1, np.uint32)))
    with pytest.raises(TypeError, match="a bitmap of uint32"):
        index.join(probes, valid=put(np.zeros(40)))
    with pytest.raises(ValueError, match=r"shape \(3,\) for 40 probes"):
        index.range_join(probes, probes, valid=np.ones(3, bool))
    with pytest.raises(TypeError, match="valid is on a device, but the probes are not"):
        index.join(np.arange(3), valid=put(np.zeros(1, np.uint32)))
    with pytest.raises(lanetree.errors.OptionValue, match="both"):
        index.asof_join(probes, direction="nearest", ties="both")
    with pytest.raises(lanetree.errors.BoundLengths):
        index.range_join(probes, put(np.arange(39)), "anti")
