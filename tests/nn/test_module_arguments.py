"""What modules are given: state dicts of other kinds, bases behind `Module`, parameters without sizes, odd inputs."""

import warnings
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.nn import functional as F


@pytest.mark.parametrize("state", ["", 5, [("weight", jit.ones(2, 2))], None])
def test_a_state_dict_is_a_mapping(state):
    with pytest.raises(TypeError):
        nn.Linear(2, 2).load_state_dict(state)


@pytest.mark.parametrize("value", [((1.0, 1.0), (2.0, 2.0)), [[1.0, 1.0], [2.0, 2.0]], "text", None, 3.0])
@pytest.mark.parametrize("strict", [True, False])
def test_members_of_a_state_dict_are_arrays(value, strict):
    layer = nn.Linear(2, 2, bias=False)
    before = layer.weight.tolist()
    with pytest.raises(jit.Error, match="weight is no tensor"):
        layer.load_state_dict({"weight": value}, strict=strict)
    assert layer.weight.tolist() == before


def test_arrays_of_numpy_are_members_too():
    layer = nn.Linear(2, 2, bias=False)
    layer.load_state_dict({"weight": np.eye(2)})
    assert layer.weight.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_extra_state_that_somebody_waits_for_is_missed():
    class Taking(nn.Module):
        def set_extra_state(self, state):
            pytest.fail("called")

    with pytest.raises(jit.Error, match="missing: _extra_state"):
        Taking().load_state_dict({})
    assert Taking().load_state_dict({}, strict=False).missing_keys == ["_extra_state"]


def test_a_parameter_in_the_place_of_a_transient_buffer_is_state():
    module = nn.Module()
    module.register_buffer("held", jit.ones(2), persistent=False)
    module.held = None
    module.held = jit.zeros(2)
    assert not module.state_dict() and len(list(module.buffers())) == 1
    module.held = nn.Parameter(jit.ones(2))
    assert list(module.state_dict()) == ["held"] and not list(module.buffers())


class Mixin:
    def __init__(self, word="none"):
        self.word = word


class Behind(nn.Module, Mixin):
    pass


class Calling(nn.Module, Mixin):
    call_super_init = True


def test_the_class_behind_module_is_initialised_on_demand():
    assert not hasattr(Behind(), "word")
    assert Calling().word == "none" and Calling(word="given").word == "given"


@pytest.mark.parametrize("given", [(1,), ("word",)])
def test_module_takes_no_arguments_of_its_own(given):
    with pytest.raises(TypeError):
        nn.Module(*given)
    with pytest.raises(TypeError):
        Behind(word=given[0])


@pytest.mark.parametrize("given", [("cpu", True), (True,), (jit.float64, False), (jit.int64,)])
def test_modules_are_not_converted_to_flags_or_whole_numbers(given):
    with pytest.raises(TypeError):
        nn.Linear(1, 1).to(*given)


def test_what_is_applied_in_place_counts_as_a_write():
    layer = nn.Linear(2, 2)
    squared = layer.weight * layer.weight
    before = layer.weight._version
    layer._apply(lambda t: t.add_(1.0))
    assert layer.weight._version > before
    with pytest.raises(jit.Error):
        squared.sum().backward()


@pytest.mark.parametrize(
    "use",
    [
        nn.utils.weight_norm,
        nn.utils.parametrizations.weight_norm,
        nn.utils.spectral_norm,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.parametrizations.orthogonal,
        lambda layer: nn.utils.parametrize.register_parametrization(layer, "weight", nn.Identity()),
        lambda layer: nn.utils.parameters_to_vector(layer.parameters()),
    ],
)
def test_parameters_without_sizes_are_refused(use):
    with pytest.raises(ValueError, match="sizes"):
        use(nn.LazyLinear(3))
    ready = nn.LazyLinear(3)
    ready(jit.ones(1, 3))
    use(ready)


@pytest.mark.parametrize("weight_wants", [True, False])
@pytest.mark.parametrize("bias_wants", [True, False, None])
def test_fused_parameters_want_gradients_as_the_layer_does(weight_wants, bias_wants):
    layer, norm = nn.Linear(3, 3, bias=bias_wants is not None), nn.BatchNorm1d(3)
    layer.weight.requires_grad = weight_wants
    if bias_wants is not None:
        layer.bias.requires_grad = bias_wants
    statistics = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    weight, bias = nn.utils.fusion.fuse_linear_bn_weights(layer.weight, layer.bias, *statistics)
    assert weight.requires_grad is weight_wants and bias.requires_grad is bool(bias_wants)


@pytest.mark.parametrize("kind", [nn.MultiMarginLoss, nn.MultiLabelMarginLoss])
@pytest.mark.parametrize("sizes", [(0,), (4, 0)])
def test_margin_losses_need_classes(kind, sizes):
    target = sizes[:1] if kind is nn.MultiMarginLoss and len(sizes) == 2 else sizes
    with pytest.raises(jit.Error):
        kind()(jit.ones(sizes), jit.zeros(target, dtype=jit.int64))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", ["ReflectionPad", "ReplicationPad", "CircularPad"])
def test_padding_by_what_is_there_needs_something_there(name, rank):
    layer, space = getattr(nn, f"{name}{rank}d")(1), (4,) * rank
    for fine in ((3,), (0, 3)):
        assert layer(jit.ones(*fine, *space)).shape == (*fine, *(6,) * rank)
    for few_or_many in ((), (2, 3, 4)):
        with pytest.raises(jit.Error):
            layer(jit.ones(*few_or_many, *space))
    for sizes in ((3, *space[1:], 0), (2, 3, *space[1:], 0)):
        with pytest.raises(jit.Error):
            layer(jit.ones(*sizes))
    if name != "CircularPad":
        with pytest.raises(jit.Error, match="only a batch may be empty"):
            layer(jit.ones(3, 0, *space))


