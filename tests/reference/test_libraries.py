"""The reference against SciPy, scikit-learn and PyTorch."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.datasets import load_digits, load_wine
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import gma_ref
from tests.examples import draw


def test_log_density_is_that_of_scipy():
    q, _, _, mixture = draw(batch=())
    density = gma_ref.log_density(q, mixture)
    for k, (mu, variance) in enumerate(zip(mixture.mu, mixture.variance, strict=True)):
        joint = stats.multivariate_normal(mu, np.diag(variance)).logpdf(q)
        assert_allclose(density[:, k], joint, rtol=1e-12)
        one_by_one = stats.norm(mu, np.sqrt(variance)).logpdf(q).sum(axis=-1)
        assert_allclose(density[:, k], one_by_one, rtol=1e-12)


@pytest.mark.parametrize("load", [load_digits, load_wine])
def test_responsibilities_are_those_of_scikit_learn(load):
    x = StandardScaler().fit_transform(load().data)
    with np.errstate(all="ignore"):  # scikit-learn's own arithmetic
        fitted = GaussianMixture(5, covariance_type="diag", reg_covar=1e-2, random_state=0).fit(x)
        expected, log_density = fitted.predict_proba(x), fitted.score_samples(x)
    mixture = gma_ref.GaussianMixture(fitted.means_, fitted.covariances_, np.log(fitted.weights_))
    assert_allclose(gma_ref.responsibilities(x, mixture), expected, rtol=1e-7, atol=1e-12)
    assert_allclose(np.logaddexp.reduce(gma_ref.scores(x, mixture), axis=-1), log_density, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_dot_product_attention_is_that_of_pytorch(batch, causal, dtype):
    q, k, v = (array.astype(dtype) for array in draw(N=6, N_k=6 if causal else 9, batch=batch)[:3])
    output = gma_ref.scaled_dot_product_attention(q, k, v, causal=causal)
    tensors = [torch.from_numpy(array) for array in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)
    assert output.dtype == dtype
    assert_allclose(output, expected.numpy(), rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


def test_softplus_and_softmax_are_those_of_pytorch():
    rng = np.random.default_rng(0)
    omega, alpha = rng.normal(size=(4, 3)) * 20, rng.normal(size=4) * 20
    mixture = gma_ref.GaussianMixture.from_unconstrained(np.zeros((4, 3)), omega, alpha, eps_sigma=0)
    # PyTorch's softplus is linear beyond its threshold: that is 20 unless one says otherwise
    softplus = torch.nn.functional.softplus(torch.from_numpy(omega), threshold=100)
    assert_allclose(mixture.variance, softplus.numpy(), rtol=1e-12)
    log_softmax = torch.log_softmax(torch.from_numpy(alpha), dim=-1)
    assert_allclose(mixture.log_prior, log_softmax.numpy(), rtol=1e-12, atol=1e-15)


def test_dot_product_attention_without_width_is_the_mean_as_in_torch():
    q, v = np.ones((2, 0)), np.array([[1.0], [3.0]])
    expected = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (q, q, v)))
    assert_allclose(gma_ref.scaled_dot_product_attention(q, q, v), expected)


def test_tensors_that_numpy_cannot_read_are_refused():
    q = torch.ones(6, 3, requires_grad=True)
    with pytest.raises(TypeError, match=r"^q must be an array, got what NumPy cannot read: .*requires grad"):
        gma_ref.gaussian_mixture_attention(q, q, q, draw()[-1])
