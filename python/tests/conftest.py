"""Where the tests run: on the CPU, and on the emulator if the wheel has it."""

from __future__ import annotations

import os

import pytest

import lanetree


def _devices() -> list[str]:
    try:
        lanetree.Device("emulated")
    except ValueError:
        if os.environ.get("LANETREE_REQUIRE_EMULATOR") == "1":
            raise
        return ["cpu"]
    return ["cpu", "emulated"]


DEVICES = _devices()


def pytest_report_header() -> str:
    return f"lanetree {lanetree.__version__}, on {', '.join(DEVICES)}"


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)
