"""What is no responsibility, no label, no mask is refused in one sentence that names the argument."""

import numpy as np
import pytest

from gma_ref import diagnostics
from tests.diagnostics.examples import draw

OF_GAMMA = [
    diagnostics.usage,
    diagnostics.effective_slots,
    diagnostics.dead_components,
    diagnostics.responsibility_entropy,
    diagnostics.component_information,
    diagnostics.responsibility_overlap,
]
OF_LABELS = [
    diagnostics.contingency,
    diagnostics.alignment,
    diagnostics.top_tokens,
    diagnostics.permutation_test,
]
every_function = pytest.mark.parametrize(
    "call", [*OF_GAMMA, *(lambda gamma, of=of: of(gamma, ["a"] * np.shape(gamma)[0]) for of in OF_LABELS)]
)


@every_function
@pytest.mark.parametrize(
    ("gamma", "message"),
    [
        ([[0.5, np.nan]], "^gamma must be finite, got nan$"),
        ([[0.5, np.inf]], "^gamma must be finite, got inf$"),
        ([[1.5, -0.5]], r"^gamma must hold shares of at least 0, got -0\.5$"),
        ([[0.5, 0.5], [0.5, 0.4]], r"^gamma must have rows that sum to 1, within 0\.004, got a row that sums to 0\.9 "),
        ([[0.5, 0.5], [0.0, 0.0]], r"got a row that sums to 0\.0 \(mask says which tokens take part\)$"),
        ([0.5, 0.5], r"^gamma must have shape \(\.\.\., N, K\) with at least one component, got shape \(2,\)$"),
        (np.zeros((3, 0)), r"^gamma must have shape .* got shape \(3, 0\)$"),
    ],
)
def test_what_is_no_responsibility_is_refused(call, gamma, message):
    with pytest.raises(ValueError, match=message):
        call(gamma)


@every_function
@pytest.mark.parametrize("gamma", [[["a", "b"]], [[1j, 0]], [[True, False]], np.ma.masked_array([[1.0, 0.0]])])
def test_what_is_no_number_is_refused(call, gamma):
    with pytest.raises(TypeError, match=r"^gamma must (hold real numbers|be an ordinary array)"):
        call(gamma)


def test_scores_in_the_place_of_responsibilities_are_refused():
    scores = np.log(draw(5, 3))
    with pytest.raises(ValueError, match=r"^gamma must hold shares of at least 0"):
        diagnostics.usage(scores)
    with pytest.raises(ValueError, match=r"^gamma must have rows that sum to 1"):
        diagnostics.usage(draw(5, 3).T)  # the axes exchanged


@pytest.mark.parametrize("function", OF_GAMMA)
def test_masks_of_the_wrong_kind_are_refused(function):
    gamma = draw(2, 4, 5, 3)
    with pytest.raises(TypeError, match=r"^mask must be boolean \(True: this token takes part\), got dtype float64$"):
        function(gamma, np.ones(5))
    with pytest.raises(ValueError, match=r"^mask must have shape \(5,\), .* try mask\[:, None\]\)$"):
        function(gamma, np.ones((2, 5), bool))
    function(gamma, np.ones((2, 1, 5), bool))


@pytest.mark.parametrize("function", OF_LABELS)
def test_labels_and_their_masks_that_do_not_fit_are_refused(function):
    gamma = draw(2, 5, 3)
    with pytest.raises(ValueError, match=r"must have one label for a token, shape \(5,\), got shape \(4,\)$"):
        function(gamma, "abcd")
    with pytest.raises(ValueError, match=r"must have one label for a token, shape \(5,\), got shape \(2, 5\)$"):
        function(gamma, np.zeros((2, 5), int))
    for labels in (np.zeros(5), [None] * 5, np.array([1, "a", 2, "b", 3], object)):
        with pytest.raises(TypeError, match=r"^(categories|tokens) must hold strings or integers, got dtype"):
            function(gamma, labels)
    with pytest.raises(
        ValueError, match=r"^mask must have shape \(5,\), as (categories|tokens) has, got shape \(2, 5\)"
    ):
        function(gamma, "abcde", np.ones((2, 5), bool))


def test_options_that_do_not_fit_are_refused():
    gamma = draw(6, 3)
    with pytest.raises(TypeError, match=r"^normalised must be True or False, got int"):
        diagnostics.responsibility_entropy(gamma, normalised=1)
    with pytest.raises(ValueError, match=r"^threshold must be finite and at least 0, got -1"):
        diagnostics.dead_components(gamma, threshold=-1)
    with pytest.raises(ValueError, match=r"^threshold must be at most 1, got 2"):
        diagnostics.component_groups(np.eye(3), threshold=2)
    with pytest.raises(ValueError, match=r"^by must be 'share' or 'lift', got 'mass'"):
        diagnostics.top_tokens(gamma, "aabbcc", by="mass")
    with pytest.raises(TypeError, match=r"^count must be an integer"):
        diagnostics.top_tokens(gamma, "aabbcc", count=2.0)
    for options in ({"block": 0}, {"permutations": 1}):
        with pytest.raises(ValueError, match=r"^block must be at least 1 and permutations at least 2, got"):
            diagnostics.permutation_test(gamma, "aabbcc", **options)
    with pytest.raises(ValueError, match=r"^block must fit into at least one sequence, got 4"):
        diagnostics.permutation_test(gamma, "aabbcc", block=4, sequences=[0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r"^sequences must have one label for a token, shape \(6,\), got shape \(2,\)"):
        diagnostics.permutation_test(gamma, "aabbcc", sequences=[0, 1])


def test_what_is_no_overlap_is_refused():
    for overlap, message in [
        (np.ones((2, 3)), r"overlap must have shape \(\.\.\., K, K\), got shape \(2, 3\)"),
        ([[1, 2], [2, 1]], "overlap must hold shares between 0 and 1"),
        ([[1, np.nan], [np.nan, 1]], "overlap must hold shares between 0 and 1"),
        ([[1, 0.5], [0.2, 1]], "overlap must be symmetric"),
    ]:
        with pytest.raises(ValueError, match=message):
            diagnostics.collapsed_components(overlap)
    with pytest.raises(TypeError, match=r"mixture must be a gma_ref\.GaussianMixture, got ndarray"):
        diagnostics.gaussian_overlap(np.ones((2, 2)))


def test_nothing_is_written_in_place():
    gamma, before = draw(6, 3), draw(6, 3)
    for function in OF_GAMMA:
        function(gamma)
    for function in OF_LABELS:
        function(gamma, "aabbcc")
    np.testing.assert_array_equal(gamma, before)
