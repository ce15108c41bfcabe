"""The reference: every equation as a NumPy function, for reading and for checking others against."""

from .attention import (
    affinity,
    attention_weights,
    gaussian_mixture_attention,
    project,
    scaled_dot_product_attention,
)
from .cost import projection_cost, routing_cost, routing_storage
from .global_stability import background_bound, is_globally_lipschitz
from .gradients import gaussian_mixture_attention_vjp, project_vjp
from .memory import Memory, prefix_memory, read_memory, update_memory, write_memory
from .memory_gradients import read_memory_vjp, write_memory_vjp
from .mixture import GaussianMixture, log_density, responsibilities, scores
from .score_gradients import score_gradient, score_jacobians, score_vjp, softmax_jacobian
from .stability import lipschitz_bounds, responsibility_jacobian
from .structure import effective_rank, slot_means
from .trace_trap import batch_mahalanobis

__all__ = [
    "GaussianMixture",
    "Memory",
    "affinity",
    "attention_weights",
    "background_bound",
    "batch_mahalanobis",
    "effective_rank",
    "gaussian_mixture_attention",
    "gaussian_mixture_attention_vjp",
    "is_globally_lipschitz",
    "lipschitz_bounds",
    "log_density",
    "prefix_memory",
    "project",
    "project_vjp",
    "projection_cost",
    "read_memory",
    "read_memory_vjp",
    "responsibilities",
    "responsibility_jacobian",
    "routing_cost",
    "routing_storage",
    "scaled_dot_product_attention",
    "score_gradient",
    "score_jacobians",
    "score_vjp",
    "scores",
    "slot_means",
    "softmax_jacobian",
    "update_memory",
    "write_memory",
    "write_memory_vjp",
]
