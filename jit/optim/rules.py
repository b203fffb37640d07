"""Optimizers whose step is a formula, which one native call computes for all parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jit.eager.context import user_source
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import UnwrittenError

from .native_steps import Member, NativeSteps, may_be_native, native_steps_of
from .optimizer import STEPS, Counts, Optimizer, number_of, place_counts

Kept = dict[str, Any]
Numbers = Mapping[str, Any]


def pull(group: Mapping[str, Any]) -> Kept:
    """The number by which weight decay pulls, if there is any: "shrink" the parameter, or "decay" in the gradient."""
    decay = group["weight_decay"]
    if not decay:
        return {}
    return {"shrink": 1 - group["lr"] * decay} if group.get("decoupled_weight_decay") else {"decay": decay}


class RuledOptimizer(Optimizer):
    """Base of optimizers whose step is a formula of the parameter, its gradient, what is kept of them, and numbers.

    A subclass says what it counts (`counts`), which tensors it keeps for each parameter (`kept`), the numbers of a step
    (`numbers`), and the formula (`rule`). From the fourth step on the formula is one native call for all parameters on
    the CPU, with the bits of the operators in it.
    """

    counts: ClassVar[Counts] = STEPS
    """The entries of a parameter's state that are one number."""
    decides_by_counts: ClassVar[bool] = False
    """Whether Python takes one way or another by these."""

    def kept(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """The entries of a parameter's state that are tensors of its sizes.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise self._unwritten()

    def first(self, name: str, gradient: Any, group: Mapping[str, Any]) -> Any:
        """The content of such an entry before the first step: zeros.

        Args:
            name: The entry.
            gradient: The gradient in that step.
            group: The options of the parameter's group.
        """
        return F.zeros_like(gradient)

    def numbers(self, counts: Kept, group: Mapping[str, Any], is_first: bool) -> tuple[Kept, Kept]:
        """The numbers of the formula, and the counts after the step.

        Args:
            counts: The counts before the step, by name: numbers, or 0-d tensors while recording.
            group: The options of the parameter's group.
            is_first: Whether there was no step before.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise self._unwritten()

    def rule(self, F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
        """The new parameter, and what is kept then: pointwise formulas, which change nothing in place.

        Args:
            F: The operators by name.
            p: The parameter.
            g: Its gradient.
            kept: The tensors that are kept for it, by name.
            n: The numbers. Truth values among them decide on the formula, the others only come in.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise self._unwritten()

    # -- one parameter, by operators -----------------------------------------------------------------------------

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of descent, see `Optimizer.update`."""
        names, is_first = self.kept(group), not state
        place_counts(state, parameter, self.counts, self.decides_by_counts)
        before = {name: state[name] if name in state else self.first(name, gradient, group) for name in names}
        counts = {name: number_of(state[name]) for name in self.counts}
        numbers, counted = self.numbers(counts, group, is_first)
        changed, kept = self.rule(F, parameter, gradient, before, numbers)
        parameter.copy_(changed)
        for name, value in (counted | kept).items():
            if not isinstance(value, Tensor):
                state[name].fill_(value)
            elif name not in state or group.get("differentiable"):
                state[name] = value.detach().clone() if value is gradient else value
            else:
                state[name].copy_(value)

    # -- all parameters, natively --------------------------------------------------------------------------------

    def _update_group(self, group: dict[str, Any]) -> None:
        """Update the parameters of a group that have a gradient: those that can be, natively."""
        steps = native_steps_of(self)
        is_own = type(self).update is RuledOptimizer.update
        if not is_own or not may_be_native(group["params"], group) or not steps.are_worth_it(group):
            return super()._update_group(group)
        members: dict[Any, list[Member]] = {}
        names, counts = self.kept(group), tuple(self.counts)
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            member = Member.of(parameter, self.state.get(parameter), names, counts)
            if member is None:
                self._update_one(parameter, group)
            else:
                members.setdefault((member.counts, member.dtype), []).append(member)
        for alike in members.values():
            self._update_alike(steps, alike, group)

    def _update_alike(self, steps: NativeSteps, members: list[Member], group: dict[str, Any]) -> None:
        """Update parameters that have come equally far."""
        numbers, counted = self.numbers(dict(zip(self.counts, members[0].counts)), group, False)
        maximize = bool(group.get("maximize"))

        def rule(F: Any, p: Any, g: Any, kept: Kept, n: Numbers) -> tuple[Any, Kept]:
            return self.rule(F, p, -g if maximize else g, kept, n)

        if steps.run(rule, self.kept(group), members, {**numbers, "maximize": maximize}):
            counts, source = [counted[name] for name in self.counts], user_source()
            for member in members:
                member.note_step(counts, source)
        else:
            for member in members:
                self._update_one(member.parameter, group)

    def _unwritten(self) -> UnwrittenError:
        return UnwrittenError(f"{type(self).__name__} does not say what its step is; define kept, numbers and rule")
