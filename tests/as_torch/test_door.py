"""The door as programs see it: how they are started, what they find behind `torch`, and what is said of what is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def start(tmp_path):
    """Runs a program of this text, with arguments of the door before it and of its own behind it."""

    def run(text, *own, door=(), name="program.py"):
        (tmp_path / name).write_text(text)
        command = [sys.executable, "-m", "jit.as_torch", *door, name, *own]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)

    return run


def test_a_program_runs_as_under_python(start, tmp_path):
    done = start("import sys; print(__name__, __file__, sys.argv, sys.path[0])", "-v", "--x=1")
    path = tmp_path / "program.py"
    assert done.stdout.strip() == f"__main__ {path} ['program.py', '-v', '--x=1'] {tmp_path}"
    assert done.returncode == 0 and done.stderr == ""


def test_a_module_runs_by_its_name(tmp_path, start):
    (tmp_path / "trainer.py").write_text("import sys, torch; print(__name__, sys.argv[1:], torch.ones(2).sum().item())")
    done = start("", "trainer", "-q", name="-m")
    assert done.stdout.strip() == "__main__ ['-q'] 2.0", done.stderr


def test_exit_codes_are_the_programs(start):
    assert start("import sys; sys.exit(7)").returncode == 7
    assert start("1 / 0").returncode == 1


def test_tracebacks_begin_in_the_program(start):
    done = start("import torch\ndef f():\n    return torch.ones(2).nothing\nf()\n")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and 'program.py", line 4' in lines[1]
    assert "as_torch" not in done.stderr and "runpy" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [([], "a script or -m module is missing"), (["--nope", "x.py"], "unknown option --nope"), (["no.py"], "no file")],
    ids=["nothing", "option", "file"],
)
def test_wrong_calls_exit_with_2(arguments, says):
    command = [sys.executable, "-m", "jit.as_torch", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_modules_of_torch_are_those_of_jit(start):
    done = start("""
import torch, torch.nn as nn, torch.nn.functional as F, torch.optim as optim
import torch.nn.modules.linear, torch.backends.cudnn as cudnn, jit, importlib, importlib.util
from importlib import metadata
from torch.nn.modules.utils import _pair
from torch.jit.annotations import List, Optional
from torch.optim.lr_scheduler import StepLR
assert torch.Tensor is jit.Tensor and nn.Linear is torch.nn.modules.linear.Linear is jit.nn.Linear
assert F.relu is jit.nn.functional.relu and optim.SGD is jit.optim.SGD
cudnn.benchmark = True
assert jit.backends.cudnn.benchmark and torch.backends.cudnn is cudnn
assert importlib.util.find_spec("torch.nn") and importlib.util.find_spec("torch.nope") is None
assert metadata.version("torch") == torch.__version__ and torch.__version__ >= "2.4" and torch.__version__ > (1, 13)
assert torch.trace(torch.eye(3)).item() == 3 and torch.jit.trace is not jit.trace
assert "relu" in dir(torch) and "relu" in dir(F)
""")
    assert done.returncode == 0, done.stderr


def test_networks_are_quantised_by_torchs_names(start):
    done = start("""
import torch
from torch import nn
from torch.ao.quantization import QConfig, QuantStub, convert, fuse_modules, prepare
from torch.ao.quantization.observer import MinMaxObserver
from torch.quantization import get_default_qat_qconfig, prepare_qat

