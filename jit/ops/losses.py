"""Losses. A reduction is ATen's number: 0 leaves the elements, 1 takes their mean, 2 their sum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.ir.errors import DimError, DTypeError, ShapeError, UsageError
from jit.ir.op import absent, array, composite
from jit.ir.precision import FLOAT32, Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .common import SIZES_ONLY

if TYPE_CHECKING:
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Numpy, OnnxWriter, Ops, Tensor, Value

NONE, MEAN, SUM = range(3)
CLASSES, NOT_LEARNT = absent("classes are integers"), absent("the weights of classes are constants")
_CONSTANTS = dict(target=CLASSES, weight=NOT_LEARNT)


def _reduced(F: Ops, losses: Tensor, reduction: int) -> Tensor:
    if reduction not in (NONE, MEAN, SUM):
        raise UsageError(f"reduction should be 0 (none), 1 (mean) or 2 (sum), got {reduction}")
    return losses if reduction == NONE else F.mean(losses) if reduction == MEAN else F.sum(losses)


def _share(g: Tensor, count: int, reduction: int) -> Tensor:
    """The gradient of each of `count` elements of a reduced loss."""
    return g / count if reduction == MEAN else g


# -- of differences ----------------------------------------------------------------------------------------------


@FLOAT32
@composite("aten::mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor", namespaces=("nn.functional",))
def mse_loss(F: Ops, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """The squares of self - target, reduced."""
    difference = self - target
    return _reduced(F, difference * difference, reduction)


@mse_loss.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, seed=1))
    yield sample(make(3, 4), make(3, 4, seed=1), 0)
    yield sample(make(3, 4), make(4, seed=1), 2, note="broadcast")
    yield sample(make(), make(seed=1), note="0-d")


@composite("aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
           namespaces=())  # fmt: skip
def mse_loss_backward(F: Ops, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """The gradient of mse_loss's self: 2 * (self - target) * grad_output, divided by the count for the mean."""
    return (self - target) * (_share(grad_output, self.numel(), reduction) * 2)


@mse_loss_backward.samples
def _() -> Iterator[Sample]:
    yield sample(make(), make(3, 4, seed=1), make(3, 4, seed=2), 1)
    yield sample(make(3, 4), make(3, 4, seed=1), make(3, 4, seed=2), 0)


@FLOAT32
@composite("aten::l1_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor", namespaces=("nn.functional",))
def l1_loss(F: Ops, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """|self - target|, reduced."""
    return _reduced(F, F.abs(self - target), reduction)


@l1_loss.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, seed=1))
    yield sample(make(3, 4), make(3, 4, seed=1), 0)


@FLOAT32
@composite("aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> Tensor",
           namespaces=("nn.functional",))  # fmt: skip
def smooth_l1_loss(F: Ops, self: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """d ** 2 / (2 * beta) where d = |self - target| is below beta, d - beta / 2 elsewhere; reduced."""
    if beta < 0:
        raise UsageError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    size = F.abs(self - target)
    if beta == 0:
        return _reduced(F, size, reduction)
    return _reduced(F, F.where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta), reduction)


@smooth_l1_loss.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, seed=1))
    yield sample(make(3, 4), make(3, 4, seed=1), 2, 0.5)
    yield sample(make(3, 4), make(3, 4, seed=1), 0, 0.0)


@FLOAT32
@composite("aten::huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> Tensor",
           namespaces=("nn.functional",))  # fmt: skip
def huber_loss(F: Ops, self: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    """d ** 2 / 2 where d = |self - target| is below delta, delta * (d - delta / 2) elsewhere; reduced."""
    if delta <= 0:
        raise UsageError(f"huber_loss: delta must be positive, got {delta}")
    size = F.abs(self - target)
    return _reduced(F, F.where(size < delta, size * size * 0.5, (size - 0.5 * delta) * delta), reduction)


@huber_loss.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, seed=1))
    yield sample(make(3, 4), make(3, 4, seed=1), 2, 0.5)


# -- of probabilities --------------------------------------------------------------------------------------------


@Precision(cpu="float32", cuda="refused")
@composite("aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor",
           namespaces=("nn.functional",))  # fmt: skip
