"""Module: attributes, names, state, modes, hooks, scopes."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from tests.tolerances import assert_close


def gradient(tensor: Any) -> Any:
    """The gradient that has arrived at a leaf."""
    assert tensor.grad is not None
    return tensor.grad


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.inner = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))

    def forward(self, x):
        return self.inner(self.norm(self.fc1(x)))


class Scaled(nn.Module):
    """A module with one of each: parameter, buffer, transient buffer, plain attribute."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(jit.tensor([2.0]))
        self.register_buffer("offset", jit.tensor([1.0]))
        self.register_buffer("cache", jit.tensor([0.0]), persistent=False)
        self.power = 2

    def forward(self, x, extra=0.0):
        return x**self.power * self.scale + self.offset + extra


STATE_NAMES = [
    *("fc1.weight", "fc1.bias", "norm.weight", "norm.bias"),
    *("norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "inner.1.weight"),
]


# -- names -----------------------------------------------------------------------------------------------------------


def test_names_are_those_of_pytorch():
    net = Net()
    assert list(net.state_dict()) == STATE_NAMES
    assert [n for n, _ in net.named_parameters()] == [n for n in STATE_NAMES if "running" not in n and "num_" not in n]
    assert [n for n, _ in net.named_modules()] == ["", "fc1", "norm", "inner", "inner.0", "inner.1"]
    assert [n for n, _ in net.named_children()] == ["fc1", "norm", "inner"]
    assert len(list(net.buffers())) == 3


def test_a_shared_parameter_is_listed_once_and_saved_under_both_names():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    assert [n for n, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_a_shared_module_is_listed_once():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    assert [n for n, _ in net.named_modules()] == ["", "0", "1"]
    assert len(list(net.parameters())) == 2


def test_parts_are_found_by_dotted_name():
    net = Net()
    assert net.get_submodule("inner.1") is net.inner[1]
    assert net.get_submodule("") is net
    assert net.get_parameter("inner.1.weight") is net.inner[1].weight
    assert net.get_buffer("norm.running_mean") is net.norm.running_mean
    with pytest.raises(jit.Error, match=r"Net holds no module 'inner\.7'; there are fc1, norm"):
        net.get_submodule("inner.7")
    with pytest.raises(jit.Error, match=r"holds no parameter 'inner\.1\.bias'"):
        net.get_parameter("inner.1.bias")


# -- attributes ------------------------------------------------------------------------------------------------------


def test_assignment_decides_by_what_is_assigned():
    net = nn.Module()
    net.x = 5
    net.x = nn.Parameter(jit.zeros(2))
    assert "x" not in net.__dict__ and [n for n, _ in net.named_parameters()] == ["x"]
    net.x = nn.ReLU()
    assert not list(net.parameters()) and [n for n, _ in net.named_children()] == ["x"]
    net.x = None
    assert net.x is None and not list(net.children())


def test_a_plain_tensor_is_no_buffer():
    net = nn.Module()
    net.x = jit.zeros(2)
    assert not list(net.buffers()) and not net.state_dict()


def test_a_buffer_can_be_assigned_anew():
    module = Scaled()
    module.offset = jit.tensor([5.0])
    assert module.state_dict()["offset"].tolist() == [5.0]


def test_a_parameter_keeps_its_place_when_replaced():
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(jit.ones(2, 2))
    assert list(layer.state_dict()) == ["weight", "bias"]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m: setattr(m, "scale", jit.zeros(1)), "Scaled.scale is a Parameter and cannot become a Tensor"),
        (lambda m: setattr(m, "offset", 3), "Scaled.offset is a Tensor and cannot become a int"),
        (lambda m: m.register_buffer("power", jit.zeros(1)), "already has an attribute 'power'"),
        (lambda m: m.register_parameter("a.b", None), "without dots"),
        (lambda m: m.register_buffer("", None), "non-empty"),
        (lambda m: m.register_parameter("w", jit.zeros(1)), "must be a jit.nn.Parameter or None, not Tensor"),
        (lambda m: m.register_module("w", 3), "must be a jit.nn.Module or None, not int"),
        (lambda m: m.register_buffer("w", 3), "must be a tensor or None, not int"),
    ],
)
def test_wrong_parts_are_refused(act, message):
    with pytest.raises(jit.Error, match=message):
        act(Scaled())


