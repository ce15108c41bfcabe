"""Peers from other libraries, where they are installed, and the layers: what a whole block costs."""

import contextlib
import importlib
import io
import warnings

import torch

from gma_ref import pytorch

from . import slow
from .method import Method, Prepared

__all__ = ["layers", "peers"]


def peers():
    """Return the methods that come from other libraries; one that cannot be imported says why in ``missing``."""
    return [
        Method(
            "performer",
            "FAVOR+ (performer-pytorch)",
            "the library's FastAttention with its own number of features; its causal form is its slow one, for readers",
            _performer,
            _performer_workspace,
            checked_at=300,  # its causal form makes every prefix
            missing=_cannot_import("performer_pytorch"),
        ),
        Method(
            "mamba",
            "Mamba block (mambapy)",
            "the whole block: projections, convolution, gate and scan, of width H d_r; gradients of all parameters",
            _mamba,
            lambda problem, causal, training: (8 if training else 4) * 2 * 16 * problem.bytes_of_q,
            causal=(True,),
            rows=lambda tokens: range(min(tokens, 64)),  # the slow form goes through all tokens before
            any_row=False,
            checked_at=300,
            missing=_cannot_import("mambapy.mamba"),
        ),
    ]


def layers():
    """Return GMA's whole layer, to stand beside other whole blocks."""
    return [
        Method(
            "gma_layer",
            "GMA layer",
            "the whole layer: projections, mixture, attention, of width H d_r; gradients of all parameters",
            _gma_layer,
            lambda problem, causal, training: (20 if training else 8) * problem.bytes_of_q,
        )
    ]


def _cannot_import(module):
    """Return None, or why a module cannot be imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(module)
    except Exception as error:  # an old library may fail in any way on a new one
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def _seeded(make, inputs):
    """Make a module with its own initialisation, the same each time, where the inputs are."""
    # a library may say on import or on making what it could not find
    with torch.random.fork_rng(), contextlib.redirect_stdout(io.StringIO()):
        torch.manual_seed(inputs.problem.seed)
        return make().to(inputs.problem.device, getattr(torch, inputs.problem.dtype))


def _performer(inputs, causal, training):
    from performer_pytorch import FastAttention

    width = inputs.problem.width
    module = _seeded(lambda: FastAttention(dim_heads=width, causal=causal), inputs)
    directions = module.projection_matrix
    leaves = {"q": inputs.q, "k": inputs.k, "v": inputs.v}
    return Prepared(
        leaves,
        lambda: module(inputs.q, inputs.k, inputs.v),
        lambda wide, rows: slow.favor(
            **wide, directions=directions.double(), rows=rows, causal=causal, eps=1e-6 if causal else 0.0
        ),
        inputs.upstream if training else None,
    )


def _performer_workspace(problem, causal, training):
    """Return 266 features a token at d = 64, and causally a memory for each token, of one or of all its 128 chunks."""
    features = 4.2 * problem.bytes_of_q
    prefixes = 3 * features * problem.width / (1 if training else 128)
    return int(4 * features + (prefixes if causal else 0))


def _mamba(inputs, causal, training):
    from mambapy.mamba import MambaBlock, MambaConfig

    width = inputs.x.shape[-1]
    block = _seeded(lambda: MambaBlock(MambaConfig(d_model=width, n_layers=1)), inputs)
    return _of_module(block, inputs, training, slow.selective_state_space)


def _gma_layer(inputs, causal, training):
    problem = inputs.problem

    def make():
        return pytorch.GaussianMixtureAttention(
            problem.heads * problem.width, num_components=problem.components, num_heads=problem.heads, causal=causal
        )

    layer = _seeded(make, inputs)
    with torch.no_grad():  # as after some training: variances that differ, so that no term can be left out
        layer.mixture.omega += 0.3 * inputs.normal("omega", *layer.mixture.omega.shape)

    def slow_layer(x, parameters, rows):
        return slow.gaussian_mixture_layer(x, parameters, rows, causal, problem.heads)

    return _of_module(layer, inputs, training, slow_layer)


def _of_module(module, inputs, training, slow_form):
    """Return a module of one sequence, with the gradients of the tokens and of every parameter."""
    parameters = dict(module.named_parameters())

    def slow_of_leaves(wide, rows):
        return slow_form(wide["x"], {name: wide[name] for name in parameters}, rows)

    return Prepared(
        {"x": inputs.x, **parameters},
        lambda: module(inputs.x),
        slow_of_leaves,
        inputs.upstream_x if training else None,
    )
