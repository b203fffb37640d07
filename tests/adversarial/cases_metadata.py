"""Cases about what is not an element: geometry that changes in place, offsets, names, versions, attributes, leaves."""

from typing import Any

import jit
from jit.nn import functional as F
from tests.adversarial.trial import Trial, case


def matrix(rows: int = 2, columns: int = 3) -> jit.Tensor:
    """Small whole numbers in memory of their own."""
    return jit.arange(float(rows * columns)).reshape(rows, columns) + 1


def tracked(rows: int = 2, columns: int = 3) -> jit.Tensor:
    """A matrix with a history."""
    return matrix(rows, columns).requires_grad_() * 1


def looks(t: Trial, *tensors: jit.Tensor) -> None:
    """Log what the elements do not say."""
    for x in tensors:
        t.see("geometry", [tuple(x.shape), x.stride(), x.storage_offset(), x.is_leaf, x.requires_grad])
        t.see("attributes", {k: v for k, v in vars(x).items() if isinstance(v, (int, float, str, tuple, jit.Tensor))})


# -- the view family in place, on arguments ----------------------------------------------------------------------


@case()
def transposed_in_place(t: Trial) -> None:
    f = t.trace(lambda x: x.t_().sum(0))
    for _ in range(3):
        x = matrix()
        t.call(f, x)
        looks(t, x)


@case()
def transposed_in_place_and_back(t: Trial) -> None:
    def f(x):
        x.t_()
        return x * 2

    f, x = t.trace(f), matrix()
    for _ in range(5):
        t.call(f, x)
        looks(t, x)


@case()
def square_ones_lie_otherwise(t: Trial) -> None:
    f, x = t.trace(lambda x: x.t_() + 0), matrix(3, 3)
    for _ in range(5):
        t.call(f, x)
        looks(t, x)


@case()
def every_member_of_the_family(t: Trial) -> None:
    def f(a, b, c, d, e, g):
        a.unsqueeze_(1)
        b.squeeze_(0)
        c.transpose_(0, 1)
        d.swapaxes_(0, -1)
        e.swapdims_(0, 1)
        g.as_strided_([2, 2], [1, 2], 1)
        return a.sum() + b.sum() + c[0].sum() + d[0].sum() + e[0].sum() + g[0].sum()

    f = t.trace(f)
    for _ in range(3):
        given = [matrix(), matrix(1, 4), matrix(), matrix(), matrix(3, 2), matrix()]
        t.call(f, *given)
        looks(t, *given)


@case()
def written_before_and_after_the_turn(t: Trial) -> None:
    def f(x):
        x.add_(1)
        x.t_()
        x[0] = 9
        x.mul_(2)
        return x[1]

    f = t.trace(f)
    for _ in range(3):
        x = matrix()
        t.call(f, x)
        looks(t, x)


@case()
def turned_with_a_history(t: Trial) -> None:
    def f(x):
        x.t_()
        return (x * jit.arange(6.0).reshape(3, 2)).sum()

    f = t.trace(f)
    for _ in range(3):
        leaf = matrix().requires_grad_()
        x = leaf * 2
        t.call(f, x)
        looks(t, x)
        t.see("gradient", leaf.grad)


@case()
def turned_and_written_with_a_history(t: Trial) -> None:
    def f(x, w):
        x.unsqueeze_(0).mul_(w)
        return x * x

    f = t.trace(f)
    for _ in range(3):
        leaf, w = matrix().requires_grad_(), jit.tensor(3.0, requires_grad=True)
        x = leaf * 2
        t.call(f, x, w, backward=False)
        (x * x).sum().backward()
        t.see("gradients", [leaf.grad, w.grad])
        looks(t, x)


@case()
def a_plain_argument_gets_a_history_and_turns(t: Trial) -> None:
    def f(x, w):
        x.mul_(w)
        x.t_()

    f = t.trace(f)
    for _ in range(3):
        x, w = matrix(), jit.tensor(3.0, requires_grad=True)
        t.call(f, x, w)
        looks(t, x)
        (x * jit.arange(6.0).reshape(3, 2)).sum().backward()
        t.see("gradient", w.grad)


