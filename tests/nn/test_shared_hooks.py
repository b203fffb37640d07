"""Hooks that all modules share, and hooks around state dicts."""

import pytest

import jit
from jit import nn


def test_hooks_of_all_modules():
    seen = []
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    handles = [
        nn.register_module_forward_pre_hook(lambda module, args: seen.append(("before", type(module).__name__))),
        nn.register_module_forward_hook(lambda module, args, output: seen.append(("after", type(module).__name__))),
        nn.register_module_full_backward_hook(lambda module, inside, out: seen.append(("back", type(module).__name__))),
    ]
    net(jit.ones(1, 2, requires_grad=True)).sum().backward()
    assert seen[:3] == [("before", "Sequential"), ("before", "Linear"), ("after", "Linear")]
    assert [name for what, name in seen if what == "back"] == ["ReLU", "Linear", "Sequential"]
    for handle in handles:
        handle.remove()
    count = len(seen)
    net(jit.ones(1, 2))
    assert len(seen) == count


def test_what_is_added_can_be_replaced():
    with nn.register_module_parameter_registration_hook(lambda module, name, p: nn.Parameter(p.detach() * 0)):
        layer = nn.Linear(2, 2)
    assert layer.weight.shape == (2, 2)
    names = []
    with (
        nn.register_module_module_registration_hook(lambda module, name, child: names.append(name)),
        nn.register_module_buffer_registration_hook(lambda module, name, buffer: names.append(name)),
    ):
        nn.Sequential(nn.BatchNorm1d(2))
    assert names == ["running_mean", "running_var", "num_batches_tracked", "0"]


def test_hooks_around_saving():
    layer, seen = nn.Linear(2, 2), []
    layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((prefix, keep_vars)))
    layer.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.pop(f"{prefix}bias"))
    assert list(nn.Sequential(layer).state_dict()) == ["0.weight"]
    assert seen == [("0.", False)]


def test_hooks_around_loading():
    layer = nn.Linear(2, 2)

    def rename(module, state, prefix, metadata, strict, missing, unexpected, messages):
        state[f"{prefix}weight"] = state.pop(f"{prefix}kernel")

    layer.register_load_state_dict_pre_hook(rename)
    layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    given = {"kernel": jit.ones(2, 2)}
    assert layer.load_state_dict(given) == ([], [])
    assert list(given) == ["kernel"]
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_hooks_that_load_see_the_part_of_their_module():
    net, seen = nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)), nn.Linear(1, 1)), {}

    def look(module, state, prefix, *rest):
        seen[prefix] = list(state)
        state.pop(f"{prefix}bias", None)
        state["elsewhere"] = jit.ones(1)

    for module in (net[0], net[0][1], net[1]):
        module.register_load_state_dict_pre_hook(look)
    state = net.state_dict()
    found = net.load_state_dict(state, strict=False)
    assert seen["0."] == ["0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"]
    assert seen["0.1."] == ["0.1.weight", "0.1.bias"] and seen["1."] == ["1.weight", "1.bias"]
    assert found == (["0.1.bias", "1.bias"], []) and len(state) == 6
    net.register_load_state_dict_pre_hook(look)
    assert net.load_state_dict(state, strict=False).unexpected_keys == ["elsewhere"]
    assert len(seen[""]) == 6


def test_names_that_a_hook_leaves_are_refused():
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_post_hook(lambda module, keys: keys.unexpected_keys.clear())
    with pytest.raises(jit.UsageError, match="missing: bias"):
        layer.load_state_dict({"weight": jit.ones(2, 2), "other": jit.ones(1)})


class Counted(nn.Linear):
    count = 0

    def get_extra_state(self):
        return {"count": self.count}

    def set_extra_state(self, state):
        self.count = state["count"]


def test_extra_state_goes_along():
    net, other = nn.Sequential(Counted(2, 2)), nn.Sequential(Counted(2, 2))
    net[0].count = 7
    assert list(net.state_dict()) == ["0.weight", "0.bias", "0._extra_state"]
    other.load_state_dict(net.state_dict())
    assert other[0].count == 7
    plain = {name: value for name, value in net.state_dict().items() if "extra" not in name}
    with pytest.raises(jit.UsageError, match=r"missing: 0\._extra_state"):
        other.load_state_dict(plain)
    with pytest.raises(jit.UsageError, match=r"not expected: 0\._extra_state"):
        nn.Sequential(nn.Linear(2, 2)).load_state_dict(net.state_dict())


def test_a_trace_without_the_hook_is_another_trace():
    net = nn.Sequential(nn.Linear(2, 2))
    traced, x = jit.trace(lambda x: net(x)), jit.ones(1, 2)
    plain = traced(x)
    with nn.register_module_forward_hook(lambda module, args, output: output * 0):
        for _ in range(2):
            assert jit.equal(traced(x), plain * 0)
    assert jit.equal(traced(x), plain)
