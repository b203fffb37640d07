"""Names and conventions of modules by which libraries and older checkpoints reach them."""

import copy
import pickle

import pytest

import jit
from jit import nn
from jit.nn.modules import module as torch_module
from jit.nn.parameter import UninitializedBuffer, UninitializedParameter
from jit.nn.utils import parametrize, prune


def test_load_hooks_are_called_with_or_without_the_module():
    layer, seen = nn.Linear(1, 1), []
    layer._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append(prefix))
    layer._register_load_state_dict_pre_hook(lambda module, *rest: seen.append(module), with_module=True)
    outer = nn.Sequential(layer)
    outer.load_state_dict(nn.Sequential(nn.Linear(1, 1)).state_dict())
    assert seen == ["0.", layer]


def test_what_a_state_dict_hook_returns_takes_its_place():
    layer = nn.Linear(1, 1)
    handle = layer._register_state_dict_hook(lambda module, state, prefix, metadata: {"only": metadata["version"]})
    assert layer.state_dict() == {"only": 1}
    assert handle.id in (handle.hooks_dict_ref() or ())
    handle.remove()
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_hooks_on_the_backward_of_every_module():
    seen = []
    with torch_module.register_module_backward_hook(lambda module, into, out: seen.append(type(module).__name__)):
        nn.Sequential(nn.Linear(2, 2), nn.ReLU())(jit.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen == ["ReLU", "Linear", "Sequential"]


class Packed(nn.Module):
    """Saves the double of its parameter under another name."""

    def __init__(self, value=1.0):
        super().__init__()
        self.weight = nn.Parameter(jit.tensor([value]))
        self.inner = nn.Linear(1, 1, bias=False)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        destination[f"{prefix}packed"] = self.weight.detach() * 2

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, faults):
        if f"{prefix}packed" not in state_dict:
            missing.append(f"{prefix}packed")
        else:
            self.weight.data.copy_(state_dict[f"{prefix}packed"] / 2)


def test_modules_may_save_and_load_in_their_own_way():
    source, target = nn.Sequential(Packed(5.0)), nn.Sequential(Packed())
    state = source.state_dict()
    assert sorted(state) == ["0.inner.weight", "0.packed"]
    assert str(target.load_state_dict(state)) == "<All keys matched successfully>"
    assert target[0].weight.item() == 5.0 and target[0].inner.weight.item() == source[0].inner.weight.item()
    del state["0.packed"]
    with pytest.raises(jit.UsageError, match=r"missing: 0\.packed"):
        target.load_state_dict(state)
    state["0.inner.other"] = jit.ones(1)
    assert target.load_state_dict(state, strict=False) == (["0.packed"], ["0.inner.other"])


def test_modules_may_add_to_the_usual_way():
    class Renaming(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *rest):
            if f"{prefix}kernel" in state_dict:
                state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}kernel")
            super()._load_from_state_dict(state_dict, prefix, *rest)

    layer = Renaming(2, 1)
    assert str(layer.load_state_dict({"kernel": jit.ones(1, 2), "bias": jit.zeros(1)})).startswith("<All keys")
    assert layer.weight.tolist() == [[1.0, 1.0]]
    for state, told in (
        ({"kernel": jit.ones(2, 2), "bias": jit.zeros(1)}, "sizes differ: weight"),
        ({"kernel": jit.ones(1, 2)}, "missing: bias"),
        ({"kernel": jit.ones(1, 2), "bias": jit.zeros(1), "more": jit.zeros(1)}, "not expected: more"),
    ):
        with pytest.raises(jit.UsageError, match=told):
            layer.load_state_dict(state)


@pytest.mark.parametrize("make", [nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm])
def test_norms_load_states_of_before_batches_were_counted(make):
    norm = make(2)
    norm.num_batches_tracked.add_(7)
    old = {name: value for name, value in make(2).state_dict().items() if name != "num_batches_tracked"}
    norm.load_state_dict(old)
    assert norm.num_batches_tracked.item() == 0
    new = nn.Sequential(make(2)).state_dict()
    del new["0.num_batches_tracked"]  # of the second version, which has it
    with pytest.raises(jit.UsageError, match=r"missing: 0\.num_batches_tracked"):
        nn.Sequential(norm).load_state_dict(new)


