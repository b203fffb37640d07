"""Collectives among several processes, by programs that compare their results in each of them."""

import pytest

from .launching import run, succeeds

pytestmark = pytest.mark.llvm


@pytest.mark.parametrize(("count", "number"), [(2, 1000), (4, 400)])
def test_random_collectives_give_what_numpy_computes(count, number, seed):
    said = succeeds("random_collectives", count, str(seed), str(number))
    assert all(f"rank {rank}: {number} collectives" in said for rank in range(count))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_many_random_collectives_give_what_numpy_computes(count, seed):
    for turn in range(10):
        succeeds("random_collectives", count, str(seed + turn), "2000", timeout=300)


def test_collectives_without_checks_give_the_same(seed):
    succeeds("random_collectives", 2, str(seed), "300", JIT_DISTRIBUTED_CHECKS="0")


def test_derivatives_of_collectives_are_those_of_what_all_compute_together():
    assert "rank 1: 15 derivatives" in succeeds("derivatives", 2)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 4])
def test_derivatives_among_more_processes(count):
    assert "rank 2: 15 derivatives" in succeeds("derivatives", count)


@pytest.mark.parametrize("count", [3])
def test_collectives_are_recorded_and_saved(count, tmp_path):
    assert "rank 1: all traced" in succeeds("traced", count, str(tmp_path))


def test_what_starts_again_exchanges_nothing_twice():
    assert "rank 1: started again" in succeeds("restarting", 2, "9")


@pytest.mark.slow
def test_what_starts_again_in_more_ways_exchanges_nothing_twice():
    assert "rank 3: started again" in succeeds("restarting", 4, "40", timeout=300)


def test_processes_that_do_not_do_the_same_learn_of_it():
    assert "rank 2: 10 disagreements" in succeeds("disagreeing", 3)


def test_a_process_without_mpiexec_is_a_world_of_one():
    import subprocess
    import sys

    from .launching import ROOT

    text = """
import jit, jit.distributed as dist
dist.init_process_group("nccl", world_size=1, rank=0)
assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "mpi")
x, into = jit.ones(2), [jit.zeros(2)]
dist.all_reduce(x, dist.ReduceOp.AVG)
dist.all_gather(into, x)
dist.barrier()
assert x.tolist() == into[0].tolist() == [1, 1]
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("there is no NCCL here") == 1


def test_a_wrong_world_is_refused():
    done = run("ending", 1, "returns", "nothing")
    assert done.returncode == 0, done.stderr
