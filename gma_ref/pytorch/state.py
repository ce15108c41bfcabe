"""What a sequence leaves behind: the memory of Eq. (5), as a named tuple of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .checks import check_index

if TYPE_CHECKING:
    from jaxtyping import Float, Integer
    from torch import Tensor


class Memory(NamedTuple):
    r"""K slots of a latent memory, Eq. (5); also the state of a causal sequence.

    Attributes
    ----------
    V_tilde : Tensor, (..., K, d_v)
        :math:`\tilde V`, the responsibility-weighted sum of the values in each slot.
    Z : Tensor, (..., K)
        :math:`Z`, the total responsibility of the keys in each slot; over all slots it sums to the number of keys.

    Notes
    -----
    No function changes a memory in place, so two continuations may start from one. Source: Huang & Raza (2026),
    Eq. (5).
    """

    V_tilde: Float[Tensor, "... K d_v"]
    Z: Float[Tensor, "... K"]

    def select(self, index: Integer[Tensor, " n"]) -> Memory:
        """Return the memories of some sequences of a batch, in the order given; one may come several times.

        Parameters
        ----------
        index : Tensor of integers, (n,)
            Positions along the first axis, as beam search and serving give them.

        Returns
        -------
        Memory
            With n in place of the size of the first axis.

        Raises
        ------
        TypeError, ValueError
            If `index` is no such tensor, or the tensors of the memory have no first axis in common.
        """
        check_index(index)
        shape, Z_shape = tuple(self.V_tilde.shape), tuple(self.Z.shape)
        if len(shape) < 3 or Z_shape != shape[:-1]:
            raise ValueError(f"the memory must have a batch axis in both tensors, got shapes {shape} and {Z_shape}")
        return Memory(self.V_tilde.index_select(0, index), self.Z.index_select(0, index))

    def to(self, *args, **kwargs):
        """Return the memory with both tensors converted by `torch.Tensor.to`: to a device, a dtype, or both."""
        return Memory(self.V_tilde.to(*args, **kwargs), self.Z.to(*args, **kwargs))

    def detach(self):
        """Return the memory without its graph: what is read from it from here on sends nothing back into it."""
        return Memory(self.V_tilde.detach(), self.Z.detach())


Memory.AXES = {"V_tilde": "K d_v", "Z": "K"}
