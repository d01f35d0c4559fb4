"""Joins by intervals compared with all pairs of rows, over random tables with nulls, duplicates, groups and empty sides."""

from __future__ import annotations

import doctest
import inspect
import itertools
from typing import Any, Callable

import numpy as np
import pytest

import lanetree

from test_frames import KINDS, NAMES, TYPES, rows_of

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

CLOSED = {"both": (True, True), "left": (True, False), "right": (False, True), "neither": (False, False)}
HOW = ("inner", "left", "semi", "anti")


def times(dtype: str, zone: str | None = None) -> Callable[[list[int | None]], Any]:
    """Numbers of days as times or durations, None as NaT."""

    def made(numbers: list[int | None]) -> Any:
        series = pandas.Series(np.array(["NaT" if at is None else at for at in numbers], f"{dtype[:2]}[D]").astype(dtype))
        return series if zone is None else series.dt.tz_localize("UTC").dt.tz_convert(zone)

    return made


#: Numbers of which some are None as columns that are compared with each other, by kind.
COLUMNS: dict[str, list[Callable[[list[int | None]], Any]]] = {
    "numbers": [
        lambda it: pandas.array(it, dtype="Int64"),
        lambda it: pandas.array(it, dtype="Int8"),
        lambda it: np.array(it, float),
        lambda it: pandas.array(it, dtype="Float32"),
        lambda it: pandas.array(it, dtype=pandas.ArrowDtype(pyarrow.int16())),
        lambda it: np.array([0 if at is None else at for at in it], np.int32) if None not in it else pandas.array(it, dtype="Int32"),
    ],
    "times": [times("M8[s]"), times("M8[ns]"), lambda it: pandas.Series(pyarrow.array(it, pyarrow.int32()).cast(pyarrow.date32()), dtype=pandas.ArrowDtype(pyarrow.date32()))],
    "instants": [times("M8[us]", "UTC"), times("M8[ns]", "Europe/Berlin"), times("M8[s]", "America/New_York")],
    "durations": [times("m8[s]"), times("m8[ms]")],
}

#: The bounds of a row, or its point and that; None is no bound, or no point.
Bounds = tuple["int | None", "int | None"]


def is_pair(left: Bounds, right: Bounds, is_point: tuple[bool, bool], closed: str) -> bool:
    """Whether two intervals overlap, or one contains a point."""
    sides, ends = (left, right), [(True, True) if point else CLOSED[closed] for point in is_point]

    def is_upto(low: int | None, high: int | None, may_touch: bool) -> bool:
        return low is None or high is None or low < high or low == high and may_touch

    for (low, high), point, end in zip(sides, is_point, ends):
        if point and low is None or not is_upto(low, high, all(end)):
            return False
    return is_upto(left[0], right[1], ends[0][0] and ends[1][1]) and is_upto(right[0], left[1], ends[1][0] and ends[0][1])


def drawn(rng: np.random.Generator, kind: str, is_point: bool, names: tuple[str, str]) -> tuple[Any, list[Bounds], list[tuple[Any, ...]]]:
    """A table, the bounds of its rows, and their groups."""
    size, has_nulls = int(rng.choice([0, 1, 6, 25])), rng.random() < 0.6
    made = [[None if has_nulls and rng.random() < 0.2 else int(at) for at in rng.integers(-12, 12, size)] for _ in names]
    if rng.random() < 0.5:
        # Intervals that are short, and seldom reversed.
        made[1] = [None if low is None else low + int(more) for low, more in zip(made[0], rng.integers(-1, 6, size))]
    columns = {name: COLUMNS[kind][rng.integers(len(COLUMNS[kind]))](numbers) for name, numbers in zip(names, made)}
    groups = [rng.integers(-1, 2, size), rng.integers(0, 2, size)]
    columns["word"] = pandas.Series(np.where(groups[0] < 0, None, NAMES[groups[0]]), dtype="str")
    columns["code"] = groups[1].astype(rng.choice(["int64", "int8"]))
    bounds = [(low, low) if is_point else (low, high) for low, high in zip(*made)]
    return pandas.DataFrame({**columns, "row": np.arange(size)}), bounds, list(zip(*(part.tolist() for part in groups)))


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("is_point", [(True, False), (False, True), (False, False)], ids=["points", "points on the right", "intervals"])
def test_interval_join_is_all_pairs(kind: str, is_point: tuple[bool, bool]) -> None:
    for seed, closed, by in itertools.product(range(12), CLOSED, ((), ("word",), ("word", "code"))):
        rng = np.random.default_rng([seed, len(by), *map(ord, closed)])
        (left, mine, groups), (right, theirs, others) = (drawn(rng, kind, point, names) for point, names in zip(is_point, (("a", "b"), ("c", "d"))))
        expected = [
            (i, j)
            for (i, one), (j, other) in itertools.product(enumerate(mine), enumerate(theirs))
            if groups[i][: len(by)] == others[j][: len(by)] and is_pair(one, other, is_point, closed)
        ]
        left_on, right_on = ("a" if is_point[0] else ("a", "b")), ("c" if is_point[1] else ["c", "d"])
        for how in HOW:
            made = lanetree.interval_join(left, right, left_on, right_on, how, closed=closed, by=list(by) or None)  # type: ignore[arg-type]
            found = {i for i, _ in expected}
            if how in ("semi", "anti"):
                pandas.testing.assert_frame_equal(made, left[np.array([(i in found) == (how == "semi") for i in range(len(left))], bool)])
                continue
            rows = sorted(expected + [(i, -1) for i in range(len(left)) if how == "left" and i not in found], key=lambda pair: pair[0])
            assert list(zip(made["row_x"], made["row_y"].fillna(-1).astype(int))) == rows
            alike = ["word", "code"][: len(by)]
            both = lambda name, suffix: name if name in alike else name + suffix
            names = ["a", "b", both("word", "_x"), both("code", "_x"), "row_x", "c", "d", *(f"{name}_y" for name in ("word", "code") if name not in alike), "row_y"]
            assert list(made.columns) == names and made["a"].dtype == left["a"].dtype
            if is_point == (True, False):
                again = lanetree.range_join(left, right, ("a", "c", "d"), closed, by=list(by) or None, how=how)  # type: ignore[arg-type]
                pandas.testing.assert_frame_equal(made, again)