@pytest.mark.parametrize("dtype", [jit.float32, jit.float64, jit.bool])
@pytest.mark.parametrize("which", [0, 1])
def test_lengths_of_sequences_are_whole_numbers(dtype, which):
    log_probs, targets = jit.randn(5, 2, 4).log_softmax(2), jit.tensor([1, 2, 3])
    lengths = [jit.tensor([5, 5]), jit.tensor([2, 1])]
    assert F.ctc_loss(log_probs, targets, lengths[0].to(jit.int8), lengths[1].to(jit.int8)).isfinite()
    lengths[which] = lengths[which].to(dtype)
    with pytest.raises(jit.Error, match="whole numbers"):
        F.ctc_loss(log_probs, targets, lengths[0], lengths[1])
    with pytest.raises(jit.Error, match="whole numbers"):
        F.ctc_loss(log_probs, targets, (5.0, 5.0), (2, 1))


def test_affine_grids_of_one_place_warn():
    theta = jit.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    with pytest.warns(UserWarning, match="size 1"):
        F.affine_grid(theta, (1, 1, 2, 1), align_corners=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.affine_grid(theta, (1, 1, 2, 1), align_corners=False)
        F.affine_grid(theta, (1, 1, 2, 2), align_corners=True)


@pytest.mark.parametrize("index", [jit.tensor(1), np.int64(1), jit.tensor(-1)])
def test_lists_of_parameters_take_any_whole_number(index):
    listed = nn.ParameterList([jit.ones(1), jit.ones(2)])
    listed[index] = jit.zeros(3)
    assert len(listed) == 2 and listed[index] is listed[1] and listed[1].shape == (3,)
    with pytest.raises(TypeError):
        listed[1.0]


@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_factors_of_bags_have_the_sizes_of_the_indices(shape):
    indices = jit.zeros(shape, dtype=jit.int64)
    offsets = jit.tensor([0, 2]) if len(shape) == 1 else None
    bags = nn.EmbeddingBag(4, 2, mode="sum")
    assert bags(indices, offsets, per_sample_weights=jit.ones(shape)).shape == (2, 2)
    for other in ((4,), (6,), (3, 2)):
        with pytest.raises(ValueError):
            bags(indices, offsets, per_sample_weights=jit.ones(other))


def test_names_that_are_not_expected_may_hold_anything():
    layer = nn.Linear(2, 2)
    found = layer.load_state_dict({**layer.state_dict(), "nonsense": "text"}, strict=False)
    assert found.unexpected_keys == ["nonsense"] and not found.missing_keys


@pytest.mark.parametrize("norm", [nn.utils.parametrizations.spectral_norm, nn.utils.parametrizations.orthogonal])
def test_norms_come_behind_each_other(norm):
    layer = nn.Linear(3, 3)
    nn.utils.parametrizations.spectral_norm(norm(layer, "weight"), "weight")
    assert len(layer.parametrizations.weight) == 2
    assert layer(jit.ones(1, 3)).shape == (1, 3)
    with pytest.raises(jit.Error, match="no parameter"):
        norm(layer, "absent")


def test_packed_sequences_that_nothing_changes_stay():
    packed = nn.utils.rnn.pack_sequence([jit.ones(3, 2), jit.ones(2, 2)])
    for same in (packed.to("cpu"), packed.cpu(), packed.float(), packed.to(jit.float32)):
        assert same is packed
    assert packed.double() is not packed and packed.double().data.dtype is jit.float64


POOLS: dict[str, Any] = {
    "max": lambda rank, x, *given: getattr(F, f"max_pool{rank}d")(x, *given),
    "avg": lambda rank, x, *given: getattr(F, f"avg_pool{rank}d")(x, *given),
    "lp": lambda rank, x, *given: getattr(F, f"lp_pool{rank}d")(x, 2, *given[:2]),
    "fractional": lambda rank, x, size: getattr(F, f"fractional_max_pool{rank}d")(x, size, output_size=(2,) * rank),
}  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", POOLS)
def test_windows_have_a_number_for_each_dim(kind, rank):
    if kind == "fractional" and rank == 1:
        return
    x, pool = jit.ones(1, 2, *(6,) * rank), POOLS[kind]
    assert pool(rank, x, (2,) * rank).shape == pool(rank, x, 2).shape
    taken = {rank} if kind == "fractional" else {1, rank}
    for count in taken:
        assert pool(rank, x, (2,) * count).shape == pool(rank, x, 2).shape
    for count in {0, 1, 2, 3, 4} - taken:
        with pytest.raises(jit.Error):
            pool(rank, x, (2,) * count)
        if kind in ("max", "avg") and count:
            with pytest.raises(jit.Error):
                pool(rank, x, 2, (1,) * count)
        if kind in ("max", "avg"):
            with pytest.raises(jit.Error):
                pool(rank, x, 2, 1, (0,) * count)


@pytest.mark.parametrize(
    ("scores", "classes"),
    [((5,), (1,)), ((5,), ()), ((1, 5), (1,)), ((1, 5), ()), ((1, 1), ()), ((), ()), ((3, 5), (3,))],
)
def test_margin_losses_have_the_sizes_of_the_classes(scores, classes):
    loss = F.multi_margin_loss(jit.ones(scores), jit.zeros(classes, dtype=jit.int64), reduction="none")
    assert loss.shape == classes
