"""One valid call of each public function of tensors, for tests that change one argument of it."""

import torch

from gma_ref import pytorch as gmt
from tests.calls import CALLS as REFERENCE_CALLS
from tests.calls import GAMMA_K, MIXTURE, VALUES

TENSORS = gmt.GaussianMixture(*(torch.tensor(getattr(MIXTURE, name)) for name in MIXTURE.AXES))
MEMORY = gmt.write_memory(torch.tensor(GAMMA_K), torch.tensor(VALUES))
CONTAINERS = {"mixture": TENSORS, "memory": MEMORY}
FUNCTIONS = {name: getattr(gmt, name, None) for name in REFERENCE_CALLS}
FUNCTIONS["from_unconstrained"] = gmt.GaussianMixture.from_unconstrained

# Each function that the two rooms share: valid arguments, and the names of the trailing axes of each tensor
CALLS = {
    name: (
        function,
        {key: CONTAINERS[key] if key in CONTAINERS else torch.tensor(a) for key, a in REFERENCE_CALLS[name][1].items()},
        REFERENCE_CALLS[name][2],
    )
    for name, function in FUNCTIONS.items()
    if function is not None
}


def call(function, **changes):
    """Call a function of the table with some arguments changed, after a call that passes: it must not let this pass."""
    callable_, arguments, _ = CALLS[function]
    callable_(**arguments)
    return callable_(**arguments | changes)
