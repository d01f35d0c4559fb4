"""A GPU, with torch and CuPy. Without one these are skipped; LANETREE_REQUIRE_GPU=1 makes that a failure."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest

import lanetree
from lanetree import _native

REQUIRED = os.environ.get("LANETREE_REQUIRE_GPU") == "1"


def _library(name: str) -> Any:
    if REQUIRED:
        return __import__(name)
    return pytest.importorskip(name)


@pytest.fixture(autouse=True)
def gpu() -> None:
    why = _native.Device.why_no_gpu()
    if why is not None:
        if REQUIRED:
            pytest.fail(f"LANETREE_REQUIRE_GPU is 1, but there is no GPU: {why}")
        pytest.skip(f"SKIPPED FOR LACK OF A GPU: {why}")


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return _library(request.param)


def put(library: Any, array: np.ndarray) -> Any:
    """A copy on the GPU, as an array of a library."""
    if library.__name__ == "torch":
        return library.from_numpy(array.copy()).cuda()
    return library.asarray(array)


def take(library: Any, array: Any) -> np.ndarray:
    """What a library makes of a result, in host memory."""
    if library.__name__ == "torch":
        return library.from_dlpack(array).cpu().numpy()
    return library.asnumpy(library.from_dlpack(array))


KEYS = ["int32", "int64", "float32", "float64"]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["int32", "float64"])
def test_every_query_agrees_with_numpy(library: Any, key: str, value: str) -> None:
    rng = np.random.default_rng(1)
    keys = np.unique(rng.integers(-(10**6), 10**6, 100_000)).astype(key)
    values = rng.integers(0, 10**6, keys.size).astype(value)
    shuffled = rng.permutation(keys.size)
    queries = rng.integers(-(10**6), 10**6, 50_001).astype(key)
    copies = _native.copies()
    index = lanetree.Index(put(library, keys[shuffled]), put(library, values[shuffled]))
    assert index.device.name == "cuda:0" and len(index) == keys.size
    asked = put(library, queries)
    left, right = np.searchsorted(keys, queries), np.searchsorted(keys, queries, "right")
    hits = np.isin(queries, keys)

    got, found = index.get(asked, default=7)
    assert np.array_equal(take(library, found), hits)
    assert np.array_equal(take(library, got), np.where(hits, values[np.minimum(left, keys.size - 1)], 7))
    assert np.array_equal(take(library, index.searchsorted(asked)), left)
    assert np.array_equal(take(library, index.searchsorted(asked, side="right")), right)
    near, _, has = (take(library, array) for array in index.predecessor(asked))
    assert np.array_equal(has, right > 0) and np.array_equal(near[has], keys[right[has] - 1])
    near, _, has = (take(library, array) for array in index.successor(asked))
    assert np.array_equal(has, left < keys.size) and np.array_equal(near[has], keys[left[has]])

    starts, ends = np.sort(queries[:1000]), np.sort(queries[1000:2000])
    counts = np.maximum(np.searchsorted(keys, ends, "right") - np.searchsorted(keys, starts), 0)
    assert np.array_equal(take(library, index.count_range(put(library, starts), put(library, ends))), counts)
    ranges = index.range(put(library, starts), put(library, ends))
    assert np.array_equal(np.diff(take(library, ranges.offsets)), counts)
    first = np.searchsorted(keys, starts)
    rows = np.concatenate([np.arange(at, at + count) for at, count in zip(first, counts)]).astype(int)
    assert np.array_equal(take(library, ranges.keys), keys[rows]) and np.array_equal(take(library, ranges.values), values[rows])
    assert _native.copies() == copies, "no array was copied on its way in"

    report = index.insert(put(library, np.array([10**6 + 1]).astype(key)), put(library, np.array([5]).astype(value)))
    assert report.inserted == 1
    assert index.remove(put(library, keys[:10])).removed == 10
    assert index[keys.dtype.type(10**6 + 1)] == 5 and len(index) == keys.size - 9


def test_results_are_taken_without_a_copy(library: Any) -> None:
    index = lanetree.Index(put(library, np.arange(1000)), put(library, np.arange(1000)))
    values, found = index.get(put(library, np.arange(10)))
    taken = library.from_dlpack(values)
    address = taken.data_ptr() if library.__name__ == "torch" else taken.data.ptr
    assert address == values._memory.address
    interface = values.__cuda_array_interface__
    assert interface["data"][0] == address and interface["version"] == 3
    del values
    assert take(library, taken).tolist() == list(range(10))
    assert library.from_dlpack(found).dtype in (getattr(library, "bool", None), getattr(library, "bool_", None), np.dtype(bool))


def test_the_interface_alone_is_enough() -> None:
    cupy = _library("cupy")

    class Plain:
        """As Numba's arrays: no DLPack."""

        def __init__(self, array: Any) -> None:
            self.array, self.shape = array, array.shape
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    index = lanetree.Index(Plain(cupy.arange(100)), Plain(cupy.arange(100) * 2), device="cuda:0")
    values, _ = index.get(Plain(cupy.arange(5, 10)))
    assert cupy.asarray(values).get().tolist() == [10, 12, 14, 16, 18]


