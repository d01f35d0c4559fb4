"""The README's block of Python runs."""

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
