"""The scores of a block: each form is right, and the one that is chosen is accurate."""

import math

import numpy as np
import pytest
import torch

import gma_ref
from gma_ref.pytorch import numerics, quadratic
from gma_ref.pytorch.blocked_pieces import Room
from gma_ref.pytorch.quadratic import Differences, Expanded, choose_form
from tests.examples import every_case, mixture_of

FORMS = {
    "expanded": Expanded.of,
    "expanded, not centred": lambda *given: Expanded.of(*given, centred=False),
    "differences": Differences.of,
}
every_form = pytest.mark.parametrize("make", FORMS.values(), ids=FORMS.keys())


def draw(G=2, S=3, N=5, K=4, d_r=3, seed=0, equal=False):
    """Return tokens and a mixture per group, in float64."""
    generator = torch.Generator().manual_seed(seed)
    x, mu = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((G, S, N, d_r), (G, K, d_r)))
    variance = 0.5 + torch.rand(G, 1 if equal else K, d_r, generator=generator, dtype=torch.float64)
    log_prior = torch.log_softmax(torch.randn(G, K, generator=generator, dtype=torch.float64), dim=-1)
    return x, mu, variance.expand(G, K, d_r).clone(), log_prior


def responsibilities(form, x, dtype=torch.float64):
    return quadratic.responsibilities(form, x, Room(dtype, x.device), "gamma")[1]


def exact(x, mu, variance, log_prior):
    """Return the responsibilities of the reference, in float64, of the numbers given."""
    arrays = [t.double().numpy() for t in (x, mu[:, None], variance[:, None], log_prior[:, None])]
    return gma_ref.responsibilities(arrays[0], gma_ref.GaussianMixture(*arrays[1:]))


@every_form
@pytest.mark.parametrize("S", [1, 3])
def test_each_form_gives_the_responsibilities_of_the_reference(make, S):
    x, *mixture = draw(S=S)
    found = responsibilities(make(*mixture, torch.float64), x)
    np.testing.assert_allclose(found, exact(x, *mixture), rtol=1e-12)


@every_form
def test_scores_differ_by_what_is_common_to_all_components(make):
    x, *mixture = draw(G=1)
    form, room = make(*mixture, torch.float64), Room(torch.float64, x.device)
    scores = room("scores", 1, 3, 5, 4)
    form.scores(form.features(x, room, "x"), scores)
    expected = gma_ref.scores(x.numpy(), gma_ref.GaussianMixture(*(t[0].numpy() for t in mixture)))
    difference = scores.numpy() - expected
    np.testing.assert_allclose(difference, difference[..., :1].repeat(4, -1), rtol=1e-10)


