"""Whether anybody will ask for a derivative."""

import torch
from torch.autograd import forward_ad


def none_wanted(*tensors):
    """Tell whether neither gradients of these, nor derivatives in forward mode, nor `torch.func` are going on.

    A compiler, which finds that out for itself, is told no.
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    return not (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors))
