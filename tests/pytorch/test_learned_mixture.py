"""The mixture as a module: parameters, where they start, and their placement by data."""

import copy
import io
import math
import pickle

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch import nn

import gma_ref
from gma_ref.pytorch import GaussianMixture, LearnedGaussianMixture, mixture_parameters, responsibilities


def clusters(num_heads=None, N=300, spread=0.1, seed=0):
    """Return points (N, 2), or (H, N, 2), in three clusters of sizes 3 : 2 : 1, and the clusters' centres."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.tensor([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])
    labels = torch.tensor([0, 0, 0, 1, 1, 2]).repeat(N // 6)
    heads = () if num_heads is None else (num_heads,)
    return centres[labels] + spread * torch.randn(*heads, N, 2, generator=generator), centres


def entropy_share(mixture, x):
    """Return the mean entropy of the responsibilities of x, as a share of log K."""
    gamma = responsibilities(x, mixture).detach()
    return float(torch.special.entr(gamma).sum(dim=-1).mean()) / math.log(mixture.num_components)


def slots_in_use(gamma):
    """Return the effective number of components that the rows of responsibilities use between them."""
    return float(torch.special.entr(gamma.detach().mean(dim=-2)).sum(dim=-1).exp().min())


@pytest.mark.parametrize("num_heads", [None, 3])
def test_call_gives_the_mixture_of_the_reference(num_heads):
    module = LearnedGaussianMixture(5, 4, num_heads, eps_sigma=1e-3, dtype=torch.float64)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    mixture = module()
    assert isinstance(mixture, GaussianMixture)
    arrays = (parameter.detach().numpy() for parameter in (module.mu, module.omega, module.alpha))
    expected = gma_ref.GaussianMixture.from_unconstrained(*arrays, 1e-3)
    for field in GaussianMixture.AXES:
        np.testing.assert_allclose(getattr(mixture, field).detach(), getattr(expected, field), rtol=1e-12)


def test_every_parameter_gets_a_gradient():
    module = LearnedGaussianMixture(5, 4, 2)
    (responsibilities(torch.randn(2, 7, 4), module()) ** 2).sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_seed_decides_the_start():
    def start(seed):
        torch.manual_seed(seed)
        return LearnedGaussianMixture(4, 3).mu

    assert torch.equal(start(1), start(1))
    assert not torch.equal(start(1), start(2))


def test_reset_draws_anew():
    module = LearnedGaussianMixture(4, 3)
    before = copy.deepcopy(module.state_dict())
    with torch.no_grad():
        module.omega.fill_(torch.nan)
        module.alpha.fill_(torch.nan)
    module.reset_parameters()
    assert not torch.equal(module.mu, before["mu"])
    assert torch.equal(module.omega, before["omega"])
    assert module.alpha.isfinite().all()


def test_module_survives_copies_files_and_devices():
    module = LearnedGaussianMixture(4, 3, 2)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    loaded = LearnedGaussianMixture(4, 3, 2)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded):
        assert [name for name, _ in twin.named_parameters()] == ["mu", "omega", "alpha"]
        assert all(torch.equal(a, b) for a, b in zip(twin.parameters(), module.parameters(), strict=True))
    moved = module.to("meta")
    assert {tensor.device.type for tensor in (*moved.parameters(), *moved.buffers())} == {"meta"}
    assert moved().mu.device.type == "meta"


def test_module_made_without_memory_can_be_filled_later():
    with torch.device("meta"):
        module = LearnedGaussianMixture(4, 3)
    module = module.to_empty(device="cpu")
    module.reset_parameters()
    assert all(parameter.isfinite().all() for parameter in module.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_start_alike(dtype):
    torch.manual_seed(0)
    module = LearnedGaussianMixture(16, 8, dtype=dtype)
    assert {parameter.dtype for parameter in module.parameters()} == {dtype}
    assert module().variance.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(module().log_prior.logsumexp(-1).double(), torch.zeros(()).double(), atol=1e-5, rtol=0)
    assert 0.6 < entropy_share(module(), torch.randn(500, 8)) < 0.95


def test_print_says_the_sizes():
    assert repr(LearnedGaussianMixture(4, 3, 2)) == (
        "LearnedGaussianMixture(num_components=4, routing_dim=3, num_heads=2, eps_sigma=1e-06)"
    )
    assert "num_heads" not in repr(LearnedGaussianMixture(4, 3))


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ((0, 3), ValueError, "num_components must be at least 1, got 0"),
        ((4, 0), ValueError, "routing_dim must be at least 1, got 0"),
        ((4, 3, 0), ValueError, "num_heads must be at least 1, got 0"),
        ((4, 3, True), TypeError, "num_heads must be an integer, got bool"),
        ((4.0, 3), TypeError, "num_components must be an integer, got float"),
        ((4, 3, None, -1.0), ValueError, "eps_sigma must be finite and at least 0, got -1.0"),
    ],
)
def test_sizes_that_make_no_mixture_are_refused(arguments, error, sentence):
    with pytest.raises(error) as caught:
        LearnedGaussianMixture(*arguments)
    assert str(caught.value) == sentence


def test_start_above_a_high_floor_is_finite():
    mixture = LearnedGaussianMixture(4, 3, eps_sigma=100.0)()
    assert (mixture.variance >= 100).all()
    assert mixture.variance.isfinite().all()


def test_placement_finds_clusters_and_their_spread():
    x, centres = clusters()
    module = LearnedGaussianMixture(3, 2)
    assert module.initialise_from(x, entropy=0, generator=torch.Generator().manual_seed(1)) is module
    order = [int((module.mu - centre).norm(dim=-1).argmin()) for centre in centres]
    assert sorted(order) == [0, 1, 2]
    torch.testing.assert_close(module.mu[order].detach(), centres, atol=0.05, rtol=0)
    torch.testing.assert_close(module().variance.sqrt(), torch.full((3, 2), 0.1), atol=0.01, rtol=0)
    # half way between the clusters' shares and an even one
    expected = (torch.tensor([3, 2, 1]) / 6 + 1 / 3) / 2
    torch.testing.assert_close(module().log_prior.exp()[order], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("goal", [0.5, 0.8])
@pytest.mark.parametrize("d_r", [1, 2, 32])
def test_placement_leaves_routing_soft_and_most_components_in_use(d_r, goal):
    x = (
        torch.randn(2, 3, 200, d_r, generator=torch.Generator().manual_seed(d_r)) * 7 + 100
    )  # two sequences, three heads
    module = LearnedGaussianMixture(8, d_r, num_heads=3)
    module.initialise_from(x, entropy=goal, generator=torch.Generator().manual_seed(0))
    for head in range(3):
        one = GaussianMixture(*(getattr(module(), field)[head] for field in GaussianMixture.AXES))
        tokens = x[:, head].flatten(0, 1)
        assert goal - 1e-3 < entropy_share(one, tokens) < 0.99
        assert slots_in_use(responsibilities(tokens, one)) > 0.6 * 8


def test_placement_agrees_with_scikit_learn():
    x, _ = clusters(spread=1.5)
    module = LearnedGaussianMixture(3, 2).initialise_from(x, generator=torch.Generator().manual_seed(0))
    scaled = ((x - x.mean(0)) / x.std(0, correction=0)).numpy()
    theirs = KMeans(3, n_init=10, random_state=0).fit(scaled)
    ours = (module.mu.detach() - x.mean(0)) / x.std(0, correction=0)
    inertia = (torch.cdist(torch.as_tensor(scaled), ours).amin(dim=-1) ** 2).sum()
    assert float(inertia) < 1.02 * theirs.inertia_


def test_placement_is_decided_by_the_generator_or_the_seed():
    x = torch.randn(200, 5)

    def placed(seed, own_generator):
        module = LearnedGaussianMixture(6, 5)
        if own_generator:
            module.initialise_from(x, generator=torch.Generator().manual_seed(seed))
        else:
            torch.manual_seed(seed)
            module.initialise_from(x)
        return module.mu.detach()

    for own in (False, True):
        assert torch.equal(placed(0, own), placed(0, own))
        assert not torch.equal(placed(0, own), placed(1, own))
    assert torch.equal(placed(3, True), placed(3, False))


def test_placement_does_not_depend_on_units():
    x, _ = clusters(spread=0.5)
    scale, shift = torch.tensor([1e-3, 50.0]), torch.tensor([2.0, -7.0])
    one, other = (LearnedGaussianMixture(3, 2, eps_sigma=0.0) for _ in range(2))
    one.initialise_from(x.double(), generator=torch.Generator().manual_seed(0))
    other.initialise_from(x.double() * scale + shift, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(other.mu, one.mu * scale + shift, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other().variance, one().variance * scale**2, rtol=1e-3, atol=1e-6)


def test_placement_with_a_point_for_each_component_and_a_constant_coordinate():
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0], [5.0, 1.0]])
    module = LearnedGaussianMixture(3, 2).initialise_from(x)
    assert sorted(module.mu[:, 0].tolist()) == pytest.approx([0, 1, 5], abs=1e-5)
    assert all(parameter.isfinite().all() for parameter in module.parameters())
    assert entropy_share(module(), x) > 0.499


def test_placement_of_one_component_is_mean_and_variance():
    x = torch.randn(1000, 3) * 2 + 1
    module = LearnedGaussianMixture(1, 3).initialise_from(x)
    torch.testing.assert_close(module.mu[0].detach(), x.mean(0))
    torch.testing.assert_close(module().variance[0], x.var(0, correction=0))
    assert module().log_prior.item() == 0


def test_placement_keeps_dtype_and_leaves_the_points_alone():
    x = torch.randn(50, 3, dtype=torch.float16, requires_grad=True)
    before = x.detach().clone()
    module = LearnedGaussianMixture(4, 3, dtype=torch.bfloat16).initialise_from(x)
    assert {parameter.dtype for parameter in module.parameters()} == {torch.bfloat16}
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in module.parameters())
    assert torch.equal(x, before)
    assert x.grad is None


@pytest.mark.parametrize(
    ("x", "error", "sentence"),
    [
        (torch.randn(3, 2), ValueError, "x must hold at least as many points as there are components, 4, got 3"),
        (
            torch.tensor([[0.0, 0.0], [1.0, 1.0]]).repeat(10, 1),
            ValueError,
            "x must hold at least as many different points as there are components, 4, got 2 different points",
        ),
        (torch.full((9, 2), torch.nan), ValueError, "x must be finite, got NaN or infinity"),
        (
            torch.randn(9, 3),
            ValueError,
            "x must have shape (..., N, d_r) with d_r = 2 as in the mixture, got shape (9, 3)",
        ),
        (np.ones((9, 2)), TypeError, "x must be a tensor, got ndarray (torch.as_tensor makes one)"),
        (torch.randn(9, 2, device="meta"), ValueError, "x must be on cpu as the mixture is, got a tensor on meta"),
    ],
)
def test_points_that_place_nothing_are_refused(x, error, sentence):
    module = LearnedGaussianMixture(4, 2)
    before = module.mu.detach().clone()
    with pytest.raises(error) as caught:
        module.initialise_from(x)
    assert str(caught.value) == sentence
    assert torch.equal(module.mu, before)


def test_points_without_the_axis_of_heads_are_refused():
    with pytest.raises(ValueError, match=r"^x must have shape \(\.\.\., H, N, d_r\)"):
        LearnedGaussianMixture(4, 2, num_heads=3).initialise_from(torch.randn(9, 2))


@pytest.mark.parametrize("entropy", [-0.1, 1.0, "half", torch.nan])
def test_entropy_that_is_no_share_is_refused(entropy):
    with pytest.raises(ValueError, match=r"^entropy must be a share of log K from 0 to 0\.95, got "):
        LearnedGaussianMixture(2, 2).initialise_from(torch.randn(9, 2), entropy=entropy)


def test_placing_by_data_is_not_squeezed_to_sixteen_bits():
    x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) + 10
    placed = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            generator = torch.Generator().manual_seed(1)
            placed.append(LearnedGaussianMixture(6, 4).initialise_from(x, generator=generator))
    for one, other in zip(*(module.parameters() for module in placed), strict=True):
        assert torch.equal(one, other)


def test_names_of_mixture_parameters_make_two_groups():
    shared = LearnedGaussianMixture(4, 3)
    model = nn.Sequential(nn.Linear(3, 3), nn.ModuleDict({"one": shared, "two": shared}), nn.LayerNorm(3))
    names = mixture_parameters(model)
    assert names == {f"1.{key}.{name}" for key in ("one", "two") for name in ("mu", "omega", "alpha")}
    decayed = [name for name, _ in model.named_parameters() if name not in names]
    assert decayed == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert mixture_parameters(shared) == {"mu", "omega", "alpha"}
    assert mixture_parameters(nn.Linear(2, 2)) == frozenset()


def test_parametrised_mixture_is_one_whose_parameters_do_not_decay():
    mixture = LearnedGaussianMixture(4, 3)
    nn.utils.parametrize.register_parametrization(mixture, "mu", nn.Tanh())
    assert mixture_parameters(mixture) == {"parametrizations.mu.original", "omega", "alpha"}
