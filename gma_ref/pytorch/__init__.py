"""Gaussian Mixture Attention in PyTorch: the names of the reference, with gradients, masks, state and speed."""

from torch.serialization import add_safe_globals

from .attention import (
    affinity,
    attention_weights,
    gaussian_mixture_attention,
    project,
    scaled_dot_product_attention,
)
from .layer import GaussianMixtureAttention
from .learned_mixture import LearnedGaussianMixture, mixture_parameters
from .memory import prefix_memory, read_memory, slot_means, update_memory, write_memory
from .mixture import GaussianMixture, log_density, responsibilities, scores
from .state import Memory

__all__ = [
    "GaussianMixture",
    "GaussianMixtureAttention",
    "LearnedGaussianMixture",
    "Memory",
    "affinity",
    "attention_weights",
    "gaussian_mixture_attention",
    "log_density",
    "mixture_parameters",
    "prefix_memory",
    "project",
    "read_memory",
    "responsibilities",
    "scaled_dot_product_attention",
    "scores",
    "slot_means",
    "update_memory",
    "write_memory",
]

add_safe_globals([GaussianMixture, Memory])  # saved, they are loaded as weights are
