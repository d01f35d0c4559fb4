"""Intervals compared with a plain loop, and joins by ranges compared with masks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import lanetree

from test_index import KEYS, draw, model


def intervals(rng: np.random.Generator, key: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = draw(rng, key, size, 300), draw(rng, key, size, 300)
    return np.minimum(first, second), np.maximum(first, second)


@pytest.mark.parametrize("key", [*KEYS, "datetime64[s]"])
@pytest.mark.parametrize("where", ["host", "device"])
def test_intervals_agree_with_a_loop(device: str, key: str, where: str) -> None:
    if where == "device" and device == "cpu":
        pytest.skip("arrays of the CPU are NumPy's")
    rng = np.random.default_rng(3)
    starts, ends = intervals(rng, key, 120)
    rows = rng.permutation(120).astype(np.uint32)
    points, (lows, highs) = draw(rng, key, 60, 350), intervals(rng, key, 60)
    put = (lambda array: lanetree.asarray(array, device)) if where == "device" else (lambda array: array)
    take = (lambda array: array.numpy()) if where == "device" else (lambda array: array)
    index = lanetree.IntervalIndex(put(starts), put(ends), put(rows), device)
    assert len(index) == 120 and index.key_dtype == starts.dtype and index.nbytes > 0 and "120 intervals" in repr(index)

    # By start, and of one start by end from the last on; equal ones by number: the last one is the most specific.
    order = np.lexsort((np.arange(120), -ends.astype(np.float64), starts))
    def expected(low: np.ndarray, high: np.ndarray) -> list[list[int]]:
        return [[int(rows[i]) for i in order[::-1] if starts[i] <= b and a <= ends[i]] for a, b in zip(low, high)]

    for found, counts, right in (
        (index.stab(put(points)), index.count(put(points)), expected(points, points)),
        (index.overlap(put(lows), put(highs)), index.count_overlap(put(lows), put(highs)), expected(lows, highs)),
    ):
        offsets, got = take(found.offsets), take(found.rows)
        assert offsets.dtype == np.int64 and got.dtype == np.uint32
        assert [sorted(got[a:b].tolist()) for a, b in zip(offsets, offsets[1:])] == [sorted(each) for each in right]
        assert take(counts).tolist() == [len(each) for each in right]
    inside = expected(points, points)
    row, has = (take(array) for array in index.most_specific(put(points), default=999))
    assert has.tolist() == [bool(each) for each in inside] and has.dtype == np.bool_
    offsets, got = take(index.stab(put(points)).offsets), take(index.stab(put(points)).rows)
    assert row.tolist() == [int(got[a]) if b > a else 999 for a, b in zip(offsets, offsets[1:])]


def test_intervals_of_python(device: str) -> None:
    networks = lanetree.IntervalIndex([0, 64, 80], [255, 127, 95], device=device)
    assert networks.stab([90, 130]).rows.tolist() == [2, 1, 0, 0]
    assert [array.tolist() for array in networks.most_specific([[90, 100], [130, 300]])] == [[[2, 1], [0, 0]], [[True, True], [True, False]]]
    assert networks.count(90) == 3 and networks.count_overlap([70], [90]).tolist() == [3]
    assert networks.overlap([100], [300]).rows.tolist() == [1, 0]
    # In the order in which they are found; so are the equal ones, which are found as they were given.
    assert list(networks) == [(80, 95, 2), (64, 127, 1), (0, 255, 0)] and 90 in networks and 300 not in networks
    equal = lanetree.IntervalIndex([1.5, -2.5, 1.5, 1.5], [2.5, 9, 2.5, 2.0], device=device)
    assert list(equal) == [(1.5, 2.0, 3), (1.5, 2.5, 0), (1.5, 2.5, 2), (-2.5, 9, 1)]
    for index in (networks, equal):
        for again in (pickle.loads(pickle.dumps(index)), index.copy(), index.to("cpu")):
            assert list(again) == list(index) and again.key_dtype == index.key_dtype
    empty = lanetree.IntervalIndex(np.zeros(0), np.zeros(0), device=device)
    assert list(pickle.loads(pickle.dumps(empty))) == []
    assert len(empty) == 0 and empty.stab(np.array([1.0])).offsets.tolist() == [0, 0]
    assert "in all" in networks.describe() and "<pre>" in networks._repr_html_()
    with networks:
        pass
    assert networks.closed and "closed" in repr(networks)
    with pytest.raises(RuntimeError, match="closed"):
        networks.stab([1])


def test_wrong_intervals(device: str) -> None:
    with pytest.raises(lanetree.errors.ReversedRange, match="range 1 starts at 9 and ends at 8"):
        lanetree.IntervalIndex([1, 9], [2, 8], device=device)
    with pytest.raises(lanetree.errors.ReversedRange, match="range 0 starts at 1.5 and ends at -2.5"):
        lanetree.IntervalIndex([1.5], [-2.5], device=device)
    with pytest.raises(ValueError, match="arrays of 2 and of 1 elements"):
        lanetree.IntervalIndex([1, 9], [2], device=device)
    with pytest.raises(ValueError, match="arrays of 1 and of 2 elements"):
        lanetree.IntervalIndex([1], [2], [5, 6], device=device)
    with pytest.raises(TypeError, match="the ends have dtype float64, but int64 is needed"):
        lanetree.IntervalIndex(np.array([1]), np.array([2.0]), device=device)
    with pytest.raises(TypeError, match="the points have dtype float64"):
        lanetree.IntervalIndex([1], [2], device=device).stab(np.array([1.0]))
    with pytest.raises(TypeError, match="bounds of dtype complex64"):
        lanetree.IntervalIndex(np.zeros(1, np.complex64), np.zeros(1, np.complex64), device=device)


@pytest.mark.parametrize("inclusive", ["both", "left", "right", "neither"])
@pytest.mark.parametrize("key", KEYS)
def test_joins_by_ranges_agree_with_masks(device: str, key: str, inclusive: str) -> None:
    rng = np.random.default_rng(4)
    keys, lows, highs = draw(rng, key, 200, 300), draw(rng, key, 40, 350), draw(rng, key, 40, 350)
    sorted_keys, sorted_rows = model(keys, np.arange(keys.size))
    index = lanetree.Index(keys, device=device)
    left, near, rows = index.range_join(lows, highs, inclusive=inclusive)  # type: ignore[arg-type]
    above = sorted_keys >= lows[:, None] if inclusive in ("both", "left") else sorted_keys > lows[:, None]
    below = sorted_keys <= highs[:, None] if inclusive in ("both", "right") else sorted_keys < highs[:, None]
    probe, at = np.nonzero(above & below)
    assert np.array_equal(left, probe) and np.array_equal(near, sorted_keys[at]) and np.array_equal(rows, sorted_rows[at])
    assert near.dtype == keys.dtype and left.dtype == np.int64
    if keys.dtype.kind in "iu":
        left, near, rows = index.band_join(lows, 25)
        far = np.abs(sorted_keys.astype(object) - lows.astype(object)[:, None]).astype(np.int64)
        probe, at = np.nonzero(far <= 25)
        assert np.array_equal(left, probe) and np.array_equal(near, sorted_keys[at]) and np.array_equal(rows, sorted_rows[at])


def test_bands_do_not_wrap_around(device: str) -> None:
    ends = np.array([0, 2**64 - 1], np.uint64)
    index = lanetree.Index(ends, device=device)
    assert index.band_join(ends, 5).left.tolist() == [0, 1]
    assert index.band_join(ends, 2**64 - 1).left.tolist() == [0, 0, 1, 1]
    times = np.array(["2026-01-01", "2026-01-03"], "datetime64[s]")
    at = lanetree.Index(times, device=device)
    assert at.band_join(times + np.timedelta64(1, "h"), np.timedelta64(2, "h")).values.tolist() == [0, 1]
    with pytest.raises(ValueError, match="a distance of -1 is below 0"):
        index.band_join(ends, -1)
    assert lanetree.Index([1.0], device=device).band_join([2.0, 2.25, np.inf], 1).left.tolist() == [0]
    with pytest.raises(lanetree.errors.BoundLengths):
        index.range_join(ends, ends[:1])


@pytest.mark.parametrize("closed", ["both", "left", "right", "neither"])
@pytest.mark.parametrize("key", [*KEYS, "datetime64[s]"])
def test_closed_intervals_are_those_of_pandas(key: str, closed: Any) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    starts, ends = (np.sort(rng.integers(0, 30, (2, 80)), axis=0)).astype(key)
    points = np.arange(32).astype(key)
    index = lanetree.IntervalIndex(starts, ends, device="cpu", closed=closed)
    theirs = pandas.IntervalIndex.from_arrays(starts, ends, closed=closed)
    inside = [np.flatnonzero(theirs.contains(point)).tolist() for point in pandas.Series(points)]
    offsets, rows = index.stab(points)
    assert [sorted(rows[a:b].tolist()) for a, b in zip(offsets, offsets[1:])] == inside
    assert index.count(points).tolist() == [len(each) for each in inside] and index.copy() == index
    if key[0] == "f":
        # Between the bounds all floats are there.
        near = np.nextafter(points, np.array(np.inf, key))
        assert index.count(near).tolist() == [int(((starts <= at) & (at <= ends)).sum()) for at in near]


def test_bounds_at_the_ends_of_the_dtype() -> None:
    for dtype in ("uint32", "int64"):
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.max], dtype)
        assert len(lanetree.IntervalIndex(ends[1:], ends[1:], device="cpu", closed="right")) == 0
        assert len(lanetree.IntervalIndex(ends[:1], ends[:1], device="cpu", closed="left")) == 0
        assert lanetree.IntervalIndex(ends[:1], ends[1:], device="cpu", closed="neither").count(ends).tolist() == [0, 0]
    with pytest.raises(lanetree.errors.ReversedRange, match="range 1 starts at 9 and ends at 8"):
        lanetree.IntervalIndex([1, 9], [2, 8], device="cpu", closed="left")
    with pytest.raises(ValueError, match="closed is 'open', where 'both', 'left', 'right' or 'neither' is needed"):
        lanetree.IntervalIndex([1], [2], device="cpu", closed="open")  # type: ignore[arg-type]


@pytest.mark.parametrize("closed", ["both", "neither"])
@pytest.mark.parametrize("key", ["uint32", "int64", "float64", "datetime64[us]"])
def test_bounds_that_are_null_are_open(key: str, closed: Any) -> None:
    starts = np.ma.array(np.array([10, 0, 20, 0]).astype(key), mask=[False, True, False, True])
    ends = np.ma.array(np.array([20, 15, 0, 0]).astype(key), mask=[False, False, True, True])
    index = lanetree.IntervalIndex(starts, ends, device="cpu", closed=closed, nulls="open")
    far = np.array([np.inf], key) if key[0] == "f" else np.array([2**32 - 1]).astype(key)
    points = np.concatenate([np.array([1, 12, 16, 25]).astype(key), far])
    assert [sorted(index.stab(points[i : i + 1]).rows.tolist()) for i in range(5)] == [[1, 3], [0, 1, 3], [0, 3], [2, 3], [2, 3]]
    assert len(lanetree.IntervalIndex(starts, ends, device="cpu", nulls="skip")) == 1
    with pytest.raises(ValueError, match="the starts have 2 nulls"):
        lanetree.IntervalIndex(starts, ends, device="cpu")
    assert lanetree.IntervalIndex([None], [5], device="cpu", nulls="open").count([-(2**63), 5, 6]).tolist() == [1, 1, 0]


@pytest.mark.parametrize("options", [{"closed": "left"}, {"nulls": "open"}])
def test_bounds_on_a_device_are_inclusive(device: str, options: Any) -> None:
    if device == "cpu":
        pytest.skip("arrays of the CPU are NumPy's")
    bounds = lanetree.asarray(np.array([1]), device)
    with pytest.raises(ValueError, match="on a device"):
        lanetree.IntervalIndex(bounds, bounds, **options)
    assert lanetree.IntervalIndex([1], [3], device=device, closed="left").count([2, 3]).tolist() == [1, 0]
