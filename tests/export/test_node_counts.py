"""Models of common programs have the nodes that they need, and no more."""

from __future__ import annotations

from typing import Any

import pytest

import jit
import jit.nn.functional as F
from jit import nn

A, ROWS = jit.randn(5, 3), jit.tensor([0, 1])


def nodes_of(function: Any, *args: Any, **options: Any) -> dict[str, int]:
    """How often a model has each operator; it has been verified."""
    report = jit.export_onnx(function, args, **options)
    assert report.verified is not None
    return report.op_histogram


def set_to_zero(a: Any, chosen: Any) -> Any:
    a = a.clone()
    a[chosen > 0] = 0
    return a


def columns_set_to_zero(a: Any, chosen: Any) -> Any:
    a = a.clone()
    a[:, chosen > 0] = 0
    return a


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("activation", [nn.ReLU6, nn.Hardtanh, nn.ReLU, nn.LeakyReLU, nn.ELU])
def test_an_activation_in_place_is_one_node(activation, inplace):
    network = nn.Sequential(nn.Linear(3, 4), activation(inplace=inplace), nn.Linear(4, 2))
    found = nodes_of(network, jit.randn(2, 3), dynamic_axes={"input": {0: "batch"}})
    assert sum(found.values()) == 3, found


@pytest.mark.parametrize("dynamic", [None, {"a": {0: "n"}}])
def test_rows_are_added_as_rows(dynamic):
    rows = jit.randn(2, 3)
    expected = {"Reshape": 1, "ScatterND": 1}
    assert nodes_of(lambda a, i, s: a.index_add(0, i, s), A, ROWS, rows, dynamic_axes=dynamic) == expected
    assert nodes_of(lambda a, i, s: a.index_copy(0, i, s), A, ROWS, rows, dynamic_axes=dynamic) == expected
    put = nodes_of(lambda a, i, s: a.index_put((i,), s, accumulate=True), A, ROWS, rows, dynamic_axes=dynamic)
    assert put == {"ScatterND": 1, "Unsqueeze": 1}


def test_columns_are_added():
    added = nodes_of(lambda a, i, s: a.index_add(1, i, s), A, ROWS, jit.randn(5, 2))
    assert added == {"Expand": 1, "Reshape": 1, "ScatterElements": 1}


def test_pairs_of_indices_are_not_broadcast_where_they_are_alike():
    found = nodes_of(lambda a, i, s: a.index_put((i, i), s, accumulate=True), A, ROWS, jit.randn(2))
    assert found == {"Concat": 1, "ScatterND": 1, "Unsqueeze": 1}


def test_a_number_under_a_mask_is_a_choice():
    assert nodes_of(set_to_zero, A, jit.randn(5, 3)) == {"Greater": 1, "Where": 1}
    assert nodes_of(set_to_zero, A, jit.randn(5)) == {"Greater": 1, "Unsqueeze": 1, "Where": 1}
    assert nodes_of(columns_set_to_zero, A, jit.randn(3)) == {"Greater": 1, "Where": 1}


def test_sizes_that_are_there_already_are_not_spread():
    assert nodes_of(lambda a: a.expand_as(a) + 1, A, dynamic_axes={"a": [0]}) == {"Add": 1}


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 14])
def test_triangles_at_every_opset(opset):
    square = {"Trilu": 1} if opset >= 14 else {"Where": 1}
    assert nodes_of(lambda a: a.tril(), jit.randn(3, 3), opset_version=opset) == square
    dynamic = {"a": {1: "n", 2: "m"}}
    nodes_of(lambda a: (a.triu(-1), a.tril(1)), jit.randn(2, 3, 4), opset_version=opset, dynamic_axes=dynamic)
    q, dynamic = jit.randn(1, 2, 3, 4), {"q": {2: "length"}}
    nodes_of(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q, opset_version=opset)
    nodes_of(
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q, opset_version=opset, dynamic_axes=dynamic
    )
