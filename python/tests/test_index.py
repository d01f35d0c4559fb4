"""Index and Set against NumPy: each call, each dtype."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lanetree

KEYS = ["uint32", "uint64", "int32", "int64", "float32", "float64", "datetime64[ns]", "timedelta64[us]"]
VALUES = ["uint32", "uint64", "int32", "int64", "float32", "float64", "datetime64[s]"]


def draw(rng: np.random.Generator, dtype: str, size: int, top: int = 1000) -> np.ndarray:
    """Numbers of both signs where there are, close enough for queries to hit."""
    kind = np.dtype(dtype)
    low = 0 if kind.kind == "u" else -top
    numbers = rng.integers(low, top, size)
    if kind.kind == "f":
        return (numbers / 4).astype(kind)
    return numbers.astype("int64").astype(kind)


def model(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct keys in order, with their last values."""
    unique, last = np.unique(keys[::-1], return_index=True)
    return unique, values[::-1][last]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["uint32", "int64"])
def test_every_query_agrees_with_numpy(device: str, key: str, value: str) -> None:
    rng = np.random.default_rng(1)
    keys, values = draw(rng, key, 700), draw(rng, value, 700)
    queries = draw(rng, key, 300, 1100)
    sorted_keys, sorted_values = model(keys, values)
    index = lanetree.Index(keys, values, device=device)
    assert len(index) == sorted_keys.size
    assert index.key_dtype == keys.dtype and index.value_dtype == values.dtype

    found_values, found = index.get(queries)
    assert found.dtype == np.bool_ and found_values.dtype == values.dtype
    assert np.array_equal(found, np.isin(queries, sorted_keys))
    ranks = np.searchsorted(sorted_keys, queries)
    assert np.array_equal(found_values[found], sorted_values[ranks[found]])
    assert np.array_equal(index.contains(queries), found)
    for side in ("left", "right"):
        expected = np.searchsorted(sorted_keys, queries, side)
        assert np.array_equal(index.searchsorted(queries, side), expected)
    assert np.array_equal(index.rank(queries), ranks)

    near, near_values, has = index.predecessor(queries)
    at = np.searchsorted(sorted_keys, queries, "right") - 1
    assert np.array_equal(has, at >= 0)
    assert np.array_equal(near[has], sorted_keys[at[has]]) and np.array_equal(near_values[has], sorted_values[at[has]])
    near, near_values, has = index.successor(queries)
    assert np.array_equal(has, ranks < sorted_keys.size)
    assert np.array_equal(near[has], sorted_keys[ranks[has]]) and np.array_equal(near_values[has], sorted_values[ranks[has]])

    assert np.array_equal(index.keys(), sorted_keys) and np.array_equal(index.values(), sorted_values)
    assert list(index) == (list(sorted_keys) if keys.dtype.kind in "mM" else sorted_keys.tolist())


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("inclusive", ["both", "left", "right", "neither"])
def test_ranges(device: str, key: str, inclusive: str) -> None:
    rng = np.random.default_rng(2)
    keys = draw(rng, key, 500)
    sorted_keys, sorted_values = model(keys, np.arange(500, dtype=np.uint32))
    index = lanetree.Index(keys, np.arange(500, dtype=np.uint32), device=device)
    numbers = lanetree.Set(keys, device=device)
    starts, ends = draw(rng, key, 60, 1100), draw(rng, key, 60, 1100)
    ends[::2] = starts[::2] + np.array(50).astype(np.dtype(key) if np.dtype(key).kind != "M" else "m8[ns]")
    ends[-1] = starts[-1] = sorted_keys[7]
    low = np.searchsorted(sorted_keys, starts, "left" if inclusive in ("both", "left") else "right")
    high = np.searchsorted(sorted_keys, ends, "right" if inclusive in ("both", "right") else "left")
    for limit in (None, 3):
        counts = np.maximum(high - low, 0)
        if limit is None:
            assert np.array_equal(index.count_range(starts, ends, inclusive=inclusive), counts)
        else:
            counts = np.minimum(counts, limit)
        found = index.range(starts, ends, inclusive=inclusive, limit=limit)
        assert found.offsets.dtype == np.int64 and np.array_equal(np.diff(found.offsets), counts)
        rows = np.concatenate([np.arange(at, at + count) for at, count in zip(low, counts)]).astype(int)
        assert np.array_equal(found.keys, sorted_keys[rows]) and np.array_equal(found.values, sorted_values[rows])
        assert np.array_equal(numbers.range(starts, ends, inclusive=inclusive, limit=limit).keys, sorted_keys[rows])