def test_a_forgotten_super_init_is_named():
    class Forgetful(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(jit.Error, match=r"call super\(\).__init__\(\) at the start of Forgetful"):
        Forgetful()


def test_an_unknown_attribute_is_an_attribute_error():
    module = Scaled()
    assert not hasattr(module, "nothing")
    with pytest.raises(AttributeError, match="'Scaled' object has no attribute 'nothing'"):
        _ = module.nothing


def test_parts_can_be_deleted():
    module = Scaled()
    del module.scale, module.offset, module.power
    assert not list(module.parameters()) and not module.state_dict() and not hasattr(module, "power")


def test_dir_lists_the_parts():
    assert {"scale", "offset", "power", "forward"} <= set(dir(Scaled()))


# -- parameters ------------------------------------------------------------------------------------------------------


def test_a_parameter_shares_memory_and_is_a_leaf():
    data = jit.zeros(2)
    parameter = nn.Parameter(data)
    with jit.no_grad():
        parameter.add_(1)
    assert data.tolist() == [1, 1]
    assert parameter.requires_grad and parameter.is_leaf and isinstance(parameter, jit.Variable)
    assert repr(parameter).startswith("Parameter containing:\ntensor(")


def test_integer_parameters_want_no_gradient():
    assert not nn.Parameter(jit.tensor([1, 2]), requires_grad=False).requires_grad
    with pytest.raises(jit.Error, match="only floating point and complex tensors can require gradients"):
        nn.Parameter(jit.tensor([1, 2]))
    with pytest.raises(jit.Error, match="made from a tensor, not from list"):
        nn.Parameter([1.0])  # type: ignore[arg-type]


# -- state dicts -----------------------------------------------------------------------------------------------------


def test_state_shares_memory_and_leaves_transient_buffers_out():
    module = Scaled()
    state = module.state_dict()
    assert list(state) == ["scale", "offset"]
    assert not state["scale"].requires_grad
    state["scale"].fill_(7)
    assert module.scale.item() == 7
    assert module.state_dict(keep_vars=True)["scale"] is module.scale


def test_a_loaded_state_gives_the_same_results():
    source, target, x = Net().eval(), Net().eval(), jit.randn(5, 3)
    assert source(x).tolist() != target(x).tolist()
    outcome = target.load_state_dict({name: value.numpy() for name, value in source.state_dict().items()})
    assert outcome == ([], [])
    assert source(x).tolist() == target(x).tolist()


def test_what_does_not_fit_is_listed_at_once_and_nothing_is_loaded():
    net = Net()
    before = net.fc1.bias.tolist()
    state = Net().state_dict()
    del state["norm.weight"]
    state["surplus"] = jit.zeros(1)
    state["fc1.weight"] = jit.zeros(4, 5)
    with pytest.raises(jit.Error) as caught:
        net.load_state_dict(state)
    message = str(caught.value)
    assert "missing: norm.weight" in message and "not expected: surplus" in message
    assert "fc1.weight is [4, 3] here and [4, 5] in the state dict" in message
    assert net.fc1.bias.tolist() == before


def test_loading_leniently_reports_and_loads_the_rest():
    net = Net()
    outcome = net.load_state_dict({"fc1.bias": jit.ones(4), "surplus": jit.zeros(1)}, strict=False)
    assert net.fc1.bias.tolist() == [1, 1, 1, 1]
    assert outcome.unexpected_keys == ["surplus"]
    counted = "norm.num_batches_tracked"  # which states of the time before there was one lack, and get
    assert outcome.missing_keys == [name for name in STATE_NAMES if name not in ("fc1.bias", counted)]


def test_assigning_a_state_takes_the_tensors_themselves():
    layer, weight = nn.Linear(2, 2, bias=False), jit.ones(2, 2, dtype=jit.float64)
    layer.load_state_dict({"weight": weight}, assign=True)
    assert layer.weight.dtype is jit.float64 and isinstance(layer.weight, nn.Parameter)
    weight.zero_()
    assert layer.weight.sum().item() == 0


# -- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_copy_is_equal_and_independent(duplicate):
    net = Net().eval()
    other, x = duplicate(net), jit.randn(2, 3)
    assert other(x).tolist() == net(x).tolist()
    assert isinstance(other.fc1.weight, nn.Parameter) and not other.training
    with jit.no_grad():
        other.fc1.weight.zero_()
    assert net.fc1.weight.abs().sum().item() > 0


def test_a_deep_copy_keeps_sharing():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    other = copy.deepcopy(net)
    assert other[1].weight is other[0].weight and other[0].weight is not net[0].weight


# -- changing all of it ----------------------------------------------------------------------------------------------


def test_modes_reach_every_module():
    net = Net()
    assert all(m.training for m in net.modules())
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    net.inner.train()
    assert net.inner[1].training and not net.norm.training


def test_apply_visits_inner_modules_first():
    seen = []
    Net().apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "BatchNorm1d", "ReLU", "Linear", "Sequential", "Net"]


