"""Which objects are which."""

from __future__ import annotations

import jit
from jit.tracing.recorder.identities import Identities


def test_arguments_and_what_stands_for_them() -> None:
    identities = Identities()
    inner, outer, other = jit.ones(1), jit.ones(1), jit.ones(1)
    identities.stand_for(inner, outer)
    assert identities.outside(inner) is outer and identities.inside(outer) is inner
    assert identities.outside(other) is other and identities.inside(other) is other


def test_objects_and_their_pasts() -> None:
    identities = Identities()
    tensor, before = jit.ones(1), jit.ones(1)
    identities.reshape(tensor, before)
    assert identities.reshaped[tensor] is before and identities.pasts[before] is tensor
    identities.forget()
    assert not identities.reshaped and not identities.pasts
