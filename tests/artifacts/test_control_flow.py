"""Control flow in artifacts: it is saved with both branches, and a file that contradicts itself is refused."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

import jit
from jit import nn


class Choice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        y = jit.cond(x.sum() > 0, lambda x: nn.functional.gelu(self.one(x)), lambda x: self.other(x), (x,))
        return jit.scan(lambda c, r: (c + r, c * r), jit.zeros(2), y)


def test_both_branches_are_saved_with_their_derivatives(tmp_path: Path) -> None:
    net = Choice()
    traced = jit.trace(net)
    inputs = [jit.rand(3, 2) * sign for sign in (1, -1, 1)]
    for x in inputs:
        sum(y.sum() for y in traced(x)).backward()
    traced.save(tmp_path / "choice.jit")
    loaded = jit.load(tmp_path / "choice.jit")
    for x in inputs:
        for one, other in zip(net(x), loaded(x), strict=True):
            assert jit.allclose(one, other, atol=1e-6)


def test_a_damaged_branch_is_refused(tmp_path: Path) -> None:
    traced = jit.trace(lambda x: jit.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.exp(), (x,)))
    for sign in (1, -1):
        traced(sign * jit.ones(2))
    traced.save(tmp_path / "a.jit")
    for before, after in (
        ("aten::sin", "aten::neg_"),
        ("then=", "them="),
        (" = aten::exp(%x)", " = prim::FusionGroup(%x)"),
    ):
        with zipfile.ZipFile(tmp_path / "a.jit") as source, zipfile.ZipFile(tmp_path / "b.jit", "w") as target:
            for name in source.namelist():
                target.writestr(name, source.read(name).replace(before.encode(), after.encode()))
        with pytest.raises(jit.Error):
            jit.load(tmp_path / "b.jit")(jit.ones(2))
