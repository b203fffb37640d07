"""Every adversarial case in a process of its own: equal to eager mode, or the documented exception; never a signal."""

import os
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.adversarial import (
    cases_aliasing,
    cases_autograd,
    cases_derivatives,
    cases_eager_views,
    cases_effects,
    cases_errors,
    cases_errors_caught,
    cases_errors_more,
    cases_forms,
    cases_memory,
    cases_metadata,
    cases_numbers,
    cases_numbers_that_vary,
    cases_objects,
    cases_python,
    cases_silent,
    cases_sizes,
    cases_sizes_in_python,
    cases_sizes_in_state,
    cases_sizes_in_views,
    cases_sizes_of_elements,
    cases_sizes_served,
    cases_state,
    cases_state_more,
    cases_surroundings,
    cases_training,
    cases_values,
    trial,
)  # fmt: skip

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    cases_python, cases_memory, cases_numbers, cases_autograd, cases_training, cases_surroundings, cases_objects,
    cases_aliasing, cases_derivatives, cases_sizes, cases_effects,
    cases_errors, cases_errors_caught, cases_errors_more, cases_state, cases_state_more, cases_metadata, cases_values,
    cases_eager_views, cases_forms, cases_silent, cases_sizes_in_python, cases_sizes_in_views, cases_sizes_in_state,
    cases_sizes_served, cases_sizes_of_elements, cases_numbers_that_vary,
)  # fmt: skip
SECONDS = 120


def run_case(module: str, name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.adversarial.run_case", module, name]
    for _ in range(2):
        try:
            return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
        except OSError:  # the process did not start: a sandboxed kernel may refuse an exec under load
            time.sleep(1)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)


def module_of(name: str) -> str:
    return trial.CASES[name].body.__module__.rsplit(".", 1)[-1]


class Processes:
    """Runs cases ahead of the tests that ask for them, as many at once as there are cores."""

    def __init__(self, names: list[str]) -> None:
        self.pool = ThreadPoolExecutor(1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1)
        self.names = names
        self.started: dict[str, Future[subprocess.CompletedProcess[str]]] = {}

    def result(self, name: str) -> subprocess.CompletedProcess[str]:
        for ahead in self.names[self.names.index(name) :][:8]:
            if ahead not in self.started:
                self.started[ahead] = self.pool.submit(run_case, module_of(ahead), ahead)
        return self.started[name].result()


@pytest.fixture(scope="module")
def processes(request):
    wanted = [item.callspec.params["name"] for item in request.session.items if item.originalname == "test_case"]
    started = Processes(wanted)
    yield started
    started.pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", trial.CASES)
def test_case(name, processes):
    done = processes.result(name)
    command = f"python -m tests.adversarial.run_case {module_of(name)} {name}"
    assert done.returncode >= 0, f"killed by signal {-done.returncode}\n{command}\n{done.stderr}"
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{command}"


def test_there_are_enough_cases():
    assert len(trial.CASES) >= 900
