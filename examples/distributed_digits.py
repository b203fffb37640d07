"""The network of `digits.py` learns in several processes at once, and the first one exports it.

    python examples/distributed_digits.py                        # one process
    mpiexec -n 2 python examples/distributed_digits.py           # two, each with half of every batch
    jit launch -n 2 examples/distributed_digits.py               # the same

More than one need `pip install -e ".[dist,examples]"`. With `--checkpoint folder` the state is kept there after each
epoch, in parts, and a program that was ended goes on from it, with any number of processes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from digits import Net, accuracy, load_digits, run_onnx, spread

import jit
from jit import distributed
from jit.distributed.optim import ZeroRedundancyOptimizer
from jit.nn import functional as F
from jit.nn.parallel import DistributedDataParallel
from jit.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH = 64
"""The images of a step, in all processes together."""


class Training:
    """A network that all processes train, with its optimizer and its schedule."""

    def __init__(self) -> None:
        self.net = DistributedDataParallel(Net())
        self.optimizer = ZeroRedundancyOptimizer(self.net.parameters(), jit.optim.Adam, lr=0.01)
        self.schedule = jit.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.8)

    def step(self, images: Any, digits: Any) -> Any:
        """One step down the gradient, which is the average over all processes; returns the loss of this one."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(images), digits)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def state(self, epoch: int) -> dict[str, Any]:
        """All that a checkpoint holds; `load` fills it."""
        return {"net": self.net, "optimizer": self.optimizer, "schedule": self.schedule, "epoch": epoch}

    def resume(self, folder: Path | None) -> int:
        """The epoch to begin with: the one after the last that was kept in a folder."""
        if folder is None or not (folder / "index.json").exists():
            return 0
        state = self.state(0)
        distributed.checkpoint.load(state, checkpoint_id=folder)
        return int(state["epoch"]) + 1


def train(training: Training, data: TensorDataset, epochs: int, folder: Path | None) -> None:
    """Learn all images once in each epoch, every process its share of them."""
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH // sampler.num_replicas, sampler=sampler)
    step = jit.trace(training.step)
    for epoch in range(training.resume(folder), epochs):
        sampler.set_epoch(epoch)
        loss = jit.stack([step(*batch) for batch in loader]).mean()
        training.schedule.step()
        if distributed.is_initialized():
            distributed.all_reduce(loss, distributed.ReduceOp.AVG)
        if folder is not None:
            distributed.checkpoint.save(training.state(epoch), checkpoint_id=folder)
        if sampler.rank == 0:
            print(f"epoch {epoch + 1:2} of {epochs}: loss {float(loss):.4f}", flush=True)


def export(net: Net, images: jit.Tensor, digits: jit.Tensor, output: str) -> None:
    """Export the network, and compare what onnxruntime makes of it with what the network says."""
    net.eval()
    with jit.no_grad():
        logits = net(images).numpy()
    jit.export_onnx(
        net, (images[:8],), output, input_names=["images"], output_names=["logits"],
        dynamic_axes={"images": {0: "batch"}, "logits": {0: "batch"}},
    )  # fmt: skip
    from_onnx = run_onnx(output, images.numpy())
    right = accuracy(from_onnx, digits)
    print(f"accuracy on {len(digits)} images that were not learned from: {accuracy(logits, digits):.2%}")
    print(f"onnxruntime: accuracy {right:.2%}, logits differ by {spread(from_onnx, logits):.1e} of the largest")
    if right < 0.97 or spread(from_onnx, logits) > 1e-5:
        sys.exit("the network reads fewer than 97 % of the digits, so train it longer; or onnxruntime disagrees")


def main() -> None:
    """Train in all processes, export from the first."""
    options = arguments()
    if distributed.is_available():
        distributed.init_process_group("mpi")
    rank = distributed.get_rank() if distributed.is_initialized() else 0
    jit.manual_seed(rank)  # for dropout, which is another one in each process; parameters are those of the first
    images, digits, test_images, test_digits = load_digits()
    training = Training()
    train(training, TensorDataset(images, digits), options.epochs, options.checkpoint)
    if rank == 0:
        export(training.net.module, test_images, test_digits, options.output)
    if distributed.is_initialized():
        distributed.destroy_process_group()


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", default="digits.onnx", help="where the ONNX model goes [%(default)s]")
    parser.add_argument("--epochs", type=int, default=8, help="how often each image is learned [%(default)s]")
    parser.add_argument("--checkpoint", type=Path, help="the folder in which the state is kept after each epoch")
    return parser.parse_args()


if __name__ == "__main__":
    main()
