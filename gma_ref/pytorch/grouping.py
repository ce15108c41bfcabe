"""Leading axes of any number, brought to two: groups, which have their own mixture, and sequences, which share one."""

from __future__ import annotations

import math


class Grouping:
    """How the leading axes of one call, broadcast to `batch`, divide into G groups and S sequences."""

    def __init__(self, batch, mixture_axes):
        mixture_axes = (1,) * (len(batch) - len(mixture_axes)) + tuple(mixture_axes)
        self.batch = tuple(batch)
        self.groups = [axis for axis, size in enumerate(mixture_axes) if size != 1]
        self.sequences = [axis for axis, size in enumerate(mixture_axes) if size == 1]
        self.sizes = tuple(math.prod([self.batch[axis] for axis in axes]) for axes in (self.groups, self.sequences))

    def gather(self, tensor, trailing):
        """Return a tensor (..., *trailing axes) as (G, S, *trailing axes)."""
        if tensor is None:
            return None
        own = tensor.shape[tensor.ndim - trailing :]
        tensor = tensor.expand(*self.batch, *own)
        order = [*self.groups, *self.sequences, *range(len(self.batch), tensor.ndim)]
        return tensor.permute(order).reshape(*self.sizes, *own)

    def gather_mixture(self, tensor, trailing):
        """Return a tensor of the mixture as (G, *trailing axes)."""
        own = tensor.shape[tensor.ndim - trailing :]
        shape = [size if axis in self.groups else 1 for axis, size in enumerate(self.batch)]
        return tensor.expand(*shape, *own).reshape(self.sizes[0], *own)

    def scatter(self, tensor):
        """Return a tensor (G, S, ...) with the leading axes of the call."""
        order = [*self.groups, *self.sequences]
        own = tensor.shape[2:]
        tensor = tensor.reshape(*(self.batch[axis] for axis in order), *own)
        back = sorted(range(len(order)), key=order.__getitem__)
        return tensor.permute(*back, *range(len(order), tensor.ndim))


def leading_axes(*tensors_and_trailing):
    """Return the leading axes of each (tensor, number of trailing axes) pair; None is left out."""
    return [tuple(t.shape[: t.ndim - trailing]) for t, trailing in tensors_and_trailing if t is not None]
