"""Two small worlds under gym's names, for programs that learn by trial: linear dynamics, without chance."""

from __future__ import annotations

from typing import Any

import numpy as np


class Space:
    """A space of actions or observations."""

    def __init__(self, size: int, count: int | None) -> None:
        self.shape = (size,)
        self.n = count
        self.high, self.low = np.full(size, 2.0), np.full(size, -2.0)

    def sample(self) -> Any:
        """An element."""
        return np.random.randint(self.n) if self.n else np.random.uniform(-2, 2, self.shape)


class World:
    """States that move linearly with the action; an episode lasts twenty-five steps."""

    def __init__(self, size: int, count: int | None) -> None:
        self.draws = np.random.RandomState(0)
        self.observation_space, self.action_space = Space(size, None), Space(1, count)
        self.matrix = np.linalg.qr(self.draws.standard_normal((size, size)))[0]
        self._max_episode_steps = 25

    def reset(self, **ignored: Any) -> Any:
        """A state to begin with."""
        self.steps = 0
        self.state = self.draws.uniform(-0.05, 0.05, len(self.matrix)).astype(np.float32)
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The next state and what it is worth."""
        pushed = float(np.asarray(action).reshape(-1)[0])
        self.state = (self.matrix @ self.state + 0.1 * pushed).astype(np.float32)
        self.steps += 1
        return self.state, float(1 - np.square(self.state).mean()), self.steps >= 25, False, {}

    def seed(self, number: int) -> None:
        """Nothing: the world is the same each time."""

    def close(self) -> None:
        """Nothing has to be closed."""


def make(name: str, **ignored: Any) -> World:
    """The world of that name."""
    return World(4, 2) if name.startswith("CartPole") else World(3, None)
