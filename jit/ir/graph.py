"""The IR: a `Graph` of `Node`s that define `Value`s, each of which knows its `Use`s.

    graph(%x : Float(2, 3), %w : Float(4, 3)) {
      %2 : Float(2, 4) = aten::linear(%x, %w)              # model.py:12 in forward, scope: Net/fc
      return (%2)
    ---- stage 1 (%3 : Float(2, 4)) ----
      %4 : Float(2, 3) = aten::mm(%3, %w)
      return (%4)
    }

Note [Operands and templates]
    A node's tensors are positional (`args`), its metadata goes by keyword (`attributes`). Both are templates:
    nests of tuples in which `Ref(i)` stands for `node.inputs[i]` and everything else is a constant. So
    `aten::add[alpha=2](%x, 1)` has inputs (%x,), args (Ref(0), 1) and attributes {"alpha": 2}, and a traced size
    needs no second mechanism: `aten::view[size=[%n, 4]](%x)` has inputs (%x, %n) and size (Ref(1), 4).
    A graph is rewired through `inputs` alone; templates change only as a whole, by `Node.rewrite`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .errors import GraphError
from .types import TENSOR, Type


@dataclass(frozen=True, slots=True)
class Ref:
    """A placeholder in a template: the node's input number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Source:
    """The user's line that asked for a node: `model.py:12 in forward`."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class Use(NamedTuple):
    """One appearance of a value: input number `index` of `node`. A node that uses a value twice has two uses."""

    node: Node
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls


class Value:
    """A result of a node: a tensor, a scalar, a Handle or the state of a generator. Names are for people alone."""

    __slots__ = ("__weakref__", "name", "node", "offset", "type", "uses")

    def __init__(self, node: Node, offset: int, name: str, type: Type) -> None:
        self.node = node
        """The node that defines it; for an input of the graph, the stage's `prim::Param`."""
        self.offset = offset
        """The number of this output of that node."""
        self.name = name
        """Unique in the graph, printed after the percent sign."""
        self.type = type
        self.uses: dict[Use, None] = {}
        """Every appearance as an input, in the order in which they were made."""

    @property
    def stage(self) -> int:
        """The stage that defines it."""
        return self.node.stage

    @property
    def is_input(self) -> bool:
        """True for the inputs of a stage."""
        return self.node.kind == "prim::Param"

    def replace_all_uses_with(self, other: Value) -> None:
        """Let every user of this value use `other`.

        Given `%3 = f(%1); return (%1)`, replacing %1 by %2 gives `%3 = f(%2); return (%2)`.
        """
        for node, index in list(self.uses):
            node.inputs[index] = other

    def __repr__(self) -> str:
        return f"%{self.name} : {self.type}"


class Inputs(MutableSequence[Value]):
    """The inputs of a node. Uses change by assigning to an element of this list, and nowhere else."""

    __slots__ = ("_node", "_values")

    def __init__(self, node: Node, values: Iterable[Value]) -> None:
        self._node = node
        self._values = list(values)
        for index, value in enumerate(self._values):
            value.uses[Use(node, index)] = None

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values)

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        use = Use(self._node, index)
        del self._values[index].uses[use]
        self._values[index] = value
        value.uses[use] = None

    def __delitem__(self, index: Any) -> None:
        raise GraphError("inputs are part of a node's templates; make a new node instead of removing an input")

    def insert(self, index: int, value: Value) -> None:
        """Refused: a template would not know about the new input."""
        raise GraphError("inputs are part of a node's templates; make a new node instead of adding an input")

    def release(self) -> None:
        """Forget all inputs and their uses: the node is going away."""
        for index, value in enumerate(self._values):
            value.uses.pop(Use(self._node, index), None)
        self._values.clear()


def map_template(function: Callable[[Any], Any], template: Any) -> Any:
    """`template` with `function` applied to its leaves; lists become tuples."""
    if isinstance(template, (tuple, list)):
        return tuple([map_template(function, item) for item in template])
    if isinstance(template, dict):
        return {key: map_template(function, item) for key, item in template.items()}
    return function(template)


