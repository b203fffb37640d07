"""`DistributedDataParallel` in a process alone, and buckets; tests/distributed has several processes."""

import pytest

import jit
from jit import nn
from jit.ir.errors import Error
from jit.nn.parallel import DataParallel, DistributedDataParallel, data_parallel
from jit.nn.parallel.buckets import flat, in_buckets, parts


@pytest.mark.parametrize("make", [DataParallel, DistributedDataParallel])
def test_a_process_alone_runs_the_network(make):
    net = nn.Linear(2, 1)
    wrapped = make(net)
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"] and wrapped.module is net
    x = jit.ones(3, 2)
    wrapped(x).sum().backward()
    assert net.bias.grad is not None and net.bias.grad.tolist() == [3.0]
    assert bool((data_parallel(net, x) == wrapped(x)).all())


def test_gradients_stay_here_in_a_block():
    wrapped = DistributedDataParallel(nn.Linear(2, 1))
    with wrapped.no_sync():
        assert not wrapped.require_backward_grad_sync
        wrapped(jit.ones(1, 2)).sum().backward()
    assert wrapped.require_backward_grad_sync


def test_a_traced_network_is_called_as_it_is():
    traced = jit.trace(nn.Linear(2, 1))
    wrapped = DistributedDataParallel(traced)
    for _ in range(3):
        wrapped(jit.ones(1, 2))
    assert traced.hits == 2 and [name for name, _ in wrapped.named_parameters()] == ["module.weight", "module.bias"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(mixed_precision=1), "without mixed_precision"),
        (dict(device_mesh=1), "without device_mesh"),
        (dict(device_ids=[0, 1]), "each process has one device"),
    ],
)
def test_options_that_are_not_there_are_refused(options, message):
    with pytest.raises(Error, match=message):
        DistributedDataParallel(nn.Linear(2, 1), **options)


def test_what_is_no_network_is_refused():
    with pytest.raises(Error, match="takes a network, not function"):
        DistributedDataParallel(lambda x: x)


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_several_processes_that_do_not_know_each_other_are_refused(monkeypatch, variable):
    monkeypatch.setenv(variable, "4")
    with pytest.raises(Error, match=r"4 processes were started.*init_process_group"):
        DistributedDataParallel(nn.Linear(2, 1))


# -- buckets ---------------------------------------------------------------------------------------------------------


def test_buckets_are_full_at_their_sizes():
    tensors = [jit.zeros(size) for size in (4, 4, 10, 1, 1, 30, 2)]
    found = in_buckets(tensors, lambda tensor: tensor, 16, 40)
    assert [[tensor.numel() for tensor in bucket] for bucket in found] == [[4], [4, 10], [1, 1, 30], [2]]


def test_dtypes_have_buckets_of_their_own():
    tensors = [jit.zeros(2), jit.zeros(2, dtype=jit.int64), jit.zeros(3), jit.zeros(3, dtype=jit.int64)]
    found = in_buckets(tensors, lambda tensor: tensor, 100, 100)
    assert [[tensor.numel() for tensor in bucket] for bucket in found] == [[2, 3], [2, 3]]


def test_a_row_has_parts():
    tensors = [jit.randn(2, 3), jit.randn(()), jit.zeros(0, 2), jit.randn(4, 4).t()]
    row = flat(tensors)
    assert row.shape == (23,)
    assert all(
        bool((part == tensor).all()) and part.shape == tensor.shape
        for part, tensor in zip(parts(row, tensors), tensors)
    )