@every_form
@pytest.mark.parametrize("equal", [False, True], ids=["", "equal covariances"])
def test_gradients_of_each_form_are_those_of_autograd(make, equal):
    x, *mixture = draw(equal=equal)
    given = [t.requires_grad_() for t in (x, *mixture)]
    mu, variance, log_prior = (t[:, None, None] for t in mixture)
    scores = log_prior - 0.5 * (torch.log(variance) + (x[..., None, :] - mu) ** 2 / variance).sum(-1)
    delta = torch.randn(scores.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    delta -= delta.mean(-1, keepdim=True)  # what a softmax sends back
    expected = torch.autograd.grad(scores, given, delta)
    x, *mixture = (t.detach() for t in given)
    form, room = make(*mixture, torch.float64), Room(torch.float64, x.device)
    by_x = form.part(slice(0, 1)).backward(form.part(slice(0, 1)).features(x[:1], room, "x"), delta[:1], room).clone()
    rest = form.part(slice(1, 2))
    by_x = torch.cat([by_x, rest.backward(rest.features(x[1:], room, "x"), delta[1:], room)])
    for found, other in zip((by_x, *form.gradients()), expected, strict=True):
        torch.testing.assert_close(found, other, rtol=1e-10, atol=1e-12)


def test_equal_covariances_need_no_square():
    x, *mixture = draw(equal=True)
    form = choose_form(*mixture, torch.float64)
    assert form.by_square is None
    assert form.features(x, Room(torch.float64, x.device), "x")[0] is None
    np.testing.assert_allclose(responsibilities(form, x), exact(x, *mixture), rtol=1e-12)
    assert choose_form(*draw()[1:], torch.float64).by_square is not None


@every_case
def test_chosen_form_is_right_in_every_exact_case(case):
    mixture = mixture_of(case)
    lead = mixture.mu.shape[:-2]
    x = torch.as_tensor(np.asarray(case.inputs.q, float))
    x = x.reshape(math.prod(lead), -1, *x.shape[-2:])
    arrays = [torch.tensor(getattr(mixture, name)).flatten(0, len(lead) - 1) if lead else
              torch.tensor(getattr(mixture, name))[None] for name in mixture.AXES]  # fmt: skip
    found = responsibilities(choose_form(*arrays, torch.float64), x)
    expected = np.asarray(case.bidirectional.gamma_q)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("c", [0, 1, 10, 100, 1e3, 1e4])
def test_an_offset_of_tokens_and_means_costs_nothing(c, dtype):
    x = torch.tensor([[[[c + 0.2]]]], dtype=dtype)
    mixture = (
        torch.tensor([[[c], [c + 0.5]]], dtype=dtype),
        torch.full((1, 2, 1), 0.01, dtype=dtype),
        torch.full((1, 2), -math.log(2), dtype=dtype),
    )
    found = responsibilities(choose_form(*mixture, dtype), x, dtype)
    np.testing.assert_allclose(found, exact(x, *mixture), atol=40 * torch.finfo(dtype).eps)
    if c < 1e3 or dtype == torch.float64:
        np.testing.assert_allclose(found[0, 0, 0], [0.924, 0.076], atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [1, 1e2, 1e4, 1e6])
def test_means_far_apart_beside_their_deviation(distance, dtype):
    mu = torch.tensor([[[0.0], [0.25], [distance], [distance + 0.25]]], dtype=dtype)
    variance = torch.tensor([[[0.01], [0.02], [0.01], [0.02]]], dtype=dtype)
    x = torch.tensor([0.1, 0.15, distance + 0.1, distance / 2, -distance], dtype=dtype).view(1, 1, 5, 1)
    mixture = mu, variance, torch.full((1, 4), -math.log(4), dtype=dtype)
    found = responsibilities(choose_form(*mixture, dtype), x, dtype)
    np.testing.assert_allclose(found, exact(x, *mixture), rtol=1e-10, atol=1e-10 if dtype == torch.float64 else 2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1, 10, 100, 1e3])
def test_error_of_the_expanded_form_is_a_few_roundings_times_the_spread(scale, dtype):
    generator = torch.Generator().manual_seed(0)
    mu = scale * torch.randn(1, 8, 16, generator=generator, dtype=dtype)
    mu[:, 1::2] = mu[:, ::2] + 0.25  # pairs, or every responsibility is 0 or 1
    variance = 0.5 + torch.rand(1, 8, 16, generator=generator, dtype=dtype)
    mixture = mu, variance, torch.full((1, 8), -math.log(8), dtype=dtype)
    x = mu[:, torch.randint(8, (500,), generator=generator)] + torch.randn(1, 500, 16, generator=generator, dtype=dtype)

    def error_of(form):
        return np.abs(responsibilities(form, x[None], dtype).numpy() - exact(x[None], *mixture)).max()

    error = error_of(Expanded.of(*mixture, dtype))
    size = quadratic.spread(mu, variance, centred=True) * torch.finfo(dtype).eps / 2
    assert 0.03 * size < error < 4 * size
    assert error_of(choose_form(*mixture, dtype)) < (5e-5 if dtype == torch.float32 else 1e-10)


