"""What a traced function can be asked beside being called: to be saved, copied, pickled, and looked into."""

from __future__ import annotations

import copy
import os
from typing import Any


class Inspected:
    """Base of traced functions."""

    # -- as a file -----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what has been recorded to a file that `jit.load` reads, in this or another process.

        The file has the graphs of all stages, the parameters, buffers and other tensors that the function reads, and
        the signatures that it was called with; neither Python nor machine code. Saved are the recordings that hold in
        the present surroundings: of a module in training mode, those of training mode.

        Args:
            path: The file; it is written whole or not at all.

        Raises:
            UsageError: There is no recording, or one that plain data cannot say: a PythonOp that is not registered
                (`jit.autograd.register`), an argument that is an object of the user's.
            Error: The file cannot be written.

        >>> import jit, tempfile, os
        >>> model = jit.nn.Linear(3, 2)
        >>> f = jit.trace(model)
        >>> y = f(jit.ones(1, 3))
        >>> path = os.path.join(tempfile.mkdtemp(), "linear.jit")
        >>> f.save(path)
        >>> g = jit.load(path)
        >>> bool((g(jit.ones(1, 3)) == y).all()), [name for name, _ in g.named_parameters()]
        (True, ['weight', 'bias'])
        """
        from .artifacts import save

        save(self, path)  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        from .artifacts import pickled

        return pickled(self)  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A traced function of a copy of the module, or of the same plain function; without recordings."""
        from .compiling import unoptimised
        from .tracing import TracedFunction

        assert isinstance(self, TracedFunction)
        owner = copy.deepcopy(self._owner, memo)
        options: dict[str, Any] = {
            "optimize": self._optimise is not unoptimised,
            "strict": self._strict,
            "dynamic": self._dynamic,
        }
        made = memo[id(self)] = TracedFunction(self._function if owner is None else owner, owner, **options)
        return made
