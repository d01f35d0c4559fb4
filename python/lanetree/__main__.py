"""``python -m lanetree doctor``."""

from __future__ import annotations

import argparse
import sys

from . import doctor


def main() -> int:
    parser = argparse.ArgumentParser("python -m lanetree", description="Ordered indexes for NVIDIA GPUs and CPUs.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="print which devices, drivers and libraries are found, and try an index on each device")
    parser.parse_args()
    return 0 if doctor() else 1


if __name__ == "__main__":
    sys.exit(main())
