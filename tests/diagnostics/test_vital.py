"""Key mass and the vital signs of a head: by hand, by the memory that is read, by loops, and one by one."""

import re

import numpy as np
import pytest

from gma_ref import affinity, attention_weights, read_memory, write_memory
from gma_ref.diagnostics import (
    VitalSigns,
    component_information,
    dead_components,
    effective_slots,
    head_signs,
    key_mass,
    usage,
    vital_signs,
)
from tests.diagnostics.examples import draw, hard


def test_key_mass_by_hand():
    queries, keys = np.array([[1, 0], [0.5, 0.5]]), np.array([[1, 0], [0.25, 0.75]])
    np.testing.assert_allclose(key_mass(queries, keys), [1.25, 1])
    np.testing.assert_allclose(key_mass(queries, keys, causal=True), [1, 1])
    np.testing.assert_array_equal(key_mass(hard([1, 0], 3), hard([0, 0, 2], 3)), [0, 2])


def test_key_mass_is_the_row_sum_of_the_affinity():
    q, k = draw(2, 3, 7, 5), draw(2, 3, 9, 5, seed=1)
    np.testing.assert_allclose(key_mass(q, k), affinity(q, k).sum(-1), rtol=1e-12)
    k = k[..., :7, :]
    below = np.tril(affinity(q, k)).sum(-1)
    np.testing.assert_allclose(key_mass(q, k, causal=True), below, rtol=1e-12)
    weights = attention_weights(q, k, causal=True, eps=0.5)
    np.testing.assert_allclose(weights.sum(-1), below / (below + 0.5), rtol=1e-12)


def test_key_mass_says_how_far_epsilon_shrinks_an_output():
    q, k = draw(6, 4), draw(8, 4, seed=1)
    output = read_memory(q, write_memory(k, np.ones((8, 1))), eps=0.1)[:, 0]
    np.testing.assert_allclose(output, key_mass(q, k) / (key_mass(q, k) + 0.1), rtol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_masked_tokens_do_not_count(causal):
    q, k = draw(2, 6, 4), draw(2, 6, 4, seed=1)
    asks, told = np.array([[1, 1, 0, 1, 1, 0], [1, 0, 1, 1, 1, 1]], bool), np.array([[1, 0, 1, 1, 1, 1], [1] * 6], bool)
    found = key_mass(q, k, causal=causal, query_mask=asks, key_mask=told)
    for b in range(2):
        for i in range(6):
            keys = [j for j in range(i + 1 if causal else 6) if told[b, j]]
            assert found[b, i] == pytest.approx(asks[b, i] * sum(q[b, i] @ k[b, j] for j in keys))
    signs = vital_signs(q, k, causal=causal, eps=1.0, query_mask=asks, key_mask=told)
    rows = np.concatenate([q[asks], k[told]])
    assert signs.entropy_q == pytest.approx(component_information(q[asks]).conditional / np.log(4))
    assert signs.entropy_k == pytest.approx(component_information(k[told]).conditional / np.log(4))
    assert signs.effective == pytest.approx(effective_slots(rows))
    assert 0 < signs.unheard < 1
    assert signs.unheard == (found[asks] < 1).mean()
    poisoned_q, poisoned_k = np.where(asks[..., None], q, np.nan), np.where(told[..., None], k, np.inf)
    assert vital_signs(poisoned_q, poisoned_k, causal=causal, eps=1.0, query_mask=asks, key_mask=told) == signs


def test_vital_signs_by_hand():
    queries = hard([0, 0, 1, 1], 4)  # nobody is in the last two
    keys = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]])
    signs = vital_signs(queries, keys)
    assert signs.entropy_q == 0
    assert signs.entropy_k == pytest.approx(0.5)  # log 2 of log 4
    assert signs.effective == pytest.approx(2)
    assert (signs.dead, signs.distinct, signs.unheard) == (2, 2, 0)
    alike = np.full((5, 4), 0.25)
    assert vital_signs(alike, alike) == pytest.approx((1, 1, 4, 0, 1, 0))
    assert vital_signs(hard([0] * 5, 16), hard([0] * 3, 16)) == (0, 0, 1, 15, 1, 0)
    assert vital_signs(hard([0, 1], 2), hard([0], 2)).unheard == 0.5
    assert vital_signs(np.ones((3, 1)), np.ones((2, 1))) == (0, 0, 1, 0, 1, 0)


