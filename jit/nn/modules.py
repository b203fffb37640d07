"""`Module`: the base of networks. It holds parameters, buffers and other modules, and knows all of them by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Self

from jit.eager import context
from jit.eager.composed import Composed
from jit.eager.conversions import conversion
from jit.eager.namespace import F
from jit.eager.networks import BACKWARD, BACKWARD_PRE, FORWARD, FORWARD_PRE, TELLING, initial_state
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.devices import accelerator, resolve
from jit.ir.errors import KindError, MemberError, NamingError, UnwrittenError, UsageError

from .calling import ForwardHook, HookedCall
from .everywhere import registered
from .loading import EXTRA, IncompatibleKeys, StateLoad, load_own, own_members
from .parameter import Parameter, forget_gradient, is_lazy
from .places import FILES, alias, find
from .registration import Registration

_RUNNING: ContextVar[Module | None] = ContextVar("running", default=None)
"""The module whose forward is being recorded: scopes are named after the places in it of the modules that it calls."""


class Module(Registration):
    """Base class of all networks and layers: define `forward`, assign parameters and layers as attributes, call it.

    >>> import jit
    >>> from jit import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.fc = nn.Linear(3, 2)
    ...     def forward(self, x):
    ...         return jit.relu(self.fc(x))
    >>> net = Net()
    >>> [name for name, _ in net.named_parameters()], net(jit.ones(4, 3)).shape
    (['fc.weight', 'fc.bias'], jit.Size([4, 2]))
    """

    training: bool

    _parameters: dict[str, Parameter | None]
    """Learned tensors, by attribute name; None where a layer was made without, e.g. `bias=False`."""
    _buffers: dict[str, Tensor | None]
    """State that is not learned: running statistics, masks, tables."""
    _modules: dict[str, Module | None]
    """The modules inside."""
    _computed: dict[str, Callable[[Module], Any]]
    """Attributes that are computed whenever they are read, such as a weight that is made of several parameters."""

    _version: int | None = 1
    """The version of what the state dict holds, for its metadata."""
    call_super_init = False
    """Whether `__init__` goes on to the class that comes after `Module` among the bases of a subclass."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            given = kwargs or args
            raise KindError(
                f"{type(self).__name__}: Module.__init__ takes no arguments, and it was given {given!r}; leave them out"
            )
        own = self.__dict__
        for name, value in initial_state().items():  # one by one, so that networks share the names in memory
            own[name] = value
        recorder = context.TRACE.get()
        if recorder is not None:
            recorder.note_network(self)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # -- calling -------------------------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result; subclasses define it.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise UnwrittenError(
            f"{type(self).__name__} does not define forward(self, ...), which computes the result; define it"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward hooks and `forward`; a trace that records sees a scope named after the module."""
        if context.TRACE.get() is not None:
            return self._call_in_scope(args, kwargs)
        if self._forward_pre_hooks or self._forward_hooks or self._backward_pre_hooks or self._backward_hooks:
            return self._call_with_hooks(args, kwargs)
        if FORWARD_PRE or FORWARD or BACKWARD_PRE or BACKWARD:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_in_scope(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with context.scope(_name_within(_RUNNING.get(), self)):
            token = _RUNNING.set(self)
            try:
                return self._call_with_hooks(args, kwargs)
            finally:
                _RUNNING.reset(token)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hooks = [ForwardHook(*entry) for entry in (*FORWARD.values(), *self._forward_hooks.values())]
        call = HookedCall(self, args, kwargs, hooks)
        if not any(hook.always for hook in hooks):
            return call.run()
        try:
            return call.run()
        except Exception:
            call.run_what_always_runs()
            raise

    def _watch(self) -> Any:
        """The watch that shows gradients to the backward hooks, if there are any."""
        hooks = self._backward_pre_hooks or self._backward_hooks or BACKWARD_PRE or BACKWARD
        if not hooks or not context.GRAD_ENABLED.get():
            return None
        from .watching import ModuleWatch

        return ModuleWatch(self)

    # -- attributes ----------------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter that is found as `module.<name>`; None declares that there could be one.

        Raises:
            KindError: `param` is neither a Parameter nor None.
        """
        self._check_name(name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise KindError(f"parameter {name!r} must be a jit.nn.Parameter or None, not {type(param).__name__}")
        self._parameters[name] = registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module's state but is not learned.

        Args:
            name: Its attribute name.
            tensor: The tensor, or None to declare that there could be one.
            persistent: Whether the state dict holds it.

        Raises:
            KindError: `tensor` is neither a tensor nor None.
        """
        self._check_name(name, self._buffers)
        if tensor is not None and not isinstance(tensor, (Tensor, Composed)):
            raise KindError(f"buffer {name!r} must be a tensor or None, not {type(tensor).__name__}")
        self._buffers[name] = registered("buffer", self, name, tensor)
        (self._transient_buffers.discard if persistent else self._transient_buffers.add)(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a module that is found as `self.<name>`.

        Raises:
            KindError: `module` is neither a Module nor None.
        """
        self._check_name(name, self._modules)
        if module is not None and not isinstance(module, Module):
            raise KindError(
                f"{name!r} must be a jit.nn.Module or None, not {type(module).__name__}; call functions in a forward()"
            )
        self._modules[name] = registered("module", self, name, module)

    add_module = register_module

    def _check_name(self, name: str, table: Mapping[str, Any]) -> None:
        self._check_initialised()
        if not isinstance(name, str) or not name or "." in name:
            error = NamingError if isinstance(name, str) else KindError
            raise error(f"{name!r} cannot name a part of a module: names are non-empty strings without dots")
        if name not in table and hasattr(self, name):
            raise NamingError(f"{type(self).__name__} already has an attribute {name!r}; choose another name")

    def _check_initialised(self) -> None:
        if "_parameters" not in self.__dict__:
            raise MemberError(
                f"this {type(self).__name__} cannot hold anything yet; call super().__init__() at the start of "
                f"{type(self).__name__}.__init__"
            )

    def _tables(self) -> tuple[tuple[dict[str, Any], Any], ...]:
        own = self.__dict__
        kinds = (("_parameters", Parameter), ("_modules", Module), ("_buffers", (Tensor, Composed)))
        return tuple((own[table], kind) for table, kind in kinds if table in own)

    def __setattr__(self, name: str, value: Any) -> None:
        """Put parameters, modules, and whatever replaces a member of a table, into the tables."""
        if isinstance(value, (Parameter, Module)):
            self._check_initialised()
            if isinstance(value, Parameter) and name in self._computed:
                self._assign_computed(name, value)
            elif isinstance(value, Parameter):
                self._make_room(name, self._parameters)
                self.register_parameter(name, value)  # which programs replace for a while, to see all parameters
            else:
                self._make_room(name, self._modules)
                self._modules[name] = registered("module", self, name, value)
            return
        if name in self.__dict__.get("_computed", ()):
            self._assign_computed(name, value)
            return
        for table, kind in self._tables():
            if name in table:
                if value is not None and not isinstance(value, kind):
                    was, new = ("Tensor" if table is self._buffers else kind.__name__), type(value).__name__
                    raise KindError(
                        f"{type(self).__name__}.{name} is a {was} and cannot become a {new}; "
                        f"assign a {was} or None, or delete it first"
                    )
                table[name] = value
                break
        else:
            object.__setattr__(self, name, value)
        recorder = context.TRACE.get()
        if recorder is not None:
            recorder.note_attribute(self, name)

    def _assign_computed(self, name: str, value: Any) -> None:
        """Assign to a computed attribute, which decides itself what that means."""
        assign = getattr(self._computed[name], "assign", None)
        if assign is None:
            raise UsageError(f"{type(self).__name__}.{name} is computed from other parameters; assign to those")
        assign(self, value)

    def _make_room(self, name: str, table: dict[str, Any]) -> None:
        """Remove whatever has this name, unless it is in `table`."""
        self.__dict__.pop(name, None)
        self._transient_buffers.discard(name)
        for other, _ in self._tables():
            if other is not table:
                other.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for members in ("_parameters", "_modules", "_buffers"):  # not `_tables`: this runs at every layer
            if members in own and name in own[members]:
                return own[members][name]
        computed = own.get("_computed", {})
        if name in computed:
            return computed[name](self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table, _ in self._tables():
            if name in table:
                del table[name]
                self._transient_buffers.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    # -- walking -------------------------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside, each once, with their names."""
        yield from _once(((n, m) for n, m in self._modules.items() if m is not None), set())

    def children(self) -> Iterator[Module]:
        """The modules directly inside, each once."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all inside it, outer ones first, with dotted names; the module itself is ``""``.

        Args:
            memo: The ids of modules to leave out; those yielded are added.
            prefix: The name of this module.
            remove_duplicate: Whether a module that is in several places comes once.
        """
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all inside it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names; a shared one once, under its first name.

        Args:
            prefix: What comes before each name, and a dot.
            recurse: Whether to go into the modules inside.
            remove_duplicate: Whether a shared parameter comes once.

        >>> import jit
        >>> [name for name, _ in jit.nn.Linear(2, 3).named_parameters("layer")]
        ['layer.weight', 'layer.bias']
        """
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once: what an optimizer takes."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their dotted names.

        Args:
            prefix: What comes before each name, and a dot.
            recurse: Whether to go into the modules inside.
            remove_duplicate: Whether a shared buffer comes once.
        """
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(self, table: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        found = (
            (f"{path}.{name}" if path else name, member)
            for path, module in modules
            for name, member in getattr(module, table).items()
            if member is not None
        )
        return _once(found, set()) if remove_duplicate else found

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted name; ``""`` is the module itself.

        Raises:
            MemberError: There is no such module.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            module = module._modules.get(name) if isinstance(module, Module) else None
            if module is None:
                known = _listed(self.named_modules())
                raise MemberError(f"{type(self).__name__} holds no module {target!r}; there are {known}")
        return module

    def set_submodule(self, target: str, module: Module) -> None:
        """Replace the module at a dotted name.

        Raises:
            UsageError: `target` is empty.
        """
        path, _, name = target.rpartition(".")
        if not name:
            raise UsageError("a module cannot replace itself; pass the dotted name of one inside")
        setattr(self.get_submodule(path), name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted name."""
        return self._member(target, "_parameters", self.named_parameters(remove_duplicate=False))

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted name."""
        return self._member(target, "_buffers", self.named_buffers(remove_duplicate=False))

    def _member(self, target: str, table: str, known: Iterable[tuple[str, Any]]) -> Any:
        path, _, name = target.rpartition(".")
        member = getattr(self.get_submodule(path), table).get(name)
        if member is None:
            raise MemberError(f"{type(self).__name__} holds no {table[1:-1]} {target!r}; there are {_listed(known)}")
        return member

    # -- state ---------------------------------------------------------------------------------------------------

    def state_dict(
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name, sharing memory with the module.

        Args:
            destination: A dictionary to fill; a new one if left out.
            prefix: Put before every name.
            keep_vars: Give the parameters themselves rather than tensors detached from autograd.
        """
        state: Any = OrderedDict() if destination is None else destination
        if destination is None:
            state._metadata = OrderedDict()
        metadata = {"version": self._version}
        getattr(state, "_metadata", {})[prefix[:-1]] = metadata
        for hook in tuple(self._state_hooks["save"].values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self._state_hooks["saved"].values()):
            replaced = hook(self, state, prefix, metadata)
            state = state if replaced is None else replaced
        return state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add the module's own part of a state dict, without the modules inside; subclasses may save otherwise."""
        for name, value in own_members(self):
            destination[prefix + name] = value if keep_vars or is_lazy(value) else F.detach(value)
        if self._has_extra_state():
            destination[f"{prefix}{EXTRA}"] = self.get_extra_state()

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: Mapping[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load the module's own part of a state dict; subclasses may load otherwise."""
        load_own(self, state_dict, prefix, strict, missing_keys, unexpected_keys, error_msgs)

    def _complete_state(self, state_dict: dict[str, Any], prefix: str, version: int | None) -> None:
        """Add what state dicts of older versions lack; subclasses do."""

    def get_extra_state(self) -> Any:
        """State that is no tensor, for the state dict; subclasses define it together with `set_extra_state`.

        Raises:
            UsageError: The subclass does not define it.
        """
        raise UsageError(
            f"{type(self).__name__} does not define get_extra_state(self), which its state dict calls for; define it"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` returned.

        Raises:
            UsageError: The subclass does not define it.
        """
        raise UsageError(
            f"{type(self).__name__} does not define set_extra_state(self, state), but a state is loaded; define it"
        )

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not Module.get_extra_state

    def _takes_extra_state(self) -> bool:
        return type(self).set_extra_state is not Module.set_extra_state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values (tensors or numpy arrays) into the parameters and buffers of the same names.

        Args:
            state_dict: What `state_dict()` of this or of an equal module returned.
            strict: Whether names must match exactly.
            assign: Whether to take over the given tensors themselves instead of copying their values.

        Returns:
            The names that were missing and those that were not expected: both empty if `strict`.

        Raises:
            KindError: The state dict is no mapping.
            UsageError: Names do not match, or sizes differ. All faults are listed, and no tensor has been loaded.
        """
        return StateLoad(self, state_dict, strict).run(assign)

    # -- changing all of it --------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Put this module and all inside it into training mode (dropout drops, batch norm measures), or out of it.

        Raises:
            UsageError: `mode` is no bool.
        """
        if not isinstance(mode, bool):
            raise UsageError(f"the training mode is {mode!r}; pass True or False")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """`train(False)`."""
        return self.train(False)

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module inside, then on this one: a way to initialise weights."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether gradients of the parameters are wanted."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the parameters' gradients to None, or to zero."""
        for parameter in self.parameters():
            forget_gradient(parameter, set_to_none)

    def to(
        self, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Self:
        """Convert parameters and buffers that are floating point or complex, in place.

        Args:
            args: A dtype, a device, both, or a tensor that has them.
            dtype: The element type, floating point or complex.
            device: The device.
            non_blocking: Accepted; makes no difference.
            memory_format: The order in memory of the dims of tensors that have 4 or 5.

        Returns:
            This module.

        Raises:
            KindError: The dtype is neither floating point nor complex, or a bool is given.

        >>> import jit
        >>> jit.nn.Linear(2, 3).to(jit.float64).weight.dtype
        jit.float64
        """
        if any(isinstance(arg, bool) for arg in args[:2]):
            raise KindError("a module cannot be converted to a bool; pass a dtype, a device, both, or a tensor")
        wanted, device, _ = conversion(args, dtype, device)
        if wanted is not None and not (wanted.is_floating_point or wanted.is_complex):
            raise KindError(
                f"a module computes in floating point and cannot be converted to {wanted}; pass a floating dtype"
            )

        def moved(t: Tensor) -> Tensor:
            layout = memory_format if not is_lazy(t) and t.ndim in (4, 5) else None
            computes = t.is_floating_point() or t.is_complex()
            return t.to(device=device, dtype=wanted if computes else None, memory_format=layout)

        return self._apply(moved)

    def _apply(self, convert: Callable[[Any], Any]) -> Self:
        """Convert every parameter, gradient and buffer; parameters stay the same objects."""
        for _, module in self.named_modules():
            for parameter in module._parameters.values():
                if parameter is not None:
                    with context.no_grad():
                        converted = convert(parameter)
                        grad = None if parameter.grad is None else convert(parameter.grad)
                    if converted is not parameter:
                        parameter.data = converted
                    parameter.grad = grad
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = convert(buffer)
        return self

    def float(self) -> Self:
        """Convert to float32; complex numbers stay."""
        return self._to_floats(dtypes.float32)

    def double(self) -> Self:
        """Convert to float64; complex numbers stay."""
        return self._to_floats(dtypes.float64)

    def half(self) -> Self:
        """Convert to float16; complex numbers stay."""
        return self._to_floats(dtypes.float16)

    def bfloat16(self) -> Self:
        """Convert to bfloat16; complex numbers stay."""
        return self._to_floats(dtypes.bfloat16)

    def _to_floats(self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers, integers among them, to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def to_empty(self, *, device: Any = None, recurse: bool = True) -> Self:
        """Give every parameter and buffer new memory, which is not initialised."""
        home = None if device is None else str(resolve(device))
        return self._apply(lambda t: F.empty_like(t, device=home))

    def share_memory(self) -> Self:
        """This module: other processes get copies."""
        return self._apply(lambda t: t.share_memory_())

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move to a CUDA device."""
        return self.to(accelerator(device))

    # -- showing -------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The text between the parentheses of the printed module, e.g. sizes; for subclasses to define."""
        return ""

    def _get_name(self) -> str:
        return ("Parametrized" if "parametrizations" in self._modules else "") + type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()]
        if not children and "\n" not in extra:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(" + "\n  ".join(["", *extra.splitlines(), *children]) + "\n)"


TELLING.add(Module.__setattr__)


def _once(pairs: Iterable[tuple[str, Any]], seen: set[int]) -> Iterator[tuple[str, Any]]:
    for name, member in pairs:
        if id(member) not in seen:
            seen.add(id(member))
            yield name, member


def _name_within(caller: Module | None, module: Module) -> str:
    """The dotted name of `module` inside the module that calls it; its class where it is not inside."""
    if caller is not None and caller is not module:
        for name, child in caller._modules.items():
            if child is module:
                return name
        for name, inner in caller.named_modules():
            if inner is module:
                return name
    return type(module).__name__


def _listed(pairs: Iterable[tuple[str, Any]]) -> str:
    names = [name for name, _ in pairs if name]
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none"


# -- PyTorch's paths, `nn.modules.linear.Linear` and `nn.modules.Linear`, see `places` ------------------------------

globals().update({file: alias(f"{__name__}.{file}") for file in FILES})
__getattr__ = find
