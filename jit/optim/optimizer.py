"""`Optimizer`: groups of parameters with their options, the state kept for each parameter, and how both are saved."""

from __future__ import annotations

import copy
import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jit.eager.context import TRACE, enable_grad, set_grad_enabled
from jit.eager.hooks import HookTable, OnceFlag, RemovableHandle
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import KindError, NamingError, UnwrittenError, UsageError
from jit.ir.hints import did_you_mean

from ..nn.parameter import forget_gradient


class _RequiredOption:
    """The stand-in for the default of an option that has none."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredOption()
"""The default of options that must be given, in optimizers that programs define: `lr=required`."""


_BEFORE_ALL, _AFTER_ALL = HookTable(), HookTable()
"""Hooks on the steps of all optimizers."""


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimizer."""
    return _BEFORE_ALL.register(hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of any optimizer."""
    return _AFTER_ALL.register(hook)


class Optimizer:
    """Base of optimizers; a subclass defines `update(parameter, gradient, state, group)`.

    Args:
        params: Parameters (or pairs of name and parameter), or dictionaries with "params" and options of their own.
        defaults: The options of groups that have none of their own.

    Raises:
        KindError: A single tensor is given, or a member is none.
        UsageError: There are no parameters, or one of them is listed twice or was computed from others.
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.state: dict[Any, dict[str, Any]] = defaultdict(dict)
        """State that is kept for each parameter between steps."""
        self.param_groups: list[dict[str, Any]] = []
        """Dictionaries with "params" and options such as "lr", which may be changed between steps."""
        _ = self._stepped, self._pre_hooks, self._post_hooks, self._state_hooks  # so that no traced step makes them
        if isinstance(params, (Tensor, dict)) or not isinstance(params, Iterable):
            raise KindError(
                f"an optimizer takes parameters in a list, not a single {type(params).__name__}; put it in a list"
            )
        given: list[Any] = list(params)
        if not given:
            raise UsageError(
                "the optimizer got no parameters; pass model.parameters() of a model that has some, called anew for "
                "each optimizer"
            )
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    # -- made when they are first asked for: a class that wraps an optimizer need not call `__init__` ----------------

    @functools.cached_property
    def _stepped(self) -> OnceFlag:
        """Whether a step has been made."""
        return OnceFlag()

    @functools.cached_property
    def _pre_hooks(self) -> HookTable:
        """The functions that are called before a step."""
        return HookTable()

    @functools.cached_property
    def _post_hooks(self) -> HookTable:
        """The functions that are called after a step."""
        return HookTable()

    @functools.cached_property
    def _state_hooks(self) -> dict[str, HookTable]:
        """The functions that are called when a state is saved or loaded, and afterwards."""
        return {when: HookTable() for when in ("save", "saved", "load", "loaded")}

    def __init_subclass__(cls, **options: Any) -> None:
        """Let a `step` that a subclass defines itself be noted, too."""
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = _noted(cls.step)  # type: ignore[method-assign]

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Optimize more parameters, with options of their own: ``{"params": [...], "lr": 0.1}``.

        Raises:
            UsageError: A parameter belongs to another group already.
        """
        group = self._group(param_group)
        for parameter in group["params"]:
            self._check(parameter, group)
        if len({id(p) for p in group["params"]}) < len(group["params"]):
            told = "a parameter is listed twice in one group of an optimizer, which steps twice with it"
            warnings.warn(f"{told}; list it once", stacklevel=4)
        known = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in known for p in group["params"]):
            raise UsageError("a parameter was given to the optimizer twice; list it in one group only")
        self.param_groups.append(group)

    def _group(self, given: Any) -> dict[str, Any]:
        """A group with all options, its parameters listed and, where they have them, their names."""
        if not isinstance(given, Mapping):
            raise KindError(
                f'a group of parameters is a dictionary, not {type(given).__name__}; pass {{"params": [...]}}'
            )
        if "params" not in given:
            raise NamingError('a group of parameters has no "params"; pass {"params": [...]}')
        params = given["params"]
        if isinstance(params, (set, frozenset)):
            raise KindError("parameters need an order that is the same in every run, and a set has none; pass a list")
        listed = [params] if isinstance(params, Tensor) else list(params)
        named = [p for p in listed if isinstance(p, tuple)]
        others = [bool(group.get("param_names")) != bool(named) for group in self.param_groups]
        if 0 < len(named) < len(listed) or any(others):
            raise KindError("some parameters come with names and others without; name all of them, or none")
        names = {"param_names": [name for name, _ in named]} if named else {}
        plain = {"params": [p[1] if isinstance(p, tuple) else p for p in listed]}
        missing = [name for name, value in self.defaults.items() if value is required and name not in given]
        if missing:
            raise UsageError(f"the optimizer needs the option {missing[0]!r}; pass it, to it or with every group")
        return {**self.defaults, **given, **plain, **names}

    def _check(self, parameter: Any, group: Mapping[str, Any]) -> None:
        if not isinstance(parameter, Tensor):
            raise KindError(f"an optimizer takes tensors, not {type(parameter).__name__}; pass model.parameters()")
        if not (parameter.is_leaf or parameter.retains_grad or group.get("differentiable")):
            raise UsageError(
                "an optimizer takes leaves, and this tensor was computed from others; optimize those, or its detach()"
            )

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
        self._stepped.happened = True
        given = (self,) if closure is None else (self, closure)
        self._call({**_BEFORE_ALL, **self._pre_hooks}, given)
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            self._update_groups()
        self._call({**self._post_hooks, **_AFTER_ALL}, given)
        return loss

    def _update_groups(self) -> None:
        for group in self.param_groups:
            self._update_group(group)

    def _update_group(self, group: dict[str, Any]) -> None:
        for parameter in group["params"]:
            if parameter.grad is not None:
                self._update_one(parameter, group)

    def _update_one(self, parameter: Any, group: dict[str, Any]) -> None:
        gradient = -parameter.grad if group.get("maximize") else parameter.grad
        update = self._update_parts if parameter.is_complex() else self.update
        update(parameter, gradient, self._state_of(parameter, group), group)

    def _state_of(self, parameter: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        state = self.state[parameter]
        if group.get("differentiable"):  # the derivatives of earlier steps need what was kept then
            state.update({k: v.clone() for k, v in state.items() if isinstance(v, Tensor)})
        return state

    def _update_parts(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """`update` of a complex parameter, as of the real and the imaginary parts; the state is kept complex."""
        parts = {name: _parts(value) for name, value in state.items()}
        before = dict(parts)
        self.update(F.view_as_real(parameter), F.view_as_real(gradient), parts, group)
        for name, value in parts.items():
            if name not in before or before[name] is not value:
                whole = isinstance(value, Tensor) and value.shape == (*parameter.shape, 2)
                state[name] = F.view_as_complex(value.contiguous()) if whole else value

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step's updates; the arguments are those of `step`."""
        return self._pre_hooks.register(hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step; the arguments are those of `step`."""
        return self._post_hooks.register(hook)

    def _call(self, hooks: Mapping[int, Any], given: tuple[Any, ...]) -> None:
        for hook in tuple(hooks.values()):
            hook(self, given, {})

    def update(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """Change one parameter in place; subclasses define it.

        Args:
            parameter: The parameter.
            gradient: Its gradient, with the sign of descent; it must be left as it is.
            state: The state kept for this parameter, empty in the first step.
            group: The options of its group.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise UnwrittenError(
            f"{type(self).__name__} does not define update(self, parameter, gradient, state, group); define it"
        )

    # -- saving --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Options and state, with parameters replaced by their positions."""
        for hook in tuple(self._state_hooks["save"].values()):
            hook(self)
        return self._replaced("saved", self._state())

    def _state(self) -> dict[str, Any]:
        numbers: dict[int, int] = {}
        for number, parameter in enumerate(self._parameters()):
            numbers.setdefault(id(parameter), number)
        groups = [{**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups]
        return {"state": {numbers[id(p)]: dict(s) for p, s in self.state.items() if s}, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict()` gave; groups must match in number and size.

        Raises:
            UsageError: It is no state of an optimizer, or the groups do not match.
        """
        state_dict = self._replaced("load", dict(state_dict))
        if not {"state", "param_groups"} <= state_dict.keys():
            found = ", ".join(map(repr, list(state_dict)[:3])) or "nothing"
            raise UsageError(
                f"an optimizer's state has 'state' and 'param_groups', and this one holds {found}; pass what "
                "state_dict() of an optimizer returned"
            )
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise UsageError(
                f"the saved optimizer has groups of {sizes} parameters, this one of {own}; make it for the same groups"
            )
        order = [number for group in groups for number in group["params"]]
        parameters = dict(zip(order, self._parameters(), strict=True))
        states = {n: s for n, s in state_dict["state"].items() if self._keeps_state_of(parameters[n])}
        fitted = {parameters[n]: _fitted(s, parameters[n]) for n, s in states.items()}
        self.state = defaultdict(dict, fitted)
        for group, saved in zip(self.param_groups, groups, strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})
        for hook in tuple(self._state_hooks["loaded"].values()):
            hook(self)

    def _keeps_state_of(self, parameter: Any) -> bool:
        """Whether a saved state of this parameter is loaded; others may keep it."""
        return True

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
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            options = [f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params"]
            text += f"\nParameter Group {number}\n{''.join(options)}"
        return text + ")"


_COUNTS = ("step", "eta", "mu", "mu_product")
"""Entries of a parameter's state that are one number, whatever the parameter's dtype."""


def _noted(step: Callable[..., Any]) -> Callable[..., Any]:
    """The same step, which also notes for schedules that there was one."""

    @functools.wraps(step)
    def noted(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        self._stepped.happened = True
        return step(self, *args, **kwargs)

    return noted


def _fitted(state: Mapping[str, Any], parameter: Any) -> dict[str, Any]:
    """A copy of a saved state, its tensors of the device and the dtype of the parameter they belong to.

    What is counted lies on the CPU at first, wherever it was; see `place_counts`.
    """
    copied = copy.deepcopy(dict(state))
    dtype = parameter.dtype if parameter.is_floating_point() else None
    tensors = {name: value for name, value in copied.items() if isinstance(value, Tensor)}
    for name, value in tensors.items():
        counts = name in _COUNTS
        copied[name] = value.cpu() if counts else value.to(device=parameter.device, dtype=dtype)
    return copied


def _parts(value: Any) -> Any:
    return F.view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


def check_not_negative(**options: float) -> None:
    """Refuse negative options by name.

    Raises:
        UsageError: An option is negative.
    """
    for name, value in options.items():
        if not value >= 0:
            raise UsageError(f"{name} is {value}; pass a number of at least 0")


FORMS = {"capturable": False, "differentiable": False, "foreach": None, "fused": None}
"""Options of PyTorch's optimizers that choose between implementations of the same step; "differentiable" counts."""


def forms(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The options among the remaining keywords that choose a form of the step, kept so that states are PyTorch's.

    Args:
        options: The remaining keywords.
        names: Those that this optimizer has in PyTorch.

    Raises:
        KindError: There is no such option.
        UsageError: A step is to be fused and differentiable.
    """
    for name in options:
        if name not in FORMS:
            guess = did_you_mean(name, FORMS)
            raise KindError(f"the optimizer has no option {name!r}{guess}; leave it out, or mend its spelling")
    if options.get("differentiable") and options.get("fused"):
        raise UsageError("a fused step cannot be differentiable; leave fused out")
    return {**{name: FORMS[name] for name in names}, **options}


def check_betas(betas: Iterable[float]) -> tuple[float, ...]:
    """The weights of the past in running averages, as a tuple; each lies between 0 and 1.

    Raises:
        UsageError: A weight lies outside.
    """
    listed = tuple(betas)
    if not all(0 <= beta < 1 for beta in listed):
        raise UsageError(f"betas are {listed}; pass numbers from 0 to below 1")
    return listed


def decayed(parameter: Any, gradient: Any, group: Mapping[str, Any]) -> Any:
    """The gradient with the weight decay, or the gradient itself where that acts on the parameter directly.

    Args:
        parameter: The parameter, which is changed where weight decay acts on it directly.
        gradient: Its gradient.
        group: The options, of which "weight_decay", "decoupled_weight_decay" and "lr" count.
    """
    decay = group["weight_decay"]
    if not decay:
        return gradient
    if group.get("decoupled_weight_decay"):
        parameter.mul_(1 - group["lr"] * decay)
        return gradient
    return gradient + parameter * decay


Counts = Mapping[str, tuple[float, Any]]
"""Entries of a parameter's state that are one number: what they start from, and a dtype but the default."""
STEPS: Counts = {"step": (0.0, None)}
"""The counts of most optimizers."""


def place_counts(state: dict[str, Any], parameter: Any, counts: Counts, on_host: bool = False) -> None:
    """Begin what is counted for a parameter, and have it where it belongs: on the CPU, where Python reads it at once.

    A traced step has what it counts beside the parameter, unless Python decides by it, since all of the step may be one
    stretch of kernels then. What was counted in steps that were not traced is copied there once.

    Args:
        state: The state of the parameter.
        parameter: The parameter.
        counts: What is counted, by name: what it starts from, and its dtype.
        on_host: Whether Python decides by it.
    """
    device = "cpu" if on_host or TRACE.get() is None else parameter.device
    for name, (start, dtype) in counts.items():
        if name not in state:
            state[name] = F.full((), start, dtype=dtype, device=device)
        elif device != "cpu" and state[name].device != device:
            state[name] = state[name].to(device)


def number_of(tensor: Any) -> Any:
    """The number in a 0-d tensor.

    While recording, and where Python would wait for a GPU, a 0-d tensor of float64, so that kernels compute with it.
    """
    if tensor.requires_grad:
        return tensor
    return tensor.item() if TRACE.get() is None and tensor.is_cpu else tensor.double()
