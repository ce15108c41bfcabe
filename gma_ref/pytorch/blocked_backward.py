"""The backward pass in blocks: responsibilities are computed again, block by block, and nothing of N·K is kept.

With P = G / D and r = −⟨G, O⟩ / D (G6), let `upstream` be (P, r) side by side, as `values` is (V, 1): then reads and
writes go backwards as one product each. What is carried from the last piece to the first is the gradient of the memory.
"""

from __future__ import annotations

import math

import torch

from .blocked_forward import (
    affinity_within,
    chunks,
    compute_dtype,
    flat,
    join_memory,
    prefix_memories,
    running_sums,
    with_ones,
)
from .blocked_pieces import Room, pieces, tiles
from .quadratic import choose_form, full_precision, responsibilities


class Poison:
    """What queries that are not finite do to the gradients: NaN for themselves, for what they read, for the mixture.

    Arrays of 0 and NaN, kept apart and added at the end. In a product they would reach tokens that they do not concern.
    """

    def __init__(self, upstream):
        self.by_v = upstream.new_zeros(*upstream.shape[:2], 1, upstream.shape[-1])
        self.by_key = self.by_v[..., :1].clone()

    def add(self, by_v, by_key, causal):
        """Carry what a piece of queries adds; return what its own keys get."""
        if not causal:
            self.by_v = self.by_v + by_v.sum(-2, keepdim=True)
            self.by_key = self.by_key + by_key.sum(-2, keepdim=True)
            return self.by_v, self.by_key
        by_v, by_key = (from_the_end(x) + carried for x, carried in ((by_v, self.by_v), (by_key, self.by_key)))
        self.by_v, self.by_key = by_v[..., :1, :], by_key[..., :1, :]
        return by_v, by_key


def from_the_end(array):
    """Sum over the tokens from each to the last."""
    return array.flip(-2).cumsum(-2).flip(-2)


def empty_gradients(q, k, v, mu, variance, log_prior, V_tilde, Z):
    """Return room for the gradients; without a state, its two are empty."""
    state = [q.new_empty(q.shape[0], 0) if t is None else torch.empty_like(t) for t in (V_tilde, Z)]
    return [torch.empty_like(t) for t in (q, k, v, mu, variance, log_prior)] + state


