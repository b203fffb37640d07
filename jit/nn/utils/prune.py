"""Pruning: parts of a parameter are held at zero by a mask.

The parameter `weight` becomes `weight_orig`, beside which stands the buffer `weight_mask`; `weight` is their product,
computed whenever it is read.

>>> import jit
>>> from jit.nn.utils import prune
>>> layer = prune.l1_unstructured(jit.nn.Linear(2, 2), "weight", amount=1)
>>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
(1, ['bias', 'weight_mask', 'weight_orig'])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import KindError, ShapeError, UsageError

from ..modules import Module


class AmountError(UsageError, ValueError):
    """The error for an amount that cannot be pruned, and for what is not pruned."""


class BasePruningMethod(ABC):
    """A way to choose what is pruned: subclasses define `compute_mask`, and say by `PRUNING_TYPE` what it looks at."""

    PRUNING_TYPE = "unstructured"
    """"unstructured" for single elements, "structured" for slices, "global" for several parameters as one."""
    _tensor_name = ""

    def __call__(self, module: Any) -> Any:
        return self.apply_mask(module)

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of what stays of `t`, of which `default_mask` has been left so far."""

    def apply_mask(self, module: Any) -> Any:
        """The parameter of a module with what is pruned set to zero."""
        mask, original = getattr(module, f"{self._tensor_name}_mask"), getattr(module, f"{self._tensor_name}_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a parameter, also one that has been pruned before.

        Args:
            module: The module.
            name: The name of its parameter.
            args: Arguments of the method.
            importance_scores: A tensor of the parameter's sizes that is looked at in its place.
            kwargs: Like `args`.

        Returns:
            The method, or all methods that have been applied to the parameter.

        Raises:
            ShapeError: The scores have other sizes.
            AmountError: There is no such parameter.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = module._computed.get(name)
        current = getattr(module, name) if before is not None else module._parameters.get(name)
        if current is None:
            raise AmountError(f"{type(module).__name__} has no parameter {name!r} to be pruned")
        if importance_scores is not None and importance_scores.shape != current.shape:
            raise ShapeError(f"importance_scores have sizes {list(importance_scores.shape)}, not {list(current.shape)}")
        if before is None:
            mask = F.ones_like(current.detach())
        else:
            mask = getattr(module, f"{name}_mask").detach().clone()
            method = PruningContainer.joined(before, method)
        scores = current if importance_scores is None else importance_scores
        _hold(module, name, method, method.compute_mask(scores.detach(), mask))
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """`t` with what is pruned set to zero.

        Args:
            t: The tensor.
            default_mask: What has been left of it so far.
            importance_scores: What is looked at in its place.
        """
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, F.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Any) -> None:
        """Let the parameter be one again, with zeros where it is pruned.

        Raises:
            AmountError: It is not pruned.
        """
        name = self._tensor_name
        if name not in module._computed:
            raise AmountError(f"Module {module} does not have a pruned parameter {name!r}; prune it first")
        weight = self.apply_mask(module).detach()
        original = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"], module._computed[name]
        original.data = weight
        module.register_parameter(name, original)


