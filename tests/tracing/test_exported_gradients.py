"""Exported gradients of batches of any size: derivatives compute with the sizes of what they differentiate."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest

import jit
from jit import nn
from tests.tolerances import assert_close


class Attention(nn.Module):
    """Each row attends to the others."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x, need_weights=False)[0]


class FirstToken(nn.Module):
    """One row more than it is given, and the first of them read."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.head = nn.Parameter(jit.randn(1, 1, 8)), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.head(jit.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)[:, 0])


NETWORKS = {
    "rows": lambda: nn.Linear(8, 3),
    "rows of rows": lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2)),
    "flattened": lambda: nn.Sequential(nn.Flatten(), nn.Linear(40, 3)),
    "means": lambda: nn.Sequential(nn.LayerNorm(8), nn.AvgPool1d(3), nn.Linear(2, 3)),
    "groups": lambda: nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 2, groups=4)),
    "pooled images": lambda: nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv2d(1, 4, 2), nn.AvgPool2d(2)),
    "adapted images": lambda: nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv2d(1, 4, 2), nn.AdaptiveAvgPool2d(2)),
    "attention": Attention,
    "token": FirstToken,
}


@pytest.mark.parametrize("of_input", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_any_batch(name, of_input, tmp_path):
    jit.manual_seed(0)
    network, batch = NETWORKS[name](), {0: ("batch", 2, 64)}
    report = jit.export_onnx(
        network, (jit.randn(4, 5, 8, requires_grad=of_input),), tmp_path / "gradients.onnx", stage=1,
        input_names=["given", "slope"], dynamic_axes={"given": batch, "slope": batch},
    )  # fmt: skip
    assert report.verified is not None
    assert [list(each["given"]) for each in report.verified.sizes] == [[4, 5, 8], [5, 5, 8]]
    session = onnxruntime.InferenceSession(tmp_path / "gradients.onnx", providers=["CPUExecutionProvider"])
    for size in (2, 4, 7):
        x = jit.randn(size, 5, 8, requires_grad=of_input)
        y = network(x)
        slope = jit.randn(*y.shape)
        wanted = [x, *network.parameters()] if of_input else list(network.parameters())
        found = session.run(None, {"given": x.detach().numpy(), "slope": slope.numpy()})
        for actual, expected in zip(found, jit.grad(y, wanted, slope), strict=True):
            assert_close(actual, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_sizes_of_gradients_are_verified_only_where_they_vary():
    report = jit.export_onnx(nn.Linear(8, 3), (jit.randn(4, 5, 8),), stage=1)
    assert report.verified is not None and len(report.verified.sizes) == 1
    assert "Shape" not in report.op_histogram  # nothing has to be computed from sizes