def backward(
    q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, causal, eps,
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
        spoilt = mu.new_zeros(G, dtype=dtype)
        for g, s in tiles(G, S, max(N, k.shape[2]), K, q.device):
            memory_bar = join_memory(V_tilde_bar, Z_bar, V_tilde_out, g, s)
            kept = starts[g, s] if causal else join_memory(V_tilde_out, Z_out, V_tilde_out, g, s).to(dtype)
            piece = Piece(
                form.part(g), q[g, s], k[g, s], v[g, s], None if key_mask is None else key_mask[g, s],
                output[g, s], reach[g, s], upstream[g, s], q_bar[g, s], k_bar[g, s], v_bar[g, s], room,
            )  # fmt: skip
            run(piece, kept, memory_bar)
            spoilt[g] += piece.poison.by_key.sum((1, 2, 3))
            memory_bar[..., :-1] += piece.poison.by_v
            memory_bar[..., -1] += piece.poison.by_key[..., 0]
            if V_tilde is not None:
                gradients[6][g, s], gradients[7][g, s] = memory_bar[..., :-1], memory_bar[..., -1]
        for room_for, gradient in zip(mixture_bar, form.gradients(), strict=True):
            room_for.copy_(gradient + spoilt.view(-1, *[1] * (gradient.ndim - 1)))
    return gradients


def backward_bidirectional(piece, memory, memory_bar):
    """Queries first, which add up the gradient of the memory; then keys, which receive it."""
    K, room = memory.shape[-2], piece.room
    for i, j, _ in pieces(piece.q.shape[2], K, causal=False):
        phi, gamma_q, upstream, by_query = piece.queries(i, j, causal=False)
        by_gamma = room("by gamma", *gamma_q.shape)
        torch.bmm(flat(upstream), flat(finite(memory, piece.careful)).mT, out=flat(by_gamma))
        read = room("sums", *memory.shape)
        torch.bmm(flat(gamma_q).mT, flat(upstream), out=flat(read))
        memory_bar += read
        piece.finish_queries(i, j, phi, gamma_q, by_gamma, by_query)
    current = memory_bar.to(room.dtype)
    for i, j, _ in pieces(piece.k.shape[2], K, causal=False):
        phi, gamma_k, values = piece.keys(i, j)
        by_gamma, by_values = room("by gamma", *gamma_k.shape), room("by values", *values.shape)
        torch.bmm(flat(values), flat(current).mT, out=flat(by_gamma))
        torch.bmm(flat(gamma_k), flat(current), out=flat(by_values))
        piece.finish_keys(i, j, phi, gamma_k, by_gamma, by_values, piece.poison.by_v, piece.poison.by_key)


def backward_causal(piece, starts, memory_bar):
    """From the last piece to the first: its queries and keys, then the gradient of the memory before it."""
    K, room = starts.shape[-2], piece.room
    for n, (i, j, chunk) in reversed(list(enumerate(pieces(piece.q.shape[2], K, causal=True)))):
        phi_q, gamma_q, upstream, by_query = piece.queries(i, j, causal=True)
        phi_k, gamma_k, values = piece.keys(i, j)
        prefix = prefix_memories(gamma_k, values, finite(starts[:, :, n], piece.careful).clone(), chunk, room)
        inner = room("inner", gamma_q.shape[:-1].numel() // chunk, chunk, chunk)
        torch.bmm(chunks(upstream, chunk), chunks(values, chunk).mT, out=inner).tril_()
        by_gamma = room("by gamma", *gamma_q.shape)
        torch.bmm(chunks(upstream, chunk), prefix.mT, out=chunks(by_gamma, chunk))
        chunks(by_gamma, chunk).baddbmm_(inner, chunks(gamma_k, chunk))
        piece.finish_queries(i, j, phi_q, gamma_q, by_gamma, by_query)

        later = later_gradients(gamma_q, upstream, memory_bar, chunk, room)
        torch.bmm(chunks(values, chunk), later.mT, out=chunks(by_gamma, chunk))
        chunks(by_gamma, chunk).baddbmm_(inner.mT, chunks(gamma_q, chunk))
        by_values = room("by values", *values.shape)
        torch.bmm(chunks(gamma_k, chunk), later, out=chunks(by_values, chunk))
        inner = affinity_within(gamma_q, gamma_k, chunk, room)
        chunks(by_values, chunk).baddbmm_(inner.mT, chunks(upstream, chunk))
        piece.finish_keys(i, j, phi_k, gamma_k, by_gamma, by_values, *piece.poison_of_keys)


def later_gradients(gamma_q, upstream, memory_bar, chunk, room):
    """Return the gradient of the memory after each chunk of a piece, and add the piece's queries to `memory_bar`."""
    (g, s, K, width), C = memory_bar.shape, gamma_q.shape[2] // chunk
    read, later = (room(name, g * s, C, K, width) for name in ("sums", "prefix"))
    torch.bmm(chunks(gamma_q, chunk).mT, chunks(upstream, chunk), out=read.flatten(0, 1))
    return running_sums(flat(memory_bar), read.unbind(1), later, order=-1)


def needs_care(*arrays):
    """Tell whether something may not be finite; where looking would make the device wait, say that it may."""
    return arrays[0].device.type != "cpu" or not math.isfinite(sum(float(array.sum()) for array in arrays))


def finite(array, careful):
    """Return an array without what is not finite, where that has to be seen to."""
    return torch.nan_to_num(array, 0, 0, 0) if careful else array


class Piece:
    """One tile of a backward pass: what comes in, where the gradients go, and what happens to a piece of its tokens."""

    def __init__(self, form, q, k, v, mask, output, reach, upstream, q_bar, k_bar, v_bar, room):
        self.form, self.q, self.k, self.v, self.mask, self.room = form, q, k, v, mask, room
        self.output, self.reach, self.upstream = output, reach, upstream
        self.q_bar, self.k_bar, self.v_bar = q_bar, k_bar, v_bar
        self.poison = Poison(upstream.to(room.dtype) if upstream.shape[2] == 0 else upstream[:, :, :1].to(room.dtype))
        self.poison_of_keys = self.poison.by_v, self.poison.by_key
        self.careful = True

    def queries(self, i, j, causal):
        """Return features, responsibilities, (P, r), and what else the gradients of these queries get."""
        phi, gamma_q = responsibilities(self.form, self.q[:, :, i:j], self.room, "gamma_q")
        G, reach = self.upstream[:, :, i:j], self.reach[:, :, i:j]
        upstream = self.room("upstream", *G.shape[:-1], G.shape[-1] + 1)
        upstream[..., :-1] = G
        torch.sum(upstream[..., :-1] * self.output[:, :, i:j], dim=-1, out=upstream[..., -1])
        upstream[..., -1].neg_()
        by_query = None
        self.careful = needs_care(upstream, gamma_q, reach)
        if self.careful:
            asked = (G != 0).any(-1, keepdim=True)
            by_v = torch.where(asked, 0 * upstream[..., :-1] + 0 * (reach + gamma_q.sum(-1))[..., None], 0)
            by_query = torch.where(asked, by_v.sum(-1, keepdim=True) + 0 * upstream[..., -1:], 0)
            self.poison_of_keys = self.poison.add(by_v, by_query, causal)
            phi = [x if x is None else x.nan_to_num(0, 0, 0) for x in phi]
            for array in (gamma_q, upstream):
                array.nan_to_num_(0, 0, 0)
            reach = reach.nan_to_num(0, 0, 0)
        else:
            self.poison_of_keys = self.poison.by_v, self.poison.by_key
        upstream *= reach[..., None]
        return phi, gamma_q, upstream, by_query

    def keys(self, i, j):
        """Return features, responsibilities and values with a column of ones."""
        phi, gamma_k = responsibilities(self.form, self.k[:, :, i:j], self.room, "gamma_k")
        values = with_ones(self.v[:, :, i:j], self.room)
        if needs_care(gamma_k, values):
            phi = [x if x is None else x.nan_to_num(0, 0, 0) for x in phi]
            for array in (gamma_k, values):
                array.nan_to_num_(0, 0, 0)
        if self.mask is not None:
            gamma_k.masked_fill_(~self.mask[..., i:j, None], 0)
        return phi, gamma_k, values

    def finish_queries(self, i, j, phi, gamma_q, by_gamma, by_query):
        """Take the gradient of the responsibilities of queries through the scores."""
        by_x = self.through_scores(phi, gamma_q, by_gamma)
        self.q_bar[:, :, i:j] = by_x if by_query is None else by_x + by_query

    def finish_keys(self, i, j, phi, gamma_k, by_gamma, by_values, by_v, by_key):
        """Take the gradient of the responsibilities of keys through the scores, and that of the values."""
        by_x, by_values = self.through_scores(phi, gamma_k, by_gamma), by_values[..., :-1]
        if self.mask is not None:
            kept = self.mask[..., i:j, None]
            by_key, by_v = torch.where(kept, by_key, 0), torch.where(kept, by_v, 0)
        self.k_bar[:, :, i:j] = by_x + by_key
        self.v_bar[:, :, i:j] = by_values + by_v

    def through_scores(self, phi, gamma, by_gamma):
        """Return the gradient of the tokens, by Eqs. (18) and (19)."""
        delta = self.room("delta", *gamma.shape)
        torch._softmax_backward_data(by_gamma, gamma, -1, gamma.dtype, grad_input=delta)
        if self.form.mu.dtype != delta.dtype:
            delta = self.room("wide delta", *delta.shape, dtype=self.form.mu.dtype).copy_(delta)
        return self.form.backward(phi, delta, self.room)
