"""A user's typed program passes mypy's strict checks, and runs."""

from __future__ import annotations

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