def _hold(module: Any, name: str, method: Any, mask: Any) -> None:
    """Let a parameter be the product of itself and a mask."""
    if name not in module._computed:
        module.register_parameter(f"{name}_orig", module._parameters.pop(name))
        module.register_buffer(f"{name}_mask", mask)
    setattr(module, f"{name}_mask", mask)
    module._computed[name] = method


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other.

    Args:
        args: The methods.
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        for method in args:
            self.add_pruning_method(method)

    @classmethod
    def joined(cls, before: Any, method: Any) -> PruningContainer:
        """All methods that have been applied, and another one."""
        made = cls(*before) if isinstance(before, PruningContainer) else cls(before)
        made._tensor_name = method._tensor_name
        made.add_pruning_method(method)
        return made

    def add_pruning_method(self, method: Any) -> None:
        """Add a method at the end.

        Raises:
            KindError: It is no method.
            AmountError: It belongs to another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise KindError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._pruning_methods and self._tensor_name != method._tensor_name:
            raise AmountError(f"a method for {method._tensor_name!r} does not go with those for {self._tensor_name!r}")
        self._tensor_name = method._tensor_name
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of the last method, of what those before it have left."""
        method, mask = self._pruning_methods[-1], default_mask.to(t.dtype, copy=True)
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            others = [d for d in range(t.ndim) if d != dim]
            left = (default_mask.sum(others) != 0).nonzero()[:, 0] if others else default_mask.nonzero()[:, 0]
            part = method.compute_mask(t.index_select(dim, left), default_mask.index_select(dim, left))
            return mask.index_copy(dim, left, part.to(mask.dtype))
        left = default_mask == 1
        mask[left] = method.compute_mask(t[left], default_mask[left]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask as it is."""
        return default_mask


class _Amount(BasePruningMethod):
    """Base of methods that prune so many elements.

    Args:
        amount: The number of elements, or the part of them.
    """

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask without the elements that matter least."""
        count = _compute_nparams_toprune(self.amount, t.numel())
        mask = default_mask.clone().reshape(-1)
        if count:
            mask[F.topk(self.scores(t).reshape(-1), count, largest=False)[1]] = 0
        return mask.reshape(default_mask.shape)

    def scores(self, t: Any) -> Any:
        """The importance of each element."""
        raise NotImplementedError


class RandomUnstructured(_Amount):
    """Prunes elements at random.

    Args:
        amount: The number of elements, or the part of them.
    """

    def scores(self, t: Any) -> Any:
        """Numbers at random."""
        return F.rand_like(t)


class L1Unstructured(_Amount):
    """Prunes the elements of least absolute value.

    Args:
        amount: The number of elements, or the part of them.
    """

    def scores(self, t: Any) -> Any:
        """The absolute values."""
        return F.abs(t)


class LnStructured(BasePruningMethod):
    """Prunes the slices of least norm.

    Args:
        amount: The number of slices, or the part of them.
        n: The order of the norm.
        dim: The dim whose slices they are.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask without the slices that matter least.

        Raises:
            AmountError: The tensor has fewer than 2 dims.
        """
        if t.ndim < 2:
            raise AmountError(f"slices of a tensor of {t.ndim} dims are its elements; use an unstructured method")
        dim = self.dim % t.ndim
        count = _compute_nparams_toprune(self.amount, t.shape[dim])
        if not count:
            return default_mask
        least = F.topk(self.scores(t, dim), count, largest=False)[1]
        return default_mask.index_fill(dim, least, 0)

    def scores(self, t: Any, dim: int) -> Any:
        """The importance of each slice."""
        return F.linalg_vector_norm(t, self.n, [d for d in range(t.ndim) if d != dim])


class RandomStructured(LnStructured):
    """Prunes slices at random.

    Args:
        amount: The number of slices, or the part of them.
        dim: The dim whose slices they are.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount, 1, dim)

    def scores(self, t: Any, dim: int) -> Any:
        """Numbers at random."""
        return F.rand((t.shape[dim],))


class CustomFromMask(BasePruningMethod):
    """Prunes what a mask says.

    Args:
        mask: The mask.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The elements that both masks leave.

        Raises:
            ShapeError: The masks have different sizes.
        """
        if default_mask.shape != self.mask.shape:
            raise ShapeError(f"the mask has sizes {list(self.mask.shape)}, not {list(default_mask.shape)}")
        return default_mask * self.mask.to(default_mask.dtype)


def _validate_pruning_amount_init(amount: Any) -> None:
    """Refuse (AmountError, KindError) what is neither a number of elements nor a part."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise KindError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise AmountError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    """AmountError if more elements are to be pruned than there are."""
    if isinstance(amount, int) and amount > tensor_size:
        raise AmountError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount: float, tensor_size: int) -> int:
    _validate_pruning_amount(amount, tensor_size)
    return amount if isinstance(amount, int) else round(amount * tensor_size)


def identity(module: Any, name: str) -> Any:
    """`module` with a mask of ones for a parameter."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """`module` with elements of a parameter pruned at random.

    Args:
        module: The module.
        name: The name of the parameter.
        amount: The number of elements, or the part of them.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """`module` with the least elements of a parameter pruned.

    Args:
        module: The module.
        name: The name of the parameter.
        amount: The number of elements, or the part of them.
        importance_scores: What is looked at in the place of the parameter.
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """`module` with slices of a parameter pruned at random.

    Args:
        module: The module.
        name: The name of the parameter.
        amount: The number of slices, or the part of them.
        dim: The dim whose slices they are.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: float, n: float, dim: int, importance_scores: Any = None) -> Any:
    """`module` with the slices of least norm pruned.

    Args:
        module: The module.
        name: The name of the parameter.
        amount: The number of slices, or the part of them.
        n: The order of the norm.
        dim: The dim whose slices they are.
        importance_scores: What is looked at in the place of the parameter.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """`module` with a parameter pruned by a mask.

    Args:
        module: The module.
        name: The name of the parameter.
        mask: The mask: 0 for what is pruned.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: Any,
    importance_scores: Mapping[tuple[Any, str], Any] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune several parameters as if they were one.

    Args:
        parameters: Pairs of a module and the name of a parameter.
        pruning_method: A class of methods for single elements.
        importance_scores: For some of the pairs, what is looked at in the place of the parameter.
        kwargs: Arguments of the method.

    Raises:
        KindError: The method prunes slices.
    """
    pairs, scores = list(parameters), importance_scores or {}
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise KindError('Only "unstructured" PRUNING_TYPE is supported for global pruning')
    tensors = [getattr(module, name) for module, name in pairs]
    looked_at = [scores.get(pair, tensor) for pair, tensor in zip(pairs, tensors)]
    masks = [_mask_of(module, name, tensor) for (module, name), tensor in zip(pairs, tensors)]
    flat, mask = (F.cat([each.detach().reshape(-1) for each in many]) for many in (looked_at, masks))
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container = PruningContainer(method)
    final = container.compute_mask(flat, mask)
    parts = F.split_with_sizes(final, [tensor.numel() for tensor in tensors])
    for (module, name), tensor, part in zip(pairs, tensors, parts):
        custom_from_mask(module, name, part.reshape(tensor.shape))


def _mask_of(module: Any, name: str, tensor: Any) -> Any:
    mask = getattr(module, f"{name}_mask", None)
    return F.ones_like(tensor.detach()) if mask is None else mask


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one within, is pruned."""
    return any(isinstance(each, BasePruningMethod) for m in module.modules() for each in m._computed.values())


def remove(module: Any, name: str) -> Any:
    """`module` with a pruned parameter made an ordinary one, which has zeros where it was pruned.

    Raises:
        AmountError: It is not pruned.
    """
    method = module._computed.get(name)
    if not isinstance(method, BasePruningMethod):
        raise AmountError(f"Parameter {name!r} of module {module} has to be pruned before pruning can be removed")
    method.remove(module)
    return module