def binary_cross_entropy(F: Ops, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    """-target * log(self) - (1 - target) * log(1 - self), reduced; self holds probabilities.

    Logarithms are cut off at -100, so that a wrong certainty costs much but not infinitely much.
    """
    if tuple(self.shape) != tuple(target.shape):
        raise ShapeError(
            f"binary_cross_entropy: both tensors should have one shape, got {list(self.shape)} and {list(target.shape)}"
        )
    yes, no = F.clamp(F.log(self), min=-100), F.clamp(F.log1p(-self), min=-100)
    losses = (target - 1) * no - target * yes
    return _reduced(F, losses if weight is None else losses * weight, reduction)


@binary_cross_entropy.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor, target: Tensor, weight: Any, reduction: int
) -> Sequence[Tensor | None]:
    """Through the formula the cut-off would give 0 * inf; here the denominator is what cannot vanish."""
    shares = _share(g, self.numel(), reduction)
    weighted = shares if weight is None else shares * weight
    by_self = by_target = by_weight = None
    if needs[0]:
        by_self = weighted * (self - target) / F.clamp((1 - self) * self, min=1e-12)
    if needs[1] or needs[2]:
        yes, no = F.clamp(F.log(self), min=-100), F.clamp(F.log1p(-self), min=-100)
        by_target = weighted * (no - yes) if needs[1] else None
        by_weight = F.sum_to_size(shares * ((target - 1) * no - target * yes), weight.shape) if needs[2] else None
    return by_self, by_target, by_weight


@binary_cross_entropy.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4, low=0.1, high=0.9), make(3, 4, low=0, high=1, seed=1))
    yield sample(make(3, 4, low=0.1, high=0.9), make(3, 4, low=0, high=1, seed=1), make(4, low=0, seed=2), 2)
    yield sample(make(3, low=0.1, high=0.9), make(3, low=0, high=1, seed=1), reduction=0)


@FLOAT32
@composite("aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
           "Tensor? pos_weight=None, int reduction=Mean) -> Tensor", namespaces=("jit", "nn.functional"))  # fmt: skip
