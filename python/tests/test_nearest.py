"""Joins with the nearest rows compared with all pairs, sorted by distance."""

from __future__ import annotations

import doctest
import itertools
from typing import Any

import numpy as np
import pytest

import lanetree

from test_frames import KINDS, TIMES, TYPES, limit_of, pandas_asof, rows_of, same, tables

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")


def all_pairs(left: Any, right: Any, k: int, by: list[str], limit: Any, exact: bool, how: str) -> Any:
    """The join, from all pairs of rows."""
    if left["at"].dtype == np.uint64:
        # Their differences wrap around.
        left, right = (side.assign(at=(side["at"].to_numpy() - np.uint64(2**63)).view(np.int64)) for side in (left, right))
    left = left.assign(left=np.arange(len(left)))
    other = right.assign(right=np.arange(len(right)))
    # What is missing in a group is equal to what is missing.
    pairs = left.merge(other, "left", on=by or None, suffixes=("", "_y")) if by else left.merge(other, "cross", suffixes=("", "_y"))
    pairs = pairs.dropna(subset="right") if len(pairs) else pairs
    is_later, gap = pairs["at_y"] > pairs["at"], (pairs["at_y"] - pairs["at"]).abs()
    keep = np.ones(len(pairs), bool) if limit is None else gap <= limit
    keep &= exact | (gap != gap.iloc[0] * 0 if len(pairs) else True)
    order = np.where(is_later, pairs["right"], -pairs["right"])
    made = pairs.assign(gap=gap, later=is_later, order=order)[keep].sort_values(["left", "gap", "later", "order"], kind="stable").groupby("left").head(k)
    found = list(zip(made["left"].astype(int), made["right"].astype(int)))
    if how == "left":
        found += [(row, -1) for row in range(len(left)) if row not in set(made["left"])]
        found.sort(key=lambda pair: pair[0])
    return found


@pytest.mark.parametrize("times", ["int64", "int8", "uint64", "float64", "datetime64[s]", "timedelta64[ms]"])
def test_merge_nearest_is_all_pairs_by_distance(times: str) -> None:
    for seed, groups, k in itertools.product(range(3), ((), ("int16",), ("str", "int64")), (1, 2, 5, 1000)):
        left, right = tables(800 + seed, times, groups, is_sorted=False)
        if times == "int8":
            left, right = left.astype({"at": "int64"}), right.astype({"at": "int64"})
        left, right = left.iloc[:40], right.iloc[:50].assign(row=np.arange(min(len(right), 50)))
        by = [f"by{number}" for number in range(len(groups))]
        for exact, number, how in itertools.product((True, False), (None, 0, 9), ("inner", "left")):
            limit = limit_of(times, number)
            made = lanetree.merge_nearest(left.assign(left=np.arange(len(left))), right, k, on="at", by=by or None, tolerance=limit, allow_exact_matches=exact, how=how)  # type: ignore[arg-type]
            expected = all_pairs(left, right.drop(columns="row"), k, by, limit, exact, how)
            assert list(zip(made["left"], made["row"].fillna(-1).astype(int))) == expected


@pytest.mark.parametrize("times", TIMES)
def test_the_nearest_row_is_that_of_merge_asof(times: str) -> None:
    for seed, number in itertools.product(range(4), (None, 3)):
        left, right = tables(820 + seed, times, ("str",), is_sorted=False)
        limit = limit_of(times, number)
        made = lanetree.merge_nearest(left, right, 1, on="at", by="by0", tolerance=limit, how="left")
        same(made, pandas_asof(left, right, by="by0", tolerance=limit, direction="nearest"))


def test_each_kind_of_frame_is_answered_in_kind() -> None:
    left, right = tables(840, "datetime64[ns]", ("str",), is_sorted=False)
    expected = rows_of(lanetree.merge_nearest(left, right, 3, on="at", by="by0"))
    for left_kind, right_kind in itertools.product(KINDS, KINDS):
        made = lanetree.merge_nearest(KINDS[left_kind](left), KINDS[right_kind](right), 3, on="at", by="by0")
        assert type(made) is TYPES[left_kind] and rows_of(made) == expected


def test_distances_are_exact() -> None:
    far = pandas.DataFrame({"at": np.array([-(2**63), 2**63 - 1, 0])}), pandas.DataFrame({"at": np.array([2**63 - 1, -(2**63), 1]), "row": range(3)})
    assert lanetree.merge_nearest(*far, 3, on="at")["row"].tolist() == [1, 2, 0, 0, 2, 1, 2, 0, 1]
    ends = pandas.DataFrame({"at": [0.0, np.inf]}), pandas.DataFrame({"at": [-np.inf, -0.0, 0.0], "row": range(3)})
    assert lanetree.merge_nearest(*ends, 2, on="at")["row"].tolist() == [2, 1, 2, 1]
    empty = far[1][:0]
    assert len(lanetree.merge_nearest(far[0], empty, 2, on="at")) == 0 and lanetree.merge_nearest(far[0], empty, 2, on="at", how="left")["row"].isna().all()
    assert len(lanetree.merge_nearest(empty, far[1], 2, on="at", how="left")) == 0


def test_errors_name_the_argument() -> None:
    frame = pandas.DataFrame({"at": [1, 2]})
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"k": 0}, ValueError, "k is 0, where at least 1"),
        ({"k": 1.5}, TypeError, "k is 1.5, where an integer"),
        ({"k": 1, "how": "outer"}, ValueError, "how is 'outer'"),
        ({"k": 1, "allow_exact_matches": 1}, ValueError, "allow_exact_matches is 1"),
        ({"k": 1, "on": "no"}, KeyError, "on='no'"),
        ({"k": 1, "tolerance": -1}, ValueError, "tolerance of -1"),
    ]
    for options, kind, message in cases:
        with pytest.raises(kind, match=message):
            lanetree.merge_nearest(frame, frame, **{"on": "at", **options})
    (test,) = doctest.DocTestFinder(recurse=False).find(lanetree.merge_nearest, globs={"lanetree": lanetree})
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0