def test_conversion_keeps_the_objects_and_the_integers():
    net = Net()
    weight = net.fc1.weight
    assert net.double() is net
    assert net.fc1.weight is weight and weight.dtype is jit.float64 and weight.requires_grad
    assert net.norm.running_mean.dtype is jit.float64
    assert net.norm.num_batches_tracked.dtype is jit.int64
    net.to(jit.zeros(1))
    assert weight.dtype is jit.float32
    assert net.to("cpu") is net
    with pytest.raises(jit.Error, match="computes in floating point"):
        net.to(jit.int64)


def test_conversion_takes_gradients_along():
    layer = nn.Linear(2, 1)
    layer(jit.ones(1, 2)).sum().backward()
    layer.double()
    assert gradient(layer.weight).dtype is jit.float64
    layer(jit.ones(1, 2, dtype=jit.float64)).sum().backward()
    assert gradient(layer.weight).tolist() == [[2, 2]]


def test_gradients_are_forgotten_or_zeroed():
    layer = nn.Linear(2, 1)
    layer(jit.ones(1, 2)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert gradient(layer.weight).tolist() == [[0, 0]]
    layer.zero_grad()
    assert layer.weight.grad is None


def test_parameters_can_be_frozen():
    net = Net().requires_grad_(False)
    assert not net(jit.randn(4, 3)).requires_grad
    net.fc1.requires_grad_()
    assert net(jit.randn(4, 3)).requires_grad


# -- calls -----------------------------------------------------------------------------------------------------------


def test_a_module_without_forward_says_so():
    with pytest.raises(jit.Error, match="Module does not define forward"):
        nn.Module()(1)


def test_hooks_see_and_replace():
    module, x = Scaled(), jit.tensor([3.0])
    first = module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    second = module.register_forward_hook(lambda m, args, result: result * 10)
    assert module(x).item() == (4**2 * 2 + 1) * 10
    first.remove()
    assert module(x).item() == (3**2 * 2 + 1) * 10
    second.remove()
    second.remove()
    assert module(x).item() == 3**2 * 2 + 1


def test_hooks_with_keywords_run_in_order():
    module, seen = Scaled(), []
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"extra": 5.0}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, result: seen.append(kwargs), with_kwargs=True)
    with module.register_forward_hook(lambda m, args, result: seen.append("last")):
        assert module(jit.tensor([0.0]), extra=1.0).item() == 6
    module(jit.tensor([0.0]))
    assert seen == [{"extra": 5.0}, "last", {"extra": 5.0}]


def test_a_trace_sees_scopes_named_by_place():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net().eval()
            self.blocks = nn.ModuleList([nn.Tanh()])

        def forward(self, x):
            return self.blocks[0](self.net(x))

    traced = jit.trace(Outer())
    traced(jit.randn(2, 3))
    scopes = [node.scope for node in traced.graph.nodes]
    assert scopes == [f"Outer/{name}" for name in ("net/fc1", "net/norm", "net/inner/0", "net/inner/1", "blocks.0")]


