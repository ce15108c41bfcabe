"""The forward pass in blocks: Eqs. (5)-(8) and (8b), with nothing of N·K numbers kept."""

from __future__ import annotations

import math

import torch

from . import native
from .blocked_pieces import Room, num_pieces, pieces, tiles
from .numerics import compute_dtype, full_precision
from .quadratic import choose_form, negligible, responsibilities


def memory_dtype(dtype, V_tilde, Z):
    """Return the dtype of the memory: that of the state, at least that of the scores."""
    return dtype if V_tilde is None else compute_dtype(V_tilde, Z, torch.empty(0, dtype=dtype))


def empty_results(q, v, num_components, state, dtype, causal):
    """Return room for the output, the memory (Ṽ, Z), 1/D and the memories that a causal pass keeps."""
    (G, S, N, _), K, d_v = q.shape, num_components, v.shape[-1]
    memory = memory_dtype(dtype, *state)
    output = v.new_empty(S, G, N, d_v).transpose(0, 1)  # in the order in which batch and heads usually come
    V_tilde, Z = (v.new_empty(G, S, *shape, dtype=memory) for shape in ((K, d_v), (K,)))
    reach = v.new_empty(G, S, N, dtype=dtype)
    starts = v.new_empty(G, S, num_pieces(N, K, causal), K, d_v + 1, dtype=dtype)  # the last may stay unused
    return output, V_tilde, Z, reach, starts


def forward(q, k, v, mu, variance, log_prior, key_mask, V_tilde, Z, causal, eps, program):
    """Return the output, the memory after the last key, 1/D of each query and the memories that the backward needs.

    Queries and keys are (G, S, N, d_r), values (G, S, N_k, d_v), the mixture is (G, K, ·), the mask (G, S, N_k) or
    None, the state (G, S, K, d_v) and (G, S, K) or None. `program` is "eager", or "native" for the program in C, or
    "auto" for that where it is built and serves.
    """
    dtype = compute_dtype(q, k, v, mu, variance, log_prior)
    (G, S, N, _), K = q.shape, mu.shape[-2]
    output, V_tilde_out, Z_out, reach, starts = empty_results(q, v, K, (V_tilde, Z), dtype, causal)
    room = Room(dtype, q.device)
    run = forward_causal if causal else forward_bidirectional
    with full_precision(q.device):
        form = choose_form(mu, variance, log_prior, dtype)
        form.least = negligible(eps, dtype)
        if native.serves(program, form, dtype, q, k, v, V_tilde, Z):
            results = output, V_tilde_out, Z_out, reach, starts
            native.forward(form, q, k, v, key_mask, V_tilde, Z, causal, eps, *results)
            return results
        for g, s in tiles(G, S, max(N, k.shape[2]), K, q.device):
            memory = join_memory(V_tilde, Z, V_tilde_out, g, s)
            mask = None if key_mask is None else key_mask[g, s]
            run(
                form.part(g), q[g, s], k[g, s], v[g, s], mask, memory, eps, room,
                output[g, s], reach[g, s], starts[g, s],
            )  # fmt: skip
            V_tilde_out[g, s], Z_out[g, s] = memory[..., :-1], memory[..., -1]
    return output, V_tilde_out, Z_out, reach, starts


def join_memory(V_tilde, Z, like, g, s):
    """Return (Ṽ, Z) of a tile side by side, (g, s, K, d_v + 1): values and a column of ones are summed as one."""
    part = like[g, s]
    memory = part.new_zeros(*part.shape[:-1], part.shape[-1] + 1)
    for room, given in ((memory[..., :-1], V_tilde), (memory[..., -1], Z)):
        if given is not None:
            room.copy_(given[g, s])
    return memory


def forward_bidirectional(form, q, k, v, mask, memory, eps, room, output, reach, starts):
    """Write all keys, then read for all queries."""
    K = memory.shape[-2]
    poison = None
    for i, j, _ in pieces(k.shape[2], K, causal=False):
        gamma_k, values, lost = write_piece(form, k, v, mask, i, j, room)
        if lost is not None:
            poison = lost.sum(-2, keepdim=True) if poison is None else poison + lost.sum(-2, keepdim=True)
        written = room("written", *memory.shape)
        torch.bmm(flat(gamma_k).mT, flat(values), out=flat(written))
        memory += written
    current = memory.to(room.dtype)
    for i, j, _ in pieces(q.shape[2], K, causal=False):
        _, gamma_q = responsibilities(form, q[:, :, i:j], room, "gamma_q")
        sums = room("sums", *gamma_q.shape[:-1], memory.shape[-1])
        torch.bmm(flat(gamma_q), flat(current), out=flat(sums))
        divide(sums, eps, poison, output[:, :, i:j], reach[:, :, i:j])
    if poison is not None:
        memory[..., :-1] += poison


