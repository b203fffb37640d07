"""Every adversarial case in a process of its own: equal to eager mode, or the documented exception; never a signal."""

import json
import subprocess
import sys
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
from tests.sampling import one_of

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    cases_python, cases_memory, cases_numbers, cases_autograd, cases_training, cases_surroundings, cases_objects,
    cases_aliasing, cases_derivatives, cases_sizes, cases_effects,
    cases_errors, cases_errors_caught, cases_errors_more, cases_state, cases_state_more, cases_metadata, cases_values,
    cases_eager_views, cases_forms, cases_silent, cases_sizes_in_python, cases_sizes_in_views, cases_sizes_in_state,
    cases_sizes_served, cases_sizes_of_elements, cases_numbers_that_vary,
)  # fmt: skip
CAN_FORK = sys.platform.startswith("linux")  # elsewhere the libraries of the system do not bear it


def module_of(name: str) -> str:
    return trial.CASES[name].body.__module__.rsplit(".", 1)[-1]


class Server:
    """A process that runs cases in forks of itself."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.adversarial.run_case"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, module: str, name: str) -> tuple[int, str]:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(module, name, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        return answer["returncode"], answer["output"]

    def end(self) -> None:
        self.process.communicate()


def run_alone(module: str, name: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.adversarial.run_case", module, name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def run_case():
    if not CAN_FORK:
        yield run_alone
        return
    server = Server()
    yield server.run
    server.end()


@pytest.mark.parametrize("name", one_of(4, trial.CASES))
def test_case(name, run_case):
    status, output = run_case(module_of(name), name)
    command = f"python -m tests.adversarial.run_case {module_of(name)} {name}"
    assert status >= 0, f"killed by signal {-status}\n{command}\n{output}"
    assert status == 0, f"{output}\n{command}"


def test_a_case_that_fails_or_ends_the_process_is_told(run_case):
    if CAN_FORK:
        assert run_case("cases_state", "no_such_case")[0] == 1
        assert "KeyError" in run_case("cases_state", "no_such_case")[1]


def test_there_are_enough_cases():
    assert len(trial.CASES) >= 900
