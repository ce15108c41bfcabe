"""The program in C under GMA: compiled for one run, put aside for a while, and named."""

import contextlib
import os
import tempfile

from gma_ref.pytorch import native

__all__ = ["own_program", "program", "set_aside", "without_program"]


@contextlib.contextmanager
def own_program():
    """Compile the program into a folder that goes when this is left: what the user has compiled decides nothing.

    Yields
    ------
    str
        A sentence that says what was compiled, or why there is none: without a compiler everything goes on without.
    """
    with _folder_of_programs():
        try:
            native.build()
            said = f"GMA's program in C: compiled for this run by {native.library.compiler()}"
        except RuntimeError as error:
            said = f"GMA without its program in C, in PyTorch's operations: {error}"
        yield said


@contextlib.contextmanager
def without_program():
    """Go on without the program until this is left, as where there is no compiler."""
    with _folder_of_programs():
        yield


@contextlib.contextmanager
def set_aside():
    """Go on as `without_program` does, in this process only, but so quickly that a call which is timed can do it."""
    before = {module: module.built for module in (native.decoding, native.passes)}
    try:
        for module in before:
            module.built = _nothing_built
        yield
    finally:
        for module, built in before.items():
            module.built = built


def _nothing_built():
    """Return what is found where no program has been built."""


@contextlib.contextmanager
def _folder_of_programs():
    """Look for programs in an empty folder until this is left; fresh processes look there too."""
    before = os.environ.get("GMA_REF_CACHE")
    with tempfile.TemporaryDirectory(prefix="gma-ref-timing-") as folder:
        os.environ["GMA_REF_CACHE"] = folder
        native.built.cache_clear()
        try:
            yield
        finally:
            del os.environ["GMA_REF_CACHE"]
            if before is not None:
                os.environ["GMA_REF_CACHE"] = before
            native.built.cache_clear()


def program(problem):
    """Return ``"in C"`` or ``"in PyTorch"``: what GMA as users call it takes for a problem."""
    if problem.device == "cpu" and problem.dtype == "float32" and native.missing() is None:
        return "in C"
    return "in PyTorch"
