"""Attributes that the function sets on networks: see Note [Attributes that are set].

Note [Attributes that are set]
    A network keeps what its user wants to look at later: `self.attn = weights`, `self.last_loss = loss`. What such an
    attribute held before makes no difference to a call that cannot have read it, so it is not watched (Note
    [Footprints]); what it holds afterwards is a result under another name, which every call sets anew:

        def forward(self, x):                           graph(%x, %fc.weight, %fc.bias) {
            self.attn = self.fc(x).softmax(-1)              %attn = softmax(linear(%x, %fc.weight, %fc.bias), -1)
            return x * self.attn                            %0 = mul(%x, %attn)
                                                            return (%0, %attn)     the second is set as `attn`

    An attribute that is read before it is set must be an input: a tensor before and after, which is captured like a
    buffer and of which the key knows no elements; or a number, which is promoted as soon as a call has changed it
    (`self.calls += 1`, Note [Numbers that vary]). Everything else that is read and set - a list that grows, a state in
    words - is a change that no recording can repeat, and so is an attribute that holds what cannot be made anew.

    Networks tell of what is set by `__setattr__`; they are found again in later calls by their numbers among the
    objects in reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getattr_static

from jit.eager.networks import Network


class SetAttributes:
    """The attributes that have been set, in their order."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], tuple[Network, str]] = {}
        self._made: dict[int, Network] = {}
        """The networks that the function has made itself, by identity."""

    def note(self, network: Network, name: str) -> None:
        """Note that an attribute has been set."""
        self._found[id(network), name] = network, name

    def note_made(self, network: Network) -> None:
        """Note that the function makes a network."""
        self._made[id(network)] = network

    def of_others(self) -> Iterator[tuple[Network, str]]:
        """The attributes of networks that were there before, each once, but for those that classes store themselves."""
        for network, name in self._found.values():
            kept = getattr_static(type(network), name, None)
            if id(network) not in self._made and not hasattr(type(kept), "__set__"):
                yield network, name

    def forget(self) -> None:
        """Let go of the networks of the call that was recorded."""
        self._found.clear()
        self._made.clear()


__all__ = ["SetAttributes"]
