"""Layers that take their sizes from the first input, see Note [Lazy layers]."""

import copy
import pickle

import pytest

import jit
from jit import nn

CASES = {
    "linear": (lambda: nn.LazyLinear(4), nn.Linear, (2, 3), (4, 3)),
    "no bias": (lambda: nn.LazyLinear(4, bias=False), nn.Linear, (2, 3), (4, 3)),
    "conv1d": (lambda: nn.LazyConv1d(4, 3), nn.Conv1d, (2, 3, 8), (4, 3, 3)),
    "conv2d": (lambda: nn.LazyConv2d(4, 3, groups=2, padding=1), nn.Conv2d, (2, 6, 5, 5), (4, 3, 3, 3)),
    "conv3d": (lambda: nn.LazyConv3d(4, 1, bias=False), nn.Conv3d, (3, 2, 2, 2), (4, 3, 1, 1, 1)),
    "transposed": (lambda: nn.LazyConvTranspose2d(4, 3, 2, 1, 1, 2), nn.ConvTranspose2d, (2, 6, 5, 5), (6, 2, 3, 3)),
    "batch norm": (nn.LazyBatchNorm1d, nn.BatchNorm1d, (2, 3), (3,)),
    "no statistics": (lambda: nn.LazyBatchNorm2d(track_running_stats=False), nn.BatchNorm2d, (2, 3, 4, 4), (3,)),
    "instance norm": (nn.LazyInstanceNorm1d, nn.InstanceNorm1d, (3, 4), (3,)),
}


@pytest.mark.parametrize(("make", "kind", "sizes", "weight"), CASES.values(), ids=CASES)
def test_the_first_input_gives_the_sizes(make, kind, sizes, weight):
    layer, x = make(), jit.randn(sizes)
    untouched, loaded = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    layer(x)
    assert type(layer) is kind
    assert tuple(layer.weight.shape) == weight
    assert jit.isfinite(layer.weight).all()
    loaded.load_state_dict(layer.state_dict())
    assert jit.equal(loaded.eval()(x), layer.eval()(x))
    assert type(loaded) is kind
    assert type(untouched) is not kind


def test_without_affine_there_are_buffers_alone():
    layer = nn.LazyBatchNorm2d(affine=False)
    layer(jit.randn(2, 3, 4, 4))
    assert [tuple(b.shape) for b in layer.buffers()] == [(3,), (3,), ()]
    assert list(layer.parameters()) == []


def test_sizes_that_are_not_known_are_told():
    with pytest.raises(jit.UsageError, match="call its module once"):
        _ = nn.LazyLinear(2).weight.shape
    with pytest.raises(jit.UsageError, match="once before it is traced"):
        jit.trace(nn.LazyLinear(3))(jit.ones(2, 2))
    with pytest.raises(jit.UsageError, match="3 channels do not divide into 2 groups"):
        nn.LazyConv1d(4, 1, groups=2)(jit.ones(1, 3, 4))


@pytest.mark.parametrize("make", [nn.UninitializedParameter, nn.UninitializedBuffer])
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t + t, lambda t: jit.add(1, t), lambda t: jit.cat([t, jit.ones(1)]), jit.empty_like, jit.rand_like,
        lambda t: t.sum(), lambda t: t.clone(), lambda t: t.detach(), lambda t: t[:1], lambda t: t.numel(),
        lambda t: t.new_zeros(2), lambda t: jit.ones(0).add_(t), lambda t: t.zero_(), lambda t: t.tolist(),
    ],
)  # fmt: skip
def test_nothing_is_computed_without_sizes(make, use):
    with pytest.raises(jit.UsageError, match=r"no sizes yet|requires grad cannot be seen as"):
        use(make())


@pytest.mark.parametrize("make", [nn.UninitializedParameter, nn.UninitializedBuffer])
@pytest.mark.parametrize("move", [lambda t: t.to(jit.float64), lambda t: t.type(jit.float64)])
def test_without_sizes_there_is_a_dtype(make, move):
    moved = move(make())
    assert type(moved) is make and moved.dtype is jit.float64 and str(moved.device) == "cpu"
    assert copy.deepcopy(moved).dtype is pickle.loads(pickle.dumps(moved)).dtype is jit.float64
    moved.materialize((2, 3))
    assert moved.shape == (2, 3) and moved.dtype is jit.float64 and type(moved) is make.cls_to_become


def test_lazy_layers_are_made_and_moved_silently(recwarn):
    layer = nn.Sequential(nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d()).to("cpu", memory_format="channels_last").half()
    assert {t.dtype for t in (*layer.parameters(), layer[1].running_mean)} == {jit.float16}
    assert layer.float()(jit.ones(1, 3, 4, 4)).shape == (1, 2, 2, 2)
    assert not [str(w.message) for w in recwarn]


@pytest.mark.parametrize("kind", [jit.optim.SGD, jit.optim.Adagrad, jit.optim.AdamW])
def test_optimizers_take_parameters_before_they_have_sizes(kind):
    layer = nn.LazyLinear(2)
    optimizer = kind(layer.parameters(), lr=0.5)
    layer(jit.ones(3, 4)).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()
    assert (layer.weight < before).all()


def test_within_a_network_in_another_dtype():
    net = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2)).double()
    assert net(jit.ones(4, 5, dtype=jit.float64)).dtype is jit.float64
    assert [tuple(p.shape) for p in net.parameters()] == [(3, 5), (3,), (2, 3), (2,)]