def test_strided_and_misaligned_arrays_are_copied(library: Any) -> None:
    index = lanetree.Index(put(library, np.arange(1000)), put(library, np.arange(1000)))
    base = put(library, np.arange(1000))
    copies = _native.copies()
    assert take(library, index.get(base[1:11])[0]).tolist() == list(range(1, 11))
    assert _native.copies() == copies + 1
    assert take(library, index.get(base[::100])[0]).tolist() == list(range(0, 1000, 100))


def test_tensors_of_torch_are_taken_in_one_native_call() -> None:
    torch = _library("torch")
    device = lanetree.Device("cuda:0")._native
    exchange = _native.Exchange.of(torch.Tensor, True)
    if exchange is None:
        pytest.skip(f"torch {torch.__version__} has no C exchange API: 2.10 and later have")
    queries = torch.arange(1000, device="cuda")
    taken = exchange.take(queries, device)
    assert taken is not None
    memory, number, stream = taken
    assert memory.address == queries.data_ptr() and len(memory) == 1000 and number == 64
    assert stream.handle == torch.cuda.current_stream().cuda_stream
    assert device.stream(stream.handle) is stream
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert exchange.take(queries, device, stream) is None
        taken = exchange.take(queries, device)
        assert taken is not None and taken[2].handle == side.cuda_stream
    for other in (queries[::2], queries.reshape(10, 100), queries.cpu(), queries.to(torch.int16), queries.to(torch.complex64)):
        assert exchange.take(other, device) is None
    # A tensor's memory lives as long as what was taken of it, and not longer.
    del other
    before = torch.cuda.memory_allocated()
    other = torch.arange(1 << 20, device="cuda")
    held = exchange.take(other, device)
    del other
    assert torch.cuda.memory_allocated() > before
    del held
    assert torch.cuda.memory_allocated() == before
    index = lanetree.Index(torch.arange(10, device="cuda"))
    with pytest.raises(TypeError, match="the queries have dtype int32, but int64 is needed"):
        index.get(torch.zeros(1, dtype=torch.int32, device="cuda"))
    with pytest.raises(ValueError, match="2 dimensions"):
        index.get(torch.zeros((1, 1), dtype=torch.int64, device="cuda"))


