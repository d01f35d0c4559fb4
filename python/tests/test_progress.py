"""How far long calls are."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import lanetree
from lanetree import _progress


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "PIECE", 10)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)


def test_a_function_is_told(device: str, impatient: None) -> None:
    told: list[tuple[int, int]] = []
    tell = lambda done, total: told.append((done, total))
    index = lanetree.Index(np.arange(100), device=device, progress=tell)
    assert told == [(0, 100), (100, 100)]
    queries, pieces = np.arange(95, 120), [(10, 25), (20, 25), (25, 25)]
    strict_asof = lambda queries, **options: index.asof(queries, allow_exact_matches=False, **options)
    for call in (index.get, index.contains, index.searchsorted, index.asof, strict_asof, index.predecessor, index.successor, index.join):
        told.clear()
        plain, got = call(queries), call(queries, progress=tell)  # type: ignore[operator]
        assert told == pieces and all(np.array_equal(a, b) for a, b in zip(plain, got))
    out = np.empty(25, np.int64), np.empty(25, np.bool_)
    assert index.get(queries, out=out, progress=tell) is out and out[1].sum() == 5
    told.clear()
    assert len(lanetree.Set([1, 1], device, progress=tell)) == 1 and len(lanetree.MultiIndex([1, 1], device=device, progress=tell)) == 2
    assert told == [(0, 2), (2, 2)] * 2
    told.clear()
    assert len(lanetree.StringIndex(["a", "b"], device=device, progress=tell)) == 2
    assert len(lanetree.IntervalIndex([1, 3], [2, 4], device=device, progress=tell)) == 2
    groups = lanetree.GroupedIndex([1, 3], [2, 4], device=device, progress=tell)
    assert index.range_join([1, 2], [3, 4], progress=tell).left.size == 6 and index.band_join([1, 2], 1, progress=tell).left.size == 6
    assert lanetree.MultiIndex([1], device=device).join([1, 1], progress=tell)[0].size == 2
    assert index.insert([1000, 1001], [1, 2], progress=tell).inserted == 2 and index.remove([1000, 1001], progress=tell).removed == 2
    assert told == [(0, 2), (2, 2)] * 8
    told.clear()
    assert groups.asof(np.arange(25), by=np.full(25, 3), progress=tell).found.sum() == 21
    assert told == pieces


def test_what_a_function_raises_ends_the_call(device: str, impatient: None) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lanetree.Index([1, 2], device=device).get([1, 2], progress=stop)


def test_a_bar_without_tqdm(impatient: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    index = lanetree.Index(np.arange(100), device="cpu", progress=True)
    index.get(np.arange(20), progress=True)
    shown = capsys.readouterr().err
    assert "get: 50% after" in shown and "get: 100% after" in shown and shown.endswith("\n")


def test_a_bar_of_tqdm(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Any] = []

    class Bar:
        def __init__(self, **options: Any) -> None:
            self.options, self.n, self.closed, self.refreshed = options, 0, False, 0
            bars.append(self)

        def update(self, by: int) -> None:
            self.n += by

        def refresh(self) -> None:
            self.refreshed += 1

        def close(self) -> None:
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    lanetree.Index(np.arange(100), device="cpu").get(np.arange(25), progress=True)
    (bar,) = bars
    assert bar.options["total"] == 25 and bar.n == 25 and bar.closed
    # A short call shows none.
    monkeypatch.setattr(_progress, "PATIENCE", 60.0)
    lanetree.Index(np.arange(100), device="cpu", progress=True).get(np.arange(25), progress=True)
    assert len(bars) == 1
