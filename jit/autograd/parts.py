"""`PartsNode`: the derivative of a composite that has no formulas of its own, by the derivatives of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager import context
from jit.eager.namespace import F

from .nodes import OpNode, unpacked


class PartsNode(OpNode):
    """The derivative of one call of a composite; its arguments are those of `OpNode`."""

    def _formulas(self, saved: dict[str, Any], names: dict[str, Any], needs: Sequence[bool]) -> Sequence[Any]:
        if context.GRAD_ENABLED.get() or context.TRACE.get() or context.PROFILE.get():
            return self._by_parts(saved, names["g"], needs)
        return super()._formulas(saved, names, needs)

    def _by_parts(self, saved: dict[str, Any], g: Any, needs: Sequence[bool]) -> list[Any]:
        """The gradients by those of the parts, which run again."""
        from .engine import run_backward

        create = context.GRAD_ENABLED.get()
        with context.enable_grad():
            values = [unpacked(saved[name], self) for name in self.op.schema.argument_names]
            wanted = [values[i] for i, need in zip(self.op.tensors, needs, strict=True) if need]
            result = self.op.body(F, *values)
        found = iter(run_backward([result], [g], wanted, create, create, within=True))
        return [next(found) if need else None for need in needs]
