"""What is proved is what the package computes, Part II: gradients, structure, stability."""

import numpy as np
import pytest

import gma_ref
from gma_ref.proofs import claim, memory_gradients, stability
from gma_ref.proofs import softmax as parameters
from gma_ref.proofs import trace_trap as trap
from gma_ref.proofs.evaluate import evaluate
from gma_ref.proofs.symbols import N_k, a, c, d_r, i, j, k, m, r, total
from tests.formulas import EPS, SIZES, agree, as_many_keys, formula, random_arrays


@pytest.fixture(scope="module")
def own():
    return random_arrays()[0]


@pytest.fixture(scope="module")
def arrays():
    return random_arrays()[1]


def test_softmax(own, arrays):
    jacobian = gma_ref.softmax_jacobian(own["gamma"])
    agree(jacobian, formula("17", "Jacobian", arrays, (i, r, k), "left"))
    agree(jacobian, formula("17", "Jacobian", arrays, (i, r, k), "right"))
    agree(np.einsum("ikk->ik", jacobian), formula("17b", "derivative", arrays, (i, k)))
    delta = gma_ref.score_gradient(own["gamma"], own["g"])
    agree(delta, formula("18", "gradient", arrays, (i, k), "left"))
    agree(delta, formula("18", "gradient", arrays, (i, k), "right"))


def test_scores(own, arrays):
    jacobians = gma_ref.score_jacobians(own["x"], own["mu"], own["omega"], own["alpha"], eps_sigma=EPS)
    agree(jacobians["mu"], formula("G1", "its mean", arrays, (i, k, m), "left"))
    agree(jacobians["mu"], formula("G1", "its mean", arrays, (i, k, m), "right"))
    agree(jacobians["omega"], formula("G3", "its ω", arrays, (i, k, m), "left"))
    agree(jacobians["omega"], formula("G3", "its ω", arrays, (i, k, m), "right"))
    agree(jacobians["x"], formula("G5", "its token", arrays, (i, k, m), "right"))
    by_logit = formula("G4", "a score", arrays, (k, r), "right")
    agree(jacobians["alpha"], by_logit)
    through_mean = gma_ref.softmax_jacobian(own["gamma"])[..., None] * jacobians["mu"][:, None]
    agree(through_mean, formula("G2", "in one line", arrays, (i, r, k, m), "right"))


def test_chain_rule(own, arrays):
    delta = gma_ref.score_gradient(own["gamma"], own["g"])
    gradients = gma_ref.score_vjp(own["x"], own["mu"], own["omega"], delta, eps_sigma=EPS)
    agree(gradients["alpha"], formula("G4", "logit", arrays, (k,), "right"))
    agree(gradients["alpha"], formula("G4", "chain rule", arrays, (r,), "left"))
    with_delta = arrays | {parameters.slope: delta}
    for name, derivative in (("mu", claim("G1")), ("omega", claim("G3"))):
        summed = total(parameters.slope[i, k] * derivative.statement.right, i)  # Eq. (19)
        proved = evaluate(summed, (k, m), SIZES, with_delta, derivative.definitions[1:], epsilon_sigma=EPS)
        agree(gradients[name], proved)


def test_projections(own, arrays):
    names = ("tokens", "w_q", "w_k", "w_v", "q_bar", "k_bar", "v_bar")
    gradients = gma_ref.project_vjp(*(own[name] for name in names))
    agree(gradients["x"], formula("G5", "tokens", arrays, (i, a)))
    agree(gradients["w_q"], formula("G5", "weights", arrays, (a, m)))


def test_read_and_write_backwards(own, arrays):
    gamma_q_bar, memory_bar = gma_ref.read_memory_vjp(own["gamma_q"], own["memory"], own["G"], eps=EPS)
    agree(gamma_q_bar, formula("G6", "query responsibilities", arrays, (i, k)))
    agree(memory_bar.V_tilde, formula("G6", "slots", arrays, (k, c)))
    agree(memory_bar.Z, formula("G6", "masses", arrays, (k,)))
    gamma_k_bar, v_bar = gma_ref.write_memory_vjp(own["gamma_k"], own["v"], memory_bar)
    back = arrays | {memory_gradients.back_slot: memory_bar.V_tilde, memory_gradients.back_mass: memory_bar.Z}
    agree(gamma_k_bar, formula("G6", "key responsibilities", back, (j, k)))
    agree(v_bar, formula("G6", "values", back, (j, c)))


@pytest.mark.parametrize("causal", [False, True])
def test_whole_backward_pass(own, arrays, causal):
    sizes, own = as_many_keys(own, arrays)[:2] if causal else (SIZES, own)
    q, keys = own["q_bar"], np.random.default_rng(0).normal(size=(sizes[N_k], 2))  # any numbers
    parts = (own["mu"], own["omega"], own["alpha"])
    done = gma_ref.gaussian_mixture_attention_vjp(
        q, keys, own["v"], *parts, own["G"], causal=causal, eps=EPS, eps_sigma=EPS
    )
    gamma_q, gamma_k = (gma_ref.responsibilities(array, own["mixture"]) for array in (q, keys))
    symbolic = {
        memory_gradients.gamma_q: gamma_q,
        memory_gradients.gamma_k: gamma_k,
        memory_gradients.value: own["v"],
        memory_gradients.upstream: own["G"],
        memory_gradients.sees: np.tri(4) if causal else np.ones((4, 7)),
    }
    agree(done["v"], formula("G6b", "values", symbolic, (j, c), sizes=sizes))
    for name, gamma, token, number in (("q", gamma_q, q, i), ("k", gamma_k, keys, j)):
        step = "query responsibilities" if name == "q" else "key responsibilities"
        by_gamma = formula("G6b", step, symbolic, (number, k), sizes=sizes)
        delta = gma_ref.score_gradient(gamma, by_gamma)
        agree(done[name], gma_ref.score_vjp(token, *parts[:2], delta, eps_sigma=EPS)["x"])


