"""Trials of adversarial cases: a case runs in eager mode, then traced, and everything that can be seen is compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import jit
from jit.eager.pytree import Structure, flatten, paths
from tests.tolerances import assert_close, tolerance_of

Log = list[tuple[str, Any]]
CASES: dict[str, Case] = {}
"""The cases by name; `@case` fills it."""


class Case:
    """A program that is easy to trace wrongly."""

    def __init__(
        self,
        body: Callable[[Trial], None],
        allowed: tuple[type[Exception], ...],
        must_hit: bool,
        exact: bool,
        overwrites: bool,
    ) -> None:
        self.body = body
        self.exact = exact
        """Whether unoptimised recordings give the same bits; False where gradients are added in another order."""
        self.overwrites = overwrites
        """Whether eager mode refuses a backward because something saved was overwritten: a recording still has it."""
        self.allowed = allowed
        """Documented exceptions that tracing may raise where eager mode does not."""
        self.must_hit = must_hit
        """Whether some call has to run from a recording, so that the case does not pass by never being traced."""


def case(
    allowed: Any = (), must_hit: bool = True, exact: bool = True, overwrites: bool = False
) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Register a case; `allowed` exceptions, raised by tracing alone, name the user's line."""

    def decorate(body: Callable[[Trial], None]) -> Callable[[Trial], None]:
        types = allowed if isinstance(allowed, tuple) else (allowed,)
        CASES[body.__name__] = Case(body, types, must_hit and not types, exact, overwrites)
        return body

    return decorate


class Stop(Exception):
    """An allowed exception ended the trial."""


class Trial:
    """One run of a case. `wrap` makes the function under test; what is seen goes to `log`."""

    def __init__(self, wrap: Callable[[Any], Any], name: str) -> None:
        self.wrap = wrap
        self.name = name
        self.log: Log = []
        self.watched: dict[str, Any] = {}
        self.functions: list[Any] = []

    def trace(self, function: Any) -> Any:
        """The function under test; in eager mode, the function itself."""
        made = self.wrap(function)
        self.functions.append(made)
        return made

    def watch(self, **tensors: Any) -> None:
        """Log these tensors, and their gradients, after every call."""
        self.watched.update(tensors)

    def see(self, name: str, value: Any) -> None:
        """Log a value."""
        self.log.append((name, snapshot(value)))

    def call(self, function: Any, *args: Any, backward: bool = True, **kwargs: Any) -> Any:
        """Call, differentiate, and log results, arguments and gradients; what is raised is logged too."""
        number = sum(name.endswith("called") for name, _ in self.log)
        self.log.append((f"{number} called", None))
        try:
            result = function(*args, **kwargs)
            self.see(f"{number} result", result)
            if backward:
                differentiate(result)
        except Exception as error:
            self.log.append((f"{number} raised", error))
            return None
        self.see(f"{number} arguments", (args, kwargs))
        for name, tensor in self.watched.items():
            self.see(f"{number} {name}", tensor)
        return result

    def twice(self, function: Any, *args: Any, wrt: Any = None, **kwargs: Any) -> None:
        """Call, and log the result with its first and second derivatives by the tensors in `wrt` (the arguments)."""
        number = sum(name.endswith("called") for name, _ in self.log)
        self.log.append((f"{number} called", None))
        inputs = [t for t in flatten(args if wrt is None else wrt)[0] if isinstance(t, jit.Tensor) and t.requires_grad]
        try:
            result = function(*args, **kwargs)
            self.see(f"{number} result", result)
            outputs, weights = _weighted(result)
            first = jit.grad(outputs, inputs, weights, create_graph=True, allow_unused=True)
            self.see(f"{number} first", first)
            bent = [(g * g).sum() for g in first if g is not None and g.requires_grad]
            if bent:
                self.see(f"{number} second", jit.grad(sum(bent[1:], bent[0]), inputs, allow_unused=True))
        except Exception as error:
            self.log.append((f"{number} raised", error))


def differentiate(result: Any) -> None:
    """Call backward() on a weighted sum of all outputs that can be differentiated."""
    distinct, weights = _weighted(result)
    if distinct:
        jit.autograd.backward(distinct, weights)


def _weighted(result: Any) -> tuple[list[jit.Tensor], list[jit.Tensor]]:
    outputs = [t for t in flatten(result)[0] if isinstance(t, jit.Tensor) and t.requires_grad]
    distinct = list({id(t): t for t in outputs}.values())
    weights = [
        jit.tensor(np.cos(np.arange(t._array.size)).reshape(t._array.shape).astype(t._array.dtype)) for t in distinct
    ]
    return distinct, weights


def snapshot(value: Any) -> Any:
    """Everything about a value that later events cannot change."""
    if isinstance(value, np.ndarray):
        return ("array", value.copy())
    leaves, structure = flatten(value)
    return (str(paths(structure)), _described(structure), [_leaf(leaf) for leaf in leaves])


_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.ndarray)