@pytest.mark.parametrize("value", ["uint32", "int32", "float32", "uint64", "int64", "float64", "timedelta64[s]"])
def test_aggregates(device: str, value: str) -> None:
    rng = np.random.default_rng(5)
    keys, dtype = rng.permutation(3000), np.dtype(value)
    values = rng.integers(0 if dtype.kind == "u" else -500, 500, 3000).astype(dtype)
    index, by_key = lanetree.Index(keys, values, device=device), values[np.argsort(keys)]
    starts, ends = np.array([0, 17, 100, 2999, 50, -9, 4000]), np.array([2999, 18, 1600, 2999, 49, 3, 9000])
    rows = [by_key[max(start, 0) : end + 1] for start, end in zip(starts, ends)]
    for how in ("sum", "min", "max", "first", "last"):
        of = {"first": lambda row: row[0], "last": lambda row: row[-1]}.get(how, lambda row: getattr(np, how)(row))
        found = index.aggregate(starts, ends, how)
        assert found.values.dtype == (dtype if dtype.kind == "m" else f"{dtype.kind}8") and found.values.shape == starts.shape
        assert np.array_equal(found.found, [len(row) > 0 for row in rows])
        wanted = np.array([of(row) if len(row) else np.zeros(1, dtype)[0] for row in rows])
        assert np.array_equal(found.values, wanted.astype(found.values.dtype)), how
        half_open = index.aggregate(starts, ends, how, inclusive="left")
        assert np.array_equal(half_open.found, [len(row) > (start <= end < 3000) for row, start, end in zip(rows, starts, ends)])
    missing = index.aggregate([None, 5], [7, 5], "max")
    assert missing.found.tolist() == [False, True] and missing.values[1] == by_key[5]
    with pytest.raises(ValueError, match="'sum', 'min', 'max', 'first' or 'last'"):
        index.aggregate(starts, ends, "mean")  # type: ignore[arg-type]


def test_sums_that_overflow_are_errors(device: str) -> None:
    index = lanetree.Index(np.arange(3), np.array([2**63, 2**63, 1], "u8"), device=device)
    with pytest.raises(lanetree.errors.SumOverflow, match="range 1 has more than 64 bits"):
        index.aggregate([1, 0], [2, 1], "sum")
    assert index.aggregate([0], [2], "max").values.tolist() == [2**63]
    times = lanetree.Index(np.arange(2), np.array([1, 2], "M8[s]"), device=device)
    assert times.aggregate([0], [1], "last").values.tolist() == np.array([2], "M8[s]").tolist()
    with pytest.raises(TypeError, match="points in time have no sum"):
        times.aggregate([0], [1], "sum")


def test_scans(device: str) -> None:
    for key in ("uint64", "float32"):
        keys = np.arange(10, dtype=key) * 10
        index = lanetree.Index(keys, np.arange(10, dtype=np.float64), device=device)
        counts, near, values = index.scan(np.array([25, 85, 91], key), 3)
        assert counts.tolist() == [3, 1, 0]
        assert near.tolist() == [[30, 40, 50], [90, 0, 0], [0, 0, 0]] or key == "float32"
        assert near[0].tolist() == [30, 40, 50] and values[0].tolist() == [3, 4, 5] and values[1, 0] == 9
        assert lanetree.Set(keys, device=device).scan(np.array([25], key), 2).keys.tolist() == [[30, 40]]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["uint32", "float64"])
def test_changes(device: str, key: str, value: str) -> None:
    rng = np.random.default_rng(3)
    keys, values = draw(rng, key, 300), draw(rng, value, 300)
    index = lanetree.Index(keys, values, device=device, fill=0.7)
    expected = dict(zip(keys.tolist(), values.tolist()))
    for _ in range(3):
        more, new = draw(rng, key, 80), draw(rng, value, 80)
        report = index.insert(more, new)
        fresh = len(set(more.tolist()) - set(expected))
        expected |= dict(zip(more.tolist(), new.tolist()))
        assert (report.inserted, report.removed, report.unmatched) == (fresh, 0, 0)
        gone = draw(rng, key, 80)
        report = index.remove(gone)
        assert report.removed == len(set(gone.tolist()) & set(expected))
        expected = {k: v for k, v in expected.items() if k not in set(gone.tolist())}
        more, new = draw(rng, key, 50), draw(rng, value, 50)
        report = index.update(more, new)
        assert report.replaced == len(set(more.tolist()) & set(expected))
        expected |= {k: v for k, v in zip(more.tolist(), new.tolist()) if k in expected}
        assert dict(zip(index.keys().tolist(), index.values().tolist())) == expected
        assert len(index) == len(expected)


def test_a_batch_of_operations(device: str) -> None:
    index = lanetree.Index([1, 2, 3], [10, 20, 30], device=device)
    kinds = np.array([lanetree.REMOVE, lanetree.INSERT, lanetree.UPDATE, lanetree.UPDATE], np.uint32)
    report = index.apply(kinds, np.array([2, 4, 4, 9]), np.array([0, 40, 41, 90]))
    assert (report.inserted, report.removed, report.unmatched) == (1, 1, 1)
    assert index.items()[0].tolist() == [1, 3, 4] and index.items()[1].tolist() == [10, 30, 41]
    with pytest.raises(lanetree.errors.UnknownKinds, match=r"kinds\[1\] = 7"):
        index.apply(np.array([0, 7], np.uint32), np.array([1, 2]), np.array([1, 2]))
    assert len(index) == 3