def test_joins_and_intervals_agree_with_those_in_host_memory(library: Any) -> None:
    rng = np.random.default_rng(2)
    for key in ("int64", "float32"):
        keys, probes = rng.integers(0, 5000, 4000).astype(key), rng.integers(0, 6000, 3001).astype(key)
        for kind in (lanetree.Index, lanetree.MultiIndex):
            on_host, on_device = kind(keys, device="cpu"), kind(put(library, keys), device="cuda:0")
            for how in ("inner", "left", "semi", "anti"):
                expected, got = on_host.join(probes, how), on_device.join(put(library, probes), how)
                if how in ("semi", "anti"):
                    expected, got = (expected,), (got,)
                for a, b in zip(got, expected):
                    assert np.array_equal(take(library, a), b), (key, kind, how)
        lows = probes[:500]
        highs = (lows + rng.integers(0, 100, 500)).astype(key)
        on_host, on_device = lanetree.Index(keys, device="cpu"), lanetree.Index(put(library, keys))
        for inclusive in ("both", "neither"):
            expected = on_host.range_join(lows, highs, inclusive=inclusive)
            got = on_device.range_join(put(library, lows), put(library, highs), inclusive=inclusive)
            assert all(np.array_equal(take(library, a), b) for a, b in zip(got, expected))
        if key == "int64":
            expected, got = on_host.band_join(lows, 9), on_device.band_join(put(library, lows), 9)
            assert all(np.array_equal(take(library, a), b) for a, b in zip(got, expected))
        host_intervals = lanetree.IntervalIndex(lows, highs, device="cpu")
        intervals = lanetree.IntervalIndex(put(library, lows), put(library, highs))
        points = put(library, probes)
        assert np.array_equal(take(library, intervals.count(points)), host_intervals.count(probes))
        for got, expected in (
            (intervals.stab(points), host_intervals.stab(probes)),
            (intervals.overlap(points, points), host_intervals.overlap(probes, probes)),
            (intervals.most_specific(points), host_intervals.most_specific(probes)),
        ):
            assert all(np.array_equal(take(library, a), b) for a, b in zip(got, expected))


def test_the_work_is_in_the_order_of_the_producers_stream() -> None:
    torch = _library("torch")
    size = 1 << 20
    index = lanetree.Index(torch.arange(size, device="cuda"), torch.arange(size, device="cuda"))
    stream = torch.cuda.Stream()
    for explicit in (False, True):
        queries = torch.zeros(size, dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            # Long enough for a look-up that did not wait to read zeros.
            torch.cuda._sleep(200_000_000)
            queries.fill_(7)
            values, _ = index.get(queries, stream=stream if explicit else None)
            again = torch.from_dlpack(values)
            assert bool((again == 7).all())
        # On another stream than the one that made them.
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            queries.fill_(9)
            values, _ = index.get(queries)
        other = torch.from_dlpack(values)
        assert bool((other == 9).all())


def test_calls_return_before_their_work_is_done() -> None:
    torch = _library("torch")
    index = lanetree.Index(torch.arange(1000, device="cuda"), torch.arange(1000, device="cuda"))
    queries = torch.arange(1000, device="cuda")
    index.get(queries)
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000_000)
    event = torch.cuda.Event()
    index.get(queries)
    event.record()
    assert not event.query(), "the call has waited for the stream"
    torch.cuda.synchronize()


