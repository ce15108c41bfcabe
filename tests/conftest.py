"""What holds for every test: no numerical warning, shapes checked against the annotations, the same draws each time."""

import os
import sys
import tempfile
import typing

import numpy as np
import pytest

# Set to 0, the shape checks stay off: where jaxtyping is not installed, and where tools.perturb edits the functions.
SHAPE_CHECKS = os.environ.get("GMA_REF_SHAPE_CHECKS", "1") != "0"

# A program that the user has compiled shall not decide what is tested, and the tests leave none behind
_cache = tempfile.TemporaryDirectory(prefix="gma-ref-tests-")
os.environ["GMA_REF_CACHE"] = _cache.name


def import_with_shape_checks():
    """Import the reference with its jaxtyping annotations in force: beartype then checks every call."""
    import beartype  # noqa: F401
    import jaxtyping

    assert "gma_ref" not in sys.modules, "gma_ref was imported before its shape checks could be switched on"
    typing.TYPE_CHECKING = True  # the annotations' own imports stand under this flag
    try:
        with jaxtyping.install_import_hook("gma_ref.reference", "beartype.beartype"):
            import gma_ref
    finally:
        typing.TYPE_CHECKING = False
    # the constructor takes array-likes and converts them itself; its annotations speak of the attributes
    typing.no_type_check(gma_ref.GaussianMixture.__init__)


if SHAPE_CHECKS:
    import_with_shape_checks()

try:
    import hypothesis
except ModuleNotFoundError:  # the check against the oldest NumPy runs in an environment with NumPy and pytest alone
    pass
else:
    hypothesis.settings.register_profile("book", derandomize=True, deadline=None, max_examples=30, database=None)
    hypothesis.settings.load_profile("book")


@pytest.fixture(autouse=True)
def _numerical_warnings_are_errors():
    """Fail where NumPy would warn; only underflow to 0, which is what an exponential is for, may pass."""
    with np.errstate(all="raise", under="ignore"):
        yield


def pytest_collection_finish():
    """Give PyTorch, where a test module has imported it, one thread: on a shared machine more are slower."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture
def without_shape_checks():
    """Let arrays through that jaxtyping does not know: it has no name for long doubles."""
    if not SHAPE_CHECKS:
        yield
        return
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
