"""The runner of public programs, on programs of our own: what it runs, records, compares and counts."""

import json
import sys
from pathlib import Path

import pytest

from tests.programs.runner import Run, Verdict, counts, programs, run_all, same

HERE = Path(__file__).parent
DOOR = [sys.executable, "-W", "ignore", "-m", "jit.as_torch"]
NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 2)
        self.drop = nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(self.layer(x)), {"state": torch.tanh(x)}

if __name__ == "__main__":
    print(Net(3)(torch.randn(4, 3))[0].shape)
"""


def order(folder: Path, **entry: object) -> dict[str, object]:
    return {"folder": str(folder), "shared": True, "steps": 3, **entry}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("programs")
    (made / "net.py").write_text(NETWORK)
    (made / "broken.py").write_text("import torch\nraise ValueError('no data')\n")
    return made


def test_every_program_of_the_list_says_where_it_is_and_what_is_compared():
    listed = programs()
    assert len(listed) >= 150
    for name, entry in listed.items():
        assert entry["file"].endswith(".py") and len(entry["commit"]) == 40, name
        compared = {"build", "example", "mocked", "companions", "arguments", "paths", "steps"} & set(entry)
        assert compared, name
        if "build" in entry:
            compile(entry["build"], name, "eval")


def test_a_program_that_trains_is_stopped_after_its_steps_and_gives_the_loss_that_it_prints():
    losses = json.loads((HERE / "losses.json").read_text())["mnist"]
    (run,) = run_all(DOOR, [order(HERE, file="own/mnist.py", shared=False, steps=1)])
    assert run.error == "" and run.losses == pytest.approx(losses[:1], rel=2e-5)


def test_a_network_is_trained_and_draws_are_shared(folder):
    entry = order(folder, file="net.py", build="Net(3)", inputs="floats(4, 3)")
    first, second = (run_all(DOOR, [entry])[0] for _ in range(2))
    assert first.error == "" and len(first.losses) == 3 and first.losses == second.losses
    assert len(set(first.losses)) == 3, "the network learns, or drops out"


def test_an_example_is_trained_on_what_it_was_called_with(folder):
    (run,) = run_all(DOOR, [order(folder, file="net.py", example=True)])
    assert run.error == "" and len(run.losses) == 3


def test_several_orders_run_apart_and_tell_their_errors_apart(folder):
    good = order(folder, file="net.py", example=True)
    found = run_all(DOOR, [order(folder, file="broken.py"), good, order(folder, file="net.py")])
    assert [bool(run.error) for run in found] == [True, False, True]
    assert found[0].error.endswith("ValueError: no data") and found[2].error == "no losses"


def test_traced_runs_count_calls_of_recordings(folder):
    entry = order(folder, file="net.py", build="Net(3).eval()", inputs="floats(4, 3)", shared=False, steps=8)
    (run,) = run_all([*DOOR, "--trace", "--report"], [entry])
    assert run.traced == [("Net", 5, 8, "")]


def test_verdicts_say_what_differs_and_are_counted():
    right, wrong, broken = Run([1.0, 2.0]), Run([1.0, 2.1]), Run(error="x\nTypeError: y")
    verdicts = [Verdict("a", right, right), Verdict("b", right, wrong), Verdict("c", right, broken)]
    assert [(v.runs, v.equal) for v in verdicts] == [(True, True), (True, False), (False, False)]
    assert verdicts[0].line() == "a: equal" and "instead of" in verdicts[1].line() and "TypeError" in verdicts[2].line()
    assert counts(verdicts).startswith("3 programs that run with torch; through the door 2 run and 1 are equal")
    steady = Verdict("d", right, right, right, Run([1.0, 2.0], traced=[("Net", 4, 8, "")]))
    assert steady.steady and not Verdict("e", right, right, right, Run([1.0, 2.0], traced=[("Net", 1, 8, "")])).steady


def test_losses_are_compared_relatively():
    assert same([1.0, float("nan")], [1.00005, float("nan")]) and not same([1.0], [1.0002]) and not same([], [1.0])