def test_a_module_called_from_a_traced_function_is_named_by_its_class():
    layer = nn.Linear(3, 2)
    traced = jit.trace(lambda x: layer(x))
    traced(jit.randn(2, 3))
    assert [node.scope for node in traced.graph.nodes] == ["Linear"]


# -- showing ---------------------------------------------------------------------------------------------------------


def test_a_network_prints_as_a_tree():
    assert repr(Net()) == (
        "Net(\n"
        "  (fc1): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (norm): BatchNorm1d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)\n"
        "  (inner): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=4, out_features=2, bias=False)\n"
        "  )\n"
        ")"
    )


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (lambda: nn.Conv2d(1, 2, 3), "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))"),
        (
            lambda: nn.Conv1d(2, 4, 3, padding=1, groups=2, bias=False, padding_mode="reflect"),
            "Conv1d(2, 4, kernel_size=(3,), stride=(1,), padding=(1,), groups=2, bias=False, padding_mode=reflect)",
        ),
        (
            lambda: nn.ConvTranspose2d(1, 2, 3, stride=2, output_padding=1),
            "ConvTranspose2d(1, 2, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))",
        ),
        (lambda: nn.LayerNorm(4), "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)"),
        (lambda: nn.GroupNorm(2, 4), "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"),
        (lambda: nn.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
        (lambda: nn.AvgPool2d(2), "AvgPool2d(kernel_size=2, stride=2, padding=0)"),
        (lambda: nn.AdaptiveAvgPool2d(1), "AdaptiveAvgPool2d(output_size=1)"),
        (lambda: nn.Embedding(5, 3, padding_idx=-1), "Embedding(5, 3, padding_idx=4)"),
        (lambda: nn.Dropout(0.2), "Dropout(p=0.2, inplace=False)"),
        (lambda: nn.LeakyReLU(0.2), "LeakyReLU(negative_slope=0.2)"),
        (lambda: nn.ReLU(inplace=True), "ReLU(inplace=True)"),
        (lambda: nn.GELU(), "GELU(approximate='none')"),
        (lambda: nn.Softmax(dim=1), "Softmax(dim=1)"),
        (lambda: nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
        (lambda: nn.LSTMCell(3, 4), "LSTMCell(3, 4)"),
        (lambda: nn.MSELoss(), "MSELoss()"),
        (lambda: nn.AvgPool1d(2), "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))"),
        (lambda: nn.MaxUnpool2d(2), "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))"),
        (lambda: nn.Bilinear(2, 3, 4), "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)"),
        (
            lambda: nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.Tanh()]),
            "ModuleList(\n  (0): ReLU()\n  (1-2): 2 x Tanh()\n)",
        ),
        (lambda: nn.ModuleList(), "ModuleList()"),
        (
            lambda: nn.ParameterList([jit.ones(2), jit.ones(2, 3)]),
            "ParameterList(\n    (0): Parameter containing: [jit.float32 of size 2]\n"
            "    (1): Parameter containing: [jit.float32 of size 2x3]\n)",
        ),
    ],
)
def test_layers_print_their_options(layer, text):
    assert repr(layer()) == text


# -- containers ------------------------------------------------------------------------------------------------------


def test_sequential_slices_and_grows():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    head = net[:2]
    assert isinstance(head, nn.Sequential) and head[0] is net[0] and len(head) == 2
    assert net[-1] is net[2]
    net.append(nn.Sigmoid()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in net] == ["Identity", "Linear", "ReLU", "Linear", "Sigmoid"]
    assert list(net._modules) == ["0", "1", "2", "3", "4"]
    del net[0]
    assert isinstance(net.pop(), nn.Sigmoid) and len(net) == 3
    net[1] = nn.Tanh()
    assert isinstance(net[1], nn.Tanh)
    with pytest.raises(IndexError, match="index 3 is out of range: Sequential holds 3 modules"):
        net[3]