def test_score_gradients_of_queries(own, arrays):
    by_gamma, _ = gma_ref.read_memory_vjp(own["gamma_q"], own["memory"], own["G"], eps=EPS)
    delta = gma_ref.score_gradient(own["gamma_q"], by_gamma)
    agree(delta, formula("B2", "of the loss", arrays, (i, k)))
    agree(gma_ref.read_memory(own["gamma_q"], own["memory"], eps=EPS), formula("B2", "output", arrays, (i, c)))


def test_trace_trap(own, arrays):
    distances = gma_ref.batch_mahalanobis(own["x"][:, :1], own["gamma"], own["mu"][:, :1])  # one coordinate: diagonal
    ways = own["x"][:, None, :1] - own["mu"][:, :1]
    sizes = SIZES | {d_r: 1}
    for side in ("left", "right"):
        step = getattr(claim("G7b").step("one component"), side)
        proved = evaluate(step, (k,), sizes, arrays | {trap.own: ways}, claim("G7b").definitions)
        agree((own["gamma"] * distances).sum(axis=0), proved)


def test_trace_trap_with_full_covariance(own):
    weights, ways = own["gamma"][:, 0], own["x"] - own["mu"][0]
    distances = gma_ref.batch_mahalanobis(own["x"], weights[:, None], own["mu"][:1])[:, 0]
    for side in ("left", "right"):
        agree(
            (weights * distances).sum(), formula("G7c", "constant", {trap.weight: weights, trap.away: ways}, (), side)
        )


def test_structure(own, arrays):
    gamma_q, gamma_k = own["gamma_q"], own["gamma_k"]
    agree(gma_ref.affinity(gamma_q, gamma_k), formula("S1", "above 0", arrays, (i, j), "left"))
    agree(1 - gma_ref.affinity(gamma_q, gamma_k), evaluate(claim("S1").step("at most 1").certificate, (i, j), SIZES,
                                                           arrays, claim("S1").definitions))  # fmt: skip
    keep = np.array([True, True, False, True, False, True, True])
    kept = arrays | {memory_gradients.sees: keep, claim_array("S3", "b"): keep.astype(float)}
    masked = gma_ref.write_memory(gamma_k, own["v"], key_mask=keep)
    agree(masked.Z.sum(), formula("S3", "count", kept, (), "left"))
    agree(masked.Z.sum(), formula("S3", "count", kept, (), "right"))
    means = gma_ref.slot_means(own["memory"], eps=EPS)
    mean = memory_gradients.MEAN
    agree(means, evaluate(mean.entry, (k, c), SIZES, arrays, [mean], epsilon=EPS))
    output = gma_ref.read_memory(gamma_q, own["memory"], eps=EPS)
    agree(output, formula("S5", "output", arrays, (i, c), "left"))
    agree(output, formula("S5", "output", arrays, (i, c), "right"))
    pairs = gma_ref.affinity(gamma_k, gamma_k).mean()
    agree(pairs, formula("B11", "pairs", arrays, (), "left"))
    agree(pairs, formula("B11", "pairs", arrays, (), "right"))
    weights = gma_ref.attention_weights(gamma_q, gamma_k, eps=EPS)
    agree(np.diagonal(weights), formula("B7", "weight", arrays, (i,)))


def claim_array(label, name):
    """Return the array of a claim that has this name."""
    return next(base for base in claim(label).statement.left.atoms(type(memory_gradients.sees)) if str(base) == name)


def test_jacobian_of_the_responsibilities(own, arrays):
    jacobian = gma_ref.responsibility_jacobian(own["x"], own["mixture"])
    agree(jacobian, formula("L2", "row of the Jacobian", arrays, (i, k, m), "right"))
    agree(jacobian, formula("L2", "differences", arrays, (i, k, m), "right"))


def test_bounds_are_the_proved_constants():
    rng = np.random.default_rng(0)
    mu, shared = rng.normal(size=2), rng.uniform(0.5, 2, size=2)
    pair = gma_ref.GaussianMixture([mu, -mu], [shared, shared], np.log([0.5, 0.5]))
    slopes = {stability.gradient: np.array([mu / shared, -mu / shared])}
    jacobian = gma_ref.responsibility_jacobian([[0.0, 0.0]], pair)[0]
    bounds = gma_ref.lipschitz_bounds(pair, 1.0)
    agree((jacobian[0] ** 2).sum(), formula("L4b", "component", slopes, (), "left"))
    agree((jacobian**2).sum(), formula("L4b", "length", slopes, (), "left"))
    agree(bounds["l2_sharp"] ** 2, formula("L4b", "length", slopes, (), "right"))
    agree(bounds["component"] * 2, bounds["l1"])
    agree(bounds["l1"], bounds["l2"] * np.sqrt(2))


def test_counterexample():
    pair = gma_ref.GaussianMixture(np.zeros((2, 2)), [[1, 0.25], [0.25, 1]], np.log([0.5, 0.5]))
    for far in (0.1, 1.0, 30.0):
        jacobian = gma_ref.responsibility_jacobian([[far, far]], pair)[0]
        agree((jacobian[0] ** 2).sum(), formula("L6", "squared length", {}, (), "right", t=far))
        agree(jacobian[0, 0], formula("L6", "first coordinate", {}, (), "left", t=far))
    assert not gma_ref.is_globally_lipschitz(pair)
