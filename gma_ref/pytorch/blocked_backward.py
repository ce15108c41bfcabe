"""The backward pass in blocks: responsibilities are computed again, block by block, and nothing of N·K is kept.

With P = G / D and r = −⟨G, O⟩ / D (G6), let `upstream` be (P, r) side by side, as `values` is (V, 1): then reads and
writes go backwards as one product each. What is carried from the last piece to the first is the gradient of the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from . import native
from .blocked_forward import (
    affinity_within,
    chunks,
    flat,
    join_memory,
    needs_care,
    prefix_memories,
    running_sums,
    with_ones,
)
from .blocked_pieces import Room, pieces, tiles
from .numerics import compute_dtype, full_precision, keep
from .quadratic import Form, choose_form, negligible, responsibilities


class Poison:
    """What queries that are not finite do to the gradients: NaN for themselves, for what they read, for the mixture.

    Arrays of 0 and NaN, kept apart and added at the end: in a product they would reach tokens that they do not concern.
    """

    by_v = by_key = None  # (g, s, 1, d_v) and (g, s, 1, 1), what the queries so far do to the keys before them

    def add(self, by_v, by_key, causal):
        """Carry what a piece of queries adds, and return what the keys of that piece get."""
        total = from_the_end if causal else lambda array: array.sum(-2, keepdim=True)
        by_v, by_key = total(by_v), total(by_key)
        if self.by_v is not None:
            by_v, by_key = by_v + self.by_v, by_key + self.by_key
        self.by_v, self.by_key = by_v[..., :1, :], by_key[..., :1, :]
        return by_v, by_key


def from_the_end(array):
    """Sum over the tokens from each to the last."""
    return array.flip(-2).cumsum(-2).flip(-2)


def empty_gradients(q, k, v, mu, variance, log_prior, V_tilde, Z):
    """Return room for the gradients; without a state, its two are empty."""
    state = [q.new_empty(q.shape[0], 0) if t is None else torch.empty_like(t) for t in (V_tilde, Z)]
    return *(torch.empty_like(t) for t in (q, k, v, mu, variance, log_prior)), *state


def backward(
    q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, causal, eps, program,
    output, V_tilde_out, Z_out, reach, starts, upstream, V_tilde_bar, Z_bar,
):  # fmt: skip
    """Return the gradients of q, k, v, mu, variance, log_prior and of the state, from those of the results."""
    dtype = compute_dtype(q, k, v, mu, variance, log_prior)
    (G, S, N, _), K = q.shape, mu.shape[-2]
    gradients = empty_gradients(q, k, v, mu, variance, log_prior, V_tilde, Z)
    q_bar, k_bar, v_bar, *mixture_bar = gradients[:6]
    room = Room(dtype, q.device)
    run = backward_causal if causal else backward_bidirectional
    with full_precision(q.device):
        form = choose_form(mu, variance, log_prior, dtype)
        form.least = negligible(eps, dtype)
        spoilt = mu.new_zeros(G, dtype=dtype)
        given = q, k, v, V_tilde, Z, upstream, V_tilde_bar, Z_bar
        done = native.serves(program, form, dtype, *given) and native.backward(
            form, q, k, v, key_mask, causal, V_tilde_out, Z_out, output, reach, starts,
            upstream, V_tilde_bar, Z_bar, gradients,
        )  # fmt: skip
        for g, s in () if done else tiles(G, S, max(N, k.shape[2]), K, q.device):
            memory_bar = join_memory(V_tilde_bar, Z_bar, V_tilde_out, g, s)
            kept = starts[g, s] if causal else join_memory(V_tilde_out, Z_out, V_tilde_out, g, s).to(dtype)
            tile = Tile(
                form.part(g), q[g, s], k[g, s], v[g, s], None if key_mask is None else key_mask[g, s],
                output[g, s], reach[g, s], upstream[g, s], q_bar[g, s], k_bar[g, s], v_bar[g, s], room,
            )  # fmt: skip
            run(tile, kept, memory_bar)
            if tile.poison.by_v is not None:
                spoilt[g] += tile.poison.by_key.sum((1, 2, 3))
                memory_bar += torch.cat([tile.poison.by_v, tile.poison.by_key], dim=-1)
            if V_tilde is not None:
                gradients[6][g, s], gradients[7][g, s] = memory_bar[..., :-1], memory_bar[..., -1]
        for room_for, gradient in zip(mixture_bar, form.gradients(), strict=True):
            room_for.copy_(gradient + spoilt.view(-1, *[1] * (gradient.ndim - 1)))
    return gradients


def backward_bidirectional(tile, memory, memory_bar):
    """Take queries first, which add up the gradient of the memory; then keys, which receive it."""
    K, room = memory.shape[-2], tile.room
    for i, j, _ in pieces(tile.q.shape[2], K, causal=False):
        phi, gamma_q, upstream, poison = tile.queries(i, j, causal=False)
        by_gamma = room("by gamma", *gamma_q.shape)
        torch.bmm(flat(upstream), flat(finite(memory, poison)).mT, out=flat(by_gamma))
        read = room("sums", *memory.shape)
        torch.bmm(flat(gamma_q).mT, flat(upstream), out=flat(read))
        memory_bar += read
        tile.finish_queries(i, j, phi, gamma_q, by_gamma, poison)
    current = memory_bar.to(room.dtype)
    for i, j, _ in pieces(tile.k.shape[2], K, causal=False):
        phi, gamma_k, values = tile.keys(i, j)
        by_gamma, by_values = room("by gamma", *gamma_k.shape), room("by values", *values.shape)
        torch.bmm(flat(values), flat(current).mT, out=flat(by_gamma))
        torch.bmm(flat(gamma_k), flat(current), out=flat(by_values))
        tile.finish_keys(i, j, phi, gamma_k, by_gamma, by_values, (tile.poison.by_v, tile.poison.by_key))


def backward_causal(tile, starts, memory_bar):
    """From the last piece to the first: its queries and keys, then the gradient of the memory before it."""
    K, room = starts.shape[-2], tile.room
    for n, (i, j, chunk) in reversed(list(enumerate(pieces(tile.q.shape[2], K, causal=True)))):
        phi_q, gamma_q, upstream, poison = tile.queries(i, j, causal=True)
        phi_k, gamma_k, values = tile.keys(i, j)
        q, k, G, V = (chunks(array, chunk) for array in (gamma_q, gamma_k, upstream, values))
        prefix = prefix_memories(gamma_k, values, finite(starts[:, :, n], poison).clone(), chunk, room)
        inner = torch.bmm(G, V.mT, out=room("inner", q.shape[0], chunk, chunk)).tril_()
        by_gamma = room("by gamma", *gamma_q.shape)
        torch.bmm(G, prefix.mT, out=chunks(by_gamma, chunk)).baddbmm_(inner, k)
        tile.finish_queries(i, j, phi_q, gamma_q, by_gamma, poison)

        later = later_gradients(gamma_q, upstream, memory_bar, chunk, room)
        torch.bmm(V, later.mT, out=chunks(by_gamma, chunk)).baddbmm_(inner.mT, q)
        inner = affinity_within(gamma_q, gamma_k, chunk, room)
        by_values = room("by values", *values.shape)
        torch.bmm(k, later, out=chunks(by_values, chunk)).baddbmm_(inner.mT, G)
        poison = (tile.poison.by_v, tile.poison.by_key) if poison is None else poison[:2]
        tile.finish_keys(i, j, phi_k, gamma_k, by_gamma, by_values, poison)


def later_gradients(gamma_q, upstream, memory_bar, chunk, room):
    """Return the gradient of the memory after each chunk of a piece, and add the piece's queries to `memory_bar`."""
    (g, s, K, width), C = memory_bar.shape, gamma_q.shape[2] // chunk
    read, later = (room(name, g * s, C, K, width) for name in ("sums", "prefix"))
    torch.bmm(chunks(gamma_q, chunk).mT, chunks(upstream, chunk), out=read.flatten(0, 1))
    return running_sums(flat(memory_bar), read.unbind(1), later, order=-1)


