"""The facet `kernel`: an operator's facts for kernels, plans and profiles.

    @pointwise("aten::tanh(Tensor self) -> Tensor", promote="float", cost=25, ...)

    @array("aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", kernel=Kernel("reduction"), ...)
    def amax(m, self, dim, keepdim): ...

    @amax.terms
    def _(t, self):
        return t.reduce("max", self)

Pointwise operators and views need none: their body, or geometry, is the kernel. A fact that is a function names the
arguments that it wants, as derivatives do; for tensors it gets their types, and `terms` gets terms.

Note [Terms]
    An operator that goes along rows - a sum, a softmax, a norm - is written as the terms that it consists of, in the
    order of operations of its numpy body, so that a kernel's result differs by the order of sums alone. The builder
    `t` is to terms what `m` is to numbers:

    t.dtype, t.count            the dtype of the first result; how many elements are reduced to one
    t.wide(x)                   x in the dtype that the result is computed in: float32 for 16-bit floats
    t.widened(x)                x in the dtype that numbers of its own dtype are computed in
    t.alike(x, w, ...)          all of them widened, None for None; refused if they are of several dtypes
    t.cast(x, dtype)            x in another dtype
    t.apply(f, x, y, cost=3)    f(m, x, y) at every point; `cost` is needed beyond one or two instructions
    t.over(x, n)                x / n for a number n, which may be 0
    t.reduce("max", x)          x combined along the row: "sum", "prod", "max", "min"
    t.extreme("argmax", x)      (the extremum, its position in the row); or "argmin"
    t.running("sum", x)         the sum so far at each place of the row; or "prod", "max", "min", "logaddexp"
    t.row, t.position()         whether the row has more than one element; the place in it
    t.place(dim)                the place along a dim of the first result, int64; or start + place * step
    t.number(n, dtype)          a number, which may be a size that is told when the kernel runs

    What is returned, one term or several, None for what is not wanted, is cast to the dtypes of the results by the
    caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

FORMS = ("point", "reduction", "norm", "scan", "gather", "join", "cast", "positions")
"""The forms that loops give to an operator that is neither pointwise nor a view:

* "point": it is pointwise after all, for these arguments;
* "reduction": rows of its first operand become one element each;
* "norm": its result has the shape of its first operand, and rows are reduced on the way;
* "scan": the same, and the result runs along the row;
* "gather": rows of its first operand, at the places that the second says;
* "join": its operands, one after the other;
* "cast": its operand in another dtype;
* "positions": it has no operand, and its elements follow from their positions, see `t.place`.
"""
ROWS = ("reduction", "norm", "scan")
"""The forms that go along rows."""
STEPS = (
    "copy", "fill", "join", "placement", "product", "inner product", "product and sum", "convolution",
    "convolution gradients", "maxima", "maxima gradients", "means", "sums of rows", "attention",
    "attention gradients",
)  # fmt: skip
"""The steps of a plan that are more than a nest of loops made from terms; the runtime has their code."""
GROUP = "group"
"""A mark in `along`: the part of dim 1 that counts groups of channels."""


@dataclass(frozen=True)
class Kernel:
    """An operator's facts for kernels."""

    form: str | Callable[..., str] = ""
    """One of FORMS, or a function of the arguments; empty for what loops do not compute."""
    cost: int = 1
    """About how many instructions a pointwise operator takes at a point; sixteen lanes count as one."""
    reduces: Callable[..., Any] | None = None
    """The dims of the first operand that a row runs along; unless given, those that the argument `dim` names."""
    along: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    """The dims of the first operand along which the dims of another argument run, by its name; others broadcast."""
    further_along: tuple[int | str, ...] | None = None
    """The same for the second and later results of a norm; unless given, these have size 1 in the dims of a row."""
    groups: Callable[..., int] | None = None
    """The number of groups of channels in dim 1, if a row runs along the channels of one."""
    separable: bool = False
    """Whether the first result reduces other dims than the rest, so that they are two kernels, by `output_mask`."""
    terms: Callable[..., Any] | None = None
    """See Note [Terms]; attached as `@op.terms`."""
    step: str = ""
    """The one of STEPS by which plans compute it."""
    fills: Callable[..., Any] | None = None
    """The number that fills the result, by arguments."""
    product: str = ""
    """"matrices" if each element that it reads takes part in many products, "vectors" if in one."""
    flops: Callable[..., int] | None = None
    """The work of a call, where it is not one operation an element: a function of the first result's type, `out`,
    and of arguments."""
    moves: bool = False
    """Whether elements are only moved, or made up, and nothing is computed."""
    placed: Callable[..., Any] | None = None
    """The slice that the first operand fills in a result of zeros: (dim, start, length, step, keeps the dim)."""
    is_epilogue: bool = False
    """Whether convolutions compute it of their results before they store them."""

    def __post_init__(self) -> None:
        assert callable(self.form) or self.form in ("", *FORMS), self.form
        assert self.step in ("", *STEPS), self.step
        assert self.product in ("", "matrices", "vectors"), self.product


POINTWISE = Kernel("point")
"""The facts of a pointwise operator that declares no others."""
