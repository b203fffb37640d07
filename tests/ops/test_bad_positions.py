"""Indices, offsets, targets and lengths beyond what there is: errors, in eager mode and of recordings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.nn.utils.rnn import pack_padded_sequence


def whole(*values: int) -> Any:
    return jit.tensor(list(values), dtype=jit.int64)


def rows(*sizes: int) -> Any:
    return jit.ones(*sizes).cumsum(0)


def bags(**options: Any) -> Callable[..., Any]:
    return lambda indices, offsets: F.embedding_bag(indices, rows(4, 3), offsets, **options)


LOGITS = jit.log_softmax(rows(4, 1, 3), -1)


def ctc(targets: Any, inputs: Any, lengths: Any) -> Any:
    return F.ctc_loss(LOGITS, targets, inputs, lengths)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[tuple[Any, ...]]]] = {
    "embedding_bag": (
        bags(), (whole(0, 1, 2), whole(0, 2)),
        [(whole(0, 1, 2), whole(0, 4)), (whole(0, 1, 2), whole(0, -1)), (whole(0, 1, 4), whole(0, 2)),
         (whole(0, 1, -1), whole(0, 2)), (whole(0, 1, 2), whole(0, 1 << 40)), (whole(0, 1, 2), whole(1, 2)),
         (whole(0, 1, 2), whole(2, 0)), (whole(0, 1, 2), whole(3, 2))],
    ),
    "embedding_bag of sums": (
        bags(mode="sum"), (whole(0, 1, 2), whole(0, 2)), [(whole(0, 1, 2), whole(0, 4)), (whole(0, 9, 2), whole(0, 2))],
    ),
    "embedding_bag of maxima": (
        bags(mode="max"), (whole(0, 1, 2), whole(0, 2)), [(whole(0, 1, 2), whole(0, 4)), (whole(0, 9, 2), whole(0, 2))],
    ),
    "embedding_bag with its last offset": (
        bags(include_last_offset=True), (whole(0, 1, 2), whole(0, 2, 3)),
        [(whole(0, 1, 2), whole(0, 2, 4)), (whole(0, 1, 2), whole(0, 4, 4)), (whole(0, 1, 2), whole(0, 2, 1))],
    ),
    "embedding_bag of falling offsets": (
        bags(mode="mean"), (whole(0, 1, 2), whole(0, 1, 2)),
        [(whole(0, 1, 2), whole(0, 2, 1)), (whole(0, 1, 2), whole(0, 3, 2))],
    ),
    "embedding": (lambda i: F.embedding(i, rows(4, 3)), (whole(0, 1),), [(whole(0, 4),), (whole(0, -1),)]),
    "one_hot": (lambda i: F.one_hot(i, 3), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "gather": (lambda i: rows(3).gather(0, i), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "scatter": (lambda i: rows(3).scatter(0, i, 9.0), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "scatter_add": (lambda i: rows(3).scatter_add(0, i, rows(3)), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "scatter_reduce": (
        lambda i: rows(3).scatter_reduce(0, i, rows(3), "amax"), (whole(0, 1),), [(whole(0, 3),), (whole(0, -2),)],
    ),
    "take": (lambda i: rows(3).take(i), (whole(0, 1),), [(whole(0, 3),), (whole(0, -4),)]),
    "put": (lambda i: rows(3).put(i, jit.ones(2)), (whole(0, 1),), [(whole(0, 3),), (whole(0, -4),)]),
    "index_select": (lambda i: rows(3).index_select(0, i), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "index_fill": (lambda i: rows(3).index_fill(0, i, 1.0), (whole(0, 1),), [(whole(0, 3),)]),
    "index_add": (lambda i: rows(3).index_add(0, i, jit.ones(2)), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "index_copy": (lambda i: rows(3).index_copy(0, i, jit.ones(2)), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "index_reduce": (lambda i: rows(3).index_reduce(0, i, jit.ones(2), "prod"), (whole(0, 1),), [(whole(0, 3),)]),
    "index_put": (lambda i: rows(3).index_put((i,), jit.ones(2)), (whole(0, 1),), [(whole(0, 3),), (whole(0, -4),)]),
    "index": (lambda i: rows(3)[i], (whole(0, 1),), [(whole(0, 3),), (whole(0, -4),)]),
    "nll_loss": (lambda t: F.nll_loss(rows(2, 3), t), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "nll_loss with weights": (
        lambda t: F.nll_loss(rows(2, 3), t, weight=jit.ones(3)), (whole(0, 1),), [(whole(0, 5),), (whole(-2, 0),)],
    ),
    "cross_entropy": (lambda t: F.cross_entropy(rows(2, 3), t), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)]),
    "smoothed cross_entropy": (
        lambda t: F.cross_entropy(rows(2, 3), t, label_smoothing=0.1), (whole(0, 1),),
        [(whole(0, 3),), (whole(0, -1),)],
    ),
    "multi_margin_loss": (
        lambda t: F.multi_margin_loss(rows(2, 3), t), (whole(0, 1),), [(whole(0, 3),), (whole(0, -1),)],
    ),
    "multilabel_margin_loss": (
        lambda t: F.multilabel_margin_loss(rows(3), t), (whole(0, 1, -1),), [(whole(0, 3, -1),), (whole(0, -2, -1),)],
    ),
    "repeat_interleave": (
        lambda r: jit.repeat_interleave(rows(3), r), (whole(1, 2, 3),),
        [(whole(1, -2, 3),), (whole(1, -1, 2),), (whole(-1, -2, -3),), (whole(1, 2, -3),)],
    ),
    "repeat_interleave along a dim": (
        lambda r: jit.repeat_interleave(rows(3, 2), r, dim=0), (whole(1, 2, 3),),
        [(whole(1, 2, -3),), (whole(2, -1, 1),)],
    ),
    "repeat_interleave to a size": (
        lambda r: jit.repeat_interleave(rows(3), r, output_size=6), (whole(1, 2, 3),),
        [(whole(1, 2, 4),), (whole(1, 2, 2),), (whole(1, -1, 6),)],
    ),
    "bincount": (jit.bincount, (whole(0, 1),), [(whole(0, -1),)]),
    "ctc_loss": (
        ctc, (whole(1, 2).reshape(1, 2), whole(4), whole(2)),
        [(whole(1, 2).reshape(1, 2), whole(5), whole(2)), (whole(1, 2).reshape(1, 2), whole(4), whole(3)),
         (whole(1, 2).reshape(1, 2), whole(4), whole(-1)), (whole(1, 2).reshape(1, 2), whole(-1), whole(2))],
    ),
    "pack_padded_sequence": (
        lambda lengths: pack_padded_sequence(rows(3, 2, 1), lengths).data, (whole(3, 2),),
        [(whole(3, 0),), (whole(2, 3),), (whole(3, -1),)],
    ),
    "max_unpool1d": (
        lambda i: F.max_unpool1d(rows(1, 1, 2), i.reshape(1, 1, 2), 2), (whole(0, 3),),
        [(whole(0, 4),), (whole(0, -1),)],
    ),
    "searchsorted": (
        lambda s: jit.searchsorted(rows(3), rows(3), sorter=s), (whole(0, 1, 2),), [(whole(0, 1, 3),)],
    ),
}  # fmt: skip
"""By name: a function, arguments that fit, and several that do not."""


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_what_is_out_of_range_is_an_error_whenever_it_comes(name: str, optimize: bool) -> None:
    function, fitting, others = CASES[name]
    traced, wanted = jit.trace(function, optimize=optimize), function(*fitting)
    for bad in others:
        with pytest.raises(jit.Error) as eager:
            function(*bad)
        for _ in range(2):
            np.testing.assert_allclose(traced(*fitting)._array, wanted._array, rtol=1e-6)
        with pytest.raises(type(eager.value)):
            traced(*bad)


def test_what_lies_behind_the_last_offset_is_in_no_bag() -> None:
    table, indices = rows(4, 3), whole(0, 1, 2)
    for mode, expected in (("sum", [3.0, 0.0]), ("mean", [1.5, 0.0]), ("max", [2.0, 0.0])):
        f = jit.trace(lambda o, mode=mode: F.embedding_bag(indices, table, o, mode=mode, include_last_offset=True))
        for _ in range(3):
            assert f(whole(0, 2, 2)).tolist() == [[value] * 3 for value in expected]
