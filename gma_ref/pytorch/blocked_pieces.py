"""How the tokens of a call are divided, and the room in which a piece of them is worked on."""

from __future__ import annotations

import math

import torch

BLOCK = 512  # tokens of one sequence that are worked on at once
CHUNK = 64  # tokens within a causal block that meet each other directly; the rest meets through the memory
ROWS = 2048  # tokens of all sequences together that are worked on at once, so that they stay in cache


def block_length(num_components, causal):
    """Return the tokens of a block: at least twice K, so that a memory kept per block is smaller than its tokens."""
    chunk = min(CHUNK, BLOCK) if causal else 1
    return -(-max(BLOCK, 2 * num_components) // chunk) * chunk


def num_pieces(num_tokens, num_components, causal):
    """Return the number of memories that a causal pass keeps; a bidirectional one keeps none."""
    return num_tokens // block_length(num_components, True) + 2 if causal else 0


def pieces(num_tokens, num_components, causal):
    """Return start, stop and chunk length of each piece: blocks of whole chunks, and what is left as one chunk."""
    block = block_length(num_components, causal)
    if not causal:
        return [(i, min(i + block, num_tokens), block) for i in range(0, num_tokens, block)]
    chunk = min(CHUNK, BLOCK)
    whole = num_tokens - num_tokens % chunk
    found = [(i, min(i + block, whole), chunk) for i in range(0, whole, block)]
    return found + [(whole, num_tokens, num_tokens - whole)] * (whole < num_tokens)


def tiles(num_groups, num_sequences, num_tokens, num_components, device):
    """Return slices of groups and of sequences that are worked on together."""
    block = min(block_length(num_components, False), max(num_tokens, 1))
    together = max(1, ROWS // block) if device.type == "cpu" else num_groups * num_sequences
    sequences = max(1, min(num_sequences, together))
    groups = max(1, together // sequences)
    return [
        (slice(g, min(g + groups, num_groups)), slice(s, min(s + sequences, num_sequences)))
        for g in range(0, num_groups, groups)
        for s in range(0, num_sequences, sequences)
    ]


class Room:
    """Buffers that are made once and used for every piece, so that the loop allocates nothing and stays in cache."""

    def __init__(self, dtype, device):
        self.dtype, self.device, self.buffers, self.views = dtype, device, {}, {}

    def __call__(self, name, *shape, dtype=None):
        """Return an uninitialised tensor of the given shape; what an earlier one of that name held is lost."""
        view = self.views.get((name, shape))
        if view is None:
            view = self.views[name, shape] = self.first_view(name, shape, dtype or self.dtype)
        return view

    def first_view(self, name, shape, dtype):
        """Return part of the buffer of that name in the given shape; the first piece is the largest."""
        size = math.prod(shape)
        buffer = self.buffers.get(name)
        if buffer is None or buffer.numel() < size:
            buffer = self.buffers[name] = torch.empty(size, dtype=dtype, device=self.device)
        return buffer[:size].view(shape)