def test_sets(device: str) -> None:
    numbers = lanetree.Set(np.array([5, 1, 3, 1], np.uint32), device=device)
    assert len(numbers) == 3 and 3 in numbers and 4 not in numbers
    assert numbers.contains(np.array([[1, 2], [3, 9]], np.uint32)).tolist() == [[True, False], [True, False]]
    keys, found = numbers.successor(np.array([2, 6], np.uint32))
    assert (keys.tolist(), found.tolist()) == ([3, 0], [True, False])
    keys, found = numbers.predecessor(np.array([0, 4], np.uint32))
    assert (keys.tolist(), found.tolist()) == ([0, 3], [False, True])
    assert numbers.insert(np.array([2, 3], np.uint32))[:2] == (1, 1)
    assert numbers.remove(np.array([5, 6], np.uint32)).removed == 1
    assert numbers.keys().tolist() == [1, 2, 3]
    assert pickle.loads(pickle.dumps(numbers)).keys().tolist() == [1, 2, 3]


def test_combinations(device: str) -> None:
    first = lanetree.Index([10, 20, 30], [1, 2, 3], device=device)
    second = lanetree.Index([20, 40], [7, 8], device=device)
    assert (first | second).items()[1].tolist() == [1, 7, 3, 8]
    assert (first & second).items()[0].tolist() == [20] and (first & second).items()[1].tolist() == [2]
    assert (first - second).keys().tolist() == [10, 30]
    assert len(first) == 3
    with pytest.raises(TypeError, match="dtypes differ: int64 and int64, float64 and int64"):
        first.union(lanetree.Index([1.0], [1], device=device))
    odd, even = lanetree.Set([1, 3, 4], device=device), lanetree.Set([2, 4], device=device)
    assert (odd | even).keys().tolist() == [1, 2, 3, 4] and (odd & even).keys().tolist() == [4]


def test_joins(device: str) -> None:
    index = lanetree.Index([10, 20, 30], ["2020-01-01", "2020-01-02", "2020-01-03"] and [5, 6, 7], device=device)
    probes = np.array([30, 15, 10, 30])
    left, values = index.join(probes)
    assert (left.tolist(), values.tolist()) == ([0, 2, 3], [7, 5, 7])
    left, values, found = index.join(probes, how="left")
    assert (left.tolist(), found.tolist(), values[found].tolist()) == ([0, 1, 2, 3], [True, False, True, True], [7, 5, 7])
    assert index.join(probes, how="semi").tolist() == [0, 2, 3] and index.join(probes, how="anti").tolist() == [1]


@pytest.mark.parametrize("key", ["int64", "uint32", "float64", "datetime64[s]"])
def test_asof_with_a_tolerance(device: str, key: str) -> None:
    at = np.array([100, 200, 300]).astype(key)
    index = lanetree.Index(at, np.array([1.5, 2.5, 3.5]), device=device)
    queries = np.array([99, 100, 110, 299, 310]).astype(key)
    values, found = index.asof(queries, default=np.nan)
    assert found.tolist() == [False, True, True, True, True] and np.isnan(values[0])
    tolerance = np.timedelta64(10, "s") if key.startswith("d") else 10
    values, found = index.asof(queries, tolerance=tolerance)
    assert found.tolist() == [False, True, True, False, True] and values.tolist() == [0, 1.5, 1.5, 0, 3.5]
    values, found = index.asof(queries, direction="forward", tolerance=tolerance)
    assert found.tolist() == [True, True, False, True, False]


@pytest.mark.skipif(os.environ.get("LANETREE_LARGE") != "1", reason="takes gigabytes and minutes: LANETREE_LARGE=1 runs it")
def test_more_bytes_than_31_bits_count() -> None:
    size = 2**28 + 1
    queries = np.zeros(size, np.int64)
    queries[-1] = 7
    found = lanetree.Index([0, 5], device="cpu").contains(queries)
    assert queries.nbytes > 2**31 and np.count_nonzero(found) == size - 1 and not found[-1]