def _filled(template: Any, values: Sequence[Value], lookup: Callable[[Value], Any] | None) -> Any:
    """`template` with values in the places of Refs, or what `lookup` finds for them: `map_template`, without calls."""
    if isinstance(template, Ref):
        value = values[template.index]
        return value if lookup is None else lookup(value)
    if isinstance(template, (tuple, list)):
        return tuple([_filled(item, values, lookup) for item in template])
    if isinstance(template, dict):
        return {key: _filled(item, values, lookup) for key, item in template.items()}
    return template


def leaves(template: Any) -> Iterator[Any]:
    """The leaves of a template, left to right."""
    if isinstance(template, (tuple, list)):
        for item in template:
            yield from leaves(item)
    elif isinstance(template, dict):
        for item in template.values():
            yield from leaves(item)
    else:
        yield template


def _templates(args: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Any, dict[str, Any], list[Value]]:
    """(args, attributes, Values): the operands with Refs in place of the Values in them, and these Values."""
    values: list[Value] = []

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, Value):
            return leaf
        values.append(leaf)
        return _ref(len(values) - 1)

    filled = [place(arg) if isinstance(arg, Value) else map_template(place, arg) for arg in args]
    return tuple(filled), {key: map_template(place, item) for key, item in attributes.items()}, values


_REFS = tuple(map(Ref, range(64)))


def _ref(index: int) -> Ref:
    """The Ref number `index`; the first ones are shared objects."""
    return _REFS[index] if index < len(_REFS) else Ref(index)


