"""RNN, LSTM and GRU over padded and packed sequences, against networks of numpy that go step by step."""

import warnings

import numpy as np
import pytest

import jit
from jit import nn
from jit.eager.pytree import flatten
from jit.nn.utils import rnn
from tests.ops.references.arrays import gru_cell, lstm_cell, network, packed_network, relu, rnn_cell
from tests.tolerances import assert_close

CELLS = {"RNN": rnn_cell(np.tanh), "LSTM": lstm_cell, "GRU": gru_cell}
LENGTHS = [2, 4, 3]


def draw(rng, *sizes, dtype=np.float64):
    return rng.standard_normal(sizes).astype(dtype)


def tensors_of(result):
    """All tensors that carry gradients in a nest."""
    return [t for t in flatten(result)[0] if t.is_floating_point()]


def weighted(result):
    """One number that depends on every element of a result differently."""
    return sum((t * jit.arange(t.numel(), dtype=t.dtype).view(t.shape)).sum() for t in tensors_of(result))


def expected(module, x, hx, lengths=None):
    """[outputs, last states] by the reference; packed if there are lengths."""
    kind = type(module).__name__
    params = [p.detach().numpy() for group in module.all_weights for p in group]
    states = tuple(h.numpy() for h in hx) if kind == "LSTM" else hx.numpy()
    options = params, True, module.num_layers, 0.0, False, module.bidirectional
    if lengths is None:
        return network(CELLS[kind], kind == "LSTM")(x, states, *options, module.batch_first)
    return packed_network(CELLS[kind], kind == "LSTM")(x, lengths, states, *options)


def states_for(module, rng, batch=3):
    """First states, as the module takes them."""
    layers = module.num_layers * (2 if module.bidirectional else 1)
    sizes = [module.proj_size or module.hidden_size, module.hidden_size]
    made = [jit.tensor(draw(rng, layers, batch, size)) for size in sizes]
    return tuple(made) if module.mode == "LSTM" else made[1]


def results_of(output, last):
    return [output, *(last if isinstance(last, tuple) else (last,))]