@pytest.mark.parametrize("key", ["float32", "float64"])
def test_the_nearest_float(device: str, key: str) -> None:
    at = np.array([-np.inf, -1, 0.5, 2, np.inf, np.nan]).astype(key)
    index = lanetree.Index(at, np.arange(6), device)
    queries = np.array([-0.25, 1.25, 1.26, 1.9, np.inf, np.nan, 1e30, 2]).astype(key)
    values, found = index.asof(queries, direction="nearest", default=-1)
    assert values.tolist() == [1, 2, 3, 3, 4, 5, 3, 3] and found.all()
    assert index.asof(queries, direction="nearest", ties="forward").values.tolist() == [2, 3, 3, 3, 4, 5, 3, 3]
    values, found = index.asof(queries, direction="nearest", tolerance=0.7, default=-1)
    assert values.tolist() == [-1, -1, -1, 3, 4, 5, -1, 3]
    strict = index.asof(queries, direction="nearest", allow_exact_matches=False, default=-1)
    assert strict.values.tolist() == [1, 2, 3, 3, 3, -1, 3, 2] and strict.found.tolist() == [True] * 5 + [False, True, True]
    left, rows = index.asof_join(queries, "inner", direction="nearest", tolerance=0.2)
    assert (left.tolist(), rows.tolist()) == ([3, 4, 5, 7], [3, 4, 5, 3])
    out = np.zeros(8, np.int64), np.zeros(8, np.bool_)
    assert index.asof(queries, direction="nearest", out=out) is out and out[0].tolist() == [1, 2, 3, 3, 4, 5, 3, 3]
    rng = np.random.default_rng(6)
    keys, asked = rng.normal(size=200).astype(key), rng.normal(size=500).astype(key)
    gaps = np.abs(asked[:, None] - np.sort(keys))
    found = lanetree.Index(np.sort(keys), device=device).asof(asked, direction="nearest").values
    assert np.array_equal(gaps[np.arange(500), found], gaps.min(axis=1))
    assert not lanetree.Index(keys[:0], device=device).asof(asked, direction="nearest").found.any()


@pytest.mark.parametrize("key", ["float32", "float64"])
def test_near_floats_are_all_pairs_by_distance(device: str, key: str) -> None:
    rng = np.random.default_rng(26)
    ends = [-np.inf, -0.0, 0.0, np.inf, np.nan, np.finfo(key).max, 0.1, 1 / 3]
    # Eighths, so that many are equally near.
    keys = np.append(np.unique(rng.integers(-200, 200, 60) / 8.0), ends).astype(key)
    asked = np.append(rng.integers(-240, 240, 80) / 16.0, [*ends, 0.4, -1e30]).astype(key)
    keys = keys[np.sort(np.unique(keys.view(f"u{keys.itemsize}"), return_index=True)[1])]
    rows = rng.permutation(keys.size)
    index = lanetree.Index(keys, rows, device)
    several = lanetree.MultiIndex(np.append(keys, keys[:9]), np.append(rows, rows[:9] + 1000), device)
    groups = lanetree.GroupedIndex(np.zeros(keys.size, np.int32), keys, rows, device=device)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(asked[:, None] - keys)
    same = asked.view(f"u{keys.itemsize}")[:, None] == keys.view(f"u{keys.itemsize}")
    gap[same] = 0
    words = keys.view(f"i{keys.itemsize}")
    in_order = lambda at: np.where(at < 0, at ^ np.iinfo(at.dtype).max, at)
    place, is_above = np.argsort(np.argsort(in_order(words))), in_order(words)[None] > in_order(asked.view(words.dtype))[:, None]
    for exact, limit, ties in itertools.product((True, False), (None, 0, 0.5, 2.5, np.inf), ("backward", "forward")):
        options: Any = {"allow_exact_matches": exact, "tolerance": limit}
        near = (gap <= (np.inf if limit is None else limit)) & (exact | ~same)
        # On one side without a tolerance nothing is measured.
        for direction in ("nearest", "backward", "forward") if limit is not None else ("nearest",):
            side = near if direction == "nearest" else near & (is_above | same if direction == "forward" else ~is_above)
            expected = [
                sorted(np.flatnonzero(side[i]).tolist(), key=lambda j: (gap[i, j], not same[i, j], direction == "nearest" and is_above[i, j] == (ties == "backward"), place[j] if is_above[i, j] else -place[j]))
                for i in range(asked.size)
            ]
            for k in (1, 3, 1000):
                offsets, got, values = index.k_nearest(asked, k, direction=direction, ties=ties, **options)  # type: ignore[arg-type]
                assert [values[a:b].tolist() for a, b in zip(offsets, offsets[1:])] == [[rows[j] for j in row[:k]] for row in expected], (options, direction, k)
                assert got.view(words.dtype).tolist() == [words[j] for row in expected for j in row[:k]]
            if direction == "nearest":
                ties_of = [[j for j in row if gap[i, j] == gap[i, row[0]]] for i, row in enumerate(expected)]
                # Two on one side may be infinitely far: the nearer one in the order is that side's.
                both = [[next((j for j in row if is_above[i, j] == up), None) for up in (False, True)] for i, row in enumerate(ties_of)]
                wanted = [(i, rows[j]) for i, row in enumerate(both) for j in row if j is not None]
                for made in (index.asof_join(asked, "inner", direction="nearest", ties="both", **options), groups.asof_join(asked, "inner", by=np.zeros(asked.size, np.int32), direction="nearest", ties="both", **options)):
                    assert list(zip(*(column.tolist() for column in made))) == wanted, options
        if exact and limit is not None:
            hits = [np.flatnonzero(near[i])[np.argsort(place[near[i]])] for i in range(asked.size)]
            left, got, values = index.band_join(asked, limit)
            assert (left.tolist(), values.tolist()) == ([i for i, row in enumerate(hits) for _ in row], [rows[j] for row in hits for j in row])
            assert index.band_join(asked, limit, "anti").tolist() == [i for i, row in enumerate(hits) if not len(row)]
            assert index.band_join(asked, limit, "left")[3].sum() == values.size and several.band_join(asked, limit, "semi").tolist() == sorted(set(left.tolist()))
            left, values = several.band_join(asked, limit)  # type: ignore[misc]
            again = {int(rows[j]): [int(rows[j])] + [int(rows[j]) + 1000] * (j < 9) for j in range(keys.size)}
            assert values.tolist() == [value for row in hits for j in row for value in again[int(rows[j])]]


