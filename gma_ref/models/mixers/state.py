"""What a mixer keeps of the tokens it has seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from gma_ref.pytorch.checks import check_index


class MixerState(NamedTuple):
    """The state of a causal mixer; no function changes one in place, so two continuations may start from one.

    Attributes
    ----------
    memory : named tuple of Tensor
        What the mixer itself keeps of all tokens.
    recent : Tensor or None
        The last tokens, which the short convolution still needs.
    """

    memory: Any
    recent: torch.Tensor | None

    def select(self, index):
        """Return the states of some sequences of the batch, in the order given; one may come several times."""
        check_index(index)
        return map_state(lambda tensor: tensor.index_select(0, index), self)


def map_state(function, state):
    """Return a state of the same kind with each of its tensors replaced by ``function(tensor)``."""
    if isinstance(state, torch.Tensor):
        return function(state)
    if isinstance(state, tuple):
        parts = [map_state(function, part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state


def tensors_of(state):
    """Return all tensors of a state, in order.

    ``sum(t.numel() for t in tensors_of(state))`` is its size in numbers, ``t.nbytes`` in bytes.
    """
    found = []
    map_state(lambda tensor: found.append(tensor) or tensor, state)
    return found
