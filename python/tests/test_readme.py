"""Blocks of Python of the README and the guide run."""

from __future__ import annotations

import pathlib
import re

import pytest


def test_the_readmes_block_runs() -> None:
    readme = pathlib.Path(__file__).parents[2] / "README.md"
    if not readme.exists():
        pytest.skip("installed without the repository")
    (block,) = re.findall(r"^```python\n(.*?)^```", readme.read_text(), re.M | re.S)
    exec(compile(block, str(readme), "exec"), {})


def test_the_tour_runs() -> None:
    tour = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python-tour.md"
    if not tour.exists():
        pytest.skip("installed without the repository")
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    text = tour.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert re.findall(r"^## (\d)\.", text, re.M) == [str(number) for number in range(1, 10)] and len(blocks) == 11
    exec(compile("\n".join(blocks), str(tour), "exec"), {})


def test_the_guides_blocks_that_import_what_they_need_run() -> None:
    guide = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python.md"
    if not guide.exists():
        pytest.skip("installed without the repository")
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    blocks = re.findall(r"^```python\n(import.*?)^```", guide.read_text(), re.M | re.S)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, str(guide), "exec"), {})
