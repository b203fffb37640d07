"""Networks that 1, 2 and 4 processes train; `training_cases` is what runs in each, once for each number of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit.command.launching import mpiexec
from jit.distributed import checkpoint
from tests.distributed import training_cases

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "JIT_NUM_THREADS": "1"}
BOUND = 1e-14
"""The largest difference of losses, relative, after a few steps in float64."""

pytest.importorskip("mpi4py")


class Runs:
    """What each process has found, for each number of processes; they run when they are first asked for."""

    def __init__(self, folder):
        self.folder = folder
        self._found = {}

    def __call__(self, count):
        for fewer in (each for each in (1, 2, 4) if each < count):  # whose checkpoints are read
            self(fewer)
        if count not in self._found:
            program = [sys.executable, "-m", "tests.distributed.training_cases", self.folder]
            command = [mpiexec(), "-n", str(count), *program]
            done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
            if done.returncode:
                pytest.fail(
                    f"{count} processes: exit code {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False
                )
            paths = [self.folder / f"found-{count}-{rank}.json" for rank in range(count)]
            self._found[count] = [json.loads(path.read_text()) for path in paths]
        return self._found[count]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("found"))


@pytest.fixture(params=[2, 4])
def several(request):
    return request.param


@pytest.mark.parametrize("count", [2, 4])
def test_losses_are_those_of_one_process_with_the_joined_batch(runs, count):
    one, found = runs(1)[0]["losses"]["eager"], runs(count)
    for way in training_cases.WAYS if count == 2 else training_cases.FEW_WAYS:
        assert all(each["losses"][f"{way}: agree"] for each in found), way
        np.testing.assert_allclose(found[0]["losses"][way], one, rtol=BOUND, err_msg=way)
    assert one[-1] < one[0]


def test_a_traced_step_is_kept_with_its_reductions(runs, several):
    for found in runs(several):
        assert found["losses"]["kept"] and found["losses"]["reductions"] == 1
    assert runs(1)[0]["losses"]["reductions"] == 0


def test_losses_are_the_same_bit_for_bit_where_sums_are_exact(runs, several):
    assert [found["whole_numbers"] for found in runs(several)] == [runs(1)[0]["whole_numbers"]] * several


def test_two_processes_have_the_bits_of_one_that_adds_up(runs):
    assert all(found["added_up"]["same bits"] for found in runs(2))
    assert all(found["added_up"]["difference"] < 1e-6 for found in runs(4))


@pytest.mark.parametrize("name", ["orders", "several_backwards", "checkpointed"])
def test_gradients_are_the_averages(runs, several, name):
    assert all(found[name] is True for found in runs(several))


def test_parameters_may_be_unused(runs, several):
    for found in runs(several):
        refused = found["unused"].pop("refused")
        assert all(found["unused"].values()) and "4 of 8 parameters" in refused
        assert "find_unused_parameters=True" in refused


def test_gradients_add_up_without_sync(runs, several):
    assert all(all(found["without_sync"].values()) for found in runs(several))


def test_a_hook_sends_the_buckets(runs, several):
    for found in runs(several):
        assert found["communication_hook"]["close"] and found["communication_hook"]["seen"][0][:2] == ["state", 0]


def test_mixed_precision(runs, several):
    one, found = runs(1)[0]["mixed_precision"]["losses"], runs(several)
    assert all(each["mixed_precision"]["agree"] for each in found)
    np.testing.assert_allclose(found[0]["mixed_precision"]["losses"], one, rtol=2e-2)  # a few units of bfloat16
    assert one[-1] < one[0]


def test_processes_may_decide_differently_while_gradients_travel(runs, several):
    for found in (each["guarded"] for each in runs(several)):
        assert found["agree"] and found["hits"] > 10 and found["reductions"] > 1


def test_buffers_are_those_of_the_first_process(runs, several):
    for found in (each["buffers"] for each in runs(several)):
        assert found["first"] == [1.0] * 6 and found["agree before each"] and found["differ without"]
        assert found["keys"] == ["module.0.weight", "module.0.bias"]


def test_other_networks_are_refused_in_all_processes(runs, several):
    messages = {found["other_networks"] for found in runs(several)}
    assert len(messages) == 1 and "the network of process 1 is not that of process 0" in messages.pop()


def test_a_sampler_knows_the_process(runs, several):
    parts = [found["sampled"] for found in runs(several)]
    assert [part[:2] for part in parts] == [[several, rank] for rank in range(several)]
    assert {index for part in parts for index in part[2]} == set(range(10))


# -- optimizers that are shared out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", training_cases.OPTIMIZERS)
def test_an_optimizer_that_is_shared_out_gives_the_bits_of_the_plain_one(runs, name):
    for count in (2, 4) if name in training_cases.FEW_OPTIMIZERS else (2,):
        for found in runs(count):
            same, states, again, fewer = found["shared_out"][name]
            assert same and states and again and fewer


def test_an_optimizer_that_is_shared_out_is_traced(runs, several):
    assert all(found["shared_out_and_traced"] == {"same": True, "hits": 9} for found in runs(several))


def test_states_have_to_be_collected(runs, several):
    for rank, found in enumerate(runs(several)):
        assert f"consolidate_state_dict(to={rank})" in found["states_stay_apart"]


# -- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("written_by", "read_by"), [(1, 2), (1, 4), (2, 2), (2, 4), (4, 4)])
def test_a_checkpoint_is_read_by_another_number_of_processes(runs, written_by, read_by):
    written = [found["checkpoint_written"] for found in runs(written_by)]
    for rank, found in enumerate(runs(read_by)):
        network, optimizer, epoch, options = found["checkpoint_read"][str(written_by)]
        assert network == written[0][0] and epoch == 3 and options == "{'betas': (0.5, 0.9), 'names': ['a', 'b']}"
        assert optimizer == (written[0][1] if rank == 0 else None)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_checkpoint_is_read_by_one_process(runs, count):
    written = runs(count)[0]["checkpoint_written"]
    net = training_cases.network(jit.float32, seed=9)
    optimizer = jit.optim.Adam(net.parameters())
    state = {"net": net, "optimizer": optimizer} | {f"part {rank}": jit.zeros(2, 3) for rank in range(count)}
    checkpoint.load(state, checkpoint_id=runs.folder / f"by-{count}")
    assert training_cases.bits(net.parameters()) == written[0]
    assert training_cases.state_bits(optimizer.state_dict()) == written[1]
    assert all(bool((state[f"part {rank}"] == rank).all()) for rank in range(count))


def test_a_process_that_cannot_save_keeps_the_others_from_it(runs, several):
    for rank, found in enumerate(each["checkpoint_refused"] for each in runs(several)):
        first, second, third = found["errors"]
        assert ("ContentError" in first) and ("could not do its part" in first) == (rank < several - 1)
        assert "of sizes [3]" in second and "is a tensor in one process and none in another" in third
        assert found["kept"] == [1.0, 1.0] and found["files"] == 2


@pytest.mark.parametrize("victim", [0, 1])
def test_processes_that_are_killed_leave_a_whole_checkpoint(tmp_path, victim):
    command = [mpiexec(), "-n", "2", sys.executable, "-m", "tests.distributed.saving_forever", tmp_path]
    running = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        patience = time.monotonic() + 60
        while not (tmp_path / "kept" / "index.json").exists() and time.monotonic() < patience:
            time.sleep(0.05)
        time.sleep(0.3 + 0.1 * victim)
        os.kill(int((tmp_path / f"process-{victim}").read_text()), signal.SIGKILL)
        assert running.wait(15) != 0
    finally:
        running.kill()
    found: dict[str, Any] = {}
    checkpoint.load(found, checkpoint_id=tmp_path / "kept")
    tensors = {name: value for name, value in found.items() if name != "version"}
    assert len(tensors) == 10 and all(bool((tensor == found["version"]).all()) for tensor in tensors.values())