def test_wrong_asof(device: str) -> None:
    index = lanetree.Index([1, 2], device=device)
    with pytest.raises(ValueError, match="direction is 'up', where"):
        index.asof([1], direction="up")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a tolerance of 0.5 for keys of int64"):
        index.asof([1], tolerance=0.5)
    strict, found = lanetree.Index([1.0, 2.0], device=device).asof([2.0, 1.0, 2.5], tolerance=0.75, allow_exact_matches=False)
    assert found.tolist() == [False, False, True] and strict.tolist() == [0, 0, 1]


def test_distances_do_not_overflow(device: str) -> None:
    far = lanetree.Index(np.array([-(2**63)]), np.array([1]), device=device)
    assert far.asof(np.array([2**63 - 1]), tolerance=2**63)[1].tolist() == [False]
    assert far.asof(np.array([0]), tolerance=2**63)[1].tolist() == [True]


def test_shapes_scalars_and_lists(device: str) -> None:
    index = lanetree.Index([3, 1, 2], [30, 10, 20], device=device)
    value, found = index.get(2)
    assert value == 20 and found and value.dtype == np.int64 and np.ndim(found) == 0
    assert index[2] == 20 and index[[1, 3]].tolist() == [10, 30]
    with pytest.raises(KeyError, match="9"):
        index[9]
    with pytest.raises(KeyError, match="8"):
        index[[1, 8]]
    values, found = index.get(np.array([[1, 2], [3, 4]]), default=-1)
    assert values.tolist() == [[10, 20], [30, -1]] and found.shape == (2, 2)
    assert index.searchsorted([]).shape == (0,)
    assert index.get([])[0].shape == (0,)
    assert 1 in index and 7 not in index
    numbered = lanetree.Index([7, 5], device=device)
    assert numbered.get([5, 7])[0].tolist() == [1, 0]


