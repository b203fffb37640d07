"""Every operator of the list in names.tsv is where PyTorch users look for it, in place, with `out=` and as a view.

The table has a row for each: its ATen name, the namespaces that have it ("F" is the one of all operators), those that
have it with an underscore, whether it takes `out=`, and whether its result is a view.
"""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import pytest

import jit
from jit.eager.namespace import F
from jit.ir.op import OVERLOADS
from tests.ops.test_registry import takes_out
from tests.registry_cases import all_cases, tensors_in

ROWS = list(csv.DictReader(Path(__file__).with_name("names.tsv").open(), delimiter="\t"))
NAMES = [row["name"] for row in ROWS]


def space(name: str) -> Any:
    """What a word of the table stands for."""
    plain = {"jit": jit, "F": F, "Tensor": jit.Tensor}
    return plain[name] if name in plain else importlib.import_module(f"jit.{name}")


def spelled(name: str, where: str) -> str:
    """An ATen name as its namespace has it: `linalg_vector_norm` is `jit.linalg.vector_norm`."""
    return name.removeprefix(f"{where}_")


def there(row: dict[str, str]) -> list[tuple[str, str]]:
    """The namespaces of a row, each with the name to be found in it."""
    plain = [(where, spelled(row["name"], where)) for where in row["function of"].split()]
    written = [(where, f"{row['name']}_") for where in row["in place in"].split() if where != "-"]
    return plain + written


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_there(row: dict[str, str]) -> None:
    assert [(where, name) for where, name in there(row) if not hasattr(space(where), name)] == []


@pytest.mark.parametrize("name", [row["name"] for row in ROWS if row["out"] == "y" and row["name"] in OVERLOADS])
def test_takes_out(name: str) -> None:
    """What `out=` gives is judged by test_registry.py."""
    assert any(map(takes_out, OVERLOADS[name]))


VIEWS = [row["name"] for row in ROWS if row["view"] == "y"]


@pytest.mark.parametrize("name", VIEWS)
def test_view(name: str) -> None:
    """Results are the operand's memory and count its versions; where elements share a place, they cannot be written."""
    found = 0
    for case in [case for op in OVERLOADS[name] for case in all_cases(op)]:
        args, kwargs = case.arguments()
        base = next(tensors_in([args, kwargs]))
        for view in case.call(*args, **kwargs):
            assert view._storage is base._storage
            version = base._version
            if overlapping(view):
                with pytest.raises(jit.ShapeError, match="share one place in memory"):
                    view.zero_()
            else:
                view.zero_()
                assert base._version == view._version == version + 1
            found += 1
    assert found


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("detach", "view_as_complex")])
def test_write_to_view(name: str) -> None:
    """The gradient of the base knows what was written through its views."""
    written = 0
    differentiable = [op for op in OVERLOADS[name] if op.name != "aten::view.dtype"]  # bits have no slope
    for case in [case for op in differentiable for case in all_cases(op)]:
        args, kwargs = case.arguments()
        leaf = args[0].detach().clone()
        if leaf.is_floating_point() or leaf.is_complex():
            leaf.requires_grad_()
            args[0] = leaf * 1
            views = [view for view in case.call(*args, **kwargs) if not overlapping(view)]
            for view in views:
                view.mul_(3)
            (gradient,) = jit.grad(args[0], leaf, jit.ones_like(args[0]))
            count = sum(view.numel() for view in views) // (2 if name == "view_as_real" else 1)
            assert int((gradient == 3).sum()) == count
            assert bool(((gradient == 3) | (gradient == 1)).all())
            written += 1
    assert written


def overlapping(tensor: jit.Tensor) -> bool:
    """Whether two elements share a place, so that the tensor cannot be written to."""
    return len(set(places(tensor))) < tensor.numel()


def places(tensor: jit.Tensor) -> list[int]:
    found = [0]
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        found = [place + index * stride for place in found for index in range(size)]
    return found
