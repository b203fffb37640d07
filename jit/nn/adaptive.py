"""A softmax over very many classes, of which the rare ones are grouped in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jit.eager.namespace import F
from jit.ir.errors import ShapeError, UsageError

from . import functional
from .containers import ModuleList, Sequential
from .linear import Linear
from .modules import Module


class ASMoutput(NamedTuple):
    """Result of `AdaptiveLogSoftmaxWithLoss`."""

    output: Any
    """The log-probability of the target of each sample, `[N]`."""
    loss: Any
    """The mean of the negative log-probabilities, 0-d."""


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-probabilities of very many classes, sorted from frequent to rare (Grave et al., 2017).

    The first classes are told apart by one layer, the head, which also says how likely each cluster of rarer ones is;
    clusters have layers of their own, the smaller the rarer their classes.

    Args:
        in_features: Size of an input.
        n_classes: The number of classes.
        cutoffs: The first class of each cluster, in rising order.
        div_value: The factor by which the inner size shrinks from one cluster to the next.
        head_bias: Whether the head has a bias.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Raises:
        UsageError: The cutoffs do not rise, or leave the range of the classes.

    >>> import jit
    >>> layer = jit.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10])
    >>> layer(jit.zeros(3, 8), jit.tensor([1, 7, 19])).output.shape, layer.log_prob(jit.zeros(3, 8)).shape
    (jit.Size([3]), jit.Size([3, 20]))
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        listed = list(cutoffs)
        rising = all(isinstance(c, int) for c in listed) and listed == sorted(set(listed))
        if not listed or not rising or listed[0] < 1 or listed[-1] > n_classes - 1:
            last = n_classes - 1
            raise UsageError(f"cutoffs are {listed}; pass different whole numbers from 1 to {last} in rising order")
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*listed, n_classes]
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for number, (begin, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False), 1):
            inner = int(in_features // div_value**number)
            layers = (
                Linear(in_features, inner, False, device, dtype), Linear(inner, end - begin, False, device, dtype)
            )  # fmt: skip
            self.tail.append(Sequential(*layers))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> ASMoutput:
        """Compute the log-probabilities of the targets, and the loss.

        Args:
            input_: `[N, in_features]` or `[in_features]`.
            target_: Classes, `[N]` or `[]`.

        Returns:
            The log-probabilities of the targets and the loss.

        Raises:
            ShapeError: There is not one class for each input.
            UsageError: A target is none of the classes.
        """
        if input_.ndim != target_.ndim + 1 or input_.ndim not in (1, 2) or input_.shape[:-1] != target_.shape:
            sizes = f"{list(input_.shape)} and {list(target_.shape)}"
            raise ShapeError(f"inputs [N, in_features] or [in_features] take a class for each, got the sizes {sizes}")
        if bool(F.any(F.logical_or(F.lt(target_, 0), F.ge(target_, self.n_classes)))):
            raise UsageError(f"a target is no class; pass classes from 0 to {self.n_classes - 1}")
        output = self._of_targets(F.reshape(input_, [-1, self.in_features]), F.reshape(target_, [-1]))
        output = F.reshape(output, target_.shape)
        return ASMoutput(output, F.mean(-output))

    def _of_targets(self, input: Any, target: Any) -> Any:
        """The log-probability of each target; a cluster's layers see only the samples that belong to it."""
        head = functional.log_softmax(self.head(input), dim=1)
        columns, scattered = target, F.zeros_like(F.select(head, 1, 0))
        for number, (begin, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            inside = F.logical_and(F.ge(target, begin), F.lt(target, end))
            rows = F.squeeze(F.nonzero(inside), 1)
            columns = F.where(inside, self.shortlist_size + number, columns)
            if rows.numel():
                within = functional.log_softmax(self.tail[number](F.index_select(input, 0, rows)), dim=1)
                place = F.unsqueeze(F.index_select(target, 0, rows) - begin, 1)
                scattered = F.index_copy(scattered, 0, rows, F.squeeze(F.gather(within, 1, place), 1))
        return F.squeeze(F.gather(head, 1, F.unsqueeze(columns, 1)), 1) + scattered

    def log_prob(self, input: Any) -> Any:
        """Args: input `[N, in_features]`. Returns: the log-probabilities of all classes, `[N, n_classes]`."""
        head = functional.log_softmax(self.head(input), dim=1)
        parts = [F.slice(head, 1, 0, self.shortlist_size)]
        for number, layers in enumerate(self.tail):
            share = F.slice(head, 1, self.shortlist_size + number, self.shortlist_size + number + 1)
            parts.append(functional.log_softmax(layers(input), dim=1) + share)
        return F.cat(parts, 1)

    def predict(self, input: Any) -> Any:
        """Args: input `[N, in_features]`. Returns: the likeliest class of each sample, `[N]`."""
        return F.argmax(self.log_prob(input), 1)
