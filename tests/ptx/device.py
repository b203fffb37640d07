"""The driver of the simulated device: the interpreter executes the PTX that a driver would get, on its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .launch import Loaded
from .memory import Memory


class InterpretingDriver:
    """Loads and launches kernels by interpreting them; counts the launches."""

    def __init__(self) -> None:
        self.launches: list[str] = []
        """The names of the kernels that were launched."""

    def load(self, ptx: str, name: str) -> tuple[str, str]:
        """The text and the name."""
        return ptx, name

    def launch(
        self, function: tuple[str, str], blocks: int, threads: int, arrays: Sequence[Any], geometry: Any, errors: Any
    ) -> None:
        """Run a kernel on copies of the allocations that the arrays lie in, and bring these back."""
        text, name = function
        self.launches.append(name)
        memory, places = Memory(), {}
        for array in (*arrays, errors):
            owner = array.data.mem
            if owner.ptr not in places:
                raw = owner.owner.ravel(order="K").view(np.uint8)
                places[owner.ptr] = raw, memory.allocate(raw, name)
        pointers = [places[a.data.mem.ptr][1] + a.data.ptr - a.data.mem.ptr for a in (*arrays, errors)]
        params: list[Any] = [np.array(pointers[:-1], np.int64).tobytes(), bytes(geometry), pointers[-1]]
        Loaded(text, memory).launch(name, blocks, threads, params)
        for raw, address in places.values():
            raw[...] = memory.view(address)