def test_sequential_takes_names():
    net = nn.Sequential({"first": nn.Linear(2, 3), "second": nn.ReLU()})
    assert list(net.state_dict()) == ["first.weight", "first.bias"]
    assert net.second is net[1]


def test_lists_and_dictionaries_of_modules():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.Linear(1, 1)]
    assert list(layers.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert isinstance(layers[:1], nn.ModuleList)
    heads = nn.ModuleDict({"a": nn.Linear(1, 1)})
    heads["b"] = nn.ReLU()
    assert list(heads.keys()) == ["a", "b"] and "b" in heads and len(heads) == 2
    assert isinstance(heads.pop("b"), nn.ReLU) and "b" not in heads
    parameters = nn.ParameterList([jit.zeros(1), nn.Parameter(jit.ones(1))])
    assert len(parameters) == 2 and parameters[1].item() == 1 and list(parameters.state_dict()) == ["0", "1"]


# -- starting values -------------------------------------------------------------------------------------------------


def test_layers_start_within_the_bounds_of_pytorch():
    layer, convolution = nn.Linear(64, 300), nn.Conv2d(4, 100, 3)
    for parameters, fan_in in ((layer, 64), (convolution, 36)):
        bound = 1 / math.sqrt(fan_in)
        for values in (parameters.weight.detach().numpy(), parameters.bias.detach().numpy()):
            assert np.abs(values).max() <= bound
            assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.15)
    bound = 1 / math.sqrt(50)
    assert np.abs(nn.GRUCell(3, 50).weight_ih.detach().numpy()).max() <= bound
    assert nn.Embedding(200, 30).weight.std().item() == pytest.approx(1, rel=0.1)


def test_the_same_seed_gives_the_same_weights():
    jit.manual_seed(3)
    first = nn.Linear(4, 4).weight.tolist()
    jit.manual_seed(3)
    assert nn.Linear(4, 4).weight.tolist() == first
    assert nn.Linear(4, 4).weight.tolist() != first


@pytest.mark.parametrize(
    ("fill", "deviation"),
    [
        (lambda t: nn.init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(2 / 500)),
        (lambda t: nn.init.xavier_normal_(t), math.sqrt(2 / 500)),
        (lambda t: nn.init.kaiming_uniform_(t, nonlinearity="relu"), math.sqrt(2 / 300)),
        (lambda t: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 200)),
        (lambda t: nn.init.normal_(t, 0.0, 0.5), 0.5),
        (lambda t: nn.init.uniform_(t, -1.0, 1.0), 1 / math.sqrt(3)),
    ],
)
def test_starting_values_have_the_promised_spread(fill, deviation):
    tensor = fill(nn.Parameter(jit.empty(200, 300)))
    values = tensor.detach().numpy()
    assert values.std() == pytest.approx(deviation, rel=0.02)
    assert abs(values.mean()) < 4 * deviation / math.sqrt(values.size)
    assert tensor.requires_grad and tensor.is_leaf


def test_constant_starting_values():
    tensor = jit.empty(3, 3)
    assert nn.init.ones_(tensor).sum().item() == 9
    assert nn.init.zeros_(tensor).sum().item() == 0
    assert nn.init.constant_(tensor, 2.5)[0, 0].item() == 2.5
    assert nn.init.eye_(tensor).tolist() == np.eye(3).tolist()
    passed = nn.Conv2d(2, 2, 3, padding=1, bias=False)
    nn.init.dirac_(passed.weight)
    x = jit.randn(1, 2, 4, 4)
    assert passed(x).tolist() == x.tolist()
    rows = nn.init.orthogonal_(jit.empty(3, 5))
    assert_close(rows @ rows.t(), np.eye(3, dtype=np.float32))


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3), (4, 2, 3)])
def test_an_orthogonal_start_is_made_of_draws_in_the_order_of_the_weight(sizes):
    drawn, made = jit.empty(sizes), jit.empty(sizes)
    nn.init.normal_(drawn, generator=jit.Generator().manual_seed(3))
    nn.init.orthogonal_(made, generator=jit.Generator().manual_seed(3))
    drawn, made = drawn.flatten(1), made.flatten(1)
    triangle = drawn @ made.t() if sizes[0] < drawn.shape[1] else (made.t() @ drawn).t()
    assert_close(triangle.triu(1), np.zeros(tuple(triangle.shape), np.float32))
    assert (triangle.diagonal() > 0).all()


