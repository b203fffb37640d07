"""Registration of hooks at a module: around its calls, on their gradients, and on saving and loading of its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.eager.hooks import RemovableHandle
from jit.eager.networks import Network


class WithoutModule:
    """A hook that is called without the module, which comes first among the arguments."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, module: Any, *arguments: Any) -> Any:
        return self.hook(*arguments)


class Registration(Network):
    """Base of `Module`: the methods that register hooks."""

    _forward_pre_hooks: Any
    _forward_hooks: Any
    _backward_pre_hooks: Any
    _backward_hooks: Any
    _state_hooks: Any

    # -- around calls --------------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before each `forward`; what it returns replaces the arguments.

        Args:
            hook: The function.
            prepend: Whether it runs before the module's other hooks of its kind.
            with_kwargs: Whether it is called as `hook(module, args, kwargs)` and returns a pair.

        Returns:
            A handle, whose `remove()` takes the hook off again.
        """
        return self._forward_pre_hooks.register((hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after each `forward`; what it returns replaces the output.

        Args:
            hook: The function.
            prepend: Whether it runs before the module's other hooks of its kind.
            with_kwargs: Whether it is called as `hook(module, args, kwargs, output)`.
            always_call: Whether it runs if the call raises, too.

        Returns:
            A handle, whose `remove()` takes the hook off again.
        """
        return self._forward_hooks.register((hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the arguments are known.

        Both are tuples, with None for what has no gradient; what the hook returns replaces `grad_input`. With `prepend`
        it runs before the module's other hooks of its kind.
        """
        return self._backward_hooks.register(hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`register_full_backward_hook` under its older name; it also sees tensors that lie deeper in a result."""
        self.__dict__["_sees_nested"] = True
        return self._backward_hooks.register(hook)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the results are known, before those of the module.

        What the hook returns replaces `grad_output`. With `prepend` it runs before the module's other hooks of its
        kind.
        """
        return self._backward_pre_hooks.register(hook, prepend)

    # -- around state dicts --------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before each `state_dict`."""
        return self._state_hooks["save"].register(hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata)` after each `state_dict`, which it may change in place."""
        return self._state_hooks["saved"].register(hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing_keys, unexpected_keys, error_msgs)` before
        each `load_state_dict`; the hook may change the state dict, which is a copy of the part that belongs to the
        module, whose names begin with `prefix`, and add to the lists."""
        return self._state_hooks["load"].register(hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after each `load_state_dict`; names that it takes out of the lists are
        no offence."""
        return self._state_hooks["loaded"].register(hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """`register_load_state_dict_pre_hook` under the name by which libraries know it; without the module unless
        `with_module`."""
        return self._state_hooks["load"].register(hook if with_module else WithoutModule(hook))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`register_state_dict_post_hook` under the name by which libraries know it; what the hook returns takes the
        place of the state dict."""
        return self._state_hooks["saved"].register(hook)