OPTIONS = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"num_layers": 2, "batch_first": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("kind", CELLS)
def test_networks_go_step_by_step(kind, options, rng):
    module = getattr(nn, kind)(2, 3, **options).double()
    x, hx = draw(rng, *((3, 4, 2) if module.batch_first else (4, 3, 2))), states_for(module, rng)
    for got, want in zip(results_of(*module(jit.tensor(x), hx)), expected(module, x, hx), strict=True):
        assert_close(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", CELLS)
def test_a_sequence_without_a_batch_is_a_batch_of_one(kind, rng):
    module = getattr(nn, kind)(2, 3, bidirectional=True, batch_first=True).double()
    x = jit.tensor(draw(rng, 4, 2))
    alone, together = results_of(*module(x)), results_of(*module(x.unsqueeze(0)))
    assert [tuple(t.shape) for t in alone[:2]] == [(4, 6), (2, 3)]
    assert_close(alone[0], together[0].squeeze(0))
    assert_close(alone[1], together[1].squeeze(1))


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("kind", CELLS)
def test_packed_sequences_run_each_for_its_length(kind, options, rng):
    module = getattr(nn, kind)(2, 3, **options).double()
    sequences = [jit.tensor(draw(rng, length, 2)) for length in sorted(LENGTHS, reverse=True)]
    packed, hx = rnn.pack_sequence(sequences), states_for(module, rng)
    output, last = module(packed, hx)
    want = expected(module, packed.data.numpy(), hx, packed.batch_sizes.numpy())
    for got, reference in zip(results_of(output.data, last), want, strict=True):
        assert_close(got, reference, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", CELLS)
def test_unsorted_sequences_come_back_in_their_order(kind, rng):
    module = getattr(nn, kind)(2, 3, bidirectional=True).double()
    sequences = [jit.tensor(draw(rng, length, 2)) for length in LENGTHS]
    output, last = module(rnn.pack_sequence(sequences, enforce_sorted=False))
    for number, (sequence, out) in enumerate(zip(sequences, rnn.unpack_sequence(output), strict=True)):
        alone = results_of(*module(sequence))
        for got, want in zip([out, *(h[:, number] for h in results_of(output, last)[1:])], alone, strict=True):
            assert_close(got, want, rtol=1e-13, atol=1e-14)


def test_an_lstm_projects_its_output(rng):
    module = nn.LSTM(2, 4, num_layers=2, bidirectional=True, proj_size=3).double()
    x, hx = draw(rng, 5, 3, 2), states_for(module, rng)
    for got, want in zip(results_of(*module(jit.tensor(x), hx)), expected(module, x, hx), strict=True):
        assert_close(got, want, rtol=1e-12, atol=1e-13)
    assert module.weight_hr_l1_reverse.shape == (3, 4) and module.weight_ih_l1.shape == (16, 6)


def test_without_biases_they_count_as_zeros(rng):
    plain, zeros = nn.GRU(2, 3, bias=False).double(), nn.GRU(2, 3).double()
    zeros.load_state_dict({**zeros.state_dict(), **plain.state_dict()})
    with jit.no_grad():
        zeros.bias_ih_l0.zero_(), zeros.bias_hh_l0.zero_()
    x = jit.tensor(draw(rng, 4, 1, 2))
    assert_close(plain(x)[0], zeros(x)[0])


def test_relu_is_another_nonlinearity(rng):
    module = nn.RNN(2, 3, 1, "relu").double()
    x, hx = draw(rng, 4, 3, 2), states_for(module, rng)
    params = [p.detach().numpy() for p in module.all_weights[0]]
    want = network(rnn_cell(relu), False)(x, hx.numpy(), params, True, 1, 0.0, False, False, False)
    assert_close(module(jit.tensor(x), hx)[0], want[0], rtol=1e-13, atol=1e-14)


def test_names_are_those_of_pytorch():
    kinds = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
    suffixes = "_l0", "_l0_reverse", "_l1", "_l1_reverse"
    module = nn.GRU(2, 3, num_layers=2, bidirectional=True)
    assert list(module.state_dict()) == [kind + suffix for suffix in suffixes for kind in kinds]
    assert list(nn.LSTM(2, 3, proj_size=1, bias=False).state_dict()) == [
        "weight_ih_l0", "weight_hh_l0", "weight_hr_l0"
    ]  # fmt: skip
    assert repr(nn.LSTM(3, 4, 2, batch_first=True)) == "LSTM(3, 4, num_layers=2, batch_first=True)"


def test_dropout_between_layers_is_for_training(rng):
    module = nn.LSTM(2, 8, num_layers=2, dropout=0.5).double()
    x = jit.tensor(draw(rng, 4, 3, 2))
    assert module(x)[0].tolist() != module(x)[0].tolist()
    module.eval()
    assert module(x)[0].tolist() == module(x)[0].tolist()
    with pytest.warns(UserWarning, match="does nothing with num_layers=1"):
        nn.RNN(2, 3, dropout=0.5)


def test_dropout_of_all_outputs_leaves_the_biases(rng):
    module = nn.GRU(2, 3, num_layers=2, dropout=1.0).double()
    first, second = (module(jit.tensor(draw(rng, 4, 1, 2)))[0] for _ in range(2))
    assert_close(first, second.detach())


# -- gradients, traces, export -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CELLS)
def test_gradients_through_packing_are_right(kind, rng):
    module = getattr(nn, kind)(1, 2, bidirectional=True).double()

    def through(padded, *weights):
        packed = rnn.pack_padded_sequence(padded, LENGTHS, enforce_sorted=False)
        output, _ = module(packed)
        return rnn.pad_packed_sequence(output, total_length=5)[0]

    padded = jit.tensor(draw(rng, 4, 3, 1), requires_grad=True)
    assert jit.autograd.gradcheck(through, (padded, *module.parameters()))
    assert jit.autograd.gradgradcheck(through, (padded,))


@pytest.mark.parametrize("kind", CELLS)
def test_traced_networks_are_eager_ones_through_a_backward(kind, rng):
    module = getattr(nn, kind)(2, 3, num_layers=2, bidirectional=True)
    jit.verify(module, (jit.tensor(draw(rng, 4, 3, 2, dtype=np.float32)),), loss_fn=weighted)


def test_traced_packing_is_right_for_other_lengths(rng):
    module = nn.LSTM(2, 3, bidirectional=True)

    def through(padded, lengths):
        packed = rnn.pack_padded_sequence(padded, lengths, enforce_sorted=False)
        output, (h, _) = module(packed)
        return rnn.pad_packed_sequence(output)[0], h

    traced = jit.trace(through)
    for lengths in (LENGTHS, [4, 4, 1], [1, 1, 1], [3, 4, 2]):
        x = jit.tensor(draw(rng, 4, 3, 2, dtype=np.float32), requires_grad=True)
        results = []
        for function in (through, traced):
            x.grad = None
            out = function(x, jit.tensor(lengths))
            weighted(out).backward()
            results.append([*out, x.grad])
        for eager, again in zip(*results, strict=True):
            # Outputs are weighed with up to 23: eager mode's own gradients are 4.6e-6 away from those of float64.
            assert_close(again, eager.detach(), atol=1e-5)


def test_a_packed_sequence_passes_through_a_trace(rng):
    packed = rnn.pack_sequence([jit.tensor(draw(rng, n, 2, dtype=np.float32)) for n in LENGTHS], enforce_sorted=False)
    module = nn.GRU(2, 3)
    traced = jit.trace(module)
    output, _ = traced(packed)
    assert isinstance(output, rnn.PackedSequence)
    assert_close(output.data, module(packed)[0].data)
    jit.verify(module, (packed,), loss_fn=weighted)


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("kind", CELLS)
def test_networks_export_as_one_operator_a_layer(kind, options, rng, tmp_path):
    onnx = pytest.importorskip("onnx")
    module = getattr(nn, kind)(2, 3, **options)
    x = jit.tensor(draw(rng, 4, 3, 2, dtype=np.float32))
    path = tmp_path / "model.onnx"
    axes = {"input": {0: "first", 1: "second"}}
    jit.export_onnx(module, (x,), path, dynamic_axes=axes)  # runs in onnxruntime, at other sizes too
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count(kind) == module.num_layers and "Tanh" not in kinds


def test_a_packed_network_exports(rng, tmp_path):
    onnx = pytest.importorskip("onnx")
    packed = rnn.pack_sequence([jit.tensor(draw(rng, n, 2, dtype=np.float32)) for n in LENGTHS], enforce_sorted=False)
    path = tmp_path / "model.onnx"
    jit.export_onnx(nn.LSTM(2, 3, num_layers=2, bidirectional=True), (packed,), path)
    assert [node.op_type for node in onnx.load(path).graph.node].count("LSTM") == 2


def test_a_projection_exports_step_by_step(rng, tmp_path):
    pytest.importorskip("onnx")
    x = jit.tensor(draw(rng, 4, 3, 2, dtype=np.float32))
    jit.export_onnx(nn.LSTM(2, 3, proj_size=2), (x,), tmp_path / "model.onnx")


# -- packing -----------------------------------------------------------------------------------------------------------


def test_packing_puts_first_elements_first():
    packed = rnn.pack_sequence([jit.tensor([1, 2, 3]), jit.tensor([4, 5]), jit.tensor([6])])
    assert packed.data.tolist() == [1, 4, 6, 2, 5, 3] and packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices is None and packed.unsorted_indices is None


def test_unpacking_undoes_packing(rng):
    padded = jit.tensor(draw(rng, 3, 4, 2))
    packed = rnn.pack_padded_sequence(padded, LENGTHS, batch_first=True, enforce_sorted=False)
    again, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1.0, total_length=6)
    assert lengths.tolist() == LENGTHS and again.shape == (3, 6, 2)
    for number, length in enumerate(LENGTHS):
        assert again[number, :length].tolist() == padded[number, :length].tolist()
        assert bool((again[number, length:] == -1).all())


@pytest.mark.parametrize(("side", "rows"), [("right", [[1, 2], [3, 9]]), ("left", [[1, 2], [9, 3]])])
def test_padding_goes_to_one_side(side, rows):
    sequences = [jit.tensor([1, 2]), jit.tensor([3])]
    assert rnn.pad_sequence(sequences, True, 9, side).tolist() == rows
    padded = rnn.pad_sequence(sequences)
    assert [t.tolist() for t in rnn.unpad_sequence(padded, jit.tensor([2, 1]))] == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2, 2], "from longest to shortest; pass enforce_sorted=False"),
        ([2, 1, 0], "must have at least one element"),
        ([2, 1], "expects 3 lengths"),
        ([9, 2, 1], "a length of 9 does not fit 4 steps"),
        (jit.tensor([2.0, 1.0, 1.0]), "lengths should be integers"),
    ],
)
def test_wrong_lengths_are_refused(lengths, message):
    with pytest.raises(jit.Error, match=message):
        rnn.pack_padded_sequence(jit.zeros(4, 3, 2), lengths)


