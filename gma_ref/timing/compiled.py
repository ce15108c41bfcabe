"""GMA by its program in C, compiled for one run: what the user has compiled decides nothing."""

import contextlib
import functools
import os
import tempfile

from gma_ref import pytorch
from gma_ref.pytorch import native

from .method import Method
from .methods import ROUTED, gaussian_mixture

__all__ = ["compiled", "own_program"]


@contextlib.contextmanager
def own_program():
    """Compile the program into a folder that goes when this is left; without a compiler, go on without."""
    before = os.environ.get("GMA_REF_CACHE")
    with tempfile.TemporaryDirectory(prefix="gma-ref-timing-") as folder:
        os.environ["GMA_REF_CACHE"] = folder  # fresh processes look here too
        native.built.cache_clear()
        try:
            with contextlib.suppress(RuntimeError):  # `compiled` says that it is missing
                native.build()
            yield
        finally:
            del os.environ["GMA_REF_CACHE"]
            if before is not None:
                os.environ["GMA_REF_CACHE"] = before
            native.built.cache_clear()


def compiled():
    """Return GMA by the program in C, if that has been built."""
    attend = functools.partial(pytorch.gaussian_mixture_attention, implementation="native")
    return [
        Method(
            "gma_native",
            "GMA native",
            ROUTED,
            functools.partial(gaussian_mixture, attend=attend),
            lambda problem, causal, training: (8 if training else 3) * problem.bytes_of_q,
            missing=native.missing(),
            refuses=_refuses,
        )
    ]


def _refuses(problem):
    """Return why the program does not take a problem, or None."""
    if problem.device != "cpu" or problem.dtype != "float32":
        return "takes float32 on the CPU alone"
    return None
