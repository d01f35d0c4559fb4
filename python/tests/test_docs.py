"""Every public class and call has a docstring, and their examples run."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import lanetree

CLASSES = [it for it in vars(lanetree).values() if inspect.isclass(it) and not issubclass(it, Exception)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_class_has_docstrings(kind: type) -> None:
    assert kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}(")
    is_tuple = issubclass(kind, tuple)
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or is_tuple or not (inspect.isroutine(member) or isinstance(member, property)):
            continue
        assert inspect.getdoc(member) or kind is lanetree.Array, f"{kind.__name__}.{name}"
    if kind.__init__ is not object.__init__ and not is_tuple and kind is not lanetree.Array:
        # NumPy's form: each parameter of the constructor is named in the section of parameters.
        section = kind.__doc__.split("Parameters\n")[1]
        for parameter in list(inspect.signature(kind.__init__).parameters)[1:]:
            assert parameter in section, f"{kind.__name__}({parameter}=)"


@pytest.mark.parametrize("kind", [lanetree, *CLASSES], ids=lambda kind: kind.__name__)
def test_examples_run(kind: object) -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    members = [kind] if inspect.ismodule(kind) else [kind, *(it for _, it in inspect.getmembers(kind, inspect.isfunction))]
    for member in members:
        for test in finder.find(member, globs={"lanetree": lanetree, "np": np}):
            if "cuda:0" not in "".join(example.source for example in test.examples):
                assert runner.run(test).failed == 0


def test_errors_have_docstrings() -> None:
    kinds = [it for it in vars(lanetree.errors).values() if inspect.isclass(it)]
    assert len(kinds) > 60 and all(kind.__doc__ and (kind is lanetree.Error or kind.__doc__ != lanetree.Error.__doc__) for kind in kinds)
    assert len({kind.__doc__ for kind in kinds}) == len(kinds)
