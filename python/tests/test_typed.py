"""A user's typed program passes the strict checks of mypy and of pyright, and runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import typed


def test_a_typed_program_runs(tmp_path: Path) -> None:
    typed.main(tmp_path / "index")


def test_a_typed_program_passes_strict_checks(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), typed.__file__]
    made = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert made.returncode == 0, made.stdout + made.stderr


def test_a_typed_program_passes_pyrights_strict_checks(tmp_path: Path) -> None:
    # pyright, as a package that brings what it runs on.
    pytest.importorskip("basedpyright")
    options = {"typeCheckingMode": "strict", "include": [typed.__file__]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(options))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert made.returncode == 0 and "0 errors" in made.stdout, made.stdout + made.stderr
