"""What operations move: every tensor that PyTorch reads or writes, counted as if it came from main memory."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

__all__ = ["Traffic", "counts"]

_MOVES_NOTHING = {"_unsafe_view", "empty", "empty_like", "empty_strided", "new_empty", "scalar_tensor"}
_OVERWRITES = {"copy_", "fill_", "zero_"}


class Traffic(TorchDispatchMode):
    """Count the operations on tensors within a ``with`` block, and the bytes that they read and write.

    Each operation counts as if it read its tensors from main memory and wrote its results there. Views and new memory
    move nothing; what is overwritten is not read; a tensor that is broadcast counts as large as it is in memory.

    Attributes
    ----------
    operations, bytes : int
    """

    def __init__(self):
        super().__init__()
        self.operations = self.bytes = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = operation(*args, **kwargs)
        name = operation.overloadpacket.__name__
        written = [leaf for leaf in tree_leaves(result) if torch.is_tensor(leaf)]
        if operation.is_view or name in _MOVES_NOTHING or not written:
            return result
        self.operations += 1
        inputs = {key: value for key, value in kwargs.items() if key != "out"}
        read = [leaf for leaf in tree_leaves((args[name in _OVERWRITES :], inputs)) if torch.is_tensor(leaf)]
        self.bytes += sum(min(leaf.nbytes, leaf.untyped_storage().nbytes()) for leaf in written + read)
        return result


def counts(call):
    """Count what a call does.

    Parameters
    ----------
    call : callable
        Without arguments.

    Returns
    -------
    tuple of int
        FLOP in matrix products (two for a multiplication and its addition), bytes, operations.
    """
    with FlopCounterMode(display=False) as products, Traffic() as traffic:
        call()
    return products.get_total_flops(), traffic.bytes, traffic.operations
