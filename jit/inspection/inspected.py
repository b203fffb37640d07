"""Methods of traced functions beside the call: to be saved, copied, pickled, and looked into.

Tracing does not know them: the class has a `Provided` in the place of each, until this module is imported.
"""

from __future__ import annotations

import collections
import copy
import os
from typing import TYPE_CHECKING, Any

from jit.ir.errors import UsageError
from jit.ir.tables import html_table

from ..tracing.function import TracedFunction
from ..tracing.recordings.compiling import unoptimised

if TYPE_CHECKING:
    from jit.runtime.plans.views import KernelView

    from .profiling import Profile


# -- as a file -----------------------------------------------------------------------------------------------


def _save(self: TracedFunction, path: str | os.PathLike[str]) -> None:
    """Write what has been recorded to a file that `jit.load` reads, in this or another process.

    The file has the graphs of all stages, the parameters, buffers and other tensors that the function reads, and
    the signatures that it was called with; neither Python nor machine code. Saved are the recordings that hold in
    the present surroundings: of a module in training mode, those of training mode.

    Args:
        path: The file; it is written whole or not at all.

    Raises:
        UsageError: There is no recording, or one that plain data cannot express: a PythonOp that is not registered
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
    from ..artifacts.files import save

    save(self, path)


# -- looking inside ------------------------------------------------------------------------------------------


def _kernels(self: TracedFunction) -> list[KernelView]:
    """The compiled kernels of the last call, all stages that have been seen included, in the order of their calls.

    Each has `.name`, `.source_lines`, `.llvm_ir`, `.asm`, `.ptx`, and `.bytes`, `.flops` and `.calls`: how much one
    call moves and computes, and how many calls there are. Matrix products of BLAS, and what Python runs, are not
    listed.

    Raises:
        UsageError: The function has not been called.

    >>> import jit
    >>> f = jit.trace(lambda x: jit.tanh(x) * 2)
    >>> y = f(jit.ones(100))
    >>> [(kernel.name, kernel.bytes, kernel.flops) for kernel in f.kernels]
    [('tanh_mul', 800, 200)]
    """
    from jit.runtime.plans.views import kernels_of

    recording = self._last
    if recording is None:
        raise UsageError(f"{self.__name__} has no kernels yet: call it once")
    return [k for chain in recording.chains for k in kernels_of(recording.plan(chain).interpreter.local_plan)]


def _profile(self: TracedFunction, *args: Any, **kwargs: Any) -> Profile:
    """The profile of a call with these arguments: a table of time, bytes and flops by kernel and by line.

    The recording is run several times without writing anything back (once if it calls PythonOps), each kernel by
    itself; backwards that have been seen run from gradients of ones.

    Args:
        args: As in a call.
        kwargs: As in a call.

    Raises:
        UsageError: There is no recording for such a call yet.

    >>> import jit
    >>> f = jit.trace(lambda x: jit.tanh(x).sum())
    >>> y = f(jit.ones(1000))
    >>> [(row.name, int(row.flops)) for row in f.profile(jit.ones(1000)).kernels]
    [('tanh_sum', 2000)]
    """
    from .profiling import measure

    call = self._prepare(args, kwargs)
    entries = (self._cache.get(call.key), self._general_entry(call))
    recordings = [r for entry in entries if entry is not None for r in reversed(entry.recordings)]
    inputs = {id(r): r.inputs(call.leaves, call.world.tensors, call.numbers) for r in recordings}
    fitting = [r for r in recordings if r.misfit(inputs[id(r)], call.knows) is None]
    return measure(self.__name__, fitting, lambda recording: inputs[id(recording)])


def _why_not(self: TracedFunction, line_a: int | str, line_b: int | str) -> str:
    """Why what two lines compute is not one kernel, in a sentence; or that it is.

    Args:
        line_a: A line number, or `"model.py:12"` where several files are involved.
        line_b: Another one.

    Raises:
        UsageError: The function has not been called, or no operator of such a line is in its graph.
    """
    from .fusing import why_not

    return why_not(self.graph, line_a, line_b)


def _view(self: TracedFunction, path: str | os.PathLike[str], /, *args: Any, **kwargs: Any) -> None:
    """Write a page about the last recording: its graph, pass by pass, its kernels and their code, and your source.

    The page is one file of HTML that needs no network. It shows a stage at a time, folds scopes, finds operators by
    name, text or line, and has the time of each kernel beside the lines that it computes.

    Args:
        path: The file to write, such as "f.html"; it is written whole or not at all.
        args: Arguments of a call to time, as for `profile`; without any, ones of the recorded sizes are timed.
        kwargs: The same by name.

    Raises:
        UsageError: The function has not been called, or there is no recording for such a call.
        Error: The file cannot be written.

    >>> import jit, tempfile, os
    >>> f = jit.trace(lambda x: jit.tanh(x) * 2)
    >>> y = f(jit.ones(100))
    >>> path = os.path.join(tempfile.mkdtemp(), "f.html")
    >>> f.view(path)
    >>> "tanh_mul" in open(path, encoding="utf-8").read()
    True
    """
    from .profiling import rehearse
    from .viewing import write_page

    if self._last is None:
        raise UsageError(f"{self.__name__} has nothing to show yet: call it once")
    profile = self.profile(*args, **kwargs) if args or kwargs else rehearse(self.__name__, self._last)
    write_page(self, path, profile)


def _in_notebook(self: TracedFunction) -> str:
    """The function's recordings, and the kernels of the last one, for a notebook."""
    facts = [
        ("calls that ran a recording", str(self.hits)),
        ("calls that recorded", str(self.misses)),
        ("the last one", self.explain()),
    ]
    if self._last is not None:
        graph = self.graph
        sizes = collections.Counter(node.stage for node in graph.nodes)
        facts.append(("nodes by stage", ", ".join(str(sizes[stage]) for stage in range(len(graph.stages)))))
        facts.append(("defined", self.where()))
    return html_table((f"traced {self.__name__}", ""), facts)


# -- copies --------------------------------------------------------------------------------------------------


def _reduce(self: TracedFunction, protocol: Any) -> Any:
    """The function as data for `pickle`, so that it can be sent to another process; see docs/tasks.md."""
    from ..artifacts.files import pickled

    return pickled(self, int(protocol))


def _deepcopy(self: TracedFunction, memo: dict[int, Any]) -> Any:
    """A traced function of a copy of the module, or of the same plain function; without recordings."""
    owner = copy.deepcopy(self._owner, memo)
    options: dict[str, Any] = {
        "optimize": self._optimise is not unoptimised,
        "strict": self._strict,
        "dynamic": self._dynamic,
    }
    made = memo[id(self)] = TracedFunction(self._function if owner is None else owner, owner, **options)
    return made


METHODS: dict[str, Any] = {
    "save": _save, "kernels": property(_kernels), "profile": _profile, "why_not": _why_not, "view": _view,
    "_repr_html_": _in_notebook,
    "__reduce_ex__": _reduce, "__deepcopy__": _deepcopy,
}  # fmt: skip

for _name, _method in METHODS.items():
    setattr(TracedFunction, _name, _method)