def test_vital_signs_are_those_of_the_single_functions():
    q, k = draw(3, 6, 5), draw(3, 8, 5, seed=1)  # more keys than queries
    both = np.concatenate([q.reshape(-1, 5), k.reshape(-1, 5)])
    signs = vital_signs(q, k, eps=1.5)
    assert signs.entropy_q == pytest.approx(component_information(q.reshape(-1, 5)).conditional / np.log(5))
    assert signs.entropy_k == pytest.approx(component_information(k.reshape(-1, 5)).conditional / np.log(5))
    assert signs.effective == pytest.approx(effective_slots(both))
    assert signs.dead == dead_components(both).sum()
    low = [q[b, i] @ k[b].sum(0) < 1.5 for b in range(3) for i in range(6)]
    assert 0 < signs.unheard < 1
    assert signs.unheard == np.mean(low)


def test_causal_queries_hear_only_what_came_before():
    q, k = draw(2, 6, 5), draw(2, 6, 5, seed=1)
    heard = [q[b, i] @ k[b, : i + 1].sum(0) for b in range(2) for i in range(6)]
    eps = float(np.median(heard))
    assert vital_signs(q, k, causal=True, eps=eps).unheard == np.mean(np.array(heard) < eps)
    assert vital_signs(q, k, causal=False, eps=eps).unheard < vital_signs(q, k, causal=True, eps=eps).unheard


