"""A graph convolutional network: each node learns from its neighbours, so two labels are enough for a whole club.

    python examples/models/gcn.py                            # learn from two labels, trace, export: two seconds
    python examples/models/gcn.py --device cuda              # the same on a GPU
    jit export-onnx examples/models/gcn.py:model -o gcn.onnx

The graph comes with networkx: who met whom in a karate club of 34 (Zachary, 1977). The club split between its teacher
and its administrator. Knowing the side of these two alone, the network tells the side of everybody else. The exported
model takes graphs with any number of members and meetings.

Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, 2016.
"""

from __future__ import annotations

import argparse
import sys

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

# -- the network -----------------------------------------------------------------------------------------------------


class GraphConvolution(nn.Module):
    """A linear layer, then each node gets the sum of what comes along its edges."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear, self.bias = nn.Linear(inputs, outputs, bias=False), nn.Parameter(jit.zeros(outputs))

    def forward(self, x: Tensor, edges: Tensor, norm: Tensor) -> Tensor:
        """Args: x `[nodes, inputs]`, edges `[2, E]`, norm `[E]`. Returns: `[nodes, outputs]`."""
        x = self.linear(x)
        source, target = edges[0], edges[1]
        found = jit.zeros_like(x).index_add(0, target, x[source] * norm[:, None])
        return found + self.bias


class GCN(nn.Module):
    """Two graph convolutions: a node sees the neighbours of its neighbours."""

    def __init__(self, features: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.gc1, self.gc2 = GraphConvolution(features, hidden), GraphConvolution(hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edges: Tensor, norm: Tensor) -> Tensor:
        """Args: x `[nodes, features]`, edges `[2, E]`, norm `[E]`. Returns: log-probabilities `[nodes, classes]`."""
        x = self.dropout(F.relu(self.gc1(x, edges, norm)))
        return F.log_softmax(self.gc2(x, edges, norm), dim=1)


def model() -> GCN:
    """A network for the club, in which the only feature of members is who they are."""
    return GCN(features=34, hidden=8, classes=2, dropout=0.2)


def example_inputs() -> tuple[Tensor, Tensor, Tensor]:
    """Arguments for `model`: the club."""
    features, edges, norm, _ = load_club("cpu")
    return features, edges, norm


# -- learning --------------------------------------------------------------------------------------------------------


def load_club(device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(features, edges both ways and from each to itself, their weights, the side of each member)."""
    import networkx

    club = networkx.karate_club_graph()
    edges = jit.tensor([*club.edges, *((b, a) for a, b in club.edges), *((n, n) for n in club)]).T
    side = jit.tensor([int(data["club"] != "Mr. Hi") for _, data in club.nodes(data=True)])
    degree = jit.bincount(edges[1]).float()
    norm = (degree[edges[0]] * degree[edges[1]]).rsqrt()
    return jit.eye(len(club)).to(device), edges.to(device), norm.to(device), side.to(device)


def train(net: nn.Module, features: Tensor, edges: Tensor, norm: Tensor, side: Tensor, epochs: int) -> list[float]:
    """Let `net` learn from the sides of the teacher and of the administrator; returns the losses."""
    optimizer = jit.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    known = jit.tensor([0, len(side) - 1], device=side.device)
    traced, losses = jit.trace(net.train()), []
    for _ in track(range(epochs), "training"):
        optimizer.zero_grad()
        loss = F.nll_loss(traced(features, edges, norm)[known], side[known])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    return losses


def main() -> None:
    """Learn, test, trace, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--epochs", type=int, default=200, help="steps of training [%(default)s]")
    parser.add_argument("-o", "--output", default="gcn.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    features, edges, norm, side = load_club(options.device)
    net = model().to(options.device)
    train(net, features, edges, norm, side, options.epochs)
    with jit.no_grad():
        right = jit.trace(net)(features, edges, norm).argmax(1) == side
    print(f"members whose side is found: {int(right.sum())} of {len(side)}")
    sizes = {"x": {0: "members"}, "edges": {1: "meetings"}, "norm": {0: "meetings"}}
    print(jit.export_onnx(net.cpu(), example_inputs(), options.output, dynamic_axes=sizes))
    if right.float().mean() < 0.9:
        sys.exit("the network tells the side of fewer than 90 % of the members, so it should learn longer")


if __name__ == "__main__":
    main()