net = nn.Sequential(QuantStub(), nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
weight = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
net.qconfig = QConfig(activation=MinMaxObserver.with_args(dtype=torch.quint8), weight=weight)
net = fuse_modules(net, [["1", "2", "3"]])
prepared, x = prepare(net), torch.randn(2, 1, 8, 8)
prepared(x)
print((convert(prepared)(x) - net(x)).abs().max() < 0.05, weight().qscheme)
net.qconfig = get_default_qat_qconfig("x86")
print(prepare_qat(net.train())(x).shape)
""")
    assert done.stdout.splitlines() == ["tensor(True) torch.per_tensor_symmetric", "torch.Size([2, 4, 6, 6])"], (
        done.stderr
    )


def test_a_function_keeps_its_name_from_a_module_of_that_name(start):
    done = start(
        "import torch\n"
        "import torch.autograd.gradcheck\n"
        "from torch.autograd.gradcheck import gradcheck, gradgradcheck\n"
        "from torch.nn.attention.flex_attention import *\n"
        "from torch.nn.attention.bias import causal_lower_right\n"
        "x = torch.ones(2, dtype=torch.float64, requires_grad=True)\n"
        "print(torch.autograd.gradcheck is gradcheck, torch.autograd.gradcheck(torch.sin, x))\n"
        "x = torch.ones(1, 1, 2, 2)\n"
        "print(flex_attention(x, x, x, block_mask=create_block_mask(noop_mask, 1, 1, 2, 2)).sum().item())\n"
        "print(torch.nn.functional.scaled_dot_product_attention(x, x, x, causal_lower_right(2, 2)).sum().item())\n"
        "future = torch.jit.fork(torch.add, torch.ones(1), 1)\n"
        "print(future.wait().item(), torch.jit.wait(future).item(), isinstance(future, torch.futures.Future))\n"
    )
    assert done.stdout.split("\n")[:-1] == ["True True", "4.0", "4.0", "2.0 2.0 True"], done.stderr


def test_what_is_absent_is_absent_to_python(start):
    done = start("""
import torch
assert not hasattr(torch, "nope") and getattr(torch.nn, "Nope", None) is None
for text in ("import torch.nope", "from torch import nope", "import torch.nn.nope", "torch.nope", "torch.rfft"):
    try:
        exec(text)
    except (ImportError, AttributeError) as error:
        print(type(error).__name__, error)
""")
    lines = done.stdout.splitlines()
    way_out = "leave it out, or assign one of your own to this name"
    assert lines[:2] == [f"ModuleNotFoundError torch.nope is not in jit, which stands for torch here: {way_out}"] * 2
    assert lines[2].startswith("ModuleNotFoundError torch.nn.nope is not in jit")
    assert lines[3].startswith("AttributeError torch.nope is not in jit")
    assert lines[4].endswith("torch 2 has it no longer, either; use torch.fft.rfft")


def test_one_process_sends_itself_what_processes_send_each_other(start):
    done = start("""
import torch, torch.distributed as dist
from torch.distributed import nn as dist_nn
from torch.distributed.nn.functional import all_gather as joined
x = torch.tensor([1.0, 2.0], requires_grad=True)
assert dist.is_available() and not dist.is_initialized()
try:
    dist.get_world_size()
except RuntimeError as error:
    assert "init_process_group" in str(error)
else:
    raise AssertionError("nothing was begun")
dist.init_process_group("gloo", rank=0, world_size=1)
assert dist.get_world_size() == 1 and dist.is_initialized() and dist.new_group([0]).size() == 1
parts = [torch.empty(2) for _ in range(dist.get_world_size())]
assert dist.all_gather(parts, x, async_op=True).wait() and parts[0].tolist() == [1, 2]
assert dist.all_reduce(x, op=dist.ReduceOp.SUM) is None and x.tolist() == [1, 2]
for put in (dist.all_gather_into_tensor, dist.reduce_scatter_tensor):
    target = torch.zeros(2)
    put(target, x.detach())
    assert target.tolist() == [1, 2]
for put in (dist.all_gather_into_tensor, dist.all_to_all_single):
    target = torch.zeros(1, 2)
    put(target, x.detach() if put is dist.all_gather_into_tensor else x.detach()[None])
    assert target.tolist() == [[1, 2]]
for put in (dist.scatter, dist.reduce_scatter):
    target = torch.zeros(2)
    put(target, [x.detach()])
    assert target.tolist() == [1, 2]
gathered, told, to = [torch.zeros(2)], [None], [torch.zeros(2)]
dist.gather(x.detach(), gathered)
dist.all_to_all(to, gathered)
dist.all_gather_object(told, "me")
assert gathered[0].tolist() == to[0].tolist() == [1, 2] and told == ["me"]
sum(each.sum() for each in (dist_nn.all_reduce(x), *joined(x), dist_nn.broadcast(x, 0))).backward()
assert x.grad.tolist() == [3, 3]
y = dist_nn.all_reduce(x.detach())
y += 1
assert x.tolist() == [1, 2]
dist.destroy_process_group()
""")
    assert done.returncode == 0, done.stderr


def test_checkpoints_have_the_helpers_that_programs_write_theirs_with(start):
    done = start("""
import torch, warnings
from torch.utils.checkpoint import check_backward_validity, get_device_states, set_device_states
x = torch.ones(2)
assert not torch.cuda._initialized
set_device_states(*get_device_states(x, None, 3))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    check_backward_validity([x.requires_grad_(), 3])
    assert not told
    check_backward_validity([x.detach(), 3])
    assert "requires gradients" in str(told[0].message)
""")
    assert done.returncode == 0, done.stderr


def test_the_report_says_what_was_used_and_what_was_missing(start):
    text = "import torch\ntorch.ones(2)\nhasattr(torch, 'nope')\n@torch.jit.script\ndef f(x): return x\n"
    done = start(text, door=["--report"])
    assert done.stderr.splitlines()[:2] == [
        "as_torch: 3 names of torch were used, 1 were missing", "  missing: torch.nope (program.py:3)",
    ]  # fmt: skip
    assert "note: torch.jit.script leaves functions and modules as they are" in done.stderr
    assert start(text).stderr == ""
    assert start(text, door=["-v"]).stderr.startswith("as_torch: torch.jit.script leaves")


PROCESSES = """
import multiprocessing, subprocess, sys, torch
import torch.nn as nn

class Net(nn.Linear):
    pass

def work(queue, net):
    import torch
    queue.put((type(net).__name__, net(torch.ones(1, 2)).shape == (1, 3)))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, Net(2, 3)))
    process.start()
    print(queue.get())
    process.join()
    command = [sys.executable, "-c", "import torch; print(torch.ones(2).sum())"]
    print(subprocess.run(command, capture_output=True).stdout)
