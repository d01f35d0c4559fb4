"""Tolerances, times and integers of Python are exact in the keys' unit, or refused."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lanetree
from lanetree import _missing

SECOND = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1} | {unit: Fraction(1, 1000**power) for power, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"), 1)}
units = st.tuples(st.integers(1, 20), st.sampled_from(sorted(SECOND)))
words = st.integers(-(2**63) + 1, 2**63 - 1)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**63 - 1), units, units)
def test_any_tolerance_is_exact(number: int, given_in: tuple[int, str], keys_in: tuple[int, str]) -> None:
    limit = np.timedelta64(number, f"{given_in[0]}{given_in[1]}")
    seconds = Fraction(int(limit.view(np.int64))) * given_in[0] * SECOND[given_in[1]]
    expected = int(seconds // (keys_in[0] * SECOND[keys_in[1]]))
    for kind in ("M8", "m8"):
        assert _missing.tolerance(limit, np.dtype(f"{kind}[{keys_in[0]}{keys_in[1]}]")) == min(expected, 2**64 - 1)


@settings(max_examples=300, deadline=None)
@given(words, units, units, st.sampled_from(["M8", "m8"]))
def test_any_time_is_exact_or_refused(number: int, given_in: tuple[int, str], keys_in: tuple[int, str], kind: str) -> None:
    item, dtype = np.array([number]).view(f"{kind}[{given_in[0]}{given_in[1]}]")[0], np.dtype(f"{kind}[{keys_in[0]}{keys_in[1]}]")
    expected = Fraction(number) * given_in[0] * SECOND[given_in[1]] / (keys_in[0] * SECOND[keys_in[1]])
    if expected.denominator != 1:
        with pytest.raises(ValueError, match="the queries: .* is not a whole number of units of"):
            _missing.split([item], dtype, "the queries")
    elif abs(expected) >= 2**63:
        with pytest.raises(OverflowError, match="is out of the range of"):
            _missing.split([item], dtype, "the queries")
    else:
        (made,), _ = _missing.split([item], dtype, "the queries")
        assert made.dtype == dtype and int(made.view(np.int64)) == expected


@settings(max_examples=200, deadline=None)
@given(st.datetimes(), st.timedeltas(), st.sampled_from(["s", "10ms", "us", "ns", "h", "D"]))
def test_any_time_of_python_is_exact_or_refused(at: datetime.datetime, distance: datetime.timedelta, unit: str) -> None:
    name, multiple = np.datetime_data(np.dtype(f"M8[{unit}]"))
    tick, micros = multiple * SECOND[name], lambda it: Fraction(it // datetime.timedelta(microseconds=1), 10**6)
    limit = max(distance, datetime.timedelta(0))
    assert _missing.tolerance(limit, np.dtype(f"M8[{unit}]")) == min(2**64 - 1, int(micros(limit) // tick))
    for item, dtype, seconds in ((at, f"M8[{unit}]", micros(at - datetime.datetime(1970, 1, 1))), (distance, f"m8[{unit}]", micros(distance))):
        expected = seconds / tick
        assume(abs(expected) < 2**63)
        if expected.denominator == 1:
            assert int(_missing.split(item, np.dtype(dtype), "it")[0].view(np.int64)) == expected
        else:
            with pytest.raises(ValueError, match="not a whole number of units"):
                _missing.split(item, np.dtype(dtype), "it")


def joined(index: Any, at: np.ndarray, limit: Any) -> list[list[int]]:
    """The rows within a distance, by each call that takes one."""
    left, *_, rows = index.band_join(at, limit)
    return [left.tolist(), rows.tolist()]


@pytest.mark.parametrize("unit", ["10ms", "ms", "ns"])
def test_tolerances_of_all_calls(device: str, unit: str) -> None:
    pandas = pytest.importorskip("pandas")
    keys = (np.array([0, 100, 200], "M8[ms]")).astype(f"M8[{unit}]")
    at = keys + np.timedelta64(50, "ms").astype(f"m8[{unit}]")
    index, multi = lanetree.Index(keys, device=device), lanetree.MultiIndex(keys, device=device)
    grouped = lanetree.GroupedIndex(np.zeros(3, np.int64), keys, device=device)
    by = np.zeros(3, np.int64)
    for milliseconds in (49, 50, 51):
        limits = [np.timedelta64(milliseconds, "ms"), np.timedelta64(milliseconds * 10**6, "ns"), datetime.timedelta(milliseconds=milliseconds)]
        limits += [pandas.Timedelta(milliseconds, "ms"), pandas.Timedelta(milliseconds, "ms").as_unit("ns")]
        for limit in limits:
            found = [milliseconds >= 50] * 3
            assert index.asof(at, tolerance=limit).found.tolist() == found
            assert grouped.asof(at, by=by, tolerance=limit).found.tolist() == found
            assert len(index.asof_join(at, "semi", tolerance=limit)) == len(grouped.asof_join(at, "semi", by=by, tolerance=limit)) == sum(found)
            assert index.k_nearest(at, 2, tolerance=limit).offsets.tolist() == ([0, 2, 4, 5] if found[0] else [0] * 4)
            assert joined(index, at, limit) == joined(multi, at, limit) == ([[0, 0, 1, 1, 2], [0, 1, 1, 2, 2]] if found[0] else [[], []])


def test_tolerances_are_not_made_of_microseconds_and_do_not_wrap(device: str) -> None:
    pandas = pytest.importorskip("pandas")
    start = np.array(["2020-01-01"], "M8[ns]")
    index = lanetree.Index(start, device=device)
    later = start + np.array([400, 500, 501, 10**9], "m8[ns]")
    frames = pandas.DataFrame({"at": later}), pandas.DataFrame({"at": start, "row": [0]})
    for limit in (pandas.Timedelta(500, "ns"), pandas.Timedelta(1, "ns"), pandas.Timedelta(days=1)):
        theirs = pandas.merge_asof(*frames, on="at", tolerance=limit)["row"].notna().tolist()
        assert index.asof(later, tolerance=limit).found.tolist() == theirs
    # 600 years are more nanoseconds than 64 bits count.
    ends = np.array([-(2**63) + 1, 2**63 - 1]).view("M8[ns]")
    for limit in (np.timedelta64(600, "D") * 365, datetime.timedelta.max, pandas.Timedelta(600 * 365, "D").as_unit("s"), np.timedelta64(2**63 - 1, "W")):
        far = lanetree.Index(ends[:1], device=device).asof(ends[1:], tolerance=limit).found.tolist()
        assert far == [True], limit
    assert lanetree.Index(ends[:1], device=device).asof(ends[1:], tolerance=np.timedelta64(200 * 365, "D")).found.tolist() == [False]
    seconds = lanetree.Index(start.astype("M8[s]"), device=device)
    at = start.astype("M8[s]") + np.array([1, 2])
    assert seconds.asof(at, tolerance=np.timedelta64(1999, "ms")).found.tolist() == [True, False]


@pytest.mark.parametrize(
    ("dtype", "limit", "error"),
    [
        ("M8[s]", np.timedelta64(-1, "ns"), "a tolerance of -1 nanoseconds is below 0"),
        ("M8[s]", datetime.timedelta(microseconds=-1), "is below 0"),
        ("M8[s]", 0.5, "a tolerance of 0.5 for keys of datetime64.s.: pass an integer or a timedelta64"),
        ("M8[s]", np.timedelta64(1, "M"), "does not convert to timedelta64.s."),
        ("M8[M]", np.timedelta64(1, "D"), "does not convert to timedelta64.M."),
        ("M8[s]", "1s", "a tolerance of '1s' for keys"),
        ("M8[s]", datetime.datetime(2020, 1, 1), "for keys of datetime64.s.: pass"),
        ("int64", np.timedelta64(1, "s"), "for keys of int64: pass an integer"),
        ("int64", datetime.timedelta(1), "for keys of int64: pass an integer"),
        ("float64", np.timedelta64(1, "s"), "for keys of float64: pass a number"),
        ("float64", "1", "a tolerance of '1' for keys of float64: pass a number"),
    ],
)
def test_tolerances_that_are_none(dtype: str, limit: Any, error: str) -> None:
    keys = np.array([1, 2]).astype(dtype)
    with pytest.raises((TypeError, ValueError), match=error):
        lanetree.Index(keys, device="cpu").asof(keys, tolerance=limit)
    if dtype != "float64":
        with pytest.raises((TypeError, ValueError), match=error.replace("tolerance", "distance")):
            lanetree.Index(keys, device="cpu").band_join(keys, limit)
    months = lanetree.Index(np.array([0, 12], "M8[M]"), device="cpu")
    assert months.asof(np.array([11, 24], "M8[M]"), tolerance=np.timedelta64(1, "Y")).found.tolist() == [True, True]


def test_times_of_python_in_every_role(device: str) -> None:
    pandas = pytest.importorskip("pandas")
    noon, half = np.datetime64("2020-01-01T12", "s"), np.datetime64("2020-01-01T12:00:00.5", "ms")
    keys = np.array([noon, noon + 10])
    index, multi, alone = lanetree.Index(keys, device=device), lanetree.MultiIndex(keys, device=device), lanetree.Set(keys, device)
    same = [noon, np.datetime64("2020-01-01T12", "h"), noon.astype("M8[ns]"), pandas.Timestamp(noon), noon.item(), pandas.Timestamp(noon).as_unit("ns")]
    assert lanetree.Index(keys.astype("M8[D]")[:1], device=device).contains(datetime.date(2020, 1, 1))
    intervals, grouped = lanetree.IntervalIndex(keys, keys, device=device), lanetree.GroupedIndex(keys, keys, device=device)
    for item in same:
        for one in (item, [item], [[item]]):
            shape = np.shape(one) if isinstance(one, list) else ()
            for found in (index.contains(one), multi.contains(one), alone.contains(one), intervals.count(one), grouped.get(one, by=one).found):
                assert np.shape(found) == shape and np.all(found)
        assert item in index and item in multi and item in alone and item in intervals and index[item] == 0
        assert index.count_range([item], [item]).tolist() == [1] and index.range([item], [item]).values.tolist() == [0]
        assert index.searchsorted(item, "right") == 1 and index.predecessor(item)[1] == 0 and index.join([item], "semi").tolist() == [0]
        assert lanetree.Index([item], device=device, key_dtype="M8[s]").keys().tolist() == keys[:1].tolist()
        assert index.insert([item], [7]).replaced == 1 and index.remove([item]).removed == 1 and index.insert([item], [0]).inserted == 1
    for item in (half, pandas.Timestamp(half), half.item()):
        for call in (index.contains, index.get, multi.get, alone.contains, index.searchsorted, index.asof, intervals.count, index.join, index.remove):
            for one in (item, [noon, item]):
                with pytest.raises(ValueError, match="the (queries|probes|keys|points).*: .* is not a whole number of units of datetime64.s.: round it"):
                    call(one)  # type: ignore[operator]
        for lows, highs in (([item], [noon]), ([noon], [item])):
            with pytest.raises(ValueError, match="the (starts|ends): .* is not a whole number"):
                index.range(lows, highs)
        with pytest.raises(ValueError, match="the (groups .by.|keys): .* is not a whole number"):
            grouped.get([noon], by=[item])
        assert item not in index
        with pytest.raises(ValueError, match="the points: .* not a whole number"):
            item in intervals
        with pytest.raises(ValueError, match="the keys: .* is not a whole number"):
            lanetree.Index([item], device=device, key_dtype="M8[s]")
        with pytest.raises(ValueError, match="the default: .* is not a whole number"):
            lanetree.Index([1], keys[:1], device=device).get([2], default=item)
    nanos = lanetree.Index(keys.astype("M8[ns]"), device=device)
    for item in (np.datetime64("2500-01-01", "D"), datetime.date(9999, 1, 1), datetime.datetime(1, 1, 1), np.datetime64(2**62, "Y")):
        with pytest.raises(OverflowError, match="is out of the range of datetime64.ns."):
            nanos.contains([item])
    for item in (datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc), pandas.Timestamp("2020-01-01", tz="UTC")):
        with pytest.raises(TypeError, match="have a time zone, UTC, but the index has times without one"):
            index.contains(item)
    for item in (datetime.timedelta(1), np.timedelta64(1, "s"), 5, [noon, 5], [noon, np.timedelta64(1, "s")]):
        with pytest.raises(TypeError):
            index.contains(item)
    with pytest.raises(TypeError, match="is a time, where int64 is needed"):
        lanetree.Index([1, 2], device=device).contains([np.timedelta64(1, "s")])
    assert index.contains(keys.astype("M8[ns]")).all() and index.contains(keys[:1].astype("M8[m]")).all()


def test_months_are_of_the_calendar() -> None:
    months = lanetree.Index(np.array(["2020-02", "1969-12"], "M8[M]"), device="cpu")
    assert months.contains([datetime.date(2020, 2, 1), np.datetime64("1969-12-01T00", "h"), np.datetime64("2020", "Y")]).tolist() == [True, True, False]
    with pytest.raises(ValueError, match="not a whole number of units of datetime64.M."):
        months.contains(datetime.date(2020, 2, 2))
    days = lanetree.Index(np.array(["2020-02-01", "1969-12-01"], "M8[D]"), device="cpu")
    assert days.contains([np.datetime64("2020-02", "M"), np.datetime64("1969-12", "M"), np.datetime64("2020", "Y")]).tolist() == [True, True, False]


def test_times_in_lists_get_a_unit_that_holds_all() -> None:
    pandas = pytest.importorskip("pandas")
    mixed = [np.datetime64("2020-01-01", "D"), datetime.datetime(2020, 1, 1, 0, 0, 0, 5), pandas.Timestamp("2020-01-02").as_unit("s")]
    index = lanetree.Index(mixed, device="cpu")
    assert index.key_dtype == np.dtype("M8[us]") and index.contains(mixed).all() and len(index) == 3
    with pytest.raises(OverflowError, match="out of the range of datetime64.ns."):
        lanetree.Index([np.datetime64("2500", "Y"), np.datetime64(1, "ns")], device="cpu")
    assert lanetree.Index([datetime.timedelta(1), None], device="cpu", nulls="last").key_dtype == np.dtype("m8[us]")


def test_integers_of_python_are_exact_or_refused(device: str) -> None:
    with pytest.raises(OverflowError, match="the keys go from -1 to 9223372036854775809, which no dtype holds"):
        lanetree.Index([2**63 + 1, -1], device=device)
    with pytest.raises(OverflowError, match="9223372036854775809 is outside of int64"):
        lanetree.Index([2**63 + 1, -1], device=device, key_dtype="int64")
    with pytest.raises(OverflowError, match="the keys: not all of these integers are exact as float64"):
        lanetree.Index([2**53 + 1, 0.5], device=device)
    floats = lanetree.Index([0.5], device=device)
    with pytest.raises(OverflowError, match="the queries: not all of these integers are exact as float64"):
        floats.contains([2**63 + 1, 0.5, None])
    assert floats.contains([2**53, 0.5, None]).tolist() == [False, True, False]
    assert lanetree.Index([2**63 + 1, None], device=device, nulls="skip").keys().tolist() == [2**63 + 1]
    exact = lanetree.Index([2**53 + 1, None], device=device, nulls="skip")
    assert exact.contains([2**53, 2**53 + 1, None]).tolist() == [False, True, False]
    with pytest.raises(OverflowError):
        exact.contains([2**63 + 1, -1])
    single = lanetree.Index(np.array([0.1, np.inf], np.float32), device=device)
    assert single.contains([0.1, np.inf]).all()
    with pytest.raises(OverflowError, match="not all of these numbers are in the range of float32"):
        single.contains([1e300])


def test_a_files_times_keep_their_unit(tmp_path: Any) -> None:
    path = tmp_path / "it"
    for kind in (lanetree.Index, lanetree.MultiIndex):
        kind(np.array([1, 2], "M8[s]"), np.array([3, 4], "m8[ms]"), device="cpu").save(path)
        for wrong in ("M8[ns]", "M8[10s]", "m8[s]", "M8"):
            with pytest.raises(TypeError, match="keys of datetime64.s., which are not seen as .*: load them as datetime64.s., and convert"):
                kind.load(path, "cpu", key_dtype=wrong)
        for wrong in ("m8[s]", "M8[ms]", "float64"):
            with pytest.raises(TypeError, match="values of timedelta64.ms., which are not seen as"):
                kind.load(path, "cpu", value_dtype=wrong)
        as_integers = kind.load(path, "cpu", key_dtype="int64", value_dtype="int64")
        assert [column.tolist() for column in as_integers.items()] == [[1, 2], [3, 4]]
        assert kind.load(path, "cpu", key_dtype="M8[s]").key_dtype == np.dtype("M8[s]")
    lanetree.Set(np.array([1, 2], "M8[s]"), "cpu").save(path)
    with pytest.raises(TypeError, match="not seen as"):
        lanetree.Set.load(path, "cpu", key_dtype="M8[ns]")