def test_parameters_and_buffers_without_sizes():
    parameter, buffer = UninitializedParameter(), UninitializedBuffer(dtype=jit.float64)
    module = nn.Module()
    module.register_parameter("weight", parameter)
    module.register_buffer("mean", buffer)
    assert module.state_dict()["weight"] is parameter and module.state_dict()["mean"] is buffer
    for tensor in (parameter, buffer):
        with pytest.raises(RuntimeError, match="no sizes yet"):
            _ = tensor.shape
        with pytest.raises(RuntimeError, match="no memory yet"):
            module.share_memory()
        again = pickle.loads(pickle.dumps(tensor))
        assert type(again) is type(copy.deepcopy(tensor)) is type(tensor) and again.dtype is tensor.dtype
    module.load_state_dict(copy.deepcopy(module).state_dict())
    assert type(module.weight) is UninitializedParameter
    module.weight.materialize(3)
    module.mean.materialize((2, 1))
    assert type(module.weight) is nn.Parameter and module.weight.shape == (3,)
    assert type(module.mean) is jit.Tensor and module.mean.shape == (2, 1) and module.mean.dtype is jit.float64
    with pytest.raises(jit.UsageError, match="without sizes yet in the state dict"):
        module.load_state_dict({"weight": UninitializedParameter(), "mean": module.mean})


def test_lazy_norms_have_statistics_without_sizes():
    norm = nn.LazyBatchNorm2d()
    assert isinstance(norm.running_mean, UninitializedBuffer) and norm.has_uninitialized_params()
    norm(jit.rand(2, 3, 4, 4))
    assert type(norm) is nn.BatchNorm2d and norm.running_mean.shape == norm.running_var.shape == (3,)


def test_parametrizations_are_transferred():
    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    source, target = nn.Linear(2, 2), nn.Linear(2, 2)
    parametrize.register_parametrization(source, "weight", Doubled())
    parametrize.register_parametrization(source, "bias", Doubled())
    parametrize.transfer_parametrizations_and_params(source, target, "weight")
    assert jit.equal(source.weight, target.weight) and not parametrize.is_parametrized(target, "bias")
    parametrize.transfer_parametrizations_and_params(source, target)
    assert jit.equal(source.bias, target.bias)
    with jit.no_grad():
        source.parametrizations.weight.original.zero_()
    assert not jit.equal(source.weight, target.weight)


def test_amounts_of_pruning():
    assert prune._compute_nparams_toprune(0.3, 10) == 3 and prune._compute_nparams_toprune(4, 10) == 4
    for amount, size in ((11, 10), (1, 0)):
        with pytest.raises(ValueError, match="smaller than"):
            prune._validate_pruning_amount(amount, size)


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d"])
def test_gradients_of_convolutions(name):
    dims = int(name[4])
    x = jit.randn(2, 4, *[6] * dims, dtype=jit.float64, requires_grad=True)
    w = jit.randn(6, 2, *[3] * dims, dtype=jit.float64, requires_grad=True)
    options = {"stride": 2, "padding": 1, "groups": 2}
    y = getattr(nn.functional, name)(x, w, **options)
    g = jit.randn_like(y).requires_grad_()
    by_x, by_w = jit.grad(y, [x, w], g)
    found = getattr(nn.grad, f"{name}_input")(x.shape, w, g, **options)
    assert jit.allclose(found, by_x) and found.requires_grad
    assert jit.allclose(getattr(nn.grad, f"{name}_weight")(x, w.shape, g, **options), by_w)
    with jit.no_grad():
        assert not getattr(nn.grad, f"{name}_input")(x.shape, w, g, **options).requires_grad


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_norms_across_maps_take_as_many_channels_on_both_sides(size):
    x = jit.randn(1, 6, 2, 2, dtype=jit.float64)
    reach = (size - 1) // 2
    squares = jit.stack([(x[:, max(0, c - reach) : c + reach + 1] ** 2).sum(1) for c in range(6)], 1)
    expected = x / (2.0 + 0.5 / size * squares) ** 0.75
    assert jit.allclose(nn.CrossMapLRN2d(size, 0.5, 0.75, 2.0)(x), expected)


def test_packed_sequences_are_cast():
    packed = nn.utils.rnn.pack_sequence([jit.tensor([1.0, 2.0]), jit.tensor([3.0])])
    for name, dtype in (("int", jit.int32), ("short", jit.int16), ("char", jit.int8), ("byte", jit.uint8)):
        cast = getattr(packed, name)()
        assert cast.data.dtype is dtype and cast.data.tolist() == [1, 3, 2]


def test_sizes_that_attention_asserts():
    attention = nn.MultiheadAttention(4, 2)
    with pytest.raises(AssertionError, match="2 or of 3 dims"):
        attention(jit.ones(4, 4, 4), jit.ones(3, 3), jit.ones(4, 4, 4))