def test_asof_and_ranges_agree_with_those_in_host_memory(library: Any) -> None:
    rng = np.random.default_rng(3)
    keys, queries = rng.integers(-5000, 5000, 4000), rng.integers(-6000, 6000, 3001)
    on_host, on_device = lanetree.Index(keys, device="cpu"), lanetree.Index(put(library, keys))
    multi_host, multi = lanetree.MultiIndex(keys, device="cpu"), lanetree.MultiIndex(put(library, keys))
    by, asked_by = rng.integers(0, 9, keys.size).astype(np.int32), rng.integers(0, 10, queries.size).astype(np.int32)
    groups_host, groups = lanetree.GroupedIndex(by, keys, device="cpu"), lanetree.GroupedIndex(put(library, by), put(library, keys))
    for direction in ("backward", "forward", "nearest"):
        for options in ({}, {"tolerance": 3, "default": -1}, {"allow_exact_matches": False}):
            how: Any = {"direction": direction, **options}
            for got, expected in (
                (on_device.asof(put(library, queries), **how), on_host.asof(queries, **how)),
                (
                    groups.asof(put(library, queries), by=put(library, asked_by), **how),
                    groups_host.asof(queries, by=asked_by, **how),
                ),
            ):
                assert all(np.array_equal(take(library, a), b) for a, b in zip(got, expected)), how
    times, asked_at = keys / 4, queries / 4
    groups_host, groups = lanetree.GroupedIndex(by, times, device="cpu"), lanetree.GroupedIndex(put(library, by), put(library, times))
    for how in ({"direction": "backward"}, {"direction": "forward", "allow_exact_matches": False}):
        found = groups.asof(put(library, asked_at), by=put(library, asked_by), **how)
        assert all(np.array_equal(take(library, a), b) for a, b in zip(found, groups_host.asof(asked_at, by=asked_by, **how)))
    lows, highs = queries[:500], queries[500:1000]
    for got, expected in zip(multi.first(put(library, queries)), multi_host.first(queries)):
        assert np.array_equal(take(library, got), expected)
    for kind, other in ((on_host, on_device), (multi_host, multi)):
        for inclusive in ("both", "left", "right", "neither"):
            edges: Any = {"inclusive": inclusive}
            counts = other.count_range(put(library, lows), put(library, highs), **edges)
            assert np.array_equal(take(library, counts), kind.count_range(lows, highs, **edges))
            rows = other.range(put(library, lows), put(library, highs), **edges)
            assert all(np.array_equal(take(library, a), b) for a, b in zip(rows, kind.range(lows, highs, **edges)))
            for fold in ("sum", "min", "max", "first", "last"):
                values, has = (take(library, column) for column in other.aggregate(put(library, lows), put(library, highs), fold, **edges))
                expected = kind.aggregate(lows, highs, fold, **edges)
                assert np.array_equal(has, expected.found) and np.array_equal(values[has], expected.values[has]), fold


def test_arrays_of_arrow_on_the_device() -> None:
    torch = _library("torch")

    class OfArrow:
        def __init__(self, array: lanetree.Array) -> None:
            self.array = array

        def __arrow_c_device_array__(self, requested_schema: Any = None) -> Any:
            return self.array.__arrow_c_device_array__(requested_schema)

    values = lanetree.asarray(torch.arange(1000, device="cuda"))
    index = lanetree.Index(OfArrow(values), OfArrow(values), device="cuda:0")
    torch.cuda._sleep(200_000_000)
    queries = torch.arange(10, device="cuda")
    # Ready when the capsule is given: the look-up behind the long kernel is waited for.
    found = index.get(queries)[0]
    copies = _native.copies()
    assert torch.from_dlpack(index.get(OfArrow(found))[0]).tolist() == list(range(10))
    assert _native.copies() == copies


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_data_loader_of_torch(start: str) -> None:
    torch = _library("torch")
    index = lanetree.Index(np.arange(1000) * 3, device="cpu")
    data = Rows(index)
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=start)
    if start == "fork":
        with pytest.raises(RuntimeError, match="spawn"):
            list(loader)
        return
    assert sorted(int(row) for row in loader) == list(range(8))


class Rows:
    """A data set whose rows are looked up in a worker."""

    def __init__(self, index: lanetree.Index) -> None:
        self.index = index

    def __len__(self) -> int:
        return 8

    def __getitem__(self, at: int) -> int:
        if at >= 8:
            raise IndexError
        return int(self.index[at * 3])


def test_outputs_of_the_callers() -> None:
    torch = _library("torch")
    index = lanetree.Index(torch.arange(100, device="cuda"), torch.arange(100, device="cuda"))
    out = torch.empty(7, dtype=torch.int64, device="cuda"), torch.empty(7, dtype=torch.bool, device="cuda")
    queries = torch.arange(96, 103, device="cuda")
    assert index.get(queries, out=out) is out
    assert out[0].tolist() == [96, 97, 98, 99, 0, 0, 0] and out[1].tolist() == [True] * 4 + [False] * 3