@case()
def turned_and_returned_itself(t: Trial) -> None:
    f = t.trace(lambda x: (x.t_(), x, x[0]))
    for _ in range(3):
        x = matrix()
        found = t.call(f, x)
        t.see("same", [found[0] is x, found[1] is x, found[2] is x])
        found[2].fill_(7)
        t.see("shared", x)


@case()
def a_view_taken_before_the_turn(t: Trial) -> None:
    def f(x):
        row = x[0]
        x.t_()
        row.add_(10)
        return row, x

    f = t.trace(f)
    for _ in range(3):
        x = matrix()
        row, same = t.call(f, x)
        row.zero_()
        t.see("shared", [x, same is x])


@case()
def a_view_from_outside_follows_the_memory(t: Trial) -> None:
    def f(x):
        x.t_()
        x.add_(1)

    f = t.trace(f)
    for _ in range(3):
        base = matrix(4, 3)
        x = base[1:3]
        t.call(f, x)
        looks(t, x)
        t.see("base", base)


@case()
def turned_in_a_branch_only(t: Trial) -> None:
    def f(x):
        if x.sum() > 10:
            x.t_()
        return x * 1

    f = t.trace(f)
    for scale in (1, -1, 1, -1):
        x = matrix() * scale
        t.call(f, x)
        looks(t, x)


@case()
def a_guard_after_the_turn(t: Trial) -> None:
    def f(x):
        x.t_()
        return x + 1 if x[0, 1] > 0 else x - 1

    f = t.trace(f)
    for scale in (1, -1, 1, -1):
        x = matrix() * scale
        t.call(f, x)
        looks(t, x)


@case()
def an_error_after_the_turn(t: Trial) -> None:
    def f(x):
        x.unsqueeze_(0)
        if x.sum() < 0:
            raise ValueError("negative")
        return x

    f = t.trace(f)
    for scale in (1, 1, -1, 1):
        x = matrix() * scale
        t.call(f, x)
        looks(t, x)


@case()
def one_tensor_twice(t: Trial) -> None:
    def f(x, y):
        x.t_()
        return y * 2

    f = t.trace(f)
    for _ in range(3):
        x = matrix()
        t.call(f, x, x)
        looks(t, x)


@case(allowed=jit.TraceError)
def two_objects_for_one_tensor(t: Trial) -> None:
    def f(x, y):
        y.t_()
        return x * 2

    f = t.trace(f)
    for _ in range(3):
        x = matrix()
        y = x[:]
        t.call(f, x, y)
        looks(t, x, y)


@case(must_hit=False)
def turned_by_a_call_that_is_not_kept(t: Trial) -> None:
    kept = {}

    def f(x):
        kept["last"] = x
        x.t_()
        return x * 2

    f = t.trace(f)
    for _ in range(3):
        x = matrix()
        t.call(f, x)
        looks(t, x)
        t.see("kept", kept["last"] is x)


@case()
def a_gradient_turns(t: Trial) -> None:
    w = matrix().requires_grad_()

    def f(x):
        gradient: Any = w.grad
        gradient.t_()
        return x * gradient.sum()

    f = t.trace(f)
    for scale in (1, 2, 3):
        w.grad = matrix() * scale
        t.call(f, jit.ones(2), backward=False)
        looks(t, w.grad)


@case()
def one_traced_function_in_another(t: Trial) -> None:
    inner = t.trace(lambda x: x.t_() * 3)
    f = t.trace(lambda x: inner(x) + x)
    for _ in range(3):
        x = matrix()
        t.call(f, x)
        looks(t, x)


@case()
def in_a_list(t: Trial) -> None:
    def f(xs):
        for x in xs:
            x.unsqueeze_(-1)
        return jit.cat(xs)

    f = t.trace(f)
    for _ in range(3):
        xs = [matrix(), matrix() * 2]
        t.call(f, xs)
        looks(t, *xs)


@case()
def a_captured_tensor_turns(t: Trial) -> None:
    w = matrix(3, 3)

    def f(x):
        w.t_()
        return x @ w

    f = t.trace(f)
    t.watch(w=w)
    for _ in range(5):
        t.call(f, matrix(2, 3))
        looks(t, w)


