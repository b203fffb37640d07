"""What a model of the benchmark is: a network that is written once for torch and jit, its inputs, and how it learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = list[Any]
Draw = Callable[[np.random.Generator, int], Arrays]
"""`draw(rng, batch)` -> arrays."""
Step = Callable[..., Any]
Training = Callable[..., Step]
"""`training(lib, network, wrap, **options)` -> a step, which takes an example and gives the loss. `wrap` makes what
runs of a module (traces it, say); the options are for the optimizers."""


@dataclass(frozen=True)
class Model:
    """One model, with its inputs and its training."""

    name: str
    network: Callable[[Any, bool], Any]
    """`network(lib, noisy)` -> an nn module of torch or jit; without noise it has no dropout and draws no numbers."""
    inputs: Draw
    """The inputs of a forward pass."""
    examples: Draw | None = None
    """The inputs of a step of training, targets included."""
    training: Training | None = None
    batch: int = 1
    """The size of the batch in a forward pass, unless another one is asked for."""
    training_batch: int = 8
    images: bool = False
    """Whether the inputs are images, for which torch has a layout of its own."""
    noisy: bool = False
    """Whether training draws random numbers inside of the network."""
    part: Callable[[Any], Any] = lambda network: network
    """The part of the network that runs alone once it has learned."""


def supervised(loss: Callable[..., Any], optimizer: str, **settings: Any) -> Training:
    """The training of most networks: `loss(lib, run, *example)`, its gradients, and a step of the optimizer."""

    def training(lib: Any, network: Any, wrap: Callable[[Any], Any], **options: Any) -> Step:
        run = wrap(network)
        descent = getattr(lib.optim, optimizer)(network.parameters(), **settings, **options)

        def step(*example: Any) -> Any:
            descent.zero_grad()
            value = loss(lib, run, *example)
            value.backward()
            descent.step()
            return value

        return step

    return training


def classification(lib: Any, run: Any, x: Any, target: Any) -> Any:
    """The loss of a network that gives logits, for each image, word or place."""
    logits = run(x)
    return lib.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))


def images(size: int, channels: int = 3) -> Draw:
    """Draws images."""
    return lambda rng, batch: [rng.standard_normal((batch, channels, size, size), np.float32)]


def words(count: int, length: int) -> Draw:
    """Draws sentences of equal length."""
    return lambda rng, batch: [rng.integers(0, count, (batch, length))]


def with_classes(draw: Draw, classes: int, *shape: int) -> Draw:
    """The same inputs and a class for each, or classes of a shape for each."""
    return lambda rng, batch: [*draw(rng, batch), rng.integers(0, classes, (batch, *shape))]


def filled(lib: Any, network: Any) -> Any:
    """The network with weights that are the same in every library."""
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for name, weight in network.named_parameters():
            weight.copy_(lib.from_numpy(_values(rng, name, tuple(weight.shape))))
    return network


def _values(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
    drawn = rng.standard_normal(shape)
    if len(shape) > 1:
        return (drawn * np.prod(shape[1:]) ** -0.5).astype(np.float32)
    return (drawn * 0.1 + name.endswith("weight")).astype(np.float32)  # weights of norms are about 1