def finite(array, poison):
    """Return an array without what is not finite, where the queries say that something may not be."""
    return array if poison is None else torch.nan_to_num(array, 0, 0, 0)


@dataclass
class Tile:
    """Groups and sequences that are worked on together: what comes in, where gradients go, the steps of a piece."""

    form: Form
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None
    output: torch.Tensor
    reach: torch.Tensor
    upstream: torch.Tensor
    q_bar: torch.Tensor
    k_bar: torch.Tensor
    v_bar: torch.Tensor
    room: Room
    poison: Poison = field(default_factory=Poison)

    def queries(self, i, j, causal):
        """Return features, responsibilities, (P, r), and None or the poison for values, keys and these queries."""
        phi, gamma_q = responsibilities(self.form, self.q[:, :, i:j], self.room, "gamma_q")
        G, reach, poison = self.upstream[:, :, i:j], self.reach[:, :, i:j], None
        upstream = self.room("upstream", *G.shape[:-1], G.shape[-1] + 1)
        P, r = upstream[..., :-1], upstream[..., -1]
        P.copy_(G)
        torch.sum(P * self.output[:, :, i:j], dim=-1, out=r).neg_()
        if needs_care(upstream, gamma_q, reach):
            asked = (G != 0).any(-1, keepdim=True)  # a query that nobody asks about sends nothing back
            by_v = torch.where(asked, 0 * P + 0 * (reach + gamma_q.sum(-1))[..., None], 0)
            by_query = torch.where(asked, by_v.sum(-1, keepdim=True) + 0 * r[..., None], 0)
            poison = *self.poison.add(by_v, by_query, causal), by_query
            phi, reach = without_non_finite(phi), reach.nan_to_num(0, 0, 0)
            for array in (gamma_q, upstream):
                array.nan_to_num_(0, 0, 0)
        upstream *= reach[..., None]
        return phi, gamma_q, upstream, poison

    def keys(self, i, j):
        """Return features, responsibilities and values with a column of ones."""
        mask = None if self.mask is None else self.mask[..., i:j]  # what it leaves out may overflow, and 0·∞ is NaN
        k, v = (keep(mask, tokens[:, :, i:j]) for tokens in (self.k, self.v))
        phi, gamma_k = responsibilities(self.form, k, self.room, "gamma_k")
        values = with_ones(v, self.room)
        if needs_care(gamma_k, values):
            phi = without_non_finite(phi)
            for array in (gamma_k, values):
                array.nan_to_num_(0, 0, 0)
        if mask is not None:
            gamma_k.masked_fill_(~mask[..., None], 0)
        return phi, gamma_k, values

    def finish_queries(self, i, j, phi, gamma_q, by_gamma, poison):
        """Take the gradient of the responsibilities of queries through the scores."""
        by_x = self.through_scores(phi, gamma_q, by_gamma)
        self.q_bar[:, :, i:j] = by_x if poison is None else by_x + poison[2]

    def finish_keys(self, i, j, phi, gamma_k, by_gamma, by_values, poison):
        """Take the gradient of the responsibilities of keys through the scores, and that of the values."""
        masked = None if self.mask is None else ~self.mask[..., i:j, None]
        by_x, by_values = self.through_scores(phi, gamma_k, by_gamma, masked), by_values[..., :-1]
        if poison[0] is not None:
            by_x, by_values = by_x + poison[1], by_values + poison[0]
        self.k_bar[:, :, i:j], self.v_bar[:, :, i:j] = by_x, by_values
        if masked is not None:
            for gradient in (self.k_bar, self.v_bar):
                gradient[:, :, i:j].masked_fill_(masked, 0)

    def through_scores(self, phi, gamma, by_gamma, masked=None):
        """Return the gradient of the tokens, by Eqs. (18) and (19)."""
        delta = self.room("delta", *gamma.shape)
        torch._softmax_backward_data(by_gamma, gamma, -1, gamma.dtype, grad_input=delta)
        if masked is not None:
            delta.masked_fill_(masked, 0)
        if self.form.mu.dtype != delta.dtype:
            delta = self.room("wide delta", *delta.shape, dtype=self.form.mu.dtype).copy_(delta)
        return self.form.backward(phi, delta, self.room)


def without_non_finite(features):
    """Return features with 0 for what is not finite; they may be the tokens themselves, so nothing is changed."""
    return [array if array is None else array.nan_to_num(0, 0, 0) for array in features]