def as_bfloat16(x):
    """Round to the nearest number of eight bits."""
    return ((x.astype(np.float32).view(np.uint32) + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def test_rows_in_16_bits_are_taken():
    q, k = (as_bfloat16(draw(200, 5, seed=seed)) for seed in (0, 1))
    assert np.abs(q.sum(axis=-1) - 1).max() > 1e-3
    exact = vital_signs(draw(200, 5), draw(200, 5, seed=1))
    assert vital_signs(q, k) == pytest.approx(exact, abs=0.02)


def test_a_component_that_is_split_in_two_is_counted_once():
    gamma = draw(40, 4)
    split = np.concatenate([gamma[:, :3], np.repeat(gamma[:, 3:] / 2, 2, axis=1)], axis=1)
    assert vital_signs(gamma, gamma).distinct == vital_signs(split, split).distinct == 4
    assert usage(split)[3] == usage(split)[4]
    shadow = np.concatenate([gamma[:, :1] * 1e-6, gamma[:, :1] * (1 - 1e-6), gamma[:, 1:]], axis=1)
    assert vital_signs(shadow, shadow)[3:5] == (1, 4)  # the dead twin comes first, and the living one counts


def test_heads_of_a_layer_have_signs_of_their_own():
    gammas = draw(2, 3, 7, 5), draw(2, 3, 7, 5, seed=1)
    mask = np.array([[True] * 7, [True] * 4 + [False] * 3])
    found = head_signs(*gammas, causal=True, eps=0.4, query_mask=mask, key_mask=mask)
    assert len(found) == len(set(found)) == 3
    for head, signs in enumerate(found):
        one = (gamma[:, head] for gamma in gammas)
        assert isinstance(signs, VitalSigns)
        assert signs == vital_signs(*one, causal=True, eps=0.4, query_mask=mask, key_mask=mask)
    assert head_signs(gammas[0][0], gammas[1][0])[1] == vital_signs(gammas[0][0, 1], gammas[1][0, 1])


@pytest.mark.parametrize("function", [key_mass, vital_signs, head_signs])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_no_responsibility_is_refused_by_its_name(function, place):
    name, of = (("gamma_q", "query"), ("gamma_k", "key"))[place]
    for wrong, error, message in [
        (np.log(draw(1, 5, 3)), ValueError, "must hold shares of at least 0"),
        (np.full((1, 5, 3), np.nan), ValueError, "must be finite, got nan"),
        (np.full((1, 5, 3), 0.3), ValueError, rf"must have rows that sum to 1.*\({of}_mask says which"),
        (np.full((1, 5, 3), True), TypeError, "must hold real numbers"),
        (np.ones(3), ValueError, r"must have shape \(\.\.\., "),
    ]:
        both = [draw(1, 5, 3), draw(1, 5, 3)]
        both[place] = wrong
        with pytest.raises(error, match=f"^{name} {message}"):
            function(*both)
    with pytest.raises(TypeError, match=rf"^{of}_mask must be boolean \(True: this {of} takes part\)"):
        function(draw(1, 5, 3), draw(1, 5, 3), **{f"{of}_mask": np.ones(5)})
    with pytest.raises(ValueError, match=rf"^{of}_mask must have shape \(5,\)"):
        function(draw(1, 5, 3), draw(1, 5, 3), **{f"{of}_mask": np.ones(4, bool)})


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"^gamma_k must have shape .* with K = 3 as in gamma_q, got shape \(5, 4\)$"):
        vital_signs(draw(5, 3), draw(5, 4))
    with pytest.raises(ValueError, match=r"^causal=True must get as many queries as keys"):
        key_mass(draw(5, 3), draw(4, 3), causal=True)
    with pytest.raises(TypeError, match=r"^causal must be"):
        vital_signs(draw(5, 3), draw(5, 3), causal="yes")
    with pytest.raises(ValueError, match=r"^eps must be finite and at least 0, got -1"):
        vital_signs(draw(5, 3), draw(5, 3), eps=-1)
    with pytest.raises(ValueError, match=r"^gamma_k must hold at least one key that takes part, got none of shape"):
        vital_signs(draw(5, 3), np.zeros((0, 3)))
    with pytest.raises(ValueError, match=r"^gamma_q must hold at least one query that takes part"):
        vital_signs(draw(5, 3), draw(5, 3), query_mask=np.zeros(5, bool))
    with pytest.raises(ValueError, match=r"^gamma_q must have shape .* of one head, .* \(head_signs takes several\)$"):
        vital_signs(draw(2, 4, 5, 3), draw(2, 4, 5, 3))
    with pytest.raises(ValueError, match=r"^gamma_k must have the leading axes of gamma_q, one memory"):
        vital_signs(draw(2, 5, 3), draw(5, 3))
    with pytest.raises(ValueError, match=r"^gamma_k must have shape .* with H = 2 as in gamma_q"):
        head_signs(draw(2, 5, 3), draw(4, 5, 3))


def test_head_signs_name_what_was_given_not_a_head_of_it():
    for shapes in (((1, 2, 2, 5, 3),) * 2, ((2, 2, 5, 3), (2, 5, 3)), ((2, 2, 5, 3), (1, 2, 5, 3))):
        q, k = (draw(*shape) for shape in shapes)
        message = "^gamma_q and gamma_k must have shapes .*" + re.escape(f"got shapes {q.shape} and {k.shape}") + "$"
        with pytest.raises(ValueError, match=message):
            head_signs(q, k)
    q = draw(2, 4, 5, 3)
    for of, name in (("query", "gamma_q"), ("key", "gamma_k")):
        message = rf"^{of}_mask .* since each head of {name} has shape \(2, 5, 3\); got shape \(2, 4, 5\)$"
        with pytest.raises(ValueError, match=message):
            head_signs(q, q, **{f"{of}_mask": np.ones((2, 4, 5), bool)})


@pytest.mark.parametrize("function", [key_mass, vital_signs])
def test_a_refused_mask_gives_no_advice_that_would_be_refused_too(function):
    gamma = draw(2, 5, 3)
    for shape in ((3, 5), (2,), (2, 1, 5)):
        with pytest.raises(ValueError, match=re.escape(f"got shape {shape}") + "$"):
            function(gamma, gamma, query_mask=np.ones(shape, bool))


def test_queries_of_a_sequence_without_keys_are_unheard():
    told = np.array([[True] * 6, [False] * 6, [True] * 6])
    assert vital_signs(draw(3, 4, 5), draw(3, 6, 5, seed=1), key_mask=told).unheard == pytest.approx(1 / 3)