def _described(structure: Structure) -> Any:
    """A structure in which objects of the user's count by their class alone: each trial makes its own."""
    if structure.kind == "static":
        value = structure.keys[0].value
        return structure if isinstance(value, _PLAIN) else ("object", type(value).__name__)
    return (
        structure.kind.__name__ if isinstance(structure.kind, type) else structure.kind,
        structure.keys,
        [_described(c) for c in structure.children],
    )


def _leaf(leaf: Any) -> Any:
    if not isinstance(leaf, jit.Tensor):
        return leaf
    gradient = None if leaf.grad is None else leaf.grad._array.copy()
    return (leaf._array.copy(), leaf.requires_grad, gradient)


def run(name: str, module: str) -> str:
    """Run one case; returns a sentence about how it went, and raises AssertionError if tracing is silently wrong."""
    case = CASES[name]
    eager = _trial(case, lambda function: function, "eager")
    outcomes = []
    for optimize in (False, True):
        traced = _trial(case, jit.trace(optimize=optimize), f"optimize={optimize}")
        outcomes.append(_compare(eager, traced, case, module, exact=not optimize))
    return "; ".join(outcomes)


def _trial(case: Case, wrap: Callable[[Any], Any], name: str) -> Trial:
    trial = Trial(wrap, name)
    jit.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.body(trial)
    return trial


def _compare(eager: Trial, traced: Trial, case: Case, module: str, exact: bool) -> str:
    pairs = _without_refusals(eager.log, traced.log) if case.overwrites else list(zip(eager.log, traced.log))
    for (name, want), (found_name, found) in pairs:
        where = f"{traced.name}, {name}"
        if found_name.endswith("raised") and not name.endswith("raised"):
            _check_allowed(found, case, module, where)
            return f"{traced.name}: {type(found).__name__}"
        assert name == found_name, f"{where}: eager went on to {name}, traced to {found_name}"
        if name.endswith("raised"):
            assert type(want) is type(found), f"{where}: eager raised {want!r}, traced {found!r}"
        else:
            _same(found, want, exact and case.exact, where)
    assert case.overwrites or len(eager.log) == len(traced.log), (
        f"{traced.name}: eager saw {len(eager.log)} events, traced {len(traced.log)}"
    )
    if case.must_hit:
        assert any(f.hits for f in traced.functions), f"{traced.name}: no call ran from a recording"
    return f"{traced.name}: equal"


def _without_refusals(eager: Log, traced: Log) -> list[Any]:
    """The events of both logs, call by call, without calls whose backward eager mode refused."""
    pairs = []
    for want, found in zip(_calls(eager), _calls(traced), strict=True):
        if not any(isinstance(value, jit.AutogradError) for _, value in want):
            pairs += list(zip(want, found, strict=True))
    return pairs


def _calls(log: Log) -> list[Log]:
    starts = [i for i, (name, _) in enumerate(log) if name.endswith("called")]
    return [log[a:b] for a, b in zip(starts, [*starts[1:], len(log)])]


def _check_allowed(error: Exception, case: Case, module: str, where: str) -> None:
    assert isinstance(error, case.allowed), f"{where}: {type(error).__name__}: {error}"
    assert isinstance(error, jit.Error), f"{where}: {type(error).__name__} is not one of ours"
    assert f"{module}.py:" in str(error), f"{where}: the message does not name the user's line: {error}"


def _spread(want: Any) -> float | None:
    """The absolute tolerance of floats, where an element may be a difference of others as large as the largest."""
    if want.dtype not in (np.float32, np.float64):
        return None
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=0))
    return max(tolerance_of(want.dtype).atol, 4 * float(np.finfo(want.dtype).eps) * largest)


def _same(found: Any, want: Any, exact: bool, where: str) -> None:
    if isinstance(want, np.ndarray):
        assert isinstance(found, np.ndarray), f"{where}: {found!r} instead of an array"
        assert found.dtype == want.dtype and found.shape == want.shape, (
            f"{where}: {found.dtype}{found.shape}, expected {want.dtype}{want.shape}"
        )
        if exact:
            assert _bits(found) == _bits(want), f"{where}: {found} instead of {want}"
        else:
            assert_close(found, want, atol=_spread(want), message=where)
    elif isinstance(want, (tuple, list)):
        assert type(found) is type(want) and len(found) == len(want), f"{where}: {found!r} instead of {want!r}"
        for a, b in zip(found, want, strict=True):
            _same(a, b, exact, where)
    else:
        assert type(found) is type(want), (
            f"{where}: {found!r} is {type(found).__name__}, expected {type(want).__name__}"
        )
        if isinstance(want, float) and not exact and abs(found - want) <= 1e-5 * abs(want):
            return
        assert found == want or (found != found and want != want), f"{where}: {found!r} instead of {want!r}"


def _bits(array: Any) -> bytes:
    """The bytes; all NaNs are one, since eager mode promises no particular one."""
    if array.dtype.kind in "fcV" and array.dtype.names is None:
        array = np.where(array == array, array, np.array(np.nan).astype(array.dtype))
    return np.ascontiguousarray(array).tobytes()
