"""Numbers for the arrays of a proof, and the comparison of a proved formula with what the package computes."""

import numpy as np

import gma_ref
from gma_ref.proofs import claim, memory, memory_gradients, score_gradients, softmax, structure
from gma_ref.proofs.evaluate import evaluate
from gma_ref.proofs.routing import gamma, mu, prior, score, variance, x
from gma_ref.proofs.symbols import K, N, N_k, d_model, d_r, d_v

SIZES = {K: 3, N: 4, N_k: 7, d_r: 2, d_v: 5, d_model: 6}
EPS = 0.1


def random_arrays():
    """Return the package's own arrays by name, and a number for every array of the proofs, made from them."""
    rng = np.random.default_rng(4)
    own = {
        "x": rng.normal(size=(4, 2)),
        "mu": rng.normal(size=(3, 2)),
        "omega": rng.normal(size=(3, 2)),
        "alpha": rng.normal(size=3),
        "scores_q": rng.normal(size=(4, 3)),
        "scores_k": rng.normal(size=(7, 3)),
        "v": rng.normal(size=(7, 5)),
        "G": rng.normal(size=(4, 5)),
        "g": rng.normal(size=(4, 3)),
        "tokens": rng.normal(size=(4, 6)),
        "w_q": rng.normal(size=(6, 2)),
        "w_k": rng.normal(size=(6, 2)),
        "w_v": rng.normal(size=(6, 5)),
        "q_bar": rng.normal(size=(4, 2)),
        "k_bar": rng.normal(size=(4, 2)),
        "v_bar": rng.normal(size=(4, 5)),
    }
    for name in ("q", "k"):
        weights = np.exp(own[f"scores_{name}"])
        own[f"gamma_{name}"] = weights / weights.sum(axis=-1, keepdims=True)
    own["mixture"] = gma_ref.GaussianMixture.from_unconstrained(own["mu"], own["omega"], own["alpha"], eps_sigma=EPS)
    own["memory"] = gma_ref.write_memory(own["gamma_k"], own["v"])
    own["gamma"] = gma_ref.responsibilities(own["x"], own["mixture"])
    symbolic = {
        x: own["x"],
        mu: own["mu"],
        variance: own["mixture"].variance,
        prior: np.exp(own["mixture"].log_prior),
        score: gma_ref.scores(own["x"], own["mixture"]),
        gamma: own["gamma"],
        softmax.omega: own["omega"],
        softmax.alpha: own["alpha"],
        softmax.upstream: own["g"],
        memory.gamma_q: own["gamma_q"],
        memory.gamma_k: own["gamma_k"],
        memory.value: own["v"],
        memory.slot: own["memory"].V_tilde,
        memory.mass: own["memory"].Z,
        memory_gradients.upstream: own["G"],
        memory_gradients.score_q: own["scores_q"],
        memory_gradients.score_k: own["scores_k"],
        score_gradients.tokens: own["tokens"],
        score_gradients.weight_q: own["w_q"],
        score_gradients.weight_k: own["w_k"],
        score_gradients.weight_v: own["w_v"],
        score_gradients.back_q: own["q_bar"],
        score_gradients.back_k: own["k_bar"],
        score_gradients.back_v: own["v_bar"],
        structure.held: own["memory"].Z + EPS,
    }
    return own, symbolic


def as_many_keys(own, arrays):
    """Return sizes, own arrays and arrays of the proofs with as many keys as queries, as a causal sequence has them."""
    kept = {name: own[name][: SIZES[N]] for name in ("gamma_k", "v")}
    fewer = {memory.gamma_k: kept["gamma_k"], memory.value: kept["v"]}
    return SIZES | {N_k: SIZES[N]}, own | kept, arrays | fewer


def formula(label, step, arrays, over, side="right", definitions=None, sizes=SIZES, **scalars):
    """Evaluate one side of a step for every value of the indices `over`."""
    expression = getattr(claim(label).step(step), side)
    definitions = claim(label).definitions if definitions is None else definitions
    scalars = {"epsilon": EPS, "epsilon_sigma": EPS} | scalars
    return evaluate(expression, over, sizes, arrays, definitions, **scalars)


def agree(computed, proved):
    """Compare with what is proved, to nearly all digits."""
    assert np.shape(computed) == np.shape(proved)
    np.testing.assert_allclose(computed, proved, rtol=1e-11, atol=1e-12)
