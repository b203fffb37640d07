"""Rotated places: one `RotaryEmbedding` for the ways in which people write them, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

import jit

WIDTH = 8


def angles(length: Any, start: Any = 0) -> Any:
    steps = 10000.0 ** (-jit.arange(0, WIDTH, 2).float() / WIDTH)
    return jit.outer(jit.arange(length).float() + start, steps)


def turned(x: Any) -> Any:
    half = x.shape[-1] // 2
    return jit.cat((-x[..., half:], x[..., :half]), dim=-1)


def by_tables(x: Any) -> Any:
    both = jit.cat((angles(x.shape[2]),) * 2, dim=-1)
    return x * both.cos() + turned(x) * both.sin()


def by_scaled_tables(x: Any) -> Any:
    both = jit.cat((angles(x.shape[2]),) * 2, dim=-1)[None, None]
    return (x * (both.cos() * 0.5)) + (turned(x) * (both.sin() * 0.5))


def in_the_other_order(x: Any) -> Any:
    both = jit.cat((angles(x.shape[2]),) * 2, dim=-1)
    return both.sin() * turned(x) + both.cos() * x


def by_halves(x: Any) -> Any:
    cos, sin = angles(x.shape[2]).cos(), angles(x.shape[2]).sin()
    a, b = x.chunk(2, -1)
    return jit.cat([a * cos - b * sin, b * cos + a * sin], -1)


def by_pairs(x: Any) -> Any:
    cos, sin = (table.repeat_interleave(2, -1) for table in (angles(x.shape[2]).cos(), angles(x.shape[2]).sin()))
    return x * cos + jit.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * sin


def by_halves_of_pairs(x: Any) -> Any:
    cos, sin = angles(x.shape[2]).cos(), angles(x.shape[2]).sin()
    a, b = x[..., ::2], x[..., 1::2]
    return jit.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


def in_part(x: Any) -> Any:
    wide = jit.cat([x, x], -1)
    return jit.cat([by_tables(wide[..., :WIDTH]), wide[..., WIDTH:]], -1)


SPELLINGS = [by_tables, by_scaled_tables, in_the_other_order, by_halves, by_pairs, by_halves_of_pairs, in_part]


def from_places(x: Any, places: Any) -> Any:
    steps = 10000.0 ** (-jit.arange(0, WIDTH, 2).float() / WIDTH)
    both = places[:, :, None].float() * steps
    both = jit.cat((both, both), dim=-1)[:, None]
    return x * both.cos() + turned(x) * both.sin()


def nodes(f: Callable[..., Any], *args: Any, **options: Any) -> dict[str, int]:
    report = jit.export_onnx(f, args, **{"opset_version": 23, **options})
    assert report.verified is not None
    return report.op_histogram


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}, {"x": {2: "t"}}, {"x": {0: "n", 2: "t"}}])
@pytest.mark.parametrize("f", SPELLINGS)
def test_spellings(f, axes, tmp_path):
    jit.manual_seed(0)
    jit.export_onnx(f, jit.randn(2, 3, 5, WIDTH), tmp_path / "m.onnx", opset_version=23, dynamic_axes=axes)
    found = nodes(f, jit.randn(2, 3, 5, WIDTH), dynamic_axes=axes)
    assert found["RotaryEmbedding"] == 1 and "Neg" not in found and "Sub" not in found
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    names = (axes or {}).get("x", {})
    for batch, length in ((1, 7), (4, 5), (2, 1)):
        x = jit.randn(batch if 0 in names else 2, 3, length if 2 in names else 5, WIDTH)
        np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], f(x).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [None, {"x": {0: "n", 2: "t"}, "places": {0: "n", 1: "t"}}])
def test_places_of_each_text(axes):
    found = nodes(from_places, jit.randn(2, 3, 5, WIDTH), jit.randint(0, 50, (2, 5)), dynamic_axes=axes)
    assert found["RotaryEmbedding"] == 1
    assert "Transpose" not in found and "Expand" not in found


def test_a_batch_of_one_is_not_reshaped():
    assert nodes(by_halves, jit.randn(1, 3, 5, WIDTH)) == {"RotaryEmbedding": 1}


def test_tables_are_made_once():
    found = nodes(lambda q, k: (by_tables(q), by_tables(k)), *(jit.randn(2, 3, 5, WIDTH) for _ in "qk"))
    assert found == {"RotaryEmbedding": 2, "Reshape": 4}


@pytest.mark.parametrize("opset", [20, 22, 23, 24, 25, 26])
def test_opsets(opset):
    assert ("RotaryEmbedding" in nodes(by_tables, jit.randn(1, 2, 3, WIDTH), opset_version=opset)) == (opset >= 23)


def paired(x: Any, dim: int = -1) -> Any:
    return jit.stack((-x[..., 1::2], x[..., ::2]), dim).flatten(-2)


def test_what_is_none():
    x, table = jit.randn(2, 3, 5, WIDTH), jit.randn(5, WIDTH)
    both = jit.cat((table[:, :4],) * 2, -1)
    others: dict[str, Callable[[Any], Any]] = {
        "halves that differ": lambda x: x * table + turned(x) * table,
        "one table whose halves differ": lambda x: x * both + turned(x) * table,
        "turned the other way": lambda x: x * both - turned(x) * both,
        "halves in their order": lambda x: x * both + jit.cat((-x[..., :4], x[..., 4:]), -1) * both,
        "another tensor": lambda x: x * both + turned(x + 1) * both,
        "tables for heads": lambda x: x * both[:3, None] + turned(x) * both[:3, None],
        "tables for the batch alone": lambda x: x * both[:2, None, None] + turned(x) * both[:2, None, None],
        "three dims": lambda x: x[0] * both + turned(x[0]) * both,
        "pairs with tables of halves": lambda x: x * both + paired(x) * both,
        "halves with tables of pairs": lambda x: x * table.repeat_interleave(2, -1)[:, :8] + turned(x) * both,
        "pairs that stay apart": lambda x: x * both + paired(x, -2) * both,
        "quarters": lambda x: x * both + jit.cat((-x[..., 2:6], x[..., 6:], x[..., :2]), -1) * both,
    }
    for name, f in others.items():
        assert "RotaryEmbedding" not in nodes(f, x), name
    assert "RotaryEmbedding" not in nodes(by_tables, x.double())
    assert "RotaryEmbedding" not in nodes(lambda x, c, s: x * c + turned(x) * s, x, both, both), "nobody knows these"