@pytest.mark.parametrize("dtype", [jit.float32, jit.float64, jit.bfloat16])
@pytest.mark.parametrize(("mean", "bounds", "wanted"), [
    (0.1, (-0.5, 2.0), (0.484, 0.619)), (3.0, (-2.0, 1.0), (0.627, 0.338)),
])  # fmt: skip
def test_normal_draws_are_cut_off_at_bounds(dtype, mean, bounds, wanted):
    draw = jit.Generator().manual_seed(5)
    made = nn.init.trunc_normal_(nn.Parameter(jit.empty(300, 100, dtype=dtype)), mean, 1.0, bounds[0], bounds[1], draw)
    assert made.is_leaf and made.dtype == dtype
    assert made.min() >= bounds[0] and made.max() <= bounds[1]
    made = made.detach().double()
    assert abs(made.mean().item() - wanted[0]) < 0.015 and abs(made.std().item() - wanted[1]) < 0.015


def test_truncated_normal_draws_begin_with_normal_draws():
    jit.manual_seed(6)
    drawn = jit.empty(9, 30).normal_(0.5, 2.0).numpy()
    jit.manual_seed(6)
    made = nn.init.trunc_normal_(jit.empty(9, 30), 0.5, 2.0, -1.0, 2.0).numpy()
    within = (drawn >= -1) & (drawn <= 2)
    assert made[within].tolist() == drawn[within].tolist() and 0 < within.sum() < 270


def test_wrong_requests_for_starting_values():
    with pytest.raises(jit.Error, match="of two dims or more"):
        nn.init.xavier_uniform_(jit.empty(3))
    with pytest.raises(jit.Error, match="no gain is known for 'swish'"):
        nn.init.calculate_gain("swish")
    with pytest.raises(jit.Error, match="must be 'fan_in' or 'fan_out'"):
        nn.init.kaiming_normal_(jit.empty(3, 3), mode="fan")


# -- helpers ---------------------------------------------------------------------------------------------------------


def test_gradients_are_clipped_together():
    layer = nn.Linear(2, 1)
    layer.weight.grad, layer.bias.grad = jit.tensor([[3.0, 0.0]]), jit.tensor([4.0])
    assert nn.utils.clip_grad_norm_(layer.parameters(), 1.0).item() == pytest.approx(5)
    assert gradient(layer.weight).tolist()[0] == pytest.approx([0.6, 0], rel=1e-5)
    assert nn.utils.clip_grad_norm_(layer.parameters(), 10.0).item() == pytest.approx(1, rel=1e-5)
    assert gradient(layer.bias).item() == pytest.approx(0.8, rel=1e-5)
    nn.utils.clip_grad_value_(layer.parameters(), 0.1)
    assert gradient(layer.bias).item() == pytest.approx(0.1)


def test_parameters_become_a_vector_and_back():
    first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(first.parameters()), second.parameters())
    assert second.weight.tolist() == first.weight.tolist() and second.bias.tolist() == first.bias.tolist()


def test_assigned_parameters_go_through_register_parameter(monkeypatch):
    """Programs replace it for a while, to see every parameter: so tools make modules on another device."""
    seen, own = [], nn.Module.register_parameter

    def register(module, name, param):
        own(module, name, param)
        seen.append(name)
        if param is not None:
            module._parameters[name] = nn.Parameter(param.to("meta"), param.requires_grad)

    monkeypatch.setattr(nn.Module, "register_parameter", register)
    net = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Embedding(3, 2))
    assert {"weight", "bias"} <= set(seen) and all(each.is_meta for each in net.parameters())


def test_a_parameter_does_not_hide_an_attribute_of_the_class():
    class Layer(nn.Module):
        weight = None

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(jit.ones(2))

    with pytest.raises(KeyError, match="already has an attribute 'weight'"):
        Layer()
