"""One valid call of each public function of arrays, for tests that change one argument of it."""

import numpy as np

import gma_ref
from tests.examples import draw, draw_responsibilities

GAMMA_Q, GAMMA_K, VALUES = draw_responsibilities()
Q, K, V, MIXTURE = draw()
PARAMETERS = {"mu": MIXTURE.mu, "omega": MIXTURE.mu, "alpha": MIXTURE.log_prior}
MEMORY = gma_ref.write_memory(GAMMA_K, VALUES)
WEIGHTS = {"w_q": np.ones((2, 3, 2)), "w_k": np.ones((2, 3, 2)), "w_v": np.ones((2, 3, 4))}

# Each public function of arrays: valid arguments, and the names of the trailing axes of each array
CALLS = {
    "GaussianMixture": (
        gma_ref.GaussianMixture,
        {name: getattr(MIXTURE, name) for name in MIXTURE.AXES},
        {"mu": "K d_r", "variance": "K d_r", "log_prior": "K"},
    ),
    "from_unconstrained": (
        gma_ref.GaussianMixture.from_unconstrained,
        PARAMETERS,
        {"mu": "K d_r", "omega": "K d_r", "alpha": "K"},
    ),
    "log_density": (gma_ref.log_density, {"x": Q, "mixture": MIXTURE}, {"x": "N d_r"}),
    "scores": (gma_ref.scores, {"x": Q, "mixture": MIXTURE}, {"x": "N d_r"}),
    "responsibilities": (gma_ref.responsibilities, {"x": Q, "mixture": MIXTURE}, {"x": "N d_r"}),
    "project": (
        gma_ref.project,
        {"x": Q} | WEIGHTS,
        {"x": "N d_model", "w_q": "d_model d_r", "w_k": "d_model d_r", "w_v": "d_model d_v"},
    ),
    "write_memory": (gma_ref.write_memory, {"gamma_k": GAMMA_K, "v": VALUES}, {"gamma_k": "N_k K", "v": "N_k d_v"}),
    "prefix_memory": (gma_ref.prefix_memory, {"gamma_k": GAMMA_K, "v": VALUES}, {"gamma_k": "N_k K", "v": "N_k d_v"}),
    "update_memory": (
        gma_ref.update_memory,
        {"memory": MEMORY, "gamma_k": GAMMA_K, "v": VALUES},
        {"gamma_k": "N_k K", "v": "N_k d_v"},
    ),
    "read_memory": (gma_ref.read_memory, {"gamma_q": GAMMA_Q, "memory": MEMORY}, {"gamma_q": "N_q K"}),
    "affinity": (
        gma_ref.affinity,
        {"gamma_q": GAMMA_Q, "gamma_k": GAMMA_K},
        {"gamma_q": "N_q K", "gamma_k": "N_k K"},
    ),
    "attention_weights": (
        gma_ref.attention_weights,
        {"gamma_q": GAMMA_Q, "gamma_k": GAMMA_K},
        {"gamma_q": "N_q K", "gamma_k": "N_k K"},
    ),
    "gaussian_mixture_attention": (
        gma_ref.gaussian_mixture_attention,
        {"q": Q, "k": K, "v": V, "mixture": MIXTURE},
        {"q": "N_q d_r", "k": "N_k d_r", "v": "N_k d_v"},
    ),
    "scaled_dot_product_attention": (
        gma_ref.scaled_dot_product_attention,
        {"q": Q, "k": K, "v": V},
        {"q": "N_q d_k", "k": "N_k d_k", "v": "N_k d_v"},
    ),
}

SQUARE = {"gamma": GAMMA_Q, "g": GAMMA_Q}
BACKWARD = {"q": Q, "k": K, "v": V} | PARAMETERS | {"upstream": V}
BARS = {"q_bar": Q[..., :2], "k_bar": Q[..., :2], "v_bar": np.ones((2, 6, 4))}
CALLS |= {
    "softmax_jacobian": (gma_ref.softmax_jacobian, {"gamma": GAMMA_Q}, {"gamma": "N K"}),
    "score_gradient": (gma_ref.score_gradient, SQUARE, {"gamma": "N K", "g": "N K"}),
    "score_jacobians": (
        gma_ref.score_jacobians,
        {"x": Q} | PARAMETERS,
        {"x": "N d_r", "mu": "K d_r", "omega": "K d_r", "alpha": "K"},
    ),
    "score_vjp": (
        gma_ref.score_vjp,
        {"x": Q, "mu": MIXTURE.mu, "omega": MIXTURE.mu, "delta": GAMMA_Q},
        {"x": "N d_r", "mu": "K d_r", "omega": "K d_r", "delta": "N K"},
    ),
    "read_memory_vjp": (
        gma_ref.read_memory_vjp,
        {"gamma_q": GAMMA_Q, "memory": MEMORY, "upstream": VALUES},
        {"gamma_q": "N_q K", "upstream": "N_q d_v"},
    ),
    "write_memory_vjp": (
        gma_ref.write_memory_vjp,
        {"gamma_k": GAMMA_K, "v": VALUES, "memory_bar": MEMORY},
        {"gamma_k": "N_k K", "v": "N_k d_v"},
    ),
    "gaussian_mixture_attention_vjp": (
        gma_ref.gaussian_mixture_attention_vjp,
        BACKWARD,
        {
            "q": "N_q d_r",
            "k": "N_k d_r",
            "v": "N_k d_v",
            "mu": "K d_r",
            "omega": "K d_r",
            "alpha": "K",
            "upstream": "N_q d_v",
        },
    ),
    "project_vjp": (
        gma_ref.project_vjp,
        {"x": Q} | WEIGHTS | BARS,
        {
            "x": "N d_model",
            "w_q": "d_model d_r",
            "w_k": "d_model d_r",
            "w_v": "d_model d_v",
            "q_bar": "N d_r",
            "k_bar": "N d_r",
            "v_bar": "N d_v",
        },
    ),
    "slot_means": (gma_ref.slot_means, {"memory": MEMORY}, {}),
    "effective_rank": (gma_ref.effective_rank, {"matrix": VALUES}, {"matrix": "rows columns"}),
    "batch_mahalanobis": (
        gma_ref.batch_mahalanobis,
        {"x": Q, "weights": GAMMA_Q, "mu": MIXTURE.mu},
        {"x": "N d_r", "weights": "N K", "mu": "K d_r"},
    ),
    "responsibility_jacobian": (
        gma_ref.responsibility_jacobian,
        {"x": Q, "mixture": MIXTURE},
        {"x": "N d_r"},
    ),
    "lipschitz_bounds": (gma_ref.lipschitz_bounds, {"mixture": MIXTURE, "radius": 1.0}, {}),
    "is_globally_lipschitz": (gma_ref.is_globally_lipschitz, {"mixture": MIXTURE}, {}),
    "background_bound": (gma_ref.background_bound, {"mixture": MIXTURE}, {}),
}


def call(function, **changes):
    """Call a function of the table with some arguments changed."""
    callable_, arguments, _ = CALLS[function]
    return callable_(**arguments | changes)