@case()
def a_captured_tensor_turns_and_is_written(t: Trial) -> None:
    state = {"w": matrix(2, 3)}

    def f(x):
        state["w"].t_()
        state["w"].add_(x)
        return state["w"].sum()

    f = t.trace(f)
    for _ in range(5):
        t.call(f, jit.tensor(2.0))
        looks(t, state["w"])


@case()
def a_leaf_turns_under_no_grad(t: Trial) -> None:
    def f(x, w):
        with jit.no_grad():
            w.t_()
        return x @ w

    f = t.trace(f)
    for _ in range(3):
        w = matrix(3, 2).requires_grad_()
        t.call(f, matrix(4, 3)[:, :2], w)
        looks(t, w)


@case()
def sizes_vary_and_it_turns(t: Trial) -> None:
    f = t.trace(lambda x: x.t_()[0] * 2)
    for rows in (2, 3, 4, 5, 6):
        x = matrix(rows, 3)
        t.call(f, x)
        looks(t, x)


@case()
def turned_in_a_module(t: Trial) -> None:
    class Turning(jit.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", matrix(2, 3))

        def forward(self, x):
            self.state.t_()
            return self.state.sum() * x

    module = Turning()
    f = t.trace(module)
    for _ in range(5):
        t.call(f, jit.ones(1))
        looks(t, module.state)


# -- resize_, detach_, requires_grad_ ----------------------------------------------------------------------------


@case()
def resized_inside(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.resize_(2, 2)
        z = x * 3
        z.resize_(3, 4)
        return y, z

    f = t.trace(f)
    for _ in range(3):
        t.call(f, matrix())


@case()
def resized_to_take_a_result(t: Trial) -> None:
    def f(x):
        out = jit.empty(0)
        out.resize_(2, 3)
        out.copy_(x * 2)
        return out

    f = t.trace(f)
    for _ in range(3):
        t.call(f, matrix())


@case(allowed=jit.TraceError)
def an_argument_is_resized(t: Trial) -> None:
    def f(x, larger):
        x.resize_(2, 2)
        x.add_(1)
        if larger:
            x.resize_(5, 5)
        return x.sum()

    f = t.trace(f)
    for larger in (False, False, False, True):
        x = matrix()
        t.call(f, x, larger)
        looks(t, x)


@case()
def a_leaf_of_a_detached_argument(t: Trial) -> None:
    def f(x):
        y = x.detach().requires_grad_()
        (y * y * y).sum().backward()
        return x + y.grad

    f = t.trace(f)
    for scale in (1, 2, 3):
        t.call(f, matrix() * scale)


@case()
def a_leaf_of_a_detached_argument_by_grad(t: Trial) -> None:
    def f(x, w):
        y = x.detach()
        y.requires_grad = True
        (g,) = jit.autograd.grad((y * y * w).sum(), y, create_graph=True)
        return (g * g).sum()

    f = t.trace(f)
    for scale in (1, 2, 3):
        t.call(f, tracked() * scale, jit.tensor(2.0, requires_grad=True))


@case(allowed=jit.TraceError)
def a_detached_leaf_is_returned(t: Trial) -> None:
    f = t.trace(lambda x: x.detach().requires_grad_())
    for _ in range(3):
        t.call(f, matrix(), backward=False)


@case(allowed=jit.TraceError)
def an_argument_is_detached_in_place(t: Trial) -> None:
    def f(x):
        x.detach_()
        return x * 2

    f = t.trace(f)
    for _ in range(3):
        x = tracked()
        t.call(f, x)
        looks(t, x)


@case(allowed=jit.TraceError)
def an_argument_retains_its_gradient(t: Trial) -> None:
    def f(x):
        x.retain_grad()
        return (x * x).sum()

    f = t.trace(f)
    for _ in range(3):
        x = tracked()
        t.call(f, x)
        t.see("gradient", x.grad)


@case()
def a_result_retains_its_gradient(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.retain_grad()
        return y

    f = t.trace(f)
    for _ in range(3):
        y = t.call(f, matrix().requires_grad_(), backward=False)
        (y * y).sum().backward()
        t.see("gradient", [y.grad, y.retains_grad])


@case()
def a_gradient_is_detached_after_create_graph(t: Trial) -> None:
    w: Any = matrix().requires_grad_()

    def f(x):
        w.grad = None
        (w.sum(0) * x).sum().backward(create_graph=True)
        gradient = w.grad
        return gradient.detach_() * 1

    f = t.trace(f)
    t.watch(w=w)
    for scale in (1.0, 2.0, 3.0):
        t.call(f, jit.tensor([scale, 1.0, 2.0]))


@case()
def gradients_by_a_generator(t: Trial) -> None:
    model = jit.nn.Sequential(jit.nn.Linear(3, 4), jit.nn.Tanh(), jit.nn.Linear(4, 1))

    def f(x):
        found = jit.autograd.grad(model(x).sum(), model.parameters(), only_inputs=True)
        return [g * 2 for g in found]

    f = t.trace(f)
    for scale in (1, 2, 3):
        t.call(f, matrix() * scale)


# -- attributes of results ---------------------------------------------------------------------------------------


@case()
def a_result_is_tagged(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.tag = 5
        y.words = ("a", 1.5, None)
        return y

    f = t.trace(f)
    for _ in range(3):
        looks(t, t.call(f, matrix()))


@case()
def a_result_carries_tensors(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.mask = x > 2
        y.parts = {"sum": x.sum(), "rows": [x[0], x[1] * 2]}
        return y

    f = t.trace(f)
    for scale in (1, 2, 3):
        y = t.call(f, tracked() * scale, backward=False)
        t.see("carried", [y.mask, y.parts])
        (y.sum() + y.parts["sum"] + y.parts["rows"][1].sum()).backward()


@case()
def a_tag_from_a_size_and_an_element(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.rows = x.shape[0]
        y.first = x[0, 0].item()
        return [y]

    f = t.trace(f)
    for rows in (2, 3, 4, 5):
        (y,) = t.call(f, matrix(rows) * rows)
        t.see("tags", [y.rows, y.first])


@case()
def tags_of_a_view_and_of_the_same_twice(t: Trial) -> None:
    def f(x):
        y = x[0]
        y.tag = "row"
        return y, y, {"again": y}

    f = t.trace(f)
    for _ in range(3):
        a, b, c = t.call(f, matrix())
        t.see("tags", [a.tag, b is a, c["again"] is a])


@case(must_hit=False)
def a_tag_that_nobody_can_make_anew(t: Trial) -> None:
    class Odd:
        pass

    def f(x):
        y = x * 2
        y.odd = Odd()
        return y

    f = t.trace(f)
    found = [t.call(f, matrix()) for _ in range(3)]
    t.see("their own", len({id(y.odd) for y in found}))


@case()
def a_result_is_named(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.name = "doubled"
        return y

    f = t.trace(f)
    for _ in range(3):
        t.see("name", t.call(f, matrix()).name)


@case(allowed=jit.TraceError)
def an_argument_is_named(t: Trial) -> None:
    def f(x):
        x.name = "seen"
        return x * 2

    f = t.trace(f)
    for _ in range(3):
        x = matrix()
        t.call(f, x)
        t.see("name", x.name)


@case(allowed=jit.TraceError)
def an_argument_is_tagged(t: Trial) -> None:
    def f(x):
        x.seen = True
        return x * 2

    f = t.trace(f)
    for _ in range(3):
        x = matrix()
        t.call(f, x)
        looks(t, x)


# -- what Python reads -------------------------------------------------------------------------------------------


@case()
def offsets(t: Trial) -> None:
    f, base = t.trace(lambda x: x + x.storage_offset()), jit.arange(12.0) + 0
    for start in (0, 3, 6, 0, 3, 6):
        t.call(f, base[start : start + 3])


@case(must_hit=False)
def versions(t: Trial) -> None:
    f, x = t.trace(lambda x: x * 0 + x._version), matrix()
    for _ in range(4):
        t.call(f, x)
        x.add_(1)


@case()
def versions_of_what_is_made_inside(t: Trial) -> None:
    def f(x):
        y = x * 2
        y.add_(1)
        y[0].mul_(3)
        return y * y._version

    f = t.trace(f)
    for _ in range(3):
        t.call(f, matrix())


@case()
def whether_it_is_a_view(t: Trial) -> None:
    f = t.trace(lambda x: x * 2 if x._base is None else x * x._base.sum())
    for x in (matrix(), matrix(3)[1:], matrix(), matrix(3)[:2], matrix() + 5):
        t.call(f, x)


@case()
def the_base_of_a_view_taken_inside(t: Trial) -> None:
    def f(x):
        row = x[0]
        return row._base is x, row._base.sum()

    f = t.trace(f)
    for _ in range(3):
        t.call(f, matrix())


@case()
def which_output(t: Trial) -> None:
    f = t.trace(lambda x: x * (x.output_nr + 1))
    for index in (0, 1, 2, 0, 1, 2):
        pieces = tracked(6, 2).split(2)
        t.call(f, pieces[index])


@case(must_hit=False)
def who_made_it(t: Trial) -> None:
    f = t.trace(lambda x: x * (2 if "Mul" in x.grad_fn.name else 3))
    for made in (lambda x: x * 2, lambda x: x + 2, lambda x: x * 2, lambda x: x.exp()):
        t.call(f, made(matrix().requires_grad_()))


@case()
def strides_of_dims_of_size_one(t: Trial) -> None:
    f = t.trace(lambda x: x * (sum(x.stride()) + 1))
    for made in (lambda: matrix(1, 4), lambda: matrix(3, 4)[:1], lambda: jit.as_strided(matrix(4, 4), [1, 4], [9, 1])):
        for _ in range(2):
            t.call(f, made())


@case()
def strides_by_sizes(t: Trial) -> None:
    def f(x):
        return jit.as_strided(x, [x.shape[0], 2], [x.stride(0), 1]) * x.stride(-2)

    f = t.trace(f)
    for rows, columns in ((2, 3), (3, 4), (4, 5), (5, 6), (4, 5)):
        t.call(f, matrix(rows, columns))


@case()
def contiguous_for_one_width(t: Trial) -> None:
    def f(x):
        y = x[:, :2]
        return y.reshape(-1) if y.is_contiguous() else y.sum(0)

    f = t.trace(f)
    for columns in (4, 5, 6, 2, 7, 2):
        t.call(f, matrix(3, columns))


@case()
def retained_or_not(t: Trial) -> None:
    f = t.trace(lambda x: x * 2 if x.retains_grad else x * 3)
    for retains in (False, True, False, True):
        x = tracked()
        if retains:
            x.retain_grad()
        t.call(f, x)


@case()
def packed_by_a_list_of_lengths(t: Trial) -> None:
    def f(x, lengths):
        return jit.cat([x[row, :length] for row, length in enumerate(lengths.tolist())])

    f = t.trace(f)
    for lengths in ([2, 3], [3, 1], [2, 3], [1, 1], [3, 1]):
        t.call(f, tracked(), jit.tensor(lengths))


@case()
def lists_of_numbers(t: Trial) -> None:
    def f(x):
        first, *rest = x.tolist()[0]
        table = x.tolist()
        return x * first + sum(rest), max(max(row) for row in table), (x > 1).tolist()

    f = t.trace(f)
    for scale in (1.0, 2.0, -1.0, 1.0):
        t.call(f, matrix() * scale)


@case(allowed=jit.TraceError)
def a_long_list(t: Trial) -> None:
    f = t.trace(lambda x: x * len(x.tolist()))
    for _ in range(2):
        t.call(f, jit.arange(1000.0))


@case()
def split_by_a_list(t: Trial) -> None:
    def f(x, sizes):
        return [F.relu(part).sum() for part in x.split(sizes.tolist())]

    f = t.trace(f)
    for sizes in ([1, 3], [2, 2], [1, 3], [3, 1]):
        t.call(f, tracked(4, 2), jit.tensor(sizes))