@pytest.mark.parametrize("closed", CLOSED)
def test_intervals_overlap_as_those_of_pandas(closed: Any) -> None:
    bounds = pandas.DataFrame([(low, high) for low, high in itertools.product(range(5), range(5)) if low < high], columns=["low", "high"])
    made = lanetree.interval_join(bounds, bounds, on=("low", "high"), closed=closed)
    ours = [pandas.Interval(low, high, closed) for low, high in zip(bounds["low"], bounds["high"])]
    pairs = [(one.left, one.right, other.left, other.right) for one, other in itertools.product(ours, ours) if one.overlaps(other)]
    assert list(made.itertuples(index=False, name=None)) == pairs


def test_each_kind_of_frame_is_answered_in_kind() -> None:
    rng = np.random.default_rng(7)
    for is_point in ((True, False), (False, False)):
        (left, _, _), (right, _, _) = (drawn(np.random.default_rng(seed), "instants", point, names) for seed, point, names in ((3, is_point[0], ("a", "b")), (12, False, ("c", "d"))))
        assert len(left) and len(right)
        for how in HOW:
            options: Any = {"left_on": "a" if is_point[0] else ("a", "b"), "right_on": ("c", "d"), "how": how, "by": "word", "closed": "left"}
            expected = rows_of(lanetree.interval_join(left, right, **options))
            assert expected or how == "semi", how
            for left_kind, right_kind in itertools.product(KINDS, KINDS):
                made = lanetree.interval_join(KINDS[left_kind](left), KINDS[right_kind](right), **options)
                assert type(made) is TYPES[left_kind]
                assert [{name: row[name] for name in ("row_x", "row_y", "row") if name in row} for row in rows_of(made)] == [
                    {name: row[name] for name in ("row_x", "row_y", "row") if name in row} for row in expected
                ]


@pytest.mark.parametrize("library", KINDS)
def test_columns_of_nulls_alone_are_open_bounds(library: str) -> None:
    left = pandas.DataFrame({"at": [1, 5], "none": [None, None]})
    right = pandas.DataFrame({"low": [0, 3], "high": [None, None], "row": [0, 1]})
    made = lanetree.interval_join(KINDS[library](left), KINDS[library](right), "at", ("low", "high"))
    assert [row["row"] for row in rows_of(made)] == [0, 0, 1]
    made = lanetree.interval_join(KINDS[library](left), KINDS[library](right), ("at", "none"), ("high", "high"))
    assert [row["row"] for row in rows_of(made)] == [0, 1, 0, 1]
    assert not rows_of(lanetree.interval_join(KINDS[library](left), KINDS[library](right), "none", ("low", "high"), "semi"))


def test_arrays_and_names_of_both_sides() -> None:
    left, right = pandas.DataFrame({"low": [1, 5], "high": [2, 9]}), pandas.DataFrame({"low": [2, 7, 3], "high": [4, 7, 3]})
    made = lanetree.interval_join(left, right, on=["low", "high"])
    assert list(made.columns) == ["low_x", "high_x", "low_y", "high_y"] and made["low_y"].tolist() == [2, 7]
    assert lanetree.interval_join(left, right, np.array([7, 3]), ("low", "high"))["low_y"].tolist() == [7, 2, 3]
    assert lanetree.interval_join(left, right, [np.array([7, 3])], [right["low"], pyarrow.array([None, 7, 3])])["low_y"].tolist() == [2, 7, 2, 3]
    grouped = lanetree.interval_join(left, right, "low", ("low", "high"), "left", left_by=np.array([1, 2]), right_by=np.array([1, 2, 1]), suffixes=(None, "_of"))
    assert list(grouped.columns) == ["key_0", "low", "high", "low_of", "high_of"] and grouped["low_of"].isna().tolist() == [True, True]