def test_outputs_of_the_callers(device: str) -> None:
    index = lanetree.Index([1, 2], [10, 20], device=device)
    queries = np.array([2, 3])
    out = np.empty(2, np.int64), np.empty(2, np.bool_)
    assert index.get(queries, out=out) is out and out[0].tolist() == [20, 0] and out[1].tolist() == [True, False]
    frozen = np.empty(2, np.int64)
    frozen.flags.writeable = False
    for values, message in [
        (np.empty(2, np.int32), "an output of int32"),
        (np.empty(3, np.int64), "shape"),
        (np.empty(4, np.int64)[::2], "contiguous"),
        (frozen, "writable"),
        (queries, "shares memory"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            index.get(queries, out=(values, out[1]))


def test_strided_and_misaligned_arrays_are_copied(device: str) -> None:
    keys, values = np.arange(0, 40, dtype=np.int64), np.arange(40, dtype=np.uint32)
    index = lanetree.Index(keys[::2], values[::-2], device=device)
    assert index.get(np.arange(4))[0].tolist() == [39, 0, 37, 0]
    raw = np.zeros(8 * 3 + 1, np.uint8)[1:].view(np.int64)
    raw[:] = [4, 2, 1]
    assert not raw.flags.aligned or raw.ctypes.data % 8 == 0
    assert index.contains(raw).tolist() == [True, True, False]


def test_unsafe_casts_are_refused(device: str) -> None:
    index = lanetree.Index(np.array([1, 2], np.uint32), np.array([1, 2], np.int32), device=device)
    for queries in (np.array([1]), np.array([1.0], np.float32), np.array([1], np.int32), np.array([1], np.int8)):
        with pytest.raises(TypeError, match=f"uint32 is needed, and {queries.dtype} to uint32 is not a safe cast"):
            index.get(queries)
    for item in (-1, 2**32):
        with pytest.raises(OverflowError, match=f"{item} is outside of uint32"):
            index.get([1, item])
    with pytest.raises(OverflowError):
        index.get([2**70])
    with pytest.raises(TypeError):
        index.get([1.5])
    with pytest.raises(TypeError):
        index.get(["1"])
    with pytest.raises(TypeError, match="keys of dtype complex128 are not supported"):
        lanetree.Index(np.array([1j]), device=device)
    with pytest.raises(TypeError, match="have dtype int64, but float64 is needed, and int64 to float64 is not a safe cast"):
        lanetree.Index(np.array([0.5]), device=device).get(np.array([2**53 + 1]))
    with pytest.raises(TypeError):
        lanetree.Index(np.array(["a"]), device=device)
    with pytest.raises(ValueError, match="2 dimensions"):
        lanetree.Index(np.zeros((2, 2), np.int64), device=device)
    floats = lanetree.Index(np.array([0.5]), device=device)
    assert floats.contains([1, 0.5]).tolist() == [False, True]
    with pytest.raises(OverflowError):
        floats.contains([2**53 + 1])


def test_floats_are_in_total_order(device: str) -> None:
    for dtype in (np.float32, np.float64):
        keys = np.array([np.nan, np.inf, 1, 0.0, -0.0, -1, -np.inf], dtype)
        index = lanetree.Index(keys, np.arange(7), device=device)
        assert len(index) == 7
        assert index.keys()[:-1].tolist() == [-np.inf, -1, 0, 0, 1, np.inf] and np.isnan(index.keys()[-1])
        assert index.get(keys)[0].tolist() == list(range(7))
        assert index.get(np.array([0.0, -0.0], dtype))[0].tolist() == [3, 4]


def test_errors_have_a_class_per_kind(device: str) -> None:
    with pytest.raises(lanetree.errors.LengthMismatch, match="2 keys but 1 values: give one value per key") as caught:
        lanetree.Index(np.array([1, 2]), np.array([1]), device=device)
    assert isinstance(caught.value, lanetree.Error) and isinstance(caught.value, ValueError)
    with pytest.raises(lanetree.errors.NotSorted, match=r"keys\[1\] = 1 is below keys\[0\] = 2"):
        lanetree.Index(np.array([2, 1]), np.array([1, 1]), device=device, is_sorted=True)
    with pytest.raises(lanetree.errors.NotSorted, match=r"keys\[1\] = 1.0 is below keys\[0\] = 2.5"):
        lanetree.Index(np.array([2.5, 1]), np.array([1, 1]), device=device, is_sorted=True)
    with pytest.raises(lanetree.errors.Fill, match="a fill of 2 is not possible"):
        lanetree.Index(np.array([1]), device=device, fill=2)


def test_every_kind_has_a_class() -> None:
    """As far as the sources are there: a kind without a class would be a plain Error."""
    import pathlib
    import re

    root = pathlib.Path(__file__).parents[2] / "crates"
    files = [root / "base/src/error.rs", root / "runtime/src/error.rs"]
    if not all(file.exists() for file in files):
        pytest.skip("installed without the library's sources")
    for file in files:
        body = file.read_text().split("pub enum Error {")[1].split("\n    }\n")[0]
        kinds = set(re.findall(r"^        ([A-Z]\w+)", body, re.M)) - {"Runtime"}
        assert len(kinds) > 15
        assert not {kind for kind in kinds if not hasattr(lanetree.errors, kind)}


def test_closing(device: str) -> None:
    with lanetree.Index([1, 2], [1, 2], device=device) as index:
        assert not index.closed and "2 pairs, int64 -> int64" in repr(index)
    assert index.closed and "closed" in repr(index)
    with pytest.raises(RuntimeError, match="closed"):
        index.get([1])
    index.close()


def test_pickling_copies_and_descriptions(device: str) -> None:
    for key in KEYS:
        keys = np.arange(5).astype(key)
        index = lanetree.Index(keys, np.arange(5.0), device=device, fill=0.5)
        again = pickle.loads(pickle.dumps(index))
        assert again.device == index.device and again.fill == 0.5
        assert np.array_equal(again.keys(), keys) and np.array_equal(again.values(), index.values())
    copy = index.copy()
    copy.remove(keys)
    assert (len(copy), len(index), len(index.to("cpu"))) == (0, 5, 5)
    assert "bytes" in index.stats() and index.nbytes > 0
    assert "B/key" in index.describe() and "<pre>" in index._repr_html_()


def test_readers_in_threads_and_a_writer(device: str) -> None:
    size = 2000 if device == "cpu" else 200
    keys = np.arange(size)
    index = lanetree.Index(keys, np.zeros(size, np.int64), device=device)
    failures: list[object] = []

    def read() -> None:
        for _ in range(20):
            values, found = index.get(keys)
            # A batch is seen as a whole or not at all.
            if not found.all() or len(set(values.tolist())) != 1:
                failures.append(values)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(10):
        index.insert(keys, np.full(size, i))
    for thread in threads:
        thread.join()
    assert not failures


def test_forked_children_are_told_to_spawn(device: str) -> None:
    index = lanetree.Index([1], [2], device=device)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            index.get([1])
            message = "answered"
        except RuntimeError as error:
            message = str(error)
        os.write(write, message.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "spawn" in os.read(read, 1000).decode()
    assert index.get([1])[0].tolist() == [2]


def look_up(index: lanetree.Index) -> list[int]:
    """What a spawned process does with an index that was pickled for it."""
    found: list[int] = index.get([1, 2])[0].tolist()
    return found


def test_spawned_children_have_their_own_index() -> None:
    import multiprocessing

    index = lanetree.Index([1], [2], device="cpu")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(look_up, (index,)) == [2, 0]


def test_memory_limits(device: str) -> None:
    pool = lanetree.Pool(device, limit=1 << 16)
    small = lanetree.Index(np.arange(100), device=pool.device)
    assert small.device == lanetree.Device(device) and len(small) == 100
    if device != "cpu":
        assert pool.stats()["in_use"] > 0
    with pytest.raises(lanetree.errors.PoolLimit, match="limit of 65536 bytes") as caught:
        lanetree.Index(np.arange(1 << 16), device=pool.device)
    assert isinstance(caught.value, MemoryError)


def test_devices() -> None:
    cpu = lanetree.Device("cpu")
    assert (cpu.name, cpu.kind, cpu.why_cpu) == ("cpu", "cpu", None)
    assert pickle.loads(pickle.dumps(cpu)) == cpu
    best = lanetree.Device()
    assert (best.kind == "cuda") == (lanetree.Device.count() > 0)
    if best.kind == "cpu":
        assert best.why_cpu and "as there is no GPU" in repr(best)
        with pytest.raises(lanetree.Error, match="driver|GPU"):
            lanetree.Device("cuda:0")
    for name in ("gpu", "cuda:x", ""):
        with pytest.raises(ValueError, match="no device"):
            lanetree.Device(name)
    assert cpu.properties()["name"] == "host"


@settings(max_examples=40, deadline=None)
@given(
    keys=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20), max_size=60),
    queries=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-25, 25), max_size=30),
)
def test_any_integers(keys: list[int], queries: list[int]) -> None:
    array, wanted = np.array(keys, np.int64), np.array(queries, np.int64)
    index = lanetree.Index(array, device="cpu")
    unique, rows = model(array, np.arange(array.size))
    assert np.array_equal(index.keys(), unique) and np.array_equal(index.values(), rows)
    assert np.array_equal(index.searchsorted(wanted), np.searchsorted(unique, wanted))
    assert np.array_equal(index.contains(wanted), np.isin(wanted, unique))


