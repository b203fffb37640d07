"""Hooks that all modules share, for watching a whole program: registered once, called for every module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.eager.hooks import HookTable, RemovableHandle
from jit.eager.networks import BACKWARD, BACKWARD_PRE, FORWARD, FORWARD_PRE

REGISTRATIONS = {"parameter": HookTable(), "buffer": HookTable(), "module": HookTable()}
"""Hooks on every parameter, buffer and module that is added to a module, by kind."""


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before each `forward` of any module; what it returns replaces the arguments."""
    return FORWARD_PRE.register((hook, False))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after each `forward` of any module; what it returns replaces the output.

    Args:
        hook: The function.
        with_kwargs: Whether it is called as `hook(module, args, kwargs, output)`.
        always_call: Whether it runs if the call raises, too.

    Returns:
        A handle, whose `remove()` takes the hook off again.

    >>> import jit
    >>> seen = []
    >>> with jit.nn.register_module_forward_hook(lambda module, args, output: seen.append(type(module).__name__)):
    ...     _ = jit.nn.Sequential(jit.nn.ReLU())(jit.ones(2))
    >>> seen
    ['ReLU', 'Sequential']
    """
    return FORWARD.register((hook, with_kwargs, always_call))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`register_module_full_backward_hook` under its older name."""
    return BACKWARD.register(hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when the gradients of any module's arguments are known."""
    return BACKWARD.register(hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` when the gradients of any module's results are known."""
    return BACKWARD_PRE.register(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when a parameter is added; what it returns takes the parameter's place."""
    return REGISTRATIONS["parameter"].register(hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when a buffer is added; what it returns takes the buffer's place."""
    return REGISTRATIONS["buffer"].register(hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when a module is added; what it returns takes the module's place."""
    return REGISTRATIONS["module"].register(hook)


def registered(kind: str, module: Any, name: str, member: Any) -> Any:
    """The member to add: `member`, or what a hook returned instead.

    Args:
        kind: The kind of the hooks: a key of `REGISTRATIONS`.
        module: The module that gets a member.
        name: Its name there.
        member: The member.
    """
    for hook in tuple(REGISTRATIONS[kind].values()):
        replaced = hook(module, name, member)
        member = member if replaced is None else replaced
    return member
