"""Traced functions as tasks: sent to other processes as data, read once there, and equal to the bit.

The workers of these tests are started anew (`spawn`), as those on other machines are; they find nothing of the parent.
"""

import copy
import multiprocessing
import pickle
import pickletools
import threading
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

import jit
from jit import nn
from jit.artifacts import sharing
from jit.artifacts.files import LoadedFunction, dumps, loads
from jit.ir.errors import AutogradError, UsageError

# -- in this process ---------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    """No recordings of other tests."""
    monkeypatch.setattr(sharing.SHARED, "_kept", type(sharing.SHARED._kept)())


def network(*, norm=False):
    jit.manual_seed(3)
    layers = [nn.Linear(6, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.Tanh(), nn.Linear(8, 2)]
    return nn.Sequential(*layers)


def recorded(net, backward=True):
    f = jit.trace(net)
    for rows in (4, 5):
        for _ in range(2):
            result = f(batch(rows))
            if backward:
                result.sum().backward()
    net.zero_grad()
    return f


def batch(rows, seed=0):
    return jit.from_numpy(np.random.default_rng(seed).standard_normal((rows, 6)).astype("float32"))


def bits(tensor):
    return tensor.detach().numpy().tobytes()


def again(f, protocol=pickle.DEFAULT_PROTOCOL):
    return pickle.loads(pickle.dumps(f, protocol))


def chains_of(f):
    entries = [*f._cache.entries.values()]
    for family in f._cache.sizes.families.values():
        entries += [entry for found in family.general.values() for entry in found.values()]
    return {id(chain.trace.graph) for entry in entries for r in entry.recordings for chain in r.chains}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_names_our_loader_and_nothing_else(protocol):
    names: set[str] = set()
    texts: list[str] = []
    for op, argument, _ in pickletools.genops(pickle.dumps(recorded(network()), protocol)):
        if op.name == "GLOBAL":
            names.add(str(argument))
        elif op.name == "STACK_GLOBAL":
            names.add(" ".join(texts[-2:]))
        elif isinstance(argument, str):
            texts.append(argument)
    assert names - {"_codecs encode"} == {"jit.artifacts.files loads"}  # protocol 2 has no bytes, and encodes a text


def test_from_protocol_5_on_the_artifact_can_travel_beside_the_pickle():
    f = recorded(network())
    beside: list[pickle.PickleBuffer] = []
    text = pickle.dumps(f, 5, buffer_callback=beside.append)
    assert len(text) < 200 and [bytes(each) for each in beside] == [dumps(f)]
    received = [bytearray(each) for each in beside]
    assert bits(pickle.loads(text, buffers=received)(batch(4))) == bits(f(batch(4)))


def test_equal_pickles_share_graphs_and_plans_and_no_tensors():
    f = recorded(network())
    one, other = again(f), again(f)
    assert chains_of(one) == chains_of(other) and not chains_of(one) & chains_of(f)
    assert bits(one(batch(5))) == bits(other(batch(5))) == bits(f(batch(5)))
    for mine, its in zip(one.parameters(), other.parameters(), strict=True):
        assert mine is not its and mine.data_ptr() != its.data_ptr()


def test_what_one_function_learns_the_other_does_not():
    f = recorded(network(norm=True))
    one, other = again(f), again(f)
    expected = bits(other(batch(4)))  # in training mode: this moves the running mean of `other`
    optimizer = jit.optim.SGD(one.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        one(batch(4)).square().sum().backward()
        optimizer.step()
    assert all(p.grad is None for p in other.parameters())
    assert bits(again(f)(batch(4))) == bits(other(batch(4))) == expected != bits(one(batch(4)))
    before, after = (dict(each.named_buffers()) for each in (again(f), other))
    assert all(bits(before[name]) == bits(buffer) for name, buffer in f._owner.named_buffers())
    assert any(bits(before[name]) != bits(after[name]) for name in before)


def test_a_function_that_has_changed_is_sent_as_it_is_now():
    net = network()
    f = recorded(net)
    first, text = again(f), pickle.dumps(f)
    assert pickle.dumps(f) == text
    net[0].weight.data.mul_(2)
    second = again(f)
    assert pickle.dumps(f) != text and chains_of(first) == chains_of(second)
    assert bits(second(batch(4))) == bits(f(batch(4))) != bits(first(batch(4)))
    net[2].bias.detach().numpy()[:] += 1  # which no counter of versions sees
    assert bits(again(f)(batch(4))) == bits(f(batch(4))) != bits(second(batch(4)))


def test_what_was_recorded_since_is_sent_too():
    f = jit.trace(network())
    f(batch(4))
    early = again(f)
    f(batch(4)).sum().backward()
    f(batch(4)).sum().backward()
    late = again(f)
    assert len(early.graph.stages) == 1 and len(late.graph.stages) == 2
    f(jit.cat([batch(4), batch(4)]))
    with pytest.raises(UsageError, match="no trace for this call"):
        late(batch(8))
    assert bits(again(f)(batch(8))) == bits(f(batch(8)))


def test_a_backward_that_nobody_has_asked_for_yet_is_right_in_all_that_share_it():
    f = jit.trace(network())
    f(batch(4))
    one, other = again(f), again(f)
    with jit.no_grad():
        other.parameters()[0].mul_(3)
    for each, scale in ((one, 1), (other, 3), (one, 1)):
        each(batch(4)).sum().backward()
        plain = network()
        with jit.no_grad():
            plain[0].weight.mul_(scale)
        plain(batch(4)).sum().backward()
        for mine, its in zip(each.parameters(), plain.parameters(), strict=True):
            np.testing.assert_allclose(mine.grad.numpy(), its.grad.numpy(), rtol=1e-5, atol=1e-6)
            mine.grad = None


def test_functions_that_share_run_in_many_threads_at_once():
    f = recorded(network())
    text, expected = pickle.dumps(f), {rows: bits(f(batch(rows))) for rows in (4, 5)}
    wrong: list[object] = []

    def work(number):
        try:
            for _ in range(20):
                mine = pickle.loads(text)
                wrong.extend([] if bits(mine(batch(rows))) == expected[rows] else [rows] for rows in (4, 5))
                mine(batch(4)).sum().backward()
                mine.parameters()[0].data.fill_(number)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each for each in wrong if each != []] == []


def test_random_numbers_and_sizes_that_vary():
    f = jit.trace(lambda x, p: nn.functional.dropout(x * x.shape[0], p))
    for rows in (4, 5, 6, 7):
        f(batch(rows), 0.5)
    for rows in (3, 9):
        one, other = again(f), again(f)
        assert chains_of(one) == chains_of(other)
        seen = []
        for g in (f, one, other):
            jit.manual_seed(5)
            seen.append(bits(g(batch(rows), 0.5)))
        assert len(set(seen)) == 1


def test_constants_are_a_part_of_the_content():
    def scaled(table):
        f = jit.trace(lambda x: x * jit.tensor(table, dtype=jit.float32))
        f(jit.ones(64))
        return f

    one, other = (list(range(64)), [2 * n for n in range(64)])
    assert again(scaled(one))(jit.ones(64)).tolist() == one
    assert again(scaled(other))(jit.ones(64)).tolist() == other
    assert again(scaled(one))(jit.ones(64)).tolist() == one


def test_an_export_of_one_has_its_own_weights(tmp_path):
    import onnxruntime

    f = recorded(network(), backward=False)
    one, other = again(f), again(f)
    other.parameters()[0].data.mul_(2)
    for number, g in enumerate((one, other)):
        path = str(tmp_path / f"{number}.onnx")
        jit.export_onnx(g, (batch(4),), path)
        session = onnxruntime.InferenceSession(path)
        (found,) = session.run(None, {session.get_inputs()[0].name: batch(4).numpy()})
        np.testing.assert_allclose(found, g(batch(4)).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert bits(one(batch(4))) != bits(other(batch(4)))


@dataclass
class Pair:
    first: jit.Tensor
    second: jit.Tensor


def test_what_depends_on_names_of_this_process_is_read_each_time():
    f = jit.trace(lambda x: Pair(x + 1, x * 2))
    f(batch(4))
    one, other = again(f), again(f)
    assert not chains_of(one) & chains_of(other) and len(sharing.SHARED._kept) == 0
    assert type(one(batch(4))) is Pair

    @jit.autograd.register
    class Double(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    f = jit.trace(lambda x: Double.apply(x) + 1)
    f(batch(4))
    one, other = again(f), again(f)
    assert not chains_of(one) & chains_of(other)
    assert bits(one(batch(4))) == bits(f(batch(4)))


def test_few_artifacts_are_kept(monkeypatch):
    monkeypatch.setattr(sharing, "KEPT", 2)

    def adding(number):
        f = jit.trace(lambda x: x + number)
        f(jit.ones(2))
        return f

    functions = [adding(number) for number in (1.5, 2.5, 3.5)]
    first = [again(f) for f in functions]
    assert [g(jit.ones(2)).tolist()[0] for g in first] == [2.5, 3.5, 4.5]
    assert len(sharing.SHARED._kept) == 2
    second = [again(f) for f in reversed(functions)]
    shared = [chains_of(a) == chains_of(b) for a, b in zip(first, reversed(second))]
    assert shared == [False, True, True]


def test_bytes_that_claim_to_be_others_are_read_for_what_they_are():
    f = jit.trace(lambda x: x + 1)
    f(jit.ones(2))
    honest = dumps(f)
    again(f)
    assert honest.count(b"aten::add") > 0
    forged = honest.replace(b"aten::add", b"aten::sub")
    with pytest.raises(jit.Error, match="cannot be loaded"):  # the sums of the zip file
        loads(forged)
    assert loads(honest)(jit.ones(2)).tolist() == [2, 2]


def test_copies_are_independent():
    f = again(recorded(network()))
    for g in (copy.copy(f), copy.deepcopy(f)):
        assert isinstance(g, LoadedFunction)
        g.parameters()[0].data.zero_()
    assert f.parameters()[0].abs().sum() > 0


# -- in others ---------------------------------------------------------------------------------------------------


def with_gradients(f, x):
    """A task whose results are the output and the gradients, as plain tensors."""
    y = f(x)
    y.sum().backward()
    found = [y.detach(), *(p.grad for p in f.parameters())]
    f.parameters()[0].data.zero_()  # which the next task does not see
    return found


def call(f, x):
    return f(x)


def loaded_once(texts):
    """How many of these pickles the worker has read, and not found."""
    counted, keep = [], sharing.SHARED.keep
    sharing.SHARED.keep = lambda *args: counted.append(1) or keep(*args)  # type: ignore[func-returns-value, method-assign]
    results = [bits(pickle.loads(text)(batch(4))) for text in texts]
    return len(counted), results


@jit.trace
def traced_here(x):
    return x + 1


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as workers:
        yield workers


def test_results_and_gradients_are_equal_to_the_bit_in_another_process(pool):
    f = recorded(network())
    for rows in (4, 5, 4):
        f._owner.zero_grad()
        y = f(batch(rows))
        y.sum().backward()
        expected = [bits(y), *(bits(p.grad) for p in f._owner.parameters())]
        assert [bits(t) for t in pool.submit(with_gradients, f, batch(rows)).result(timeout=120)] == expected


def test_the_function_itself_is_a_task(pool):
    net = network().requires_grad_(False)
    f = recorded(net, backward=False)
    assert [bits(y) for y in pool.map(f, [batch(4), batch(5)])] == [bits(f(batch(4))), bits(f(batch(5)))]


def test_a_worker_reads_a_graph_once(pool):
    net = network()
    f = recorded(net)
    texts = [pickle.dumps(f)]
    net[0].weight.data.mul_(2)
    texts += [pickle.dumps(f), pickle.dumps(f)]
    count, results = pool.submit(loaded_once, texts).result(timeout=120)
    assert count <= 1 and results[0] != results[1] == results[2] == bits(f(batch(4)))


def test_a_result_with_a_history_stays_where_it_is(pool):
    with pytest.raises(AutogradError, match=r"only leaves can be copied or pickled; call \.detach"):
        pool.submit(call, recorded(network()), batch(4)).result(timeout=120)


def test_a_call_that_nobody_has_recorded_is_refused_in_the_worker(pool):
    with pytest.raises(UsageError, match=r"no trace for this call.*Call the original in this way and save it again"):
        pool.submit(call, recorded(network()), batch(4).double()).result(timeout=120)


def test_without_recordings_the_worker_imports_the_function_and_traces_it(pool):
    traced_here.clear_cache()
    assert pool.submit(call, traced_here, jit.ones(2)).result(timeout=120).tolist() == [2, 2]


def send_on(f):
    """A task that sends its function further, from a process that has read nothing else."""
    return pickle.dumps(f), len(f.kernels)


def test_a_worker_can_send_a_function_on(pool):
    f = recorded(network())
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as another:
        text, _ = another.submit(send_on, f).result(timeout=120)
    assert bits(pickle.loads(text)(batch(4))) == bits(f(batch(4)))
    found = pool.submit(with_gradients, pickle.loads(text), batch(4)).result(timeout=120)
    assert bits(found[0]) == bits(f(batch(4)))


def test_arguments_that_arrive_in_memory_of_others_are_tensors_like_any():
    f = recorded(network())
    beside: list[pickle.PickleBuffer] = []
    text = pickle.dumps(batch(4), 5, buffer_callback=beside.append)
    lent = [memoryview(bytes(each)) for each in beside]  # read-only, as a shared memory or a mapped file is
    x = pickle.loads(text, buffers=lent)
    assert lent and bits(again(f)(x)) == bits(f(batch(4)))
    x.add_(1)
    assert bits(pickle.loads(text, buffers=lent)) == bits(batch(4)) != bits(x)


def test_joblib_sends_them_the_same_way():
    joblib = pytest.importorskip("joblib")
    net = network().requires_grad_(False)
    f = recorded(net, backward=False)
    batches = [batch(4, seed) for seed in range(6)]
    found = joblib.Parallel(n_jobs=2, max_nbytes=1)(joblib.delayed(f)(x) for x in batches)  # all by mapped files
    assert [bits(y) for y in found] == [bits(f(x)) for x in batches]


def test_cloudpickle_sends_them_the_same_way():
    cloudpickle = pytest.importorskip("cloudpickle")
    f = recorded(network())
    text = cloudpickle.dumps(lambda x: f(x) * 2)  # a function of the user's that holds ours
    assert bits(pickle.loads(text)(batch(4))) == bits(f(batch(4)) * 2)
