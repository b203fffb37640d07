"""Calls of modules that have hooks: the hooks before `forward`, `forward` itself, and the hooks after it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jit.eager.networks import FORWARD_PRE
from jit.ir.errors import KindError


class ForwardHook(NamedTuple):
    """A hook that runs after `forward`."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False
    """Whether it runs if the call raises, too."""


class HookedCall:
    """One call of a module, with its hooks.

    Args:
        module: The module that is called.
        args: Positional arguments.
        kwargs: Arguments by name.
        hooks: The hooks that run after `forward`, in their order.
    """

    def __init__(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], hooks: Sequence[ForwardHook]
    ) -> None:
        self.module, self.args, self.kwargs, self.hooks = module, args, kwargs, hooks
        self.result: Any = None
        self.begun = 0
        """The number of hooks that have run, or have begun to."""

    def run(self) -> Any:
        """Run `forward` between its hooks and return the result as they leave it."""
        for hook, with_kwargs in (*FORWARD_PRE.values(), *self.module._forward_pre_hooks.values()):
            self._replace_arguments(hook, with_kwargs)
        watch = self.module._watch()
        given = self.args if watch is None else watch.enter(self.args)
        self.result = self.module.forward(*given, **self.kwargs)
        for hook in self.hooks:
            self.begun += 1
            self._show(hook)
        return self.result if watch is None else watch.leave(self.result)

    def run_what_always_runs(self) -> None:
        """Run the hooks with `always` after the call has raised; their errors become warnings, not to hide its own."""
        for hook in self.hooks[self.begun :]:
            if hook.always:
                try:
                    self._show(hook)
                except Exception as error:
                    told = f"a forward hook with always_call=True raised {error!r} after the call itself had raised"
                    warnings.warn(told, stacklevel=4)

    def _show(self, hook: ForwardHook) -> None:
        more = (self.kwargs,) if hook.with_kwargs else ()
        replaced = hook.function(self.module, self.args, *more, self.result)
        self.result = self.result if replaced is None else replaced

    def _replace_arguments(self, hook: Callable[..., Any], with_kwargs: bool) -> None:
        replaced = hook(self.module, self.args, self.kwargs) if with_kwargs else hook(self.module, self.args)
        if replaced is None:
            return
        if not with_kwargs:
            self.args = replaced if isinstance(replaced, tuple) else (replaced,)
            return
        if not isinstance(replaced, tuple) or len(replaced) != 2:
            raise KindError(f"a forward pre-hook with_kwargs returns None or (args, kwargs), not {replaced!r}")
        self.args, self.kwargs = replaced