@settings(max_examples=40, deadline=None)
@given(keys=st.lists(st.floats(width=32, allow_nan=False).filter(lambda x: x != 0), max_size=60))
def test_any_floats(keys: list[float]) -> None:
    array = np.array(keys, np.float32)
    index = lanetree.Index(array, device="cpu")
    assert np.array_equal(index.keys(), np.unique(array))
    assert index.contains(array).all()


def test_outputs_of_all_calls(device: str) -> None:
    keys, queries = np.arange(0, 100, 2), np.array([[7, 8], [-1, 120]])
    index, numbers = lanetree.Index(keys, keys / 2, device), lanetree.Set(keys, device)
    values, found, ranks = np.empty((2, 2)), np.empty((2, 2), bool), np.empty((2, 2), np.int64)
    for it in (index, numbers):
        assert it.contains(queries, out=found) is found and np.array_equal(found, it.contains(queries))
        assert it.searchsorted(queries, "right", out=ranks) is ranks and np.array_equal(ranks, np.searchsorted(keys, queries, "right"))
        with pytest.raises(TypeError, match="where an array of int64 is needed"):
            it.searchsorted(queries, out=values)
        with pytest.raises(ValueError, match="an output of shape"):
            it.contains(queries, out=found[0])
    out = values, found
    for options in ({}, {"tolerance": 1}, {"direction": "nearest"}, {"allow_exact_matches": False, "default": -1.5}):
        values[:], found[:] = 9, False
        assert index.asof(queries, out=out, **options) is out  # type: ignore[call-overload]
        expected = index.asof(queries, **options)  # type: ignore[arg-type]
        assert np.array_equal(values, expected[0]) and np.array_equal(found, expected[1]), options
    floats = lanetree.Index(keys / 4, device=device)
    rows = np.empty(2, np.int64)
    assert floats.asof([1.0, 9e9], tolerance=0.5, default=-1, out=(rows, found[0]))[0] is rows and rows.tolist() == [2, -1]


