"""Every operator on operands whose sizes depend on elements: right for all counts, whichever came first.

Each operator runs on a sample in which one size is chosen by a mask: the operands are larger, and the function takes
as many entries as the mask says, then differentiates. A run of the whole suite tries one size of the first sample of
each operator; `JIT_ALL_SAMPLES=1` tries all of them, in some ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir.op import REGISTRY, Op
from tests.registry_cases import Case, all_cases, differentiable, mapped, tensors_in
from tests.sampling import one_of
from tests.tolerances import assert_close
from tests.tracing.test_traced_sizes import ALL, _arrays

ENTRIES = 9
"""The size from which entries are chosen; no sample has it."""
ONE = slice(None) if ALL else slice(1)


class Chosen:
    """A case in which `size` is chosen by a mask."""

    def __init__(self, case: Case, size: int) -> None:
        self._case, self._size, self._function = case, size, case.function

    def call(self, mask: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """Run the operator on the chosen entries; results are cloned, since views of inputs have histories."""
        places = mask.nonzero()[:, 0]

        def chosen(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [chosen(item) for item in value]
            for dim in range(value.ndim) if isinstance(value, jit.Tensor) else ():
                if value.shape[dim] == ENTRIES:
                    value = value.index_select(dim, places)
            return value

        named = {name: chosen(value) for name, value in kwargs.items()}
        return [t.clone() for t in tensors_in(self._function(*map(chosen, args), **named))]

    def derived(self, function: Callable[..., Any], count: int, number: int) -> Any:
        """The results for a count and their gradients; or the class of the error."""
        mask = np.zeros(ENTRIES, bool)
        mask[np.random.default_rng(number).permutation(ENTRIES)[:count]] = True
        args = [mapped(value, self._larger) for value in self._case.sample.args]
        kwargs = {name: mapped(value, self._larger) for name, value in self._case.sample.kwargs.items()}
        op = self._case.op
        wanted = [] if "grad" in op.missing else differentiable(op, args, kwargs)
        for tensor in wanted:
            tensor.requires_grad_()
        try:
            jit.manual_seed(Case.SEED)
            results = function(jit.from_numpy(mask), *args, **kwargs)
            roots = [r for r in results if r.requires_grad] if wanted else []
            weights = [(jit.arange(r.numel()) * 0.7).cos().reshape(r.shape).to(r.dtype) for r in roots]
            gradients = jit.grad(roots, wanted, weights, allow_unused=True) if roots else ()
        except Exception as error:
            return type(error)
        return [*(r.detach() for r in results), *gradients]

    def _larger(self, array: np.ndarray[Any, Any]) -> Any:
        shape = tuple(ENTRIES if n == self._size else n for n in array.shape)
        return jit.from_numpy(np.resize(array, shape).copy())


def chosen(op: Op) -> Iterator[tuple[Chosen, int]]:
    """The cases of an operator with one size each that they may be of."""
    for case in list(all_cases(op))[ONE]:
        arrays = list(_arrays([case.sample.args, case.sample.kwargs]))
        for size in sorted({n for array in arrays for n in array.shape if 1 < n < ENTRIES})[ONE]:
            found = Chosen(case, size)
            if not isinstance(found.derived(found.call, size, 0), type):
                yield found, size


@pytest.mark.parametrize("op", one_of(2, REGISTRY.values()), ids=lambda op: op.name)
def test_operators_at_every_count(op: Op) -> None:
    for case, size in chosen(op):
        traced = jit.trace(case.call)
        for number, count in enumerate((size, min(2 * size, ENTRIES), 0, 1, size + 1, size, 1)):
            found, wanted = (case.derived(function, count, number) for function in (traced, case.call))
            if isinstance(wanted, type):
                assert found is wanted
                continue
            assert len(found) == len(wanted)
            for one, other in zip(found, wanted, strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    assert_close(one, other, rtol=1e-3, atol=1e-4)