"""


PRINTED = """
import jit, torch
print(torch.float32, torch.ones(2, 3).shape, torch.strided, repr(torch.channels_last))
print(str(torch.ones(1).half().dtype) == "torch.float16", torch.zeros(1, dtype=torch.float64))
print(torch.ones(2, 2).max(0))
@jit.trace
def f(x):
    return x.to(torch.float64) + 1
for _ in range(3):
    f(torch.ones(2))
print("jit.float64" in str(f.graph), jit.ir.parse(str(f.graph)) is not None)
"""


def test_what_torch_has_prints_as_torchs(start):
    done = start(PRINTED)
    assert done.stdout.splitlines() == [
        "torch.float32 torch.Size([2, 3]) torch.strided torch.channels_last",
        "True tensor([0.], dtype=torch.float64)",
        "torch.return_types.max(",
        "values=tensor([1., 1.]),",
        "indices=tensor([0, 0]))",
        "True True",
    ], done.stderr


def test_other_processes_find_the_door(start):
    done = start(PROCESSES)
    assert done.stdout.splitlines() == ["('Net', True)", "b'tensor(2.)\\n'"], done.stderr


def test_a_door_that_comes_too_late_says_so(tmp_path):
    (tmp_path / "torch.py").write_text("")
    text = "import torch, jit.as_torch\ntry:\n    jit.as_torch.install()\nexcept jit.Error as error:\n    print(error)"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment)
    assert "torch itself is imported already" in done.stdout


def test_a_notebook_opens_the_door():
    text = "import jit.as_torch; jit.as_torch.load_ipython_extension(None); import torch; print(torch.Tensor.__name__)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "Tensor"


@pytest.mark.llvm
def test_tracing_gives_up_where_it_cannot(start):
    done = start(
        "import torch, torch.nn as nn\n"
        "class Net(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.from_numpy(x.detach().numpy() * 2)\n"
        "net = Net()\n"
        "for i in range(5): print(net(torch.ones(2)).sum().item())\n",
        door=["--trace", "--report"],
    )
    assert done.stdout.split() == ["4.0"] * 5
    assert "traced: Net, 0 of 5 calls from recordings; not traced any more:" in done.stderr


def test_the_report_says_why_no_call_came_from_a_recording(start):
    done = start(
        "import torch, torch.nn as nn\n"
        "seen = []\n"
        "class Net(nn.Module):\n"
        "    def forward(self, x):\n"
        "        seen.append([x.exp()])\n"
        "        return x + 1\n"
        "class Once(Net): pass\n"
        "net = Net()\n"
        "for i in range(6): net(torch.ones(2))\n"
        "Once()(torch.ones(2))\n"
        "print(len(seen))\n",
        door=["--trace", "--report"],
    )
    assert done.stdout.split() == ["7"]
    assert "traced: Net, 0 of 6 calls from recordings; it was not kept, because the call changed seen" in done.stderr
    assert done.stderr.rstrip().endswith("traced: Once, 0 of 1 calls from recordings")


def test_tensors_of_random_numbers_for_tests():
    from jit.as_torch.stand_ins.testing import make_tensor

    for dtype in (jit.bool, jit.uint8, jit.int64, jit.float16, jit.float32, jit.complex64):
        made = make_tensor((20, 20), dtype=dtype, device="cpu")
        assert made.dtype is dtype and made.shape == (20, 20)
        parts = jit.view_as_real(made) if dtype.is_complex else made.to(jit.float64)
        assert parts.min() >= -9 and parts.max() <= 9
    assert make_tensor(300, dtype=jit.int8, low=-1, high=1).unique().tolist() == [-1, 0]
    assert make_tensor(300, dtype=jit.int8, low=0, high=2, exclude_zero=True).unique().tolist() == [1]
    gapped = make_tensor(3, 4, dtype=jit.float32, noncontiguous=True, requires_grad=True)
    assert not gapped.is_contiguous() and gapped.requires_grad and gapped.is_leaf
    assert make_tensor(9, dtype=jit.float32, low=-1e39, high=1e39).isfinite().all()
    for wrong in ({"low": 3, "high": 3}, {"low": 5, "high": 2}, {"low": 300, "high": 400}, {"requires_grad": True}):
        with pytest.raises(ValueError, match="make_tensor"):
            make_tensor(2, dtype=jit.uint8, **wrong)
    with pytest.raises(ValueError, match="not both"):
        make_tensor(2, dtype=jit.float32, noncontiguous=True, memory_format=jit.channels_last)
