"""`Optimizer`: groups of parameters with their options, the state kept for each parameter, and how both are saved."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jit.ir.errors import UsageError

from ..context import TRACE, enable_grad, no_grad
from ..hooks import HookTable, RemovableHandle
from ..nn.parameter import forget_gradient
from ..tensors import Tensor


class Optimizer:
    """Base of optimizers; a subclass defines `update(parameter, gradient, state, group)`.

    Args:
        params: Parameters (or pairs of name and parameter), or dictionaries with "params" and options of their own.
        defaults: The options of groups that do not say otherwise.
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.state: dict[Any, dict[str, Any]] = defaultdict(dict)
        """What is kept for each parameter between steps."""
        self.param_groups: list[dict[str, Any]] = []
        """Dictionaries with "params" and options such as "lr", which may be changed between steps."""
        self._pre_hooks, self._post_hooks = HookTable(), HookTable()
        self._state_hooks = {when: HookTable() for when in ("save", "saved", "load", "loaded")}
        given: list[Any] = [params] if isinstance(params, (Tensor, dict)) else list(params)
        if not given:
            raise UsageError("the optimizer was given no parameters; is the model's parameters() used up, or empty?")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Optimize more parameters, with options of their own: ``{"params": [...], "lr": 0.1}``."""
        group = {**self.defaults, **param_group}
        listed = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        group["params"] = [p[1] if isinstance(p, tuple) else p for p in listed]
        known = {id(p) for other in self.param_groups for p in other["params"]}
        for parameter in group["params"]:
            self._check(parameter, known)
            known.add(id(parameter))
        self.param_groups.append(group)

    def _check(self, parameter: Any, known: set[int]) -> None:
        if not isinstance(parameter, Tensor):
            raise UsageError(f"an optimizer takes tensors, not {type(parameter).__name__}")
        if not parameter.is_leaf:
            raise UsageError("an optimizer takes leaves, and this tensor was computed; optimize what it came from")
        if id(parameter) in known:
            raise UsageError("a parameter was given to the optimizer twice; list it in one group only, once")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                forget_gradient(parameter, set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place.

        Args:
            closure: Computes the loss and its gradients anew; called first, with gradients enabled.

        Returns:
            What `closure` returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._call(self._pre_hooks)
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        gradient = -parameter.grad if group.get("maximize") else parameter.grad
                        self.update(parameter, gradient, self.state[parameter], group)
        self._call(self._post_hooks)
        return loss

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step's updates; both are empty."""
        return self._pre_hooks.register(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step; both are empty."""
        return self._post_hooks.register(hook)

    def _call(self, hooks: HookTable) -> None:
        for hook in tuple(hooks.values()):
            hook(self, (), {})

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """Change one parameter in place; `gradient` must be left as it is."""
        raise NotImplementedError(type(self).__name__)

    # -- saving --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Options and state, with parameters replaced by their positions."""
        for hook in tuple(self._state_hooks["save"].values()):
            hook(self)
        return self._replaced("saved", self._state())

    def _state(self) -> dict[str, Any]:
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [{**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups]
        return {"state": {numbers[id(p)]: dict(s) for p, s in self.state.items() if s}, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict()` gave; groups must match in number and size.

        Raises:
            UsageError: They do not match.
        """
        state_dict = self._replaced("load", dict(state_dict))
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise UsageError(f"the saved optimizer has groups of {sizes} parameters, this one of {own}")
        order = [number for group in groups for number in group["params"]]
        parameters = dict(zip(order, self._parameters(), strict=True))
        self.state = defaultdict(dict, {parameters[n]: copy.deepcopy(dict(s)) for n, s in state_dict["state"].items()})
        for group, saved in zip(self.param_groups, groups, strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})
        for hook in tuple(self._state_hooks["loaded"].values()):
            hook(self)

    def _replaced(self, when: str, state: dict[str, Any]) -> dict[str, Any]:
        for hook in tuple(self._state_hooks[when].values()):
            replaced = hook(self, state)
            state = state if replaced is None else replaced
        return state

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer)` before each `state_dict`."""
        return self._state_hooks["save"].register(hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after each `state_dict`; what it returns takes its place."""
        return self._state_hooks["saved"].register(hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before each `load_state_dict`; what it returns is loaded instead."""
        return self._state_hooks["load"].register(hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer)` after each `load_state_dict`."""
        return self._state_hooks["loaded"].register(hook)

    def _parameters(self) -> list[Any]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def __repr__(self) -> str:
        groups = [", ".join(f"{k}={v!r}" for k, v in group.items() if k != "params") for group in self.param_groups]
        return f"{type(self).__name__}({'; '.join(groups)})"


def check_not_negative(**options: float) -> None:
    """Refuse negative options by name."""
    for name, value in options.items():
        if not value >= 0:
            raise UsageError(f"{name} must not be negative, and {value} was given")


_IGNORED = ("foreach", "fused", "capturable", "differentiable")
"""Options of PyTorch's optimizers that choose between implementations of the same step."""


def check_ignored(options: Mapping[str, Any]) -> None:
    """Refuse options that are none of those which make no difference here."""
    for name in options:
        if name not in _IGNORED:
            raise TypeError(f"there is no option {name!r}")


def check_betas(betas: Iterable[float]) -> tuple[float, ...]:
    """The weights of the past in running averages, as a tuple; each lies between 0 and 1."""
    listed = tuple(betas)
    if not all(0 <= beta < 1 for beta in listed):
        raise UsageError(f"betas lie between 0 and 1, and {listed} were given")
    return listed


def decayed(parameter: Any, gradient: Any, group: Mapping[str, Any]) -> Any:
    """The gradient with the pull to zero, or the gradient itself where the pull acts on the parameter at once."""
    decay = group["weight_decay"]
    if not decay:
        return gradient
    if group.get("decoupled_weight_decay"):
        parameter.mul_(1 - group["lr"] * decay)
        return gradient
    return gradient + parameter * decay


def number_of(tensor: Any) -> Any:
    """What a 0-d tensor says, as a number; while recording a 0-d tensor of float64, so that kernels compute with it."""
    return tensor.item() if TRACE.get() is None else tensor.double()
