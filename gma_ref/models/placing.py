"""Mixtures placed where the queries and keys of a first batch are, layer by layer."""

import torch
from torch import nn

from .evaluation import predict
from .mixers.gaussian_mixture import GaussianMixture
from .tasks.task import Batch

__all__ = ["place_mixtures"]


@torch.no_grad()
def place_mixtures(model: nn.Module, batch: Batch, entropy: float, generator=None) -> int:
    """Place the mixture of every layer by what reaches it from a batch, the layers below being placed already.

    Parameters
    ----------
    model : Module
    batch : Batch
        On the model's device.
    entropy : float
        The mean entropy of the responsibilities, as a part of log K.
    generator : torch.Generator, optional
        For the seeds of k-means.

    Returns
    -------
    int
        How many mixtures were placed; no other mixer has any.
    """
    layers = [module for module in model.modules() if isinstance(module, GaussianMixture)]

    def place(layer, arguments):
        layer.initialise_from(arguments[0], entropy=entropy, generator=generator)

    hooks = [layer.register_forward_pre_hook(place) for layer in layers]
    training = model.training
    model.eval()
    try:
        predict(model, batch)
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    return len(layers)
