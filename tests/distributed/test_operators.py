"""Collectives as operators: what passes leave alone, what is not exported, and what is said where MPI is missing.

These run in this process, in the group of a process alone.
"""

import subprocess
import sys

import pytest

import jit
from jit.eager.namespace import F
from jit.ir import REGISTRY, parse
from jit.passes import CLEANUP, OPTIMIZE, run
from jit.passes.support.analysis import communicates
from jit.runtime.processes.groups import GROUPS, Team, group_named

from .launching import ROOT

COLLECTIVES = [op for op in REGISTRY.values() if op.communicates]


def test_all_collectives_say_that_they_communicate():
    assert {op.name for op in REGISTRY.values() if op.family == "collectives"} <= {op.name for op in COLLECTIVES}
    assert all(op.schema.namespace == "_c10d_functional" for op in COLLECTIVES)


REPEATED = """
graph(%x : Float(2)) {
  %0 : Float(2) = _c10d_functional::all_reduce[reduce_op="sum", group_name="self"](%x)
  %1 : Float(2) = _c10d_functional::all_reduce[reduce_op="sum", group_name="self"](%x)
  %2 : Float(2) = _c10d_functional::broadcast[src=0, group_name="self"](%x)
  %3 : Float(2) = aten::ones[size=[2]]()
  %4 : Float(2) = _c10d_functional::all_reduce[reduce_op="sum", group_name="self"](%3)
  %5 : Float(2) = aten::add(%0, %1)
  return (%5)
}
"""


def exchanged(graph):
    """The exchanges that a graph begins, in order."""
    kinds = [node.kind.partition("::")[2].removeprefix("begin_") for node in graph.nodes if communicates(node)]
    return [kind for kind in kinds if kind != "wait_tensor"]


@pytest.mark.parametrize("pipeline", [CLEANUP, OPTIMIZE], ids=["cleanup", "optimize"])
def test_no_pass_drops_joins_computes_or_reorders_collectives(pipeline):
    graph = parse(REPEATED)
    before = exchanged(graph)
    assert len(before) == 4
    run(graph, pipeline)
    assert exchanged(graph) == before


@pytest.mark.llvm
def test_a_plan_runs_collectives_in_the_order_of_the_program(monkeypatch):
    from jit.runtime.processes import collectives

    ran: list[str] = []
    begin = collectives._begin

    def noting(group, text, *rest):
        ran.append(text)
        return begin(group, text, *rest)

    monkeypatch.setattr(collectives, "_begin", noting)

    @jit.trace
    def f(x, y):
        a = F.all_reduce(x.exp(), "sum", "self")
        F.broadcast(y * 2, 0, "self")
        b = F.all_reduce(y.sin() + 1, "max", "self")
        return a.cos() + b, F.all_gather_into_tensor(x, 1, "self")

    x, y = jit.ones(3), jit.ones(3)
    f(x, y)
    first = list(ran)
    assert len(first) == 4
    for _ in range(3):
        ran.clear()
        f(x, y)
        assert ran == first
    assert f.hits == 3


@pytest.mark.parametrize("op", COLLECTIVES, ids=lambda op: op.schema.name)
def test_no_collective_is_exported(op, tmp_path):
    arguments = next(iter(op.sampler())).args
    with pytest.raises(jit.ExportError, match="a model runs in one process, and ONNX has no operator"):
        jit.export_onnx(
            lambda x: getattr(F, op.schema.name)(x, *arguments[1:]),
            (jit.from_numpy(arguments[0]),),
            tmp_path / "m.onnx",
        )


def test_a_group_that_is_not_there_is_an_error():
    with pytest.raises(jit.Error, match=r"this process has no group 'world': call init_process_group\(\) first"):
        F.all_reduce(jit.ones(2), "sum", "world")
    with pytest.raises(jit.Error, match="default process group has not been initialized"):
        jit.distributed.get_rank()


def test_a_group_of_another_size_than_recorded_is_an_error(monkeypatch):
    monkeypatch.setitem(GROUPS, "pair", Team("pair", (0, 1), 0))
    assert group_named("pair", 2).size == 2
    with pytest.raises(jit.Error, match="the group 'pair' has 2 processes, but this was recorded for 3"):
        group_named("pair", 3)


def test_where_mpi4py_is_missing_one_sentence_says_so():
    text = """
import sys
sys.modules["mpi4py"] = None
import jit.distributed as dist
from jit.eager.namespace import F
import jit
assert F.all_reduce(jit.ones(2), "sum", "self").tolist() == [1, 1]
try:
    dist.init_process_group()
except jit.UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'pip install "jit-tracer[dist]"' in done.stdout


def test_importing_the_package_does_not_start_mpi():
    text = (
        "import sys, jit.distributed as dist; dist.is_available(), dist.all_reduce; print('mpi4py.MPI' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_what_depends_on_working_together_is_recorded_for_both():
    text = """
import jit, jit.distributed as dist

@jit.trace
def f(x):
    return x * 2 if dist.is_initialized() else x * 3

def check(expected):
    for _ in range(4):
        assert f(jit.ones(1)).item() == expected

check(3)
dist.init_process_group()
check(2)
dist.destroy_process_group()
check(3)
assert f.hits == 10, f.hits
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