def test_the_form_goes_by_the_spread_of_the_mixture():
    def chosen(scale, dtype=torch.float32, shift=0.0):
        mu = torch.tensor([[[-scale], [scale]]], dtype=dtype) + shift
        form = choose_form(mu, torch.tensor([[[1.0], [2.0]]], dtype=dtype), torch.zeros(1, 2, dtype=dtype), dtype)
        return type(form), form.mu.dtype, form.centre is not None

    assert chosen(1) == (Expanded, torch.float32, False)
    assert chosen(1, shift=1e3) == (Expanded, torch.float32, True)
    assert chosen(100) == (Expanded, torch.float64, True)
    assert chosen(1e6) == (Differences, torch.float64, False)
    assert chosen(100, torch.float64) == (Expanded, torch.float64, False)
    assert chosen(1e4, torch.float64) == (Differences, torch.float64, False)


def test_a_prior_of_zero_has_no_responsibility_and_no_gradient_of_nan():
    x, mu, variance = (torch.tensor(a, dtype=torch.float64) for a in (
        [[[[0.3]]]], [[[0.0], [1], [2]]], [[[1.0], [1], [1]]]))  # fmt: skip
    log_prior = torch.tensor([[0, 0.5, 0.5]], dtype=torch.float64).log()
    for make in FORMS.values():
        form, room = make(mu, variance, log_prior, torch.float64), Room(torch.float64, x.device)
        features, gamma = quadratic.responsibilities(form, x, room, "gamma")
        np.testing.assert_allclose(gamma.flatten(), [0, 0.76852, 0.23148], atol=5e-6)
        form.backward(features, torch.tensor([[[[0, 0.25, -0.25]]]], dtype=torch.float64), room)
        assert all(gradient.isfinite().all() for gradient in form.gradients())


# PyTorch's older and newer switch for TF32, each with the value that turns it off; the newer one is the last
SWITCHES = {"allow_tf32": False}
if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
    SWITCHES["fp32_precision"] = "ieee"


@pytest.mark.parametrize("name", SWITCHES)
def test_products_are_taken_without_tf32_whichever_way_it_was_asked_for(name):
    products = torch.backends.cuda.matmul
    asked = {"allow_tf32": True, "fp32_precision": "tf32"}[name]
    newest, off = [*SWITCHES.items()][-1]
    before = getattr(products, newest)
    try:
        setattr(products, name, asked)
        with numerics.full_precision(torch.device("cuda")):
            assert getattr(products, newest) == off
            assert not products.allow_tf32  # the older one may be read, too: PyTorch refuses where the two disagree
        assert getattr(products, name) == asked
    finally:
        setattr(products, newest, before)


def test_products_are_taken_without_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        with numerics.full_precision(torch.device("cpu")):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_responsibilities_that_eps_hides_are_0_and_no_others(dtype):
    x, mu = torch.linspace(0, 20, 200, dtype=dtype)[None, None, :, None], torch.tensor([[[0.0], [20.0]]], dtype=dtype)
    form = choose_form(mu, torch.ones_like(mu), torch.zeros(1, 2, dtype=dtype), dtype)
    kept = quadratic.responsibilities(form, x, Room(dtype, x.device), "gamma")[1].clone()
    form.least = quadratic.negligible(1e-6, dtype)
    cut = quadratic.responsibilities(form, x, Room(dtype, x.device), "gamma")[1]
    small = kept < 1e-19
    assert small.any()
    assert (cut[small] == 0).all() if dtype == torch.float32 else torch.equal(cut, kept)
    assert torch.equal(cut[~small], kept[~small])
    assert quadratic.negligible(0.0, dtype) == 0


def test_variances_may_be_farther_apart_than_float32_reaches():
    x, mu = torch.tensor([[[[0.0], [0.1], [3.0]]]]), torch.tensor([[[0.0], [1.0]]])
    variance, log_prior = torch.tensor([[[1e-3], [1e37]]]), torch.zeros(1, 2)
    form = choose_form(mu, variance, log_prior, torch.float32)
    gamma = quadratic.responsibilities(form, x, Room(torch.float32, x.device), "gamma")[1]
    exact = torch.distributions.Normal(mu[0, :, 0].double(), variance[0, :, 0].double().sqrt()).log_prob(
        x[0, 0].double()
    )
    torch.testing.assert_close(gamma[0, 0].double(), torch.softmax(exact, dim=-1), rtol=1e-5, atol=1e-12)
