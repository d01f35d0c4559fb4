"""The stub of the native module has what the module has. Run as a program, this writes the part that the tables of calls say."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Iterator

import lanetree
from lanetree import _native

MARK = "# From here on as the tables of calls in `src` say: `python tests/test_stubs.py` writes it.\n\n"


def test_the_classes_of_indexes_are_what_the_tables_say() -> None:
    stub = (Path(lanetree.__file__).parent / "_native.pyi").read_text()
    assert stub.partition(MARK)[2] == _native.stubs()


def functions(body: list[ast.stmt], owner: object) -> Iterator[tuple[ast.FunctionDef, object]]:
    for item in body:
        if isinstance(item, ast.ClassDef):
            yield from functions(item.body, getattr(owner, item.name))
        elif isinstance(item, ast.FunctionDef):
            yield item, getattr(owner, "__new__" if item.name == "__init__" else item.name)


def test_functions_have_the_arguments_of_the_stub() -> None:
    stub = ast.parse((Path(lanetree.__file__).parent / "_native.pyi").read_text())
    compared = set()
    for function, native in functions(stub.body, _native):
        if not callable(native) or function.name == "__init__" or function.name == "__len__":
            continue
        wanted = [argument.arg for argument in function.args.args]
        assert list(inspect.signature(native).parameters) == wanted, function.name
        compared.add(function.name)
    assert {"take", "get_of", "write_file", "neighbor", "arrow_export"} <= compared


if __name__ == "__main__":
    path = Path(__file__).parent.parent / "lanetree" / "_native.pyi"
    path.write_text(path.read_text().partition(MARK)[0] + MARK + _native.stubs())
