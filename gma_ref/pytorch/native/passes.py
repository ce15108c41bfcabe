"""The two passes of the blocked form by the C program: what it gets, and in which steps it works."""

from __future__ import annotations

import torch
from torch.nn import functional

from ..blocked_pieces import CHUNK, block_length
from ..quadratic import Expanded
from .library import Array, Call, built, run

RANGE = 4096  # tokens of a task, where a sequence is divided
ROWS = 8  # K is padded to a multiple of it


def fits(form, *tensors):
    """Tell whether the program is there and made for these arguments: float32 on the CPU, scores by products."""
    if not isinstance(form, Expanded) or built() is None:
        return False
    given = [tensor for tensor in (form.mu, *tensors) if tensor is not None]
    return all(t.device.type == "cpu" and t.dtype == torch.float32 and t.numel() for t in given)


def prepare(form, q, k, v, key_mask, eps, ranges, length, causal):
    """Return the description of a call, and what must be kept while it is used."""
    S, N_q, d_r = q.shape[1:]
    K = form.mu.shape[-2]
    q, k, v = (t if t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous() for t in (q, k, v))
    more = -K % ROWS
    weights = form.by_linear if form.by_square is None else torch.cat([form.by_linear, form.by_square], dim=1)
    weights = functional.pad(weights, (0, more)).contiguous()
    offset = functional.pad(form.offset, (0, more), value=-torch.inf).contiguous()
    centre = None if form.centre is None else form.centre.contiguous()
    mask = None if key_mask is None else key_mask.contiguous()
    kept = q, k, v, weights, offset, centre, mask
    pointers = {"mask": mask, "centre": centre, "weights": weights, "offset": offset}
    call = Call(
        S=S, N_q=N_q, N_k=k.shape[2], d_r=d_r, K=K, d_v=v.shape[-1], squares=form.by_square is not None,
        ranges=ranges, range=length, block=block_length(K, causal), whole=N_q - N_q % CHUNK, eps=eps,
        q=Array.of(q), k=Array.of(k), v=Array.of(v),
        **{name: None if tensor is None else tensor.data_ptr() for name, tensor in pointers.items()},
    )  # fmt: skip
    return call, kept


def forward(form, q, k, v, key_mask, state, causal, eps, output, V_tilde, Z, reach, starts):
    """Fill the results of the forward pass, as `blocked_forward.forward` does.

    Sequences are divided into ranges for the threads. First each range of keys is written into a memory of its own;
    those are summed; then queries read. Causally that is done only where there are too few sequences.
    """
    (G, S, N, _), K = q.shape, form.mu.shape[-2]
    block = block_length(K, causal)
    length = -(-RANGE // block) * block
    enough = causal and G * S >= torch.get_num_threads()
    ranges = 1 if enough else max(1, -(-max(N, k.shape[2]) // length))
    length = max(N, k.shape[2]) if ranges == 1 else length
    call, kept = prepare(form, q, k, v, key_mask, eps, ranges, length, causal)
    memory = q.new_zeros(G, S, ranges, K + 1, v.shape[-1] + 1)
    call.output, call.memory, call.reach = Array.of(output), memory.data_ptr(), reach.data_ptr()
    if causal:
        call.starts, call.pieces = starts.data_ptr(), starts.shape[2]
        starts[:, :, -2:] = 0
    if ranges > 1 or not causal:
        run("gma_write", call, G * S * ranges)
    before = torch.zeros_like(memory[:, :, :1])
    if state is not None:
        before[:, :, 0, :K, :-1], before[:, :, 0, :K, -1] = state
    if causal:
        memory.copy_(torch.cat([before, memory[:, :, :-1]], dim=2).cumsum(2))
        run("gma_read_causal", call, G * S * ranges)
    else:
        memory.copy_(memory.sum(2, keepdim=True) + before)
        run("gma_read", call, G * S * ranges)
    after = memory[:, :, -1]
    torch.add(after[:, :, :K, :-1], after[:, :, K:, :-1], out=V_tilde)
    Z.copy_(after[:, :, :K, -1])
    del kept
