"""Programs that mean the same, each written in several ways: what tests and `benchmarks/spellings.py` compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import jit
import jit.nn.functional as F
from jit import nn

Program = Callable[..., Any]

ALIKE = {
    "names": "the same kernels and products, by their names, which say what is computed in them",
    "numbers": "as many kernels, and the same products: what is spelled in arithmetic names its kernels otherwise",
    "products": "the same products",
    "time": "nothing but what is computed: their times are for `benchmarks/spellings.py`",
}


@dataclass(frozen=True)
class Meaning:
    """One meaning, and the ways to write it."""

    name: str
    operands: Callable[[], tuple[Any, ...]]
    """What all spellings are called with."""
    spellings: Mapping[str, Program]
    gradients: bool = False
    """Whether the gradients by all floating operands are part of it."""
    alike: str = "names"
    """What plans of all spellings have in common: see `ALIKE`."""

    def programs(self) -> dict[str, Program]:
        """The spellings by name, with their gradients if these are part of the meaning."""
        return {k: with_gradients(f) if self.gradients else f for k, f in self.spellings.items()}


def with_gradients(program: Program) -> Program:
    """A function that returns what `program` does, and the gradients by all of its operands that want some."""

    def step(*operands: Any) -> tuple[Any, ...]:
        out = program(*operands)
        return out, *jit.grad(out, [x for x in operands if x.requires_grad], jit.cos(out.detach()))

    return step


def floats(*shapes: tuple[int, ...], gradients: bool = False) -> Callable[[], tuple[Any, ...]]:
    """A function that draws float32 tensors of some shapes, the same ones each time."""

    def draw() -> tuple[Any, ...]:
        rng = np.random.default_rng(0)
        drawn = [jit.from_numpy(0.1 * rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
        return tuple(x.requires_grad_() if gradients else x for x in drawn)

    return draw


def integers(high: int, *shape: int) -> Any:
    """Integers from 0 up to `high`, which is left out."""
    return jit.from_numpy(np.random.default_rng(1).integers(0, high, shape))


def forward(name: str, *shapes: tuple[int, ...], alike: str = "names", **spellings: Program) -> Meaning:
    """A meaning without gradients."""
    return Meaning(name, floats(*shapes), spellings, False, alike)


def backward(name: str, *shapes: tuple[int, ...], alike: str = "names", **spellings: Program) -> Meaning:
    """A meaning with gradients."""
    return Meaning(f"{name}_gradients", floats(*shapes, gradients=True), spellings, True, alike)


def both(name: str, *shapes: tuple[int, ...], alike: str = "names", **spellings: Program) -> list[Meaning]:
    """A meaning without gradients and the same one with them."""
    return [make(name, *shapes, alike=alike, **spellings) for make in (forward, backward)]


written_out = partial(both, alike="numbers")
"""`both`, for what one spelling takes from the library and another writes in arithmetic."""

# -- products ------------------------------------------------------------------------------------------------------

LINEAR: dict[str, Any] = {
    "matmul": lambda x, w, b: x @ w.T + b,
    "linear": lambda x, w, b: F.linear(x, w, b),
    "linear_and_bias": lambda x, w, b: b + F.linear(x, w),
    "addmm": lambda x, w, b: jit.addmm(b, x, w.t()),
    "mm": lambda x, w, b: jit.mm(x, w.transpose(0, 1)) + b[None],
    "einsum": lambda x, w, b: jit.einsum("nk,ok->no", x, w) + b,
    "tensordot": lambda x, w, b: jit.tensordot(x, w, dims=([1], [1])) + b,
    "turned": lambda x, w, b: (w @ x.T).T + b,
}


def _then_relu(linear: Program) -> Any:
    return lambda x, w, b: F.relu(linear(x, w, b))


PRODUCTS = [
    *both("linear", (32, 384), (256, 384), (256,), **LINEAR),
    *both("linear_relu", (32, 384), (256, 384), (256,), **{k: _then_relu(f) for k, f in LINEAR.items()}),
    *both(
        "linear_of_sequences", (4, 32, 128), (192, 128), (192,),
        linear=lambda x, w, b: F.linear(x, w, b),
        matmul=lambda x, w, b: x @ w.T + b,
        einsum=lambda x, w, b: jit.einsum("btc,oc->bto", x, w) + b,
        tensordot=lambda x, w, b: jit.tensordot(x, w.T, dims=1) + b,
    ),
    forward(
        "linear_of_rows", (4, 32, 128), (192, 128), (192,),
        rows=lambda x, w, b: jit.addmm(b, x.view(-1, 128), w.T).view(4, 32, 192),
        linear=lambda x, w, b: F.linear(x, w, b),
        flat=lambda x, w, b: F.linear(x.flatten(0, 1), w, b).unflatten(0, (4, 32)),
    ),
    forward(
        "scaled_addmm", (32, 128), (128, 256), (32, 256),
        addmm=lambda x, w, c: jit.addmm(c, x, w, beta=0.5, alpha=2.0),
        sum=lambda x, w, c: c * 0.5 + (x @ w) * 2.0,
    ),
    *both(
        "batched", (8, 48, 64), (8, 64, 48),
        bmm=lambda x, y: jit.bmm(x, y),
        matmul=lambda x, y: x @ y,
        einsum=lambda x, y: jit.einsum("bij,bjk->bik", x, y),
        no_addend=lambda x, y: jit.baddbmm(jit.zeros(1), x, y, beta=0),
    ),
    *both(
        "batched_and_addend", (8, 48, 64), (8, 64, 48), (8, 48, 48),
        baddbmm=lambda x, y, c: jit.baddbmm(c, x, y),
        bmm=lambda x, y, c: c + jit.bmm(x, y),
        matmul=lambda x, y, c: x @ y + c,
        einsum=lambda x, y, c: jit.einsum("bij,bjk->bik", x, y) + c,
    ),
    *both(
        "scores", (2, 4, 48, 32), (2, 4, 48, 32),
        matmul=lambda q, k: q @ k.transpose(-1, -2),
        turned=lambda q, k: q @ k.mT,
        einsum=lambda q, k: jit.einsum("bhid,bhjd->bhij", q, k),
        bmm=lambda q, k: jit.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2)).view(2, 4, 48, 48),
    ),
    forward(
        "vector", (256, 512), (512,),
        matmul=lambda a, v: a @ v,
        mv=lambda a, v: jit.mv(a, v),
        einsum=lambda a, v: jit.einsum("ij,j->i", a, v),
        column=lambda a, v: (a @ v[:, None]).squeeze(1),
        linear=lambda a, v: F.linear(a, v),
    ),
    *both(
        "dots_of_rows", (512, 64), (512, 64), alike="numbers",
        sum=lambda a, b: (a * b).sum(-1),
        einsum=lambda a, b: jit.einsum("nd,nd->n", a, b),
        vecdot=lambda a, b: jit.linalg.vecdot(a, b),
    ),
    *both(
        "outer", (256,), (256,),
        dims=lambda x, y: x[:, None] * y[None],
        unsqueeze=lambda x, y: x.unsqueeze(1) * y,
        outer=lambda x, y: jit.outer(x, y),
        view=lambda x, y: x.view(-1, 1) * y,
    ),
    forward(
        "outer_by_einsum", (256,), (256,),
        einsum=lambda x, y: jit.einsum("i,j->ij", x, y),
        dims=lambda x, y: x[:, None] * y[None],
    ),
]  # fmt: skip

# -- attention -----------------------------------------------------------------------------------------------------

ROOT = math.sqrt(32)
UNSEEN = jit.ones(48, 48, dtype=jit.bool).triu(1)


def _causal_scores(q: Any, k: Any, mask: Program) -> Any:
    return mask(q @ k.transpose(-2, -1) / ROOT).softmax(-1)


def _attention_of_heads(x: Any, w: Any, b: Any, u: Any, c: Any) -> Any:
    q, k, v = (y.view(4, 32, 4, 16).transpose(1, 2) for y in F.linear(x, w, b).chunk(3, -1))
    return F.linear((F.softmax(q @ k.mT / 4.0, -1) @ v).transpose(1, 2).reshape(4, 32, 64), u, c)


def _attention_by_einsum(x: Any, w: Any, b: Any, u: Any, c: Any) -> Any:
    q, k, v = (x @ w.T + b).view(4, 32, 3, 4, 16).unbind(2)
    weights = (jit.einsum("bihd,bjhd->bhij", q, k) / 4.0).softmax(-1)
    return jit.einsum("bhij,bjhd->bihd", weights, v).flatten(2) @ u.T + c


def _attention_of_library(x: Any, w: Any, b: Any, u: Any, c: Any) -> Any:
    q, k, v = F.linear(x, w, b).view(4, 32, 3, 4, 16).permute(2, 0, 3, 1, 4)
    return F.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), u, c)


ATTENTION = [
    *both(
        "attention", (2, 4, 48, 32), (2, 4, 48, 32), (2, 4, 48, 32),
        written=lambda q, k, v: F.softmax(q @ k.transpose(-2, -1) / ROOT, -1) @ v,
        matmul=lambda q, k, v: jit.matmul((jit.matmul(q, k.mT) / ROOT).softmax(3), v),
        einsum=lambda q, k, v: jit.einsum(
            "bhij,bhjd->bhid", (jit.einsum("bhid,bhjd->bhij", q, k) / ROOT).softmax(-1), v
        ),
        bmm=lambda q, k, v: jit.bmm(
            (jit.bmm(q.flatten(0, 1), k.flatten(0, 1).mT) / ROOT).softmax(-1), v.flatten(0, 1)
        ).view(2, 4, 48, 32),
    ),
    *written_out(
        "attention_of_library", (2, 4, 48, 32), (2, 4, 48, 32), (2, 4, 48, 32),
        library=lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        scaled_query=lambda q, k, v: ((q * (1 / ROOT)) @ k.mT).softmax(-1) @ v,
    ),
    *written_out(
        "causal_attention", (2, 4, 48, 32), (2, 4, 48, 32), (2, 4, 48, 32),
        masked_fill=lambda q, k, v: _causal_scores(q, k, lambda s: s.masked_fill(UNSEEN, -math.inf)) @ v,
        where=lambda q, k, v: _causal_scores(q, k, lambda s: jit.where(UNSEEN, -math.inf, s)) @ v,
    ),
    *both(
        "causal_attention_of_library", (2, 4, 48, 32), (2, 4, 48, 32), (2, 4, 48, 32), alike="products",
        library=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        masked_fill=lambda q, k, v: _causal_scores(q, k, lambda s: s.masked_fill(UNSEEN, -math.inf)) @ v,
    ),
    forward(
        "attention_of_heads", (4, 32, 64), (192, 64), (192,), (64, 64), (64,),
        written=_attention_of_heads, einsum=_attention_by_einsum,
    ),
    *both(
        "attention_of_heads_of_library", (4, 32, 64), (192, 64), (192,), (64, 64), (64,), alike="products",
        written=_attention_of_heads, einsum=_attention_by_einsum, library=_attention_of_library,
    ),
]  # fmt: skip

# -- norms and softmaxes -------------------------------------------------------------------------------------------


def _normed(x: Any, dims: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(dims, keepdim=True)) / jit.sqrt(x.var(dims, unbiased=False, keepdim=True) + eps)


def _normed_by_squares(x: Any, dims: Any, eps: float = 1e-5) -> Any:
    centered = x - x.mean(dims, keepdim=True)
    return centered * jit.rsqrt(centered.pow(2).mean(dims, keepdim=True) + eps)


def _by_channel(v: Any) -> Any:
    return v.view(1, -1, 1, 1)


NORMS = [
    *written_out(
        "softmax", (256, 512),
        function=lambda x: F.softmax(x, -1),
        method=lambda x: x.softmax(1),
        module=lambda x: nn.Softmax(dim=1)(x),
    ),
    forward(
        "softmax_written", (256, 512), alike="numbers",
        function=lambda x: F.softmax(x, -1),
        log=lambda x: F.log_softmax(x, -1).exp(),
        written=lambda x: (lambda e: e / e.sum(-1, keepdim=True))(jit.exp(x - x.max(-1, keepdim=True).values)),
        amax=lambda x: (lambda e: e / e.sum(-1, True))(jit.exp(x - x.amax(-1, True))),
    ),
    *written_out(
        "log_softmax", (256, 512),
        function=lambda x: F.log_softmax(x, -1),
        written=lambda x: x - x.logsumexp(-1, keepdim=True),
    ),
    *(
        make(
            "layer_norm", (256, 512), (512,), (512,), alike=alike,
            function=lambda x, w, b: F.layer_norm(x, (512,), w, b),
            var=lambda x, w, b: _normed(x, -1) * w + b,
            squares=lambda x, w, b: w * _normed_by_squares(x, -1) + b,
        )
        for make, alike in ((forward, "numbers"), (backward, "time"))
    ),
    *(
        make(
            "rms_norm", (256, 512), (512,), alike=alike,
            function=lambda x, w: F.rms_norm(x, (512,), w, 1e-6),
            pow=lambda x, w: x * jit.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
            square=lambda x, w: w * (x / jit.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)),
        )
        for make, alike in ((forward, "numbers"), (backward, "time"))
    ),
    forward(
        "group_norm", (4, 32, 16, 16), (32,), (32,), alike="numbers",
        function=lambda x, w, b: F.group_norm(x, 8, w, b),
        written=lambda x, w, b: (
            _normed(x.view(4, 8, 4, 16, 16), (2, 3, 4)).view(4, 32, 16, 16) * _by_channel(w) + _by_channel(b)
        ),
    ),
    forward(
        "batch_norm", (4, 32, 16, 16), (32,), (32,), alike="numbers",
        function=lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        written=lambda x, w, b: _normed(x, (0, 2, 3)) * _by_channel(w) + _by_channel(b),
    ),
    *written_out(
        "normalize", (256, 512),
        function=lambda x: F.normalize(x, dim=-1),
        norm=lambda x: x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12),
        written=lambda x: x / x.pow(2).sum(-1, keepdim=True).sqrt().clamp(min=1e-12),
    ),
    forward(
        "var", (256, 512), alike="numbers",
        var=lambda x: x.var(-1, unbiased=False),
        correction=lambda x: x.var(-1, correction=0),
        mean=lambda x: (x - x.mean(-1, keepdim=True)).pow(2).mean(-1),
        sum=lambda x: ((x - x.sum(-1, keepdim=True) / 512) ** 2).sum(-1) / 512,
    ),
    *both(
        "mean", (256, 512),
        mean=lambda x: x.mean(-1),
        sum=lambda x: x.sum(-1) / 512,
        alike="numbers",
    ),
]  # fmt: skip

# -- pointwise -----------------------------------------------------------------------------------------------------

POINTWISE = [
    *both(
        "square", (256, 512),
        product=lambda x: x * x,
        pow=lambda x: x.pow(2),
        operator=lambda x: x**2,
        square=lambda x: x.square(),
        function=lambda x: jit.pow(x, 2.0),
        alike="numbers",
    ),
    *both(
        "rsqrt", (256, 512),
        rsqrt=lambda x: jit.rsqrt(x.abs() + 1),
        reciprocal=lambda x: 1 / jit.sqrt(x.abs() + 1),
        pow=lambda x: (x.abs() + 1) ** -0.5,
        alike="numbers",
    ),
    *written_out(
        "silu", (256, 512),
        function=lambda x: F.silu(x),
        sigmoid=lambda x: x * jit.sigmoid(x),
        exp=lambda x: x / (1 + jit.exp(-x)),
    ),
    *written_out(
        "gelu", (256, 512),
        function=lambda x: F.gelu(x),
        written=lambda x: 0.5 * x * (1 + jit.erf(x / math.sqrt(2))),
    ),
    *written_out(
        "gelu_tanh", (256, 512),
        function=lambda x: F.gelu(x, approximate="tanh"),
        written=lambda x: 0.5 * x * (1 + jit.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    *written_out(
        "mish", (256, 512),
        function=lambda x: F.mish(x),
        written=lambda x: x * jit.tanh(F.softplus(x)),
    ),
    *written_out(
        "hardswish", (256, 512),
        function=lambda x: F.hardswish(x),
        relu6=lambda x: x * F.relu6(x + 3) / 6,
        clamp=lambda x: x * jit.clamp(x + 3, 0, 6) / 6,
    ),
    *written_out(
        "softplus", (256, 512),
        function=lambda x: F.softplus(x),
        written=lambda x: jit.where(x > 20, x, jit.log1p(jit.exp(x))),
    ),
    *both(
        "relu", (256, 512),
        function=lambda x: F.relu(x),
        clamp=lambda x: x.clamp(min=0),
        clamp_min=lambda x: x.clamp_min(0),
        maximum=lambda x: jit.maximum(x, jit.zeros(1)),
        where=lambda x: jit.where(x > 0, x, 0.0),
        alike="numbers",
    ),
    *both(
        "clamp", (256, 512),
        clamp=lambda x: x.clamp(-1, 1),
        two=lambda x: x.clamp(min=-1).clamp(max=1),
        hardtanh=lambda x: F.hardtanh(x),
        alike="numbers",
    ),
    *both(
        "masked", (256, 512),
        fill=lambda x: x.masked_fill(x > 0.5, -1e9),
        where=lambda x: jit.where(x > 0.5, -1e9, x),
        alike="numbers",
    ),
    *both(
        "residual", (256, 512),
        before=lambda x: x + jit.tanh(x),
        after=lambda x: jit.tanh(x) + x,
        function=lambda x: jit.add(x, x.tanh()),
        method=lambda x: x.tanh().add(x),
        alike="numbers",
    ),
    forward(
        "divided", (256, 512), alike="numbers",
        division=lambda x: x / 4,
        product=lambda x: x * 0.25,
        reciprocal=lambda x: (1 / 4) * x,
        function=lambda x: jit.div(x, 4.0),
    ),
    *both(
        "lerp", (256, 512), (256, 512), (256, 512),
        lerp=lambda a, b, t: jit.lerp(a, b, t),
        written=lambda a, b, t: a + t * (b - a),
        addcmul=lambda a, b, t: jit.addcmul(a, t, b - a),
        alike="numbers",
    ),
]  # fmt: skip

# -- views ---------------------------------------------------------------------------------------------------------

VIEWS = [
    *both(
        "new_dims", (256, 64), (256, 8),
        index=lambda x, w: x[..., None] * w[:, None],
        unsqueeze=lambda x, w: x.unsqueeze(-1) * w.unsqueeze(1),
        view=lambda x, w: x.view(256, 64, 1) * w.view(256, 1, 8),
        reshape=lambda x, w: x.reshape(256, 64, 1) * w.reshape(256, 1, -1),
        einsum=lambda x, w: jit.einsum("ni,nj->nij", x, w),
    ),
    *both(
        "halves", (256, 512),
        chunk=lambda x: (lambda a, b: a * jit.sigmoid(b))(*x.chunk(2, -1)),
        split=lambda x: (lambda a, b: a * jit.sigmoid(b))(*x.split(256, 1)),
        slices=lambda x: x[:, :256] * jit.sigmoid(x[:, 256:]),
        narrow=lambda x: x.narrow(1, 0, 256) * jit.sigmoid(x.narrow(1, 256, 256)),
        unflatten=lambda x: (lambda y: y[:, 0] * jit.sigmoid(y[:, 1]))(x.view(256, 2, 256)),
        glu=lambda x: F.glu(x, -1),
        alike="numbers",
    ),
    forward(
        "joined", (128, 256), (128, 256), alike="numbers",
        cat=lambda x, y: jit.cat([x.relu(), y.tanh()], 1),
        stack=lambda x, y: jit.stack([x.relu(), y.tanh()], 1).view(128, 512),
        flatten=lambda x, y: jit.stack([x.relu(), y.tanh()], 1).flatten(1),
        unsqueezed=lambda x, y: jit.cat([x.relu()[:, None], y.tanh()[:, None]], 1).reshape(128, -1),
        hstack=lambda x, y: jit.hstack([x.relu(), y.tanh()]),
    ),
    *both(
        "joined_rows", (128, 256), (128, 256), alike="numbers",
        cat=lambda x, y: jit.cat([x.relu(), y.tanh()]),
        vstack=lambda x, y: jit.vstack([x.relu(), y.tanh()]),
        concat=lambda x, y: jit.concat([x.relu(), y.tanh()], dim=-2),
    ),
    forward(
        "turned_by_einsum", (64, 128, 32), (128, 32),
        permute=lambda x, w: (x * w).permute(0, 2, 1).contiguous(),
        einsum=lambda x, w: jit.einsum("bij->bji", x * w).contiguous(),
    ),
    *both(
        "turned", (64, 128, 32), (128, 32),
        permute=lambda x, w: (x * w).permute(0, 2, 1).contiguous(),
        transpose=lambda x, w: (x * w).transpose(1, 2).contiguous(),
        property=lambda x, w: (x * w).mT.contiguous(),
        swapaxes=lambda x, w: jit.swapaxes(x * w, -1, -2).contiguous(),
        movedim=lambda x, w: jit.movedim(x * w, 2, 1).contiguous(),
    ),
    *both(
        "flattened", (32, 16, 24), (64, 384), (64,),
        flatten=lambda x, w, b: F.linear(x.flatten(1), w, b),
        view=lambda x, w, b: F.linear(x.view(x.size(0), -1), w, b),
        reshape=lambda x, w, b: F.linear(x.reshape(32, 384), w, b),
        product=lambda x, w, b: x.reshape(x.shape[0], -1) @ w.t() + b,
        einsum=lambda x, w, b: jit.einsum("nij,oij->no", x, w.view(64, 16, 24)) + b,
    ),
    *both(
        "repeated", (256, 1), (256, 128), alike="numbers",
        broadcast=lambda x, y: x * y,
        expand=lambda x, y: x.expand(256, 128) * y,
        expand_as=lambda x, y: x.expand_as(y) * y,
        broadcast_to=lambda x, y: jit.broadcast_to(x, (256, 128)) * y,
        repeat=lambda x, y: x.repeat(1, 128) * y,
        tile=lambda x, y: jit.tile(x, (1, 128)) * y,
    ),
    *both(
        "heads", (4, 32, 64), (4, 4, 32, 16),
        view=lambda x, y: x.view(4, 32, 4, 16).transpose(1, 2) * y,
        permute=lambda x, y: x.reshape(4, 32, 4, 16).permute(0, 2, 1, 3) * y,
        unflatten=lambda x, y: x.unflatten(-1, (4, 16)).swapaxes(1, 2) * y,
        alike="numbers",
    ),
]  # fmt: skip

# -- images --------------------------------------------------------------------------------------------------------

IMAGES = [
    *both(
        "conv_bias", (2, 16, 24, 24), (32, 16, 3, 3), (32,),
        argument=lambda x, w, b: F.conv2d(x, w, b),
        view=lambda x, w, b: F.conv2d(x, w) + b.view(1, -1, 1, 1),
        index=lambda x, w, b: b[None, :, None, None] + F.conv2d(x, w),
        reshape=lambda x, w, b: F.conv2d(x, w) + b.reshape(32, 1, 1),
    ),
    *both(
        "conv_padding", (2, 16, 24, 24), (32, 16, 3, 3),
        argument=lambda x, w: F.conv2d(x, w, padding=1),
        same=lambda x, w: F.conv2d(x, w, padding="same"),
        pad=lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1)), w),
    ),
    forward(
        "average_of_images_kept", (4, 32, 16, 16), (10, 32), (10,),
        kept=lambda x, w, b: F.linear(x.mean([-1, -2], keepdim=True)[:, :, 0, 0], w, b),
        squeezed=lambda x, w, b: F.linear(F.adaptive_avg_pool2d(x, 1).squeeze(), w, b),
    ),
    *both(
        "average_of_images", (4, 32, 16, 16), (10, 32), (10,), alike="numbers",
        pool=lambda x, w, b: F.linear(F.adaptive_avg_pool2d(x, 1).flatten(1), w, b),
        mean=lambda x, w, b: F.linear(x.mean((2, 3)), w, b),
        flat=lambda x, w, b: F.linear(x.flatten(2).mean(-1), w, b),
    ),
]  # fmt: skip

# -- tables and losses ---------------------------------------------------------------------------------------------

CHOSEN = integers(64, 512)
CLASSES = integers(512, 256)
HALVES = integers(3, 256, 512).float() / 2


def _picked(logs: Any) -> Any:
    return -logs.gather(1, CLASSES[:, None]).squeeze(1).mean()


def _squares(difference: Any) -> Any:
    return (difference**2).mean()


LOSSES = [
    forward(
        "embedding", (64, 128),
        function=lambda w: F.embedding(CHOSEN, w).tanh(),
        index_select=lambda w: w.index_select(0, CHOSEN).tanh(),
    ),
    forward(
        "rows_from_either_end", (64, 128), alike="time",
        function=lambda w: F.embedding(CHOSEN, w).tanh(),
        index=lambda w: w[CHOSEN].tanh(),
        one_hot=lambda w: (F.one_hot(CHOSEN, 64).float() @ w).tanh(),
    ),
    *written_out(
        "cross_entropy", (256, 512),
        function=lambda x: F.cross_entropy(x, CLASSES),
        nll=lambda x: F.nll_loss(F.log_softmax(x, 1), CLASSES),
        module=lambda x: nn.CrossEntropyLoss()(x, CLASSES),
    ),
    forward(
        "cross_entropy_written", (256, 512), alike="numbers",
        gather=lambda x: _picked(F.log_softmax(x, -1)),
        logsumexp=lambda x: _picked(x - x.logsumexp(1, keepdim=True)),
    ),
    forward(
        "cross_entropy_of_library", (256, 512), alike="time",
        function=lambda x: F.cross_entropy(x, CLASSES),
        gather=lambda x: _picked(F.log_softmax(x, -1)),
    ),
    *written_out(
        "mse", (256, 512), (256, 512),
        function=lambda x, y: F.mse_loss(x, y),
        pow=lambda x, y: (x - y).pow(2).mean(),
        operator=lambda x, y: _squares(x - y),
        sum=lambda x, y: ((x - y) * (x - y)).sum() / x.numel(),
    ),
    *written_out(
        "bce", (256, 512),
        function=lambda x: F.binary_cross_entropy_with_logits(x, HALVES),
        written=lambda x: (F.relu(x) - x * HALVES + jit.log1p(jit.exp(-x.abs()))).mean(),
        softplus=lambda x: (F.softplus(x) - x * HALVES).mean(),
    ),
]  # fmt: skip

# -- recurrences ---------------------------------------------------------------------------------------------------

STEPS, ROWS, INPUTS, HIDDEN = 3, 16, 32, 64


def _steps(cell: Program, x: Any, state: tuple[Any, ...]) -> Any:
    """The first of the state after each step of a loop."""
    found = []
    for step in x:
        state = cell(step, *state)
        found.append(state[0])
    return jit.stack(found)


def _zeros(count: int) -> tuple[Any, ...]:
    return tuple(jit.zeros(ROWS, HIDDEN) for _ in range(count))


def _lstm_library(x: Any, *weights: Any) -> Any:
    state = jit.zeros(1, ROWS, HIDDEN), jit.zeros(1, ROWS, HIDDEN)
    return jit.lstm(x, state, list(weights), True, 1, 0.0, False, False, False)[0]


def _gru_library(x: Any, *weights: Any) -> Any:
    return jit.gru(x, jit.zeros(1, ROWS, HIDDEN), list(weights), True, 1, 0.0, False, False, False)[0]


def _rnn_library(x: Any, *weights: Any) -> Any:
    return jit.rnn_tanh(x, jit.zeros(1, ROWS, HIDDEN), list(weights), True, 1, 0.0, False, False, False)[0]


def _lstm_cells(x: Any, *weights: Any) -> Any:
    return _steps(lambda s, h, c: jit.lstm_cell(s, (h, c), *weights), x, _zeros(2))


def _lstm_step(gates: Any, c: Any) -> tuple[Any, Any]:
    i, f, g, o = gates
    c = jit.sigmoid(f) * c + jit.sigmoid(i) * jit.tanh(g)
    return jit.sigmoid(o) * jit.tanh(c), c


def _lstm_two_linears(x: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    def cell(s: Any, h: Any, c: Any) -> tuple[Any, Any]:
        return _lstm_step((F.linear(s, w, b) + F.linear(h, u, d)).chunk(4, 1), c)

    return _steps(cell, x, _zeros(2))


def _lstm_products(x: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    def cell(s: Any, h: Any, c: Any) -> tuple[Any, Any]:
        return _lstm_step((s @ w.t() + h @ u.t() + b + d).chunk(4, 1), c)

    return _steps(cell, x, _zeros(2))


def _lstm_one_linear(x: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    weight, bias = jit.cat([w, u], 1), b + d

    def cell(s: Any, h: Any, c: Any) -> tuple[Any, Any]:
        return _lstm_step(F.linear(jit.cat([s, h], 1), weight, bias).chunk(4, 1), c)

    return _steps(cell, x, _zeros(2))


def _lstm_four_linears(x: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    parts = [*zip(w.chunk(4), u.chunk(4), b.chunk(4), d.chunk(4))]

    def cell(s: Any, h: Any, c: Any) -> tuple[Any, Any]:
        return _lstm_step((F.linear(s, wp, bp) + F.linear(h, up, dp) for wp, up, bp, dp in parts), c)

    return _steps(cell, x, _zeros(2))


def _gru_cells(x: Any, *weights: Any) -> Any:
    return _steps(lambda s, h: (jit.gru_cell(s, h, *weights),), x, _zeros(1))


def _gru_linears(x: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    def cell(s: Any, h: Any) -> tuple[Any]:
        (ri, zi, ni), (rh, zh, nh) = F.linear(s, w, b).chunk(3, 1), F.linear(h, u, d).chunk(3, 1)
        z = jit.sigmoid(zi + zh)
        return ((1 - z) * jit.tanh(ni + jit.sigmoid(ri + rh) * nh) + z * h,)

    return _steps(cell, x, _zeros(1))


def _rnn_cells(x: Any, *weights: Any) -> Any:
    return _steps(lambda s, h: (jit.rnn_tanh_cell(s, h, *weights),), x, _zeros(1))


def _rnn_linears(x: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    return _steps(lambda s, h: (jit.tanh(F.linear(s, w, b) + F.linear(h, u, d)),), x, _zeros(1))


def _rnn_products(x: Any, w: Any, u: Any, b: Any, d: Any) -> Any:
    return _steps(lambda s, h: (jit.tanh(s @ w.T + b + h @ u.T + d),), x, _zeros(1))


def _weights(gates: int) -> list[tuple[int, ...]]:
    wide = gates * HIDDEN
    return [(STEPS, ROWS, INPUTS), (wide, INPUTS), (wide, HIDDEN), (wide,), (wide,)]


RECURRENCES = [
    *both(
        "lstm", *_weights(4), alike="products",
        layer=_lstm_library, cells=_lstm_cells, linears=_lstm_two_linears, products=_lstm_products,
    ),
    *both(
        "lstm_of_parts", *_weights(4), alike="time",
        layer=_lstm_library, one=_lstm_one_linear, four=_lstm_four_linears,
    ),
    *both("gru", *_weights(3), alike="products", layer=_gru_library, cells=_gru_cells, linears=_gru_linears),
    *both(
        "rnn", *_weights(1), alike="products",
        layer=_rnn_library, cells=_rnn_cells, linears=_rnn_linears, products=_rnn_products,
    ),
]  # fmt: skip

MEANINGS = [*PRODUCTS, *ATTENTION, *NORMS, *POINTWISE, *VIEWS, *IMAGES, *LOSSES, *RECURRENCES]