def test_compacting(device: str) -> None:
    order = np.random.default_rng(1).permutation(20_000)
    for index in (lanetree.Index(np.arange(20_000), device=device), lanetree.Set(np.arange(20_000), device)):
        for part in np.split(order[:14_000], 14):
            index.remove(part)
        before = index.nbytes
        gained = index.compact()
        # On the CPU batches that leave much unused build the index anew themselves.
        assert gained == before - index.nbytes and (gained > 0 or device == "cpu")
        assert index.keys().tolist() == sorted(order[14_000:].tolist()) and index.compact() == 0
        index.close()
        with pytest.raises(RuntimeError, match="closed"):
            index.compact()


def test_a_signal_ends_a_long_call_between_pieces() -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    index, queries = lanetree.Set(np.array([0], np.uint32), "cpu"), np.zeros((1 << 25) + 1, np.uint32)
    found = np.zeros(queries.size, bool)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        # After the first piece has begun, and long before the last one, of one query, would.
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(Interrupted):
            index.contains(queries, out=found)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found[0] and not found[-1]
    assert index.contains(queries[:3]).all()


def test_null_probes_of_joins(device: str) -> None:
    index, multi = (kind([10, 20, 30], [1, 2, 3], device=device) for kind in (lanetree.Index, lanetree.MultiIndex))
    whole = lambda made: [array.tolist() for array in made] if isinstance(made, tuple) else made.tolist()
    masked, listed = np.ma.masked_equal(np.array([30, 10, 15]), 10), [30, None, 15]
    for one in (index, multi):
        for probes, valid in ((masked, None), (listed, None), ([30, 10, 15], [True, False, True]), (masked, [True, True, True])):
            assert whole(one.join(probes, "inner", valid=valid)) == [[0], [3]]
            assert whole(one.join(probes, "left", valid=valid)) == [[0, 1, 2], [3, 0, 0], [True, False, False]]
            assert whole(one.join(probes, "semi", valid=valid)) == [0] and whole(one.join(probes, "anti", valid=valid)) == [1, 2]
            assert whole(one.band_join(probes, 5, "anti", valid=valid)) == [1]
        assert whole(one.range_join([0, None, 25], [15, 40, None])) [0] == [0]
        with pytest.raises(TypeError, match="valid has dtype int64, where bool is needed"):
            one.join([10], valid=[1])
        with pytest.raises(ValueError, match=r"valid has shape \(2,\) for 1 probes"):
            one.join([10], valid=[True, False])
        with pytest.raises(ValueError, match="how is 'outer', where"):
            one.range_join([10], [20], "outer")
    assert whole(index.asof_join(listed)) == [[0, 1, 2], [3, 0, 1], [True, False, True]]
    assert whole(index.asof_join([15], "inner", direction="nearest", ties="both")) == [[0, 0], [1, 2]]
    with pytest.raises(ValueError, match="ties is 'all', where"):
        index.asof_join([15], direction="nearest", ties="all")  # type: ignore[arg-type]


def test_k_nearest_and_last_pairs_agree_with_a_loop(device: str) -> None:
    rng = np.random.default_rng(11)
    keys, at, ends = (draw(rng, "int64", size, 300) for size in (150, 40, 40))
    index, all_keys = lanetree.Index(keys, device=device), np.unique(keys)
    last = {int(key): row for row, key in enumerate(keys)}
    for k in (0, 1, 4, 1000):
        for direction, ties in (("nearest", "backward"), ("nearest", "forward"), ("backward", "backward"), ("forward", "backward")):
            found = index.k_nearest(at, k, direction=direction, ties=ties, tolerance=60)  # type: ignore[arg-type]
            for i, query in enumerate(at.tolist()):
                near = [key for key in all_keys.tolist() if abs(key - query) <= 60]
                near = [key for key in near if direction == "nearest" or (key <= query if direction == "backward" else key >= query)]
                near.sort(key=lambda key: (abs(key - query), key if ties == "backward" else -key))
                part = slice(found.offsets[i], found.offsets[i + 1])
                assert found.keys[part].tolist() == near[:k] and found.values[part].tolist() == [last[key] for key in near[:k]]
        tops = index.range_last(at, ends, k, inclusive="left")
        for i, (start, end) in enumerate(zip(at.tolist(), ends.tolist())):
            inside = [key for key in all_keys.tolist()[::-1] if start <= key < end][:k]
            assert tops.keys[tops.offsets[i] : tops.offsets[i + 1]].tolist() == inside
    with pytest.raises(ValueError, match="a limit of -1 pairs"):
        index.k_nearest(at, -1)
    with pytest.raises(lanetree.errors.BoundLengths):
        index.range_last(at, ends[:3], 2)