class Node:
    """One operation. `kind` is `aten::name`, `prim::Name`, `^PythonOp` or `cpp::name`."""

    __slots__ = (
        "__weakref__", "_next", "_previous", "args", "attributes", "graph", "inputs", "kind", "outputs", "scope",
        "source", "stage",
    )  # fmt: skip

    def __init__(
        self, graph: Graph | None, kind: str, args: Sequence[Any], attributes: Mapping[str, Any],
        inputs: Sequence[Value] | None = None,
    ) -> None:  # fmt: skip
        """Make a node. With `inputs`, the operands are templates over them; without, they hold Values themselves."""
        self.graph = graph
        """The graph that it stands in; None before insertion and after `erase`."""
        self.kind = kind
        if inputs is None:
            args, attributes, inputs = _templates(args, attributes)
        self.args: tuple[Any, ...] = tuple(args)
        self.attributes: dict[str, Any] = dict(attributes)
        self.inputs = Inputs(self, inputs)
        self.outputs: list[Value] = []
        self.stage = 0
        """0 forward, 1 backward, 2 double backward, ...; never less than the stage of an input."""
        self.source: Source | None = None
        self.scope = ""
        """Path of module and user scopes, e.g. `Net/fc`."""
        self._previous: Node | None = None
        self._next: Node | None = None

    # -- reading -------------------------------------------------------------------------------------------------

    def resolve(self, template: Any, lookup: Callable[[Value], Any] | None = None) -> Any:
        """`template` with every Ref replaced by the input it stands for, or by `lookup(input)`."""
        return _filled(template, self.inputs._values, lookup)

    @property
    def operands(self) -> tuple[Any, ...]:
        """The positional arguments: Values, constants, and tuples of them."""
        return self.resolve(self.args)

    def attribute(self, name: str, default: Any = None) -> Any:
        """A keyword argument, in which Values stand for what is not constant."""
        return self.resolve(self.attributes[name]) if name in self.attributes else default

    @property
    def output(self) -> Value:
        """The only output; GraphError if there are several."""
        if len(self.outputs) != 1:
            raise GraphError(f"{self.kind} has {len(self.outputs)} outputs, not one; use `outputs`")
        return self.outputs[0]

    @property
    def subgraphs(self) -> Iterator[Graph]:
        """The graphs among the attributes: a composite's body, a fusion group's kernel."""
        return (item for item in self.attributes.values() if isinstance(item, Graph))

    # -- writing -------------------------------------------------------------------------------------------------

    def rewrite(self, args: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        """Give the node other operands, Values and constants mixed; its outputs and its place stay.

        Given `%3 = aten::view[size=[%n, 4]](%x)`, rewriting it to (x,) and {"size": (2, 4)} gives
        `%3 = aten::view[size=[2, 4]](%x)`.
        """
        other = Node(self.graph, self.kind, args, attributes)
        values = list(other.inputs)
        other.inputs.release()
        self.inputs.release()
        self.args, self.attributes, self.inputs = other.args, other.attributes, Inputs(self, values)

    def add_output(self, type: Type = TENSOR, name: str | None = None) -> Value:
        """One more output, named by the graph unless a name is given."""
        if self.graph is None:
            raise GraphError(f"insert {self.kind} into a graph before adding outputs")
        value = Value(self, len(self.outputs), self.graph.unique_name(name), type)
        self.outputs.append(value)
        return value

    def replace_with(self, values: Sequence[Value]) -> None:
        """Replace this node's outputs by `values`, one for one, and erase the node."""
        for old, new in zip(self.outputs, values, strict=True):
            old.replace_all_uses_with(new)
        self.erase()

    def erase(self) -> None:
        """Take the node out of its graph; refused while an output is used."""
        for value in self.outputs:
            if value.uses:
                user = next(iter(value.uses)).node
                raise GraphError(f"cannot erase {self.kind}: {value!r} is still used by {user.kind}")
        self.unlink()
        self.inputs.release()
        self.graph = None

    def unlink(self) -> None:
        """Take the node out of the list, to be inserted elsewhere."""
        assert self.graph is not None
        before, after = self._previous, self._next
        if before is None:
            self.graph._first = after
        else:
            before._next = after
        if after is None:
            self.graph._last = before
        else:
            after._previous = before
        self._previous = self._next = None
        self.graph._count -= 1

    def move_before(self, anchor: Node | None) -> None:
        """Move the node to just before `anchor` (None: to the end)."""
        graph = self.graph
        assert graph is not None
        self.unlink()
        graph._link(self, anchor)

    def __repr__(self) -> str:
        from .printer import format_node

        return format_node(self)


@dataclass(slots=True)
class Stage:
    """One derivative order's share of a graph: its own inputs, and its own return."""

    param: Node
    """The `prim::Param` whose outputs are the stage's inputs."""
    result: Node
    """The `prim::Return`: args are the outputs, attribute `update` the values written to mutated inputs."""

    @property
    def inputs(self) -> list[Value]:
        """The inputs of the stage: arguments and captures, or incoming gradients."""
        return self.param.outputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The returns of the stage: Values, or None for an undefined gradient."""
        return self.result.operands

    @property
    def updates(self) -> list[tuple[Value, Value]]:
        """Pairs (mutated input, its final value), in order."""
        pairs = self.result.attribute("update", ())
        return [(target, value) for target, value in pairs]


class Graph:
    """Nodes in topological order, in stages. Building one by hand:

    >>> from jit.ir import Graph, TensorType, dtypes
    >>> g = Graph()
    >>> x = g.add_input(TensorType(dtypes.float32, (2,)), "x")
    >>> y = g.add("aten::mul", (x, 2), types=[x.type]).output
    >>> g.set_return([y])
    >>> print(g)
    graph(%x : Float(2)) {
      %0 : Float(2) = aten::mul(%x, 2)
      return (%0)
    }
    """

    def __init__(self) -> None:
        self._first: Node | None = None
        self._last: Node | None = None
        self._count = 0
        self._anchor: Node | None = None
        self._names: set[str] = set()
        self._serial = 0
        self._suffix: dict[str, int] = {}
        self.stages: list[Stage] = []
        self.add_stage()

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in order, without params and returns. The current node may be erased or moved meanwhile."""
        node = self._first
        while node is not None:
            following = node._next
            yield node
            node = following

    @property
    def reversed_nodes(self) -> Iterator[Node]:
        """The nodes from last to first."""
        node = self._last
        while node is not None:
            preceding = node._previous
            yield node
            node = preceding

    def __len__(self) -> int:
        return self._count

    @property
    def inputs(self) -> list[Value]:
        """The inputs of stage 0."""
        return self.stages[0].inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs of stage 0."""
        return self.stages[0].outputs

    def stage_nodes(self, stage: int) -> list[Node]:
        """The nodes of one stage."""
        return [node for node in self.nodes if node.stage == stage]

    @property
    def values(self) -> Iterator[Value]:
        """Every value: inputs of all stages, then node outputs in order."""
        for stage in self.stages:
            yield from stage.inputs
        for node in self.nodes:
            yield from node.outputs

    # -- building ------------------------------------------------------------------------------------------------

    def unique_name(self, name: str | None = None) -> str:
        """`name` if it is free, else `name.1`, `name.2`, ...; a number if no name is asked for."""
        if name is None:
            while (number := str(self._serial)) in self._names:
                self._serial += 1
            self._names.add(number)
            return number
        candidate = name
        while candidate in self._names:
            self._suffix[name] = self._suffix.get(name, 0) + 1
            candidate = f"{name}.{self._suffix[name]}"
        self._names.add(candidate)
        return candidate

    def rename(self, value: Value, name: str) -> None:
        """Give `value` another name, made unique."""
        self._names.discard(value.name)
        value.name = self.unique_name(name)

    def renumber(self) -> bool:
        """Give the values without a name of their own the numbers 0, 1, ... in order; say whether any changed.

        Given `graph(%x : int) { %7 : int = prim::neg(%x) return (%7) }`, %7 becomes %0.
        """
        defined = [list(stage.inputs) for stage in self.stages]
        for node in self.nodes:
            defined[node.stage] += node.outputs
        values = [value for stage in defined for value in stage]
        old = [value.name for value in values]
        self._names = {name for name in old if not name.isdecimal()}
        self._serial = 0
        for value in values:
            if value.name.isdecimal():
                value.name = self.unique_name()
        return [value.name for value in values] != old

    def add_stage(self) -> Stage:
        """Open the next stage; nodes appended from now on belong to it."""
        stage = Stage(Node(self, "prim::Param", (), {}), Node(self, "prim::Return", (), {}))
        stage.param.stage = stage.result.stage = len(self.stages)
        self.stages.append(stage)
        return stage

    def drop_stages(self, keep: int) -> None:
        """Remove all stages from number `keep` on, with their nodes, and nodes that were created but never inserted."""
        for value in self.values:
            for use in [use for use in value.uses if use.node.graph is None]:
                del value.uses[use]
        for stage in self.stages[keep:]:
            stage.result.inputs.release()
        for node in self.reversed_nodes:
            if node.stage >= keep:
                node.erase()
        del self.stages[keep:]

    def add_input(self, type: Type, name: str | None = None, stage: int = -1) -> Value:
        """A new input of `stage` (the last one unless said otherwise)."""
        return self.stages[stage].param.add_output(type, name)

    def retain_inputs(self, kept: Sequence[Value]) -> None:
        """Let stage 0 have these of its inputs alone; GraphError if another one is used."""
        param = self.stages[0].param
        for value in param.outputs:
            if value not in kept and value.uses:
                raise GraphError(f"cannot do without the input {value!r}: {next(iter(value.uses)).node.kind} uses it")
        param.outputs[:] = kept
        for offset, value in enumerate(kept):
            value.offset = offset

    def set_return(self, outputs: Sequence[Any], updates: Sequence[tuple[Value, Value]] = (), stage: int = -1) -> None:
        """Say what `stage` returns, and which of its inputs hold a new value afterwards."""
        old = self.stages[stage].result
        old.inputs.release()
        attributes = {"update": tuple(updates)} if updates else {}
        result = Node(self, "prim::Return", outputs, attributes)
        result.stage = old.stage
        self.stages[stage].result = result

    def create(self, kind: str, args: Sequence[Any] = (), attributes: Mapping[str, Any] | None = None) -> Node:
        """A node that is not inserted yet and has no outputs. Values in `args` and `attributes` become inputs."""
        return Node(None, kind, args, attributes or {})

    def insert(self, node: Node, stage: int | None = None) -> Node:
        """Insert `node` at the insertion point: the end, or before the node of `inserting_before`."""
        anchor = self._anchor
        last = len(self.stages) - 1 if anchor is None else anchor.stage
        node.stage = last if stage is None else stage
        self._link(node, anchor)
        return node

    def add(
        self,
        kind: str,
        args: Sequence[Any] = (),
        attributes: Mapping[str, Any] | None = None,
        types: Sequence[Type] = (TENSOR,),
        names: Sequence[str | None] = (),
    ) -> Node:
        """Create a node, insert it at the insertion point, and give it an output per type."""
        node = self.insert(self.create(kind, args, attributes))
        for index, type in enumerate(types):
            node.add_output(type, names[index] if index < len(names) else None)
        return node

    @contextlib.contextmanager
    def inserting_before(self, anchor: Node | None) -> Iterator[None]:
        """Within this block `insert` and `add` put nodes before `anchor` (None: at the end)."""
        previous, self._anchor = self._anchor, anchor
        try:
            yield
        finally:
            self._anchor = previous

    def _link(self, node: Node, anchor: Node | None) -> None:
        node.graph = self
        before = self._last if anchor is None else anchor._previous
        node._previous, node._next = before, anchor
        if before is None:
            self._first = node
        else:
            before._next = node
        if anchor is None:
            self._last = node
        else:
            anchor._previous = node
        self._count += 1

    # -- copying -------------------------------------------------------------------------------------------------

    def copy_node(self, node: Node, mapping: dict[Value, Value], keep_names: bool = False) -> Node:
        """Insert a copy of `node` (of this or another graph) whose inputs go through `mapping`; extends `mapping`."""

        inputs = [mapping.get(value, value) for value in node.inputs]
        attributes = node.attributes
        if attributes and any(isinstance(item, Graph) for item in attributes.values()):
            attributes = {key: x.clone() if isinstance(x, Graph) else x for key, x in attributes.items()}
        if all(isinstance(value, Value) for value in inputs):
            made = Node(None, node.kind, node.args, attributes, inputs)
        else:  # constants have taken the place of some
            fill = {value: other for value, other in zip(node.inputs, inputs, strict=True)}.__getitem__
            resolved = {key: node.resolve(item, fill) for key, item in attributes.items()}
            made = Node(None, node.kind, node.resolve(node.args, fill), resolved)
        copy = self.insert(made)
        copy.source, copy.scope = node.source, node.scope
        for value in node.outputs:
            mapping[value] = copy.add_output(value.type, value.name if keep_names else None)
        return copy

    def clone(self, mapping: dict[Value, Value] | None = None) -> Graph:
        """A copy that shares nothing but constants; `mapping` is filled with old value -> new value."""
        mapping = {} if mapping is None else mapping
        copy = Graph()
        for _ in self.stages[1:]:
            copy.add_stage()
        for old, new in zip(self.stages, copy.stages, strict=True):
            for value in old.inputs:
                mapping[value] = new.param.add_output(value.type, value.name)
        for node in self.nodes:
            copy.copy_node(node, mapping, keep_names=True).stage = node.stage
        for index, stage in enumerate(self.stages):
            outputs = stage.result.resolve(stage.result.args, mapping.__getitem__)
            updates = [(mapping[target], mapping[value]) for target, value in stage.updates]
            copy.set_return(outputs, updates, index)
        return copy

    def inline(self, body: Graph, arguments: Sequence[Any]) -> tuple[list[Any], dict[Value, Value]]:
        """Insert the nodes of `body` (stage 0) with `arguments` for its inputs.

        Returns what stands for the body's outputs followed by its updates' values, and the map of all values.
        """
        mapping: dict[Value, Value] = dict(zip(body.inputs, arguments, strict=True))
        for node in body.nodes:
            self.copy_node(node, mapping)
        outputs = [mapping[o] if isinstance(o, Value) else o for o in body.outputs]
        outputs += [mapping[value] for _, value in body.stages[0].updates]
        return outputs, mapping

    # -- showing -------------------------------------------------------------------------------------------------

    def verify(self) -> None:
        """GraphError if an invariant of the IR does not hold; `jit.ir.verifier.verify` lists them."""
        from .verifier import verify

        verify(self)

    def to_networkx(self) -> Any:
        """A networkx MultiDiGraph of the nodes; see `jit.ir.drawing.to_networkx`."""
        from .drawing import to_networkx

        return to_networkx(self)

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        from .drawing import to_dot

        return to_dot(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to `path`, atomically: `.html` a page to explore, `.svg`, `.dot`, or `.ir`, the text.

        Large constants of an `.ir` file go beside it, as `<name>.npz`; `jit.ir.parse(text, tensors=np.load(npz))` reads
        them back.

        Raises:
            Error: The suffix is another one, the file cannot be written, or `.html` and `.svg` lack pygraphviz.
        """
        from .drawing import save

        save(self, path)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """The pictures for a notebook: the drawing where pygraphviz is installed, and the text."""
        from .drawing import mimebundle

        return mimebundle(self)

    def __str__(self) -> str:
        from .printer import format_graph

        return format_graph(self)

    def __repr__(self) -> str:
        return str(self)
