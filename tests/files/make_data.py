"""Makes the files in `data` with torch, which the tests do without: `python tests/files/make_data.py`."""

# mypy: ignore-errors
import argparse
import collections
import subprocess
from pathlib import Path

import numpy as np
import torch

DATA = Path(__file__).parent / "data"
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128")  # fmt: skip


class Call:
    """An object whose pickle runs a program."""

    def __reduce__(self):
        return subprocess.call, (["touch", "called"],)


def everything():
    x = torch.arange(6.0).reshape(2, 3)
    noted = torch.nn.Parameter(torch.ones(1))
    noted.note = "a note"
    return {
        "views": [x, x[1], x.t(), x.expand(2, 2, 3), x[0, 2], torch.empty(0, 3)],
        "dtypes": {name: torch.arange(3).to(getattr(torch, name)) for name in DTYPES},
        "parameters": [noted, torch.nn.Parameter(torch.zeros(1), False), torch.ones(1, requires_grad=True)],
        "marked": [torch.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]).conj().imag],
        "python": [
            torch.Size([2, 3]),
            torch.float16,
            torch.device("cuda", 1),
            {1, 2},
            1j,
            b"bytes",
            "text",
            None,
            2**70,
        ],
        "containers": [collections.OrderedDict(a=1), collections.Counter("aab"), (1, (2.5,)), slice(1, 2)],
        "numpy": [np.float64(2.5), np.arange(3, dtype=">i2"), np.array([["a"], ["bc"]])],
    }


def training():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    x = torch.randn(4, 2)
    net(x).sum().backward()
    optimizer.step()
    schedule.step()
    state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
    torch.save(state | {"epoch": 1}, DATA / "training.pt")
    net.eval()
    torch.save(net, DATA / "net.pt")
    torch.save([x, net(x).detach()], DATA / "net_results.pt")
    torch.jit.save(torch.jit.script(net[0]), DATA / "program.pt")


def main():
    DATA.mkdir(exist_ok=True)
    torch.save(everything(), DATA / "everything.pt")
    torch.save(everything(), DATA / "everything_old.pt", _use_new_zipfile_serialization=False)
    training()
    refused = {
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "sparse": torch.ones(2).to_sparse(),
        "float8": torch.ones(2).to(torch.float8_e4m3fn),
        "meta": torch.ones(2, device="meta"),
        "call": {"tensor": torch.ones(2), "call": Call()},
        "options": {"options": argparse.Namespace(width=3), "weight": torch.ones(2)},
    }
    for name, value in refused.items():
        torch.save(value, DATA / f"{name}.pt", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
