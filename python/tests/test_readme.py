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


def test_the_guides_block_about_names_runs() -> None:
    guide = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "python.md"
    if not guide.exists():
        pytest.skip("installed without the repository")
    pytest.importorskip("pandas")
    (block,) = re.findall(r"^```python\n(import.*?)^```", guide.read_text(), re.M | re.S)
    exec(compile(block, str(guide), "exec"), {})
