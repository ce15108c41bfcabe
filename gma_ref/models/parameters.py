"""Which parameters an optimiser treats how."""

from torch import nn

from gma_ref.pytorch import mixture_parameters
from gma_ref.reference.checks import as_size


def parameter_groups(model, weight_decay, lr, mixture_lr_factor=1.0):
    """Return an optimiser's groups: matrices with weight decay, all else without, mixtures with a rate of their own.

    Parameters
    ----------
    model : nn.Module
    weight_decay, lr : float
    mixture_lr_factor : float
        What the mixtures' learning rate is, as a multiple of `lr`.

    Returns
    -------
    list of dict
        Each with ``name``, ``params``, ``lr`` and ``weight_decay``; groups without parameters are left out. Decay
        pulls at the weights of projections and convolutions alone: not at μ, ω and α, embeddings, norms and biases,
        nor at what Mamba's block says should be left alone.

    Raises
    ------
    TypeError, ValueError
        If a number is not finite or below 0.
    """
    weight_decay, lr = as_size("weight_decay", weight_decay), as_size("lr", lr)
    factor = as_size("mixture_lr_factor", mixture_lr_factor)
    mixtures = mixture_parameters(model)
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    groups = {
        "decayed": {"lr": lr, "weight_decay": weight_decay},
        "undecayed": {"lr": lr, "weight_decay": 0.0},
        "mixtures": {"lr": factor * lr, "weight_decay": 0.0},
    }
    members = {name: [] for name in groups}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        spared = parameter.ndim < 2 or id(parameter) in embeddings or getattr(parameter, "_no_weight_decay", False)
        members["mixtures" if name in mixtures else "undecayed" if spared else "decayed"].append(parameter)
    return [{"name": name, "params": members[name], **groups[name]} for name in groups if members[name]]