def test_bounds_at_the_ends_of_their_dtypes() -> None:
    ends = np.array([-(2**63), 2**63 - 1])
    for closed, found in (("both", [0, 1]), ("left", [0]), ("right", [1]), ("neither", [])):
        points = pandas.DataFrame({"at": ends, "row": [0, 1]})
        assert lanetree.interval_join(points, pandas.DataFrame({"low": ends[:1], "high": ends[1:]}), "at", ("low", "high"), closed=closed)["row"].tolist() == found  # type: ignore[arg-type]
        opened = lanetree.interval_join(points, pandas.DataFrame({"low": [None], "high": [None]}), "at", ("low", "high"), closed=closed)  # type: ignore[arg-type]
        assert opened["row"].tolist() == [0, 1]
    infinite = pandas.DataFrame({"at": [-np.inf, -0.0, np.inf], "row": range(3)})
    assert lanetree.interval_join(infinite, pandas.DataFrame({"low": [0.0, -np.inf], "high": [np.inf, -0.0]}), "at", ("low", "high"), closed="left")["row"].tolist() == [0, 1]


def test_many_pairs_are_as_many_as_counted() -> None:
    rng = np.random.default_rng(9)
    lows, others = rng.integers(0, 10**6, 30_000), rng.integers(0, 10**6, 20_000)
    left, right = pandas.DataFrame({"a": lows, "b": lows + rng.integers(0, 99, lows.size)}), pandas.DataFrame({"c": others, "d": others + rng.integers(0, 99, others.size)})
    counts = np.searchsorted(np.sort(right["c"]), left["b"], "right") - np.searchsorted(np.sort(right["d"]), left["a"], "left")
    assert len(lanetree.interval_join(left, right, ("a", "b"), ("c", "d"))) == counts.sum()
    assert len(lanetree.interval_join(left, right, ("a", "b"), ("c", "d"), "anti")) == (counts == 0).sum()


def test_errors_name_the_argument() -> None:
    left, right = pandas.DataFrame({"a": [1], "s": ["x"], "t": np.array([1], "M8[s]")}), pandas.DataFrame({"b": [1], "c": [2], "s": ["x"]})
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"left_on": "a"}, ValueError, "left_on is given without right_on"),
        ({}, ValueError, "left_on has 0 columns"),
        ({"on": "s", "left_on": "a"}, ValueError, "on and left_on or right_on are both given"),
        ({"on": "s"}, ValueError, "on name points alone: give the two bounds of one side"),
        ({"left_on": "a", "right_on": "b"}, ValueError, "left_on and right_on name points alone"),
        ({"left_on": "a", "right_on": ("b", "c", "b")}, ValueError, "right_on has 3 columns"),
        ({"left_on": "a", "right_on": ("b", "z")}, KeyError, "right_on='z': right has no such column"),
        ({"left_on": "z", "right_on": ("b", "c")}, KeyError, "left_on='z': left has no such column"),
        ({"left_on": "s", "right_on": ("s", "s")}, ValueError, "are strings: only numbers and times are ordered here"),
        ({"left_on": "t", "right_on": ("b", "c")}, ValueError, "are times without a time zone, and .* are integers"),
        ({"left_on": ("a", "t"), "right_on": ("b", "c")}, ValueError, r"left\['a'\] .* are integers, and left\['t'\] .* are times"),
        ({"left_on": np.arange(2), "right_on": ("b", "c")}, ValueError, "left_on is an array of 2 elements, and left has 1 rows"),
        ({"left_on": "a", "right_on": ("b", "c"), "closed": "yes"}, ValueError, "closed is 'yes'"),
        ({"left_on": "a", "right_on": ("b", "c"), "how": "outer"}, ValueError, "how is 'outer'"),
        ({"left_on": "a", "right_on": ("b", "c"), "by": "a"}, KeyError, "by='a': right has no such column"),
        ({"left_on": "a", "right_on": ("b", "c"), "suffixes": ("", None)}, ValueError, "both sides have columns 's'"),
    ]
    for options, kind, message in cases:
        with pytest.raises(kind, match=message):
            lanetree.interval_join(left, right, **options)
    with pytest.raises(TypeError, match="right is a builtins.list"):
        lanetree.interval_join(left, [1], "a", ("b", "c"))


def test_docstrings_name_all_arguments_and_their_examples_run() -> None:
    for function in (lanetree.interval_join, lanetree.range_join):
        section = (function.__doc__ or "").split("Parameters\n")[1]
        assert all(name in section for name in inspect.signature(function).parameters)
        (test,) = doctest.DocTestFinder(recurse=False).find(function, globs={"lanetree": lanetree})
        assert test.examples and doctest.DocTestRunner().run(test).failed == 0
