"""Modules as functions of the model: the nodes of each call of a module become one node, and calls that are alike share
one function.

    %y = Gemm(%x, %net.0.weight, %net.0.bias)          %y = Linear(%x, %net.0.weight, %net.0.bias)
    %z = Gemm(%y, %net.1.weight, %net.1.bias)          %z = Linear(%y, %net.1.weight, %net.1.bias)

Calls are told by the scopes of nodes; inner modules come first, so functions call functions. What stands together in
the order of the nodes can be taken out together: a path from one of them to another leads through no other node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .folding import exactly
from .naming import Names

if TYPE_CHECKING:
    import onnx_ir

DOMAIN = "modules"
SINCE = 15
"""The first opset whose file format holds functions."""


class Outlining:
    """The outlining of one model.

    Args:
        outputs: The model's outputs; where a call gives one of them, it is exchanged.
        constants: The values that are numbers of the code, and no weights: they go into the functions.
        opset: The version of ONNX's operators.
        modules: Scope -> the name of the class of its module.
    """

    def __init__(
        self, outputs: list[onnx_ir.Value], constants: Collection[onnx_ir.Value], opset: int, modules: Mapping[str, str]
    ) -> None:
        self.outputs, self.constants, self.opset, self.modules = outputs, constants, opset, modules
        self.functions: dict[Any, onnx_ir.Function] = {}
        """The functions, by the name of the class and what they compute."""
        self._named: dict[str, int] = {}

    def outline(self, nodes: Sequence[onnx_ir.Node]) -> list[onnx_ir.Node]:
        """The nodes that are left of these."""
        left = list(nodes)
        for scope in sorted(self.modules, key=lambda scope: (-scope.count("/"), scope)):
            left = list(self._without(scope, left))
        return left

    def _without(self, scope: str, nodes: Sequence[onnx_ir.Node]) -> Iterator[onnx_ir.Node]:
        """The nodes, with one for each run of them that belongs to a scope."""
        run: list[onnx_ir.Node] = []
        for node in nodes:
            if _is_within(node, scope) and not _has_graphs(node):
                run.append(node)
                continue
            if run:
                yield self._call(scope, run)
            run = []
            yield node
        if run:
            yield self._call(scope, run)

    # -- one call ------------------------------------------------------------------------------------------------

    def _call(self, scope: str, run: list[onnx_ir.Node]) -> onnx_ir.Node:
        import onnx_ir

        taken, given = self._interface(run)
        made = [onnx_ir.Value(name=v.name, type=v.type, shape=v.shape) for v in given]
        for value, other in zip(given, made, strict=True):
            for user, index in list(value.uses()):
                if user not in run:
                    user.replace_input_with(index, other)
            self.outputs[:] = [other if each is value else each for each in self.outputs]
        function = self._function(scope, run, taken, given)
        outer = scope.rpartition("/")[0]
        origin = {"jit.scope": outer} if outer else {}
        return onnx_ir.Node(DOMAIN, function.name, taken, outputs=made, name=made[0].name, metadata_props=origin)

    def _interface(self, run: Sequence[onnx_ir.Node]) -> tuple[list[onnx_ir.Value], list[onnx_ir.Value]]:
        """The values that nodes take from outside, and those of theirs that are used there."""
        own = {value for node in run for value in node.outputs}
        taken = [v for node in run for v in node.inputs if v is not None and v not in own and v not in self.constants]
        given = [v for node in run for v in node.outputs if v in self.outputs or any(u not in run for u, _ in v.uses())]
        return list(dict.fromkeys(taken)), given

    def _function(
        self, scope: str, run: Sequence[onnx_ir.Node], taken: Sequence[onnx_ir.Value], given: Sequence[onnx_ir.Value]
    ) -> onnx_ir.Function:
        """The function of these nodes, which are its own from now on, or go if there is one that is alike."""
        key = self.modules[scope], self._key(run, taken, given)
        known = self.functions.get(key)
        if known is None:
            known = self.functions[key] = self._made(scope, run, taken, given)
        else:
            for node in run:
                for index in range(len(node.inputs)):
                    node.replace_input_with(index, None)
        return known

    def _key(
        self, run: Sequence[onnx_ir.Node], taken: Sequence[onnx_ir.Value], given: Sequence[onnx_ir.Value]
    ) -> tuple[Any, ...]:
        """Equal for runs that compute the same of what they take."""
        known: dict[onnx_ir.Value | None, Any] = {None: None, **{value: index for index, value in enumerate(taken)}}
        lines = []
        for place, node in enumerate(run):
            operands = tuple(known[v] if v in known else exactly(v.const_value.numpy()) for v in node.inputs)  # type: ignore[union-attr]
            attributes = tuple(sorted((name, exactly(item.value)) for name, item in node.attributes.items()))
            lines.append((node.domain, node.op_type, operands, attributes, len(node.outputs)))
            known.update((value, (place, index)) for index, value in enumerate(node.outputs))
        return (*lines, tuple(known[value] for value in given))

    def _made(
        self, scope: str, run: Sequence[onnx_ir.Node], taken: Sequence[onnx_ir.Value], given: Sequence[onnx_ir.Value]
    ) -> onnx_ir.Function:
        import onnx_ir

        names, path = Names(), f"{'.'.join(scope.split('/')[1:])}."
        for node in run:
            for value in node.outputs:
                value.type = value.shape = None  # other calls have other sizes
                value.name = names.unique((value.name or "").removeprefix(f"{scope}/"))
            node.name = node.outputs[0].name
        formals = [onnx_ir.Value(name=names.unique(_inner_name(value, path))) for value in taken]
        own = self._own_constants(run, names)
        for actual, formal in [*zip(taken, formals, strict=True), *((v, node.outputs[0]) for v, node in own.items())]:
            for user, index in list(actual.uses()):
                if user in run:
                    user.replace_input_with(index, formal)
        domains = {node.domain: 1 for node in run if node.domain}
        body = onnx_ir.Graph(
            formals, list(given), nodes=[*own.values(), *run], opset_imports={"": self.opset, **domains}, name=scope
        )
        return onnx_ir.Function(DOMAIN, self._name(self.modules[scope]), graph=body, attributes=[])

    def _own_constants(self, run: Sequence[onnx_ir.Node], names: Names) -> dict[onnx_ir.Value, onnx_ir.Node]:
        import onnx_ir

        used = dict.fromkeys(v for node in run for v in node.inputs if v is not None and v in self.constants)
        made = {}
        for value in used:
            name = names.unique("constant")
            attributes = [onnx_ir.AttrTensor("value", value.const_value)]  # type: ignore[arg-type]
            made[value] = onnx_ir.Node("", "Constant", [], attributes, outputs=[onnx_ir.Value(name=name)], name=name)
        return made

    def _name(self, base: str) -> str:
        """The name of a class, with a number if other functions have it."""
        count = self._named[base] = self._named.get(base, 0) + 1
        return base if count == 1 else f"{base}_{count}"


def _is_within(node: onnx_ir.Node, scope: str) -> bool:
    own = node.metadata_props.get("jit.scope", "")
    return own == scope or own.startswith(f"{scope}/")


def _has_graphs(node: onnx_ir.Node) -> bool:
    return any(str(item.type) in ("GRAPH", "GRAPHS") for item in node.attributes.values())


def _inner_name(value: onnx_ir.Value, path: str) -> str:
    """The name of a value within the function of a module: `weight` for `net.0.weight`."""
    name = value.name or ""
    return name.removeprefix(path) if name.startswith(path) else "input"
