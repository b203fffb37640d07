"""Whatever Python reads of a tensor that is no tensor: traced functions see what eager ones see, in every call."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jit
from jit.autograd.nodes import Node

_PRIVATE = {"_version", "_base"}
"""Private names that user code reads in PyTorch."""
_NO_READERS = {
    "__array__", "__deepcopy__", "__dlpack__", "__reduce_ex__", "__reduce__", "numpy",  # refused in a trace
    "__dir__", "__getstate__", "__init__", "__init_subclass__", "__sizeof__", "__subclasshook__", "__hash__",
    "__slots__", "__doc__", "__module__", "__dict__", "__weakref__", "__class__", "__array_priority__",
    "__array_ufunc__", "__new__", "__annotations__", "__orig_bases__", "__parameters__",  # of objects or of the class
    "backward", "detach_", "requires_grad_", "retain_grad", "share_memory_", "zero_",  # do something
    "name",  # has tests of its own below: it is set on the object
}  # fmt: skip


def plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(plain, value))
    return value is None or isinstance(value, (bool, int, float, complex, str)) or type(value) in (jit.Size,)


def read(tensor: jit.Tensor, name: str) -> Any:
    found = getattr(tensor, name)
    return found() if callable(found) else found


def readers() -> Iterator[str]:
    """The names under which a tensor tells something that is no tensor."""
    for name in dir(jit.Tensor):
        if name in _NO_READERS or (name.startswith("_") and not name.startswith("__") and name not in _PRIVATE):
            continue
        try:
            value = read(jit.arange(6.0).reshape(2, 3) * 1, name)
        except Exception:
            continue
        if plain(value) and (name.startswith("__") or not name.endswith("_")):
            yield name


READERS = sorted(readers())


def written() -> jit.Tensor:
    return (jit.arange(12.0).reshape(4, 3) + 0).add_(1).sub_(1)


def retained() -> jit.Tensor:
    x = tracked()
    x.retain_grad()
    return x


def tracked() -> jit.Tensor:
    return jit.arange(12.0).reshape(4, 3).requires_grad_() * 1


def second_output() -> jit.Tensor:
    return jit.arange(24.0).reshape(8, 3).requires_grad_().mul(1).split(4)[1]


MADE: dict[str, Callable[[], jit.Tensor]] = {
    "fresh": lambda: jit.arange(12.0).reshape(4, 3) + 0,
    "shifted": lambda: (jit.arange(18.0) + 0)[6:].view(4, 3),
    "view": lambda: (jit.arange(12.0) + 0).view(4, 3),
    "written": written,
    "expanded": lambda: (jit.arange(3.0) + 0).expand(4, 3),
    "transposed": lambda: (jit.arange(12.0).reshape(3, 4) + 0).t(),
    "tracked": tracked,
    "retained": retained,
    "second output": second_output,
    "leaf": lambda: jit.arange(12.0).reshape(4, 3).requires_grad_(),
    "other": lambda: jit.arange(12.0).reshape(4, 3).neg(),
    "narrow": lambda: (jit.arange(12.0) + 0).view(12, 1)[:4],
    "strange strides": lambda: jit.as_strided(jit.arange(12.0) + 0, [4, 1], [1, 7]),
    "wider": lambda: jit.arange(20.0).reshape(4, 5) + 0,
    "as wide as cut": lambda: jit.arange(8.0).reshape(4, 2) + 0,
    "longer": lambda: jit.arange(18.0).reshape(6, 3) + 0,
    "whole numbers": lambda: jit.arange(12).reshape(4, 3) + 0,
}
ORDER = [*MADE, "fresh", "shifted", "view", "tracked", "other"]

CUT: dict[str, Callable[[jit.Tensor], jit.Tensor]] = {
    "itself": lambda x: x,
    "rows": lambda x: x[1:],
    "columns": lambda x: x[:, :2],
    "transposed": lambda x: x.t(),
    "flat": lambda x: x.reshape(-1),
    "computed": lambda x: x * 2,
    "written inside": lambda x: (x * 2).add_(1)[1:],
    "detached": lambda x: x.detach(),
    "cut by sizes": lambda x: x[x.shape[0] // 4 :],
}


COARSE = ("itself", "columns", "written inside")
FINE = {"stride", "storage_offset", "is_contiguous", "_base", "_version", "data_ptr", "output_nr", "grad_fn", "is_leaf"}
"""What depends on the way to a view; of all else a few views are enough."""
NEW = ("flat", "computed", "written inside")
"""Memory of their own: no address is the same twice."""


def spoken(value: Any) -> Any:
    """A tensor by its elements: what `_base` gives."""
    return value.tolist() if isinstance(value, jit.Tensor) else value


def pairs() -> Iterator[tuple[str, str]]:
    for name in READERS:
        for cut in CUT if name in FINE else COARSE:
            if name != "data_ptr" or cut not in NEW:
                yield name, cut


@pytest.mark.parametrize("name, cut", list(pairs()))
@pytest.mark.filterwarnings("ignore:f runs untraced")
def test_as_in_eager_mode(name: str, cut: str) -> None:
    def f(x: jit.Tensor) -> Any:
        y = CUT[cut](x)
        found = read(y, name)
        found = [found.name, len(found.next_functions)] if isinstance(found, Node) else found
        return (y.detach().float() * 2, "none" if found is None else found)

    traced = jit.trace(f, optimize=False)
    for how in ORDER:
        x = MADE[how]()
        try:
            want = f(x)
        except Exception as error:
            with pytest.raises(type(error)):
                traced(MADE[how]())
            continue
        found = traced(x)
        assert spoken(found[1]) == spoken(want[1]), f"{how}: {found[1]!r} instead of {want[1]!r}"
        assert found[0].tolist() == want[0].tolist()


def test_enough_is_read() -> None:
    assert {
        "data_ptr", "dim", "dtype", "is_contiguous", "is_leaf", "numel", "output_nr", "requires_grad", "retains_grad",
        "shape", "size", "storage_offset", "stride", "_version", "_base", "tolist", "__len__",
    } <= {*READERS} | {"dtype"}  # fmt: skip


def test_names_are_read() -> None:
    def f(x: jit.Tensor) -> Any:
        return x * (2 if x.name == "weight" else 3)

    traced = jit.trace(f)
    for name in ("weight", "bias", None, "weight", "bias"):
        x = jit.ones(2)
        x.name = name
        assert traced(x).tolist() == f(x).tolist()
    assert traced.hits == 2


def test_offsets_are_facts_and_addresses_are_not() -> None:
    def offset(x: jit.Tensor) -> Any:
        return x + x.storage_offset()

    def address(x: jit.Tensor) -> Any:
        return x + (1 if x.data_ptr() % 2 else 0)

    base = jit.arange(8.0) + 0
    by_offset, by_address = jit.trace(offset), jit.trace(address)
    for start in (0, 2, 4, 0, 2, 4):
        x = base[start : start + 3]
        assert by_offset(x).tolist() == offset(x).tolist()
        assert by_address(x).tolist() == address(x).tolist()
    assert (by_offset.misses, by_offset.hits) == (3, 3)
    assert by_address.hits == 0
    assert "address" in by_address.explain()


def test_strides_follow_sizes() -> None:
    def f(x: jit.Tensor) -> Any:
        return jit.as_strided(x, [x.shape[0] - 1, 2], [x.stride(0), x.stride(1)]) * x.stride(0)

    traced = jit.trace(f)
    for rows, columns in ((3, 4), (4, 5), (5, 6), (6, 7), (7, 8)):
        x = jit.arange(float(rows * columns)).reshape(rows, columns)
        assert traced(x).tolist() == f(x).tolist()


def test_a_cut_that_is_contiguous_for_one_size_alone() -> None:
    def f(x: jit.Tensor) -> Any:
        return x.sum() if x[:, :2].is_contiguous() else x.mean()

    traced = jit.trace(f)
    for columns in (4, 5, 6, 2, 3, 2):
        x = jit.arange(float(3 * columns)).reshape(3, columns)
        assert traced(x).item() == f(x).item()