def test_a_total_length_must_hold_all():
    packed = rnn.pack_sequence([jit.ones(3)])
    with pytest.raises(ValueError, match="total_length is 2, but a sequence has 3 elements"):
        rnn.pad_packed_sequence(packed, total_length=2)


# -- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.RNN(2, 3, nonlinearity="gelu"), "nonlinearity is 'gelu'"),
        (lambda: nn.LSTM(2, 3, 2, dropout=2), "dropout is 2; pass a probability"),
        (lambda: nn.GRU(2, 0), "hidden_size and num_layers are 0 and 1"),
        (lambda: nn.LSTM(2, 3, proj_size=3), "proj_size is 3; pass 0 to 2"),
        (lambda: nn.RNNBase("GRU", 2, 3, proj_size=1), "only an LSTM projects"),
        (lambda: nn.RNNBase("QRNN", 2, 3), "there is no recurrent network 'QRNN'"),
        (lambda: nn.GRU(2, 3)(jit.zeros(2)), r"GRU: expected an input of 2 or 3 dims, got the sizes \[2\]"),
        (lambda: nn.GRU(2, 3)(jit.zeros(4, 1, 5)), r"expected elements of size 2, got the sizes \[4, 1, 5\]"),
        (
            lambda: nn.GRU(2, 3)(jit.zeros(4, 1, 2), jit.zeros(1, 2, 3)),
            r"expected a state of sizes \[1, 1, 3\], got \[1, 2, 3\]",
        ),
        (lambda: nn.GRU(2, 3)(jit.zeros(4, 2), jit.zeros(1, 1, 3)), "takes states of 2 dims"),
        (lambda: nn.LSTM(2, 3)(jit.zeros(4, 1, 2), jit.zeros(1, 1, 3)), r"hx should be \(h, c\), got 1 tensors"),
        (lambda: nn.GRUCell(2, 3)(jit.zeros(1, 1, 2)), "GRUCell: expected an input of 1 or 2 dims"),
        (lambda: nn.LSTMCell(2, 3)(jit.zeros(1, 3)), "LSTMCell: expected an input of size 2"),
        (lambda: nn.RNNCell(2, 3)(jit.zeros(1, 2), jit.zeros(2, 3)), r"expected a state of sizes \[1, 3\]"),
    ],
)
def test_misuse_is_named(make, message):
    with warnings.catch_warnings(), pytest.raises(jit.Error, match=message):
        warnings.simplefilter("error")
        make()


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bidirectional": True}, {"num_layers": 2}], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_outputs_may_be_written_to(kind, options, rng):
    net, x = getattr(nn, kind)(3, 4, **options).double(), jit.from_numpy(draw(rng, 5, 2, 3))

    def masked(x):
        output, last = net(x)
        output[1:3] = 0
        output *= 2
        return weighted((output, last))

    def product(x):
        output, last = net(x)
        keep = jit.ones_like(output)
        keep[1:3] = 0
        return weighted((output * keep * 2, last))

    wanted = jit.grad(product(x), list(net.parameters()))
    for function in (masked, jit.trace(masked)):
        for got, gradient in zip(jit.grad(function(x), list(net.parameters())), wanted, strict=True):
            assert_close(got, gradient, rtol=1e-10, atol=1e-12)
