"""The reference: every equation as a NumPy function, for reading and for checking others against."""

from .attention import (
    affinity,
    attention_weights,
    gaussian_mixture_attention,
    project,
    scaled_dot_product_attention,
)
from .cost import projection_cost, routing_cost, routing_storage
from .memory import Memory, prefix_memory, read_memory, update_memory, write_memory
from .mixture import GaussianMixture, log_density, responsibilities, scores

__all__ = [
    "GaussianMixture",
    "Memory",
    "affinity",
    "attention_weights",
    "gaussian_mixture_attention",
    "log_density",
    "prefix_memory",
    "project",
    "projection_cost",
    "read_memory",
    "responsibilities",
    "routing_cost",
    "routing_storage",
    "scaled_dot_product_attention",
    "scores",
    "update_memory",
    "write_memory",
]
