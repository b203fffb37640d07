"""Networks of linear layers, one of them on a graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.models.model import Model, classification, supervised


def mlp(name: str, widths: Sequence[int] = (784, 512, 512, 10)) -> Model:
    """Linear layers with relu and dropout between them."""

    def network(lib: Any, noisy: bool) -> Any:
        nn = lib.nn
        layers: list[Any] = [nn.Flatten()]
        for inputs, outputs in pairwise(widths[:-1]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout(0.2 * noisy)]
        return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))

    def inputs(rng: np.random.Generator, batch: int) -> list[Any]:
        return [rng.standard_normal((batch, 1, 1, widths[0]), np.float32)]

    def examples(rng: np.random.Generator, batch: int) -> list[Any]:
        return [*inputs(rng, batch), rng.integers(0, widths[-1], (batch,))]

    training = supervised(classification, "SGD", lr=1e-2, momentum=0.9)
    return Model(name, network, inputs, examples, training, batch=32, training_batch=32, noisy=True)


def _gcn(lib: Any, noisy: bool, features: int, hidden: int, classes: int) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class GraphConvolution(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.linear, self.bias = nn.Linear(inputs, outputs, bias=False), nn.Parameter(lib.zeros(outputs))

        def forward(self, x: Any, edges: Any, norm: Any) -> Any:
            x = self.linear(x)
            source, target = edges[0], edges[1]
            found = lib.zeros_like(x).index_add(0, target, x[source] * norm[:, None])
            return found + self.bias

    class GCN(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.gc1, self.gc2 = GraphConvolution(features, hidden), GraphConvolution(hidden, classes)
            self.dropout = nn.Dropout(0.5 * noisy)

        def forward(self, x: Any, edges: Any, norm: Any) -> Any:
            x = self.dropout(F.relu(self.gc1(x, edges, norm)))
            return F.log_softmax(self.gc2(x, edges, norm), dim=1)

    return GCN()


def gcn(
    name: str, nodes: int = 2708, links: int = 10556, features: int = 1433, hidden: int = 16, classes: int = 7
) -> Model:
    """A graph network of Kipf and Welling (2016), on a graph as large as Cora; a batch is one graph."""

    def inputs(rng: np.random.Generator, batch: int) -> list[Any]:
        ends = np.concatenate([rng.integers(0, nodes, (2, links)), np.tile(np.arange(nodes), (2, 1))], axis=1)
        degree = np.bincount(ends[1], minlength=nodes).astype(np.float32) ** -0.5
        return [rng.standard_normal((nodes, features), np.float32), ends, degree[ends[0]] * degree[ends[1]]]

    def examples(rng: np.random.Generator, batch: int) -> list[Any]:
        return [*inputs(rng, batch), rng.integers(0, classes, (nodes,))]

    def loss(lib: Any, run: Any, x: Any, edges: Any, norm: Any, target: Any) -> Any:
        return lib.nn.functional.nll_loss(run(x, edges, norm), target)

    return Model(
        name,
        lambda lib, noisy: _gcn(lib, noisy, features, hidden, classes),
        inputs,
        examples,
        supervised(loss, "Adam", lr=1e-3, weight_decay=5e-4),
        training_batch=1,
        noisy=True,
    )