def test_outputs_that_cannot_be_written_in_place(library: Any) -> None:
    index = lanetree.Index(put(library, np.arange(100)), put(library, np.arange(100)))
    base, hits = put(library, np.zeros(8, np.int64)), put(library, np.zeros(8, np.bool_))
    queries = put(library, np.arange(1, 8))
    for out in ((base[1:], hits[:7]), (base[:7], hits[1:])):
        with pytest.raises(ValueError, match="does not begin at a multiple of 256 bytes"):
            index.get(queries, out=out)
    lanetree.Device("cuda:0").synchronize()
    assert not bool(base.any()) and not bool(hits.any())
    with pytest.raises(ValueError, match="an output of 8 elements for 7 queries"):
        index.get(queries, out=(base, hits))
    # Whole ones and other calls, in one native call each where the library has the exchange API.
    out = base[:7], hits[:7]
    assert index.get(queries, out=out) is out and bool((out[0] == queries).all()) and bool(out[1].all())
    assert take(library, index.contains(put(library, np.array([5, 500])))).tolist() == [True, False]
    assert take(library, index.searchsorted(put(library, np.array([5, 500])), "right")).tolist() == [6, 100]


def test_nulls_are_keys(library: Any) -> None:
    index = lanetree.Index([3, None, 1], device="cuda:0", nulls="last")
    queries = put(library, np.array([int(index.null_key), 1, 2]))
    values, found = index.get(queries)
    assert take(library, values).tolist() == [1, 2, 0] and take(library, found).tolist() == [True, True, False]
    assert take(library, index.searchsorted(queries)).tolist() == [2, 0, 1] and index[None] == 1


def test_host_queries_sets_multi_indexes_and_strings() -> None:
    torch = _library("torch")
    index = lanetree.Index(np.arange(1000), np.arange(1000) * 2, device="cuda:0")
    assert index.get(np.array([5, 1001]))[0].tolist() == [10, 0]
    assert index.insert(np.array([2000]), np.array([1])).inserted == 1
    assert pickle.loads(pickle.dumps(index)).device.name == "cuda:0"
    other = lanetree.Index(np.array([5, 6]), np.array([0, 0]), device="cuda:0")
    assert (index & other).values().tolist() == [10, 12] and len(index | other) == 1001
    numbers = lanetree.Set(torch.tensor([3, 1, 2], device="cuda"))
    assert torch.from_dlpack(numbers.contains(torch.tensor([1, 9], device="cuda"))).tolist() == [True, False]
    multi = lanetree.MultiIndex(torch.tensor([5, 3, 5], device="cuda"), torch.tensor([1, 2, 3], device="cuda"))
    offsets, values = multi.get(torch.tensor([5, 4, 3], device="cuda"))
    assert torch.from_dlpack(offsets).tolist() == [0, 2, 2, 3] and torch.from_dlpack(values).tolist() == [1, 3, 2]
    words = lanetree.StringIndex(["car", "cart", "dog"], device="cuda:0")
    assert words.get(["cart", "cat"])[0].tolist() == [1, 0] and words.prefix(["car"]).keys == ["car", "cart"]


def test_a_pool_limits_memory() -> None:
    pool = lanetree.Pool("cuda:0", limit=1 << 20)
    with pytest.raises(lanetree.errors.PoolLimit):
        lanetree.Index(np.arange(1 << 20), device=pool.device)
    assert len(lanetree.Index(np.arange(1000), device=pool.device)) == 1000


def test_memory_does_not_grow_from_call_to_call() -> None:
    torch = _library("torch")
    index = lanetree.Index(torch.arange(1 << 16, device="cuda"), torch.arange(1 << 16, device="cuda"))
    queries = torch.arange(1 << 16, device="cuda")
    for _ in range(50):
        torch.from_dlpack(index.get(queries)[0])
    torch.cuda.synchronize()
    before = lanetree.Device("cuda:0").pool_stats()
    for _ in range(500):
        torch.from_dlpack(index.get(queries)[0])
    torch.cuda.synchronize()
    after = lanetree.Device("cuda:0").pool_stats()
    assert before is not None and after is not None
    assert after["in_use"] <= before["in_use"] + (1 << 20)
    assert after["in_use"] + after["cached"] < 1 << 30
