"""A traced function as tasks for joblib: it is sent as data, and computes the same bits in every process.

    pip install -e ".[examples]"
    python examples/tasks_joblib.py

Each task computes the gradients of one shard of the digits that come with scikit-learn. What is sent is the recording
with its parameters, so that the workers need no code of the network; see docs/tasks.md.
"""

from __future__ import annotations

import sys
from typing import Any

import jit
from jit import nn
from jit.nn import functional as F

try:
    from joblib import Parallel, delayed
    from sklearn.datasets import load_digits
except ImportError as error:
    sys.exit(f"this example needs joblib and scikit-learn: {error}; install them as the first lines of this file say")

Shard = tuple[jit.Tensor, jit.Tensor]
SHARDS = 4
net = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


@jit.trace
def loss(images: jit.Tensor, labels: jit.Tensor) -> jit.Tensor:
    """Args: images `[N, 64]`, labels `[N]`. Returns: the cross entropy."""
    return F.cross_entropy(net(images), labels)


def gradients(function: Any, parameters: list[Any], shard: Shard) -> list[jit.Tensor]:
    """The loss of a shard and its gradients: a plain function of Python that runs anywhere."""
    for parameter in parameters:
        parameter.grad = None
    value = function(*shard)
    value.backward()
    return [value.detach(), *(parameter.grad for parameter in parameters)]


def task(function: Any, shard: Shard) -> list[jit.Tensor]:
    """The same in a worker, where the function has parameters of its own."""
    return gradients(function, function.parameters(), shard)


def shards() -> list[Shard]:
    """The digits in parts of one size."""
    images, labels = load_digits(return_X_y=True)
    size = len(images) // SHARDS
    starts = range(0, size * SHARDS, size)
    return [(jit.tensor(images[i : i + size] / 16).float(), jit.tensor(labels[i : i + size])) for i in starts]


def bits(results: list[list[jit.Tensor]]) -> list[list[bytes]]:
    """The bytes of all results, to be compared."""
    return [[tensor.numpy().tobytes() for tensor in each] for each in results]


def main() -> None:
    """Compute the gradients here and in the workers, and compare them."""
    parts = shards()
    loss(*parts[0]).backward()  # is recorded, forward and backward; what is sent is what has been recorded
    expected = [gradients(loss, list(net.parameters()), part) for part in parts]
    found = Parallel(n_jobs=2)(delayed(task)(loss, part) for part in parts)
    total = sum(each[0].item() for each in found) / len(found)
    print(f"{len(parts)} shards on 2 workers: loss {total:.4f}, equal to the bit: {bits(found) == bits(expected)}")


if __name__ == "__main__":
    main()