def forward_causal(form, q, k, v, mask, memory, eps, room, output, reach, starts):
    """Read for each piece from the memory before it and from the keys within it, then go on."""
    K = memory.shape[-2]
    poison = None
    divided = pieces(k.shape[2], K, causal=True)
    starts[:, :, len(divided) :] = 0
    for n, (i, j, chunk) in enumerate(divided):
        _, gamma_q = responsibilities(form, q[:, :, i:j], room, "gamma_q")
        gamma_k, values, lost = write_piece(form, k, v, mask, i, j, room)
        starts[:, :, n] = memory
        prefix = prefix_memories(gamma_k, values, memory, chunk, room)
        sums = room("sums", *values.shape)
        by_chunk = chunks(sums, chunk)
        torch.bmm(chunks(gamma_q, chunk), prefix, out=by_chunk)
        by_chunk.baddbmm_(affinity_within(gamma_q, gamma_k, chunk, room), chunks(values, chunk))
        if lost is not None:
            lost = lost.cumsum(-2) if poison is None else lost.cumsum(-2) + poison
        divide(sums, eps, poison if lost is None else lost, output[:, :, i:j], reach[:, :, i:j])
        poison = poison if lost is None else lost[..., -1:, :]
    if poison is not None:
        memory[..., :-1] += poison


def write_piece(form, k, v, mask, i, j, room):
    """Return the responsibilities, the values with a column of ones, and what of the values is not finite, or None."""
    _, gamma_k = responsibilities(form, k[:, :, i:j], room, "gamma_k")
    values = with_ones(v[:, :, i:j], room)
    lost = None
    if needs_care(values):
        lost = take_out_non_finite(values, mask, i, j)
    if mask is not None:
        gamma_k.masked_fill_(~mask[..., i:j, None], 0)
    return gamma_k, values, lost


def with_ones(v, room):
    """Return values with a column of ones, which sums to Z what the others sum to Ṽ."""
    values = room("values", *v.shape[:-1], v.shape[-1] + 1)
    values[..., :-1] = v
    values[..., -1] = 1
    return values


def needs_care(*arrays):
    """Tell whether something may not be finite; where looking would make the device wait, say that it may."""
    return arrays[0].device.type != "cpu" or not math.isfinite(sum(float(array.sum()) for array in arrays))


def take_out_non_finite(values, mask, i, j):
    """Set what is not finite to 0, in place, and return it: in a product, 0 times NaN would reach other tokens."""
    clean = torch.nan_to_num(values, 0, 0, 0)
    lost = (values - clean)[..., :-1]
    values.copy_(clean)
    return lost if mask is None else lost.masked_fill_(~mask[..., i:j, None], 0)


def prefix_memories(gamma_k, values, memory, chunk, room):
    """Return the memory before each chunk of a piece, (g·s·C, K, d_v + 1), and add the piece to `memory`."""
    (g, s, K, width), C = memory.shape, gamma_k.shape[2] // chunk
    written, prefix = (room(name, g * s, C, K, width) for name in ("sums", "prefix"))
    torch.bmm(chunks(gamma_k, chunk).mT, chunks(values, chunk), out=written.flatten(0, 1))
    return running_sums(flat(memory), written.unbind(1), prefix)


def running_sums(start, parts, sums, order=1):
    """Write into `sums` the sum of what comes before each part, add all parts to `start`, and return the sums, flat."""
    before, parts = sums.unbind(1)[::order], parts[::order]
    before[0].copy_(start)
    for n, part in enumerate(parts):
        after = before[n + 1] if n + 1 < len(parts) and start.dtype == sums.dtype else start
        torch.add(before[n] if start.dtype == sums.dtype else start, part, out=after)
        if after is start and n + 1 < len(parts):
            before[n + 1].copy_(start)
    return sums.flatten(0, 1)


def affinity_within(gamma_q, gamma_k, chunk, room):
    """Return the affinity, Eq. (11), of each query with the keys of its chunk up to itself."""
    inner = room("affinity", gamma_q.shape[:-1].numel() // chunk, chunk, chunk)
    return torch.bmm(chunks(gamma_q, chunk), chunks(gamma_k, chunk).mT, out=inner).tril_()


def divide(sums, eps, poison, output, reach):
    """Write the output, Eq. (8), and 1/D, which is 0 where no key reaches."""
    D = sums[..., -1] + eps
    unreached = D == 0
    numerator = sums[..., :-1] if poison is None else sums[..., :-1] + poison
    torch.div(numerator, D.masked_fill_(unreached, math.inf)[..., None], out=output)
    if poison is not None:
        output.masked_fill_(unreached[..., None], 0)
    torch.reciprocal(D, out=reach)
    reach.masked_fill_(reach.isinf(), 0)  # a denominator that is too small to divide by counts as none


def flat(tensor):
    """View (g, s, ...) as (g·s, ...)."""
    return tensor.flatten(0, 1)


def chunks(tensor, chunk):
    """View tokens (g, s, C·chunk, width) as (g·s·C, chunk, width)."""
    return tensor.view(-1, chunk, tensor.shape[-1])