def binary_cross_entropy_with_logits(
    F: Ops, self: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(self), without overflow; pos_weight multiplies the losses of targets 1."""
    if tuple(self.shape) != tuple(target.shape):
        raise ShapeError(
            f"binary_cross_entropy: both tensors should have one shape, got {list(self.shape)} and {list(target.shape)}"
        )
    certainty = F.log_sigmoid(self)
    if pos_weight is not None:
        certainty = certainty * ((pos_weight - 1) * target + 1)
    losses = (1 - target) * self - certainty
    return _reduced(F, losses if weight is None else losses * weight, reduction)


@binary_cross_entropy_with_logits.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(3, 4, low=0, high=1, seed=1))
    yield sample(make(3, 4), make(3, 4, low=0, high=1, seed=1), make(4, low=0, seed=2), make(4, low=0, seed=3), 0)
    yield sample(make(4, low=-90, high=90), make(4, low=0, high=1, seed=1), note="large", grad=False)


@FLOAT32
@composite("aten::kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor",
           namespaces=("jit", "nn.functional"))  # fmt: skip
def kl_div(F: Ops, self: Tensor, target: Tensor, reduction: int, log_target: bool) -> Tensor:
    """target * (log(target) - self), reduced: self holds log-probabilities, and so does target if log_target."""
    if log_target:
        return _reduced(F, F.exp(target) * (target - self), reduction)
    return _reduced(F, F.xlogy(target, target) - target * self, reduction)


@kl_div.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4, high=0), make(3, 4, low=0.1, high=1, seed=1))
    yield sample(make(3, 4, high=0), make(3, 4, low=-2, high=0, seed=1), 2, log_target=True)


# -- of classes --------------------------------------------------------------------------------------------------


def _check_classes(self: Ints, target: Ints, weight: Any) -> int:
    """The dim of the classes; ShapeError if the target is not made for it."""
    dim = 0 if len(self) == 1 else 1
    if not len(self) >= 1 or tuple(target) != (*self[:dim], *self[dim + 1 :]):
        raise ShapeError(f"nll_loss: a target of sizes {list(target)} does not fit an input of sizes {list(self)}")
    if weight is not None and tuple(weight) != (self[dim],):
        raise ShapeError(f"nll_loss: expects {self[dim]} weights, one for each class, got the sizes {list(weight)}")
    return dim


def _class_weights(m: Numpy, self: Array, target: Array, weight: Array | None, ignore_index: int) -> tuple[Any, Any]:
    """(classes, 0 for ignored ones; the weight of each element, 0 for ignored ones)."""
    dim = _check_classes(self.shape, target.shape, None if weight is None else weight.shape)
    valid = target != ignore_index
    classes = m.where(valid, target, 0)
    if classes.size and not 0 <= classes.min() <= classes.max() < self.shape[dim]:
        wrong = (classes < 0) | (classes >= self.shape[dim])
        raise DimError(f"nll_loss: target {int(target[wrong][0])} is out of range for {self.shape[dim]} classes")
    return classes, valid.astype(self.dtype) if weight is None else m.where(valid, weight[classes], 0)


def _scores_at(m: Numpy, classes: Array) -> tuple[Any, ...]:
    """The index of the score of each element's class."""
    if not classes.ndim:
        return (classes,)
    places = [m.arange(n).reshape(-1, *(1,) * (classes.ndim - d - 1)) for d, n in enumerate(classes.shape)]
    return places[0], classes, *places[1:]


@array("aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) "
       "-> (Tensor output, Tensor total_weight)", raises=True, namespaces=(),
       grad=_CONSTANTS)  # fmt: skip
def nll_loss_forward(
    m: Numpy, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> Sequence[Array | None]:
    """(minus the entries of self at the target classes, weighted and reduced; the sum of the weights)."""
    if self.dtype.kind in "iub":
        raise DTypeError(f"nll_loss: scores should be floating, and these are {self.dtype}; cast with x.float()")
    classes, weights = _class_weights(m, self, target, weight, ignore_index)
    picked = self[_scores_at(m, classes)]
    losses, total = m.where(target != ignore_index, -picked * weights, m.asarray(0, self.dtype)), m.sum(weights)
    if reduction == NONE:
        return m.array(losses, order="C"), total
    return (m.sum(losses) / total if reduction == MEAN else m.sum(losses)), total


@nll_loss_forward.type
def _(
    self: KnownType, target: KnownType, weight: KnownType | None, reduction: int, ignore_index: int
) -> Sequence[Type]:
    _check_classes(self.sizes, target.sizes, None if weight is None else weight.sizes)
    shape = target.shape if reduction == NONE else ()
    return TensorType(self.dtype, shape, None, self.device), TensorType(self.dtype, (), None, self.device)


@nll_loss_forward.grad
def _(
    F: Ops, g: Tensor, out: Sequence[Tensor], self: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: int,
) -> Sequence[Tensor | None]:  # fmt: skip
    return F.nll_loss_backward(g, self, target, weight, reduction, ignore_index, out[1]), None, None


def _picking(F: Ops, self: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> Any:
    """(the places of the target classes among the scores, whether an element counts, its weight), in parts."""
    dim = _check_classes(self.shape, target.shape, None if weight is None else weight.shape)
    valid = F.ne(target, ignore_index)
    rates = F.ones([self.shape[dim]], dtype=self.dtype, device=self.device) if weight is None else weight
    rows = F.embedding(F.unsqueeze(rates, 1), F.where(valid, target, 0))  # which refuses what is no class
    classes = F.arange(self.shape[dim], device=self.device)
    places = F.eq(F.reshape(classes, [-1] + [1] * (self.ndim - dim - 1)), F.unsqueeze(target, dim))
    return places, valid, F.where(valid, F.squeeze(rows, -1), 0.0)


@nll_loss_forward.parts
def _(
    F: Ops, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Sequence[Tensor]:
    places, valid, weights = _picking(F, self, target, weight, ignore_index)
    picked = F.sum(F.where(places, self, 0.0), [min(1, self.ndim - 1)])
    losses, total = F.where(valid, F.neg(picked) * weights, 0.0), F.sum(weights)
    if reduction == NONE:
        return losses, total
    return (F.sum(losses) / total if reduction == MEAN else F.sum(losses)), total


def _onnx_nll(
    g: OnnxWriter, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> Value:
    batch = g.ints([0])
    single = self.ndim == 1
    x, t = (g.op("Unsqueeze", v, batch) for v in (self, target)) if single else (self, target)
    word = ("none", "mean", "sum")[reduction]
    out = g.op("NegativeLogLikelihoodLoss", x, t, weight, ignore_index=ignore_index, reduction=word)
    return g.op("Squeeze", out, batch) if single and reduction == NONE else out


def _onnx_weights(
    g: OnnxWriter, self: Value, target: Value, weight: Value | None, ignore_index: int
) -> tuple[Any, Any]:
    """`_class_weights` in ONNX."""
    valid = g.op("Not", g.op("Equal", target, g.constant(ignore_index, like=target)))
    classes = g.op("Where", valid, target, g.constant(0, like=target))
    kept = g.cast(valid, self.dtype)
    return classes, kept if weight is None else g.op("Mul", kept, g.op("Gather", weight, classes, axis=0))


@nll_loss_forward.onnx
def _(
    g: OnnxWriter, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> Sequence[Value | None]:
    _, weights = _onnx_weights(g, self, target, weight, ignore_index)
    total = g.reduce("ReduceSum", weights, None, False) if target.ndim else weights
    return _onnx_nll(g, self, target, weight, reduction, ignore_index), total


def _classes(*targets: Any) -> Any:
    import numpy as np

    return np.array(targets, np.int64)


@nll_loss_forward.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), _classes(1, 0, 3), None, 1, -100)
    yield sample(make(3, 4), _classes(1, 0, 3), make(4, low=0.1, seed=1), 1, -100, note="weights")
    yield sample(make(3, 4), _classes(1, 2, 3), None, 0, 2, note="ignores")
    yield sample(make(2, 3, 2), _classes([1, 0], [2, 2]), None, 2, -100)
    yield sample(make(4), _classes(2).reshape(()), None, 1, -100, note="unbatched")
    yield sample(strided(make(3, 4)), _classes(1, 0, 3), None, 0, -100, note="strided")


@array("aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, "
       "int ignore_index, Tensor total_weight) -> Tensor", raises=True, namespaces=(),
       grad=dict(self=SIZES_ONLY, target=CLASSES, weight=NOT_LEARNT, total_weight=NOT_LEARNT,
                 grad_output=lambda F, g, target, weight, reduction, ignore_index:
                 F.nll_loss_forward(g, target, weight, reduction, ignore_index)[0]))  # fmt: skip
def nll_loss_backward(
    m: Numpy, grad_output: Array, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int,
    total_weight: Array,
) -> Array:  # fmt: skip
    """The gradient of nll_loss's self: minus the weighted share of each target class, zeros elsewhere."""
    classes, weights = _class_weights(m, self, target, weight, ignore_index)
    out = m.zeros(self.shape, grad_output.dtype)
    out[_scores_at(m, classes)] = -weights * (grad_output / total_weight if reduction == MEAN else grad_output)
    return out


@nll_loss_backward.parts
def _(
    F: Ops, grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int,
    total_weight: Tensor,
) -> Tensor:  # fmt: skip
    places, valid, weights = _picking(F, self, target, weight, ignore_index)
    shares = F.neg(weights) * (grad_output / total_weight if reduction == MEAN else grad_output)
    counted, shares = (F.unsqueeze(each, min(1, self.ndim - 1)) for each in (valid, shares))
    return F.where(F.logical_and(places, counted), shares, 0.0)


@nll_loss_backward.type
def _(
    grad_output: KnownType, self: KnownType, target: KnownType, weight: KnownType | None, reduction: int,
    ignore_index: int, total_weight: KnownType,
) -> TensorType:  # fmt: skip
    return TensorType(grad_output.dtype, self.shape, None, self.device)


@nll_loss_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, self: Value, target: Value, weight: Value | None, reduction: int,
    ignore_index: int, total_weight: Value,
) -> Value:  # fmt: skip
    axis = g.ints([min(1, self.ndim - 1)])
    classes, weights = _onnx_weights(g, self, target, weight, ignore_index)
    shares = g.op("Mul", g.op("Neg", weights), grad_output)
    if reduction == MEAN:
        shares = g.op("Div", shares, total_weight)
    zeros = g.op("Mul", self, g.constant(0, like=self))
    places, updates = (g.op("Unsqueeze", v, axis) for v in (classes, shares))
    return g.op("ScatterElements", zeros, places, updates, axis=min(1, self.ndim - 1))


@nll_loss_backward.samples
def _() -> Iterator[Sample]:
    import numpy as np

    total = np.array(3, np.float32)
    yield sample(make(), make(3, 4), _classes(1, 0, 3), None, 1, -100, total)
    yield sample(make(3), make(3, 4), _classes(1, 2, 3), make(4, low=0.1, seed=1), 0, 2, total)


_NLL = "Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, int ignore_index=-100"


@FLOAT32
@composite(f"aten::nll_loss({_NLL}) -> Tensor", namespaces=("nn.functional",), grad=_CONSTANTS)
def nll_loss(F: Ops, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Tensor:
    """-self at the classes in target, weighted and reduced: log-probabilities [N, C, ...], classes [N, ...]."""
    return F.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


@nll_loss.onnx
def _(g: OnnxWriter, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> Value:
    return _onnx_nll(g, self, target, weight, reduction, ignore_index)


@nll_loss.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), _classes(1, 0, 3))


@FLOAT32
@composite(f"aten::nll_loss2d({_NLL}) -> Tensor", namespaces=(), grad=_CONSTANTS)
def nll_loss2d(
    F: Ops, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    """`nll_loss` over images: self [N, C, H, W], target [N, H, W]."""
    return F.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


@nll_loss2d.onnx
def _(g: OnnxWriter, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> Value:
    return _onnx_nll(g, self, target, weight, reduction, ignore_index)


@nll_loss2d.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 2, 2), _classes([[1, 0], [2, 2]], [[0, 1], [1, 1]]))


@FLOAT32
@composite(f"aten::nll_loss_nd({_NLL}) -> Tensor", namespaces=(), grad=_CONSTANTS)
def nll_loss_nd(
    F: Ops, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    """`nll_loss` over any number of dims: self [N, C, ...], target [N, ...]."""
    return F.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


@nll_loss_nd.onnx
def _(g: OnnxWriter, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> Value:
    return _onnx_nll(g, self, target, weight, reduction, ignore_index)


@nll_loss_nd.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), _classes(1, 0, 3), make(4, low=0.1, seed=1))
    yield sample(make(2, 3, 2), _classes([1, 0], [2, -100]), None, 2)


@Precision(cpu="float32")
@composite("aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, "
           "int ignore_index=-100, float label_smoothing=0.0) -> Tensor", namespaces=(),
           grad=dict(weight=NOT_LEARNT))  # fmt: skip
def cross_entropy_loss(
    F: Ops, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int,
    label_smoothing: float,
) -> Tensor:  # fmt: skip
    """`nll_loss` of log_softmax(self) over dim 1; target holds classes, [N, ...], or probabilities, [N, C, ...]."""
    if not 0 <= label_smoothing <= 1:
        raise UsageError(f"cross_entropy: label_smoothing must lie between 0 and 1, got {label_smoothing}")
    dim = min(1, self.ndim - 1)
    log_probabilities = F.log_softmax(self, dim)
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(F, log_probabilities, target, weight, reduction, dim, label_smoothing)
    hard = F.nll_loss_forward(log_probabilities, target, weight, reduction, ignore_index)[0]
    if label_smoothing == 0:
        return hard
    even = _even_cross_entropy(F, log_probabilities, target, weight, reduction, ignore_index, dim)
    return hard * (1 - label_smoothing) + even * (label_smoothing / self.shape[dim])


def _per_class(F: Ops, weight: Tensor, ndim: int, dim: int) -> Tensor:
    return F.view(weight, [-1 if d == dim else 1 for d in range(ndim)])


def _soft_cross_entropy(
    F: Ops, log_probabilities: Tensor, target: Tensor, weight: Tensor | None, reduction: int, dim: int, smoothing: float
) -> Tensor:
    """The cross entropy against probabilities; its mean is over the places, whatever the weights."""
    if tuple(target.shape) != tuple(log_probabilities.shape):
        raise ShapeError(
            f"cross_entropy: probabilities of sizes {list(target.shape)} do not fit {list(log_probabilities.shape)}"
        )
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / target.shape[dim]
    terms = log_probabilities * target
    if weight is not None:
        terms = terms * _per_class(F, weight, terms.ndim, dim)
    if reduction == NONE:
        return -F.sum(terms, [dim])
    places = math.prod(n for d, n in enumerate(target.shape) if d != dim) if reduction == MEAN else 1
    return -F.sum(terms) / places


def _even_cross_entropy(
    F: Ops, log_probabilities: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int,
    dim: int,
) -> Tensor:  # fmt: skip
    """The sum of the cross entropies against each class; its mean is weighted as that of the hard loss."""
    terms = log_probabilities
    if weight is not None:
        terms = terms * _per_class(F, weight, terms.ndim, dim)
    ignored = target == ignore_index
    losses = F.masked_fill(-F.sum(terms, [dim]), ignored, 0.0)
    if reduction != MEAN:
        return _reduced(F, losses, reduction)
    if weight is None:
        kept = F._to_copy(F.logical_not(ignored), dtype=losses.dtype)
    else:
        classes = F.masked_fill(target, ignored, 0)
        kept = F.masked_fill(F.index(weight, [classes]), ignored, 0.0)
    return F.sum(losses) / F.sum(kept)


@cross_entropy_loss.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), _classes(1, 0, 3))
    yield sample(make(3, 4), _classes(1, -100, 3), make(4, low=0.1, seed=1), 1, -100, 0.1)
    yield sample(make(2, 3, 2), _classes([1, 0], [2, 2]), None, 0, label_smoothing=0.2)
    yield sample(make(3, 4), _classes(1, 2, 3), None, 2, 2, 0.1, note="ignores")
    yield sample(make(3, 4), make(3, 4, low=0, high=1, seed=1), note="probabilities")
    yield sample(make(3, 4), make(3, 4, low=0, high=1, seed=1), make(4, low=0.1, seed=2), 0, label_smoothing=0.3)
    yield sample(make(4), _classes(2).reshape(()), note="unbatched")
