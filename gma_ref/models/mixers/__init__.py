"""Layers that let tokens exchange what they hold, behind one interface, so that nothing else differs between models.

All have the same projections but Mamba, the labelled exception. Each has ``forward(x, *, key_mask, state,
return_state)`` over whole sequences and ``step(x_t, state)`` for one more token, with equal outputs.
"""

from .base import Attention, Mixer
from .gma import Gma
from .linear import Favor, Linear
from .mamba import Mamba
from .softmax import Softmax
from .state import MixerState, tensors_of

__all__ = [
    "MIXERS",
    "Attention",
    "Favor",
    "Gma",
    "Linear",
    "Mamba",
    "Mixer",
    "MixerState",
    "Softmax",
    "make_mixer",
    "num_parameters",
    "tensors_of",
]

_CLASSES = {"softmax": Softmax, "gma": Gma, "linear": Linear, "favor": Favor, "mamba": Mamba}
MIXERS = tuple(_CLASSES)


def make_mixer(
    name,
    d_model,
    *,
    num_heads,
    causal=True,
    convolution=0,
    qk_norm=False,
    num_components=64,
    num_features=None,
    **options,
):
    """Make a mixer by its name, one of `MIXERS`.

    Parameters
    ----------
    name : {"softmax", "gma", "linear", "favor", "mamba"}
    d_model : int
        The width of the tokens.
    num_heads : int
        How many heads share it.
    causal : bool
        Token i sees tokens j ≤ i. All but Mamba have a bidirectional form.
    convolution : int
        The width of a short convolution of queries, keys and values, followed by SiLU; 0 for none. Bidirectionally it
        is symmetric, so its width is odd.
    qk_norm : bool
        Give every query and key of a head a root mean square of 1.
    num_components : int
        K of GMA; no other mixer has it.
    num_features : int, optional
        m of FAVOR+; no other mixer has it.
    **options
        What that mixer alone has, as its class says: `Softmax`, `Gma`, `Linear`, `Favor`, `Mamba`.

    Returns
    -------
    Mixer

    Raises
    ------
    TypeError, ValueError
        If there is no such mixer or option, or an argument has another kind or range.
    ModuleNotFoundError
        If a library is missing that the mixer needs.
    """
    if not isinstance(name, str) or name not in MIXERS:
        raise ValueError(f"mixer must be one of {', '.join(MIXERS)}, got {name!r}")
    if name == "gma":
        options["num_components"] = num_components
    if name == "favor":
        options["num_features"] = num_features
    mixer = _CLASSES[name]
    known = known_options(mixer)
    if not known.issuperset(options):
        unknown = ", ".join(sorted(set(options) - known))
        raise TypeError(f'mixer "{name}" has no option {unknown}; it has {", ".join(sorted(known))}')
    return mixer(d_model, num_heads=num_heads, causal=causal, convolution=convolution, qk_norm=qk_norm, **options)


def known_options(mixer):
    """Return the names of all options of a mixer's class and the classes that it extends."""
    names = set()
    for cls in mixer.__mro__[: mixer.__mro__.index(Mixer)]:
        names |= set(cls.__init__.__kwdefaults__ or ())
    return names


def num_parameters(module):
    """Return how many numbers of a module are trained."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
