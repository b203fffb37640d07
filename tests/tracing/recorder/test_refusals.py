"""What a recording cannot repeat, and errors that a function catches."""

from __future__ import annotations

import pytest

from jit.ir.errors import Error, SchemaError, ShapeError, TraceError
from jit.tracing.recorder.caught_errors import TraceErrors
from jit.tracing.recorder.refusals import Impurity
from jit.tracing.recorder.scalars import Scalars


def test_the_first_deed_is_the_reason() -> None:
    impurity = Impurity(Scalars())
    impurity.note_impure("reads the clock")
    impurity.note_impure("opens a file")
    assert impurity.deeds == ["reads the clock", "opens a file"]
    assert impurity.reason is not None and impurity.reason.startswith("reads the clock at test_refusals.py:")


def test_text_is_for_people_while_something_is_printed() -> None:
    impurity = Impurity(Scalars())
    impurity.printing += 1
    impurity.note_text()
    assert impurity.reason is None
    impurity.printing -= 1
    impurity.note_text()
    assert impurity.deeds == ["makes text of the elements of a tensor"]


def caught(error: Error) -> Error:
    try:
        raise error
    except Error as found:
        return found


def test_a_caught_error_of_sizes_fixes_the_sizes() -> None:
    impurity = Impurity(Scalars())
    errors = TraceErrors(impurity)
    errors.made += [caught(ShapeError("no")), caught(SchemaError("no"))]
    errors.look_at_caught()
    assert impurity.one_size is not None and impurity.reason is None and not errors.made


def test_an_error_that_an_operator_has_raised_is_guarded_already() -> None:
    impurity = Impurity(Scalars())
    errors = TraceErrors(impurity)
    error = caught(ShapeError("no"))
    errors.made.append(error)
    errors.raised.append(error)
    errors.look_at_caught()
    assert impurity.one_size is None


def test_errors_of_ours_come_again_and_forgiven_ones_do_not() -> None:
    errors = TraceErrors(Impurity(Scalars()))
    error = caught(TraceError("ours"))
    errors.made.append(error)
    with pytest.raises(TraceError, match="ours"):
        errors.look_at_caught()
    errors.made.append(error)
    errors.forgive(error)
    errors.look_at_caught()
    errors.refuse("aten::mm")
    with pytest.raises(TraceError, match="an error of aten::mm, and strict=True forbids"):
        errors.look_at_caught()
