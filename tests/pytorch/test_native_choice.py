"""The program in C is taken where it is asked for by name, and by "auto" where it is there; never behind one's back."""

import pytest
import torch

from gma_ref import pytorch as gmt
from gma_ref.pytorch import native
from tests.examples import draw_problem
from tests.pytorch.blocked_examples import from_unconstrained
from tests.pytorch.problems import both_modes
from tests.pytorch.test_native import cache, needs_compiler, no_compiler, steps  # noqa: F401  fixtures


def arguments(N=3000, dtype=torch.float32, **sizes):
    """Return q, k, v and a mixture."""
    arrays, _ = draw_problem(N=N, **sizes)
    q, k, v, *parameters = (torch.tensor(array, dtype=dtype) for array in arrays)
    return q, k, v, gmt.GaussianMixture(*from_unconstrained(*parameters))


@needs_compiler
@both_modes
def test_a_name_is_what_it_says(steps, causal):  # noqa: F811
    given = arguments()
    by_name = {}
    for name, runs in (("naive", False), ("blocked", False), ("native", True), ("auto", True)):
        del steps[:]
        by_name[name] = gmt.gaussian_mixture_attention(*given, causal=causal, implementation=name)
        assert bool(steps) == runs, name
    for output in by_name.values():
        torch.testing.assert_close(output, by_name["naive"], rtol=1e-4, atol=1e-5)
    assert torch.equal(by_name["native"], by_name["auto"])


@needs_compiler
@both_modes
def test_the_backward_pass_is_that_of_the_forward_pass(steps, causal):  # noqa: F811
    q, k, v, mixture = arguments()
    for name, runs in (("blocked", False), ("native", True), ("auto", True)):
        leaf = q.clone().requires_grad_()
        output = gmt.gaussian_mixture_attention(leaf, k, v, mixture, causal=causal, implementation=name)
        del steps[:]
        output.sum().backward()
        assert bool(steps) == runs, name


@needs_compiler
def test_auto_leaves_to_others_what_the_program_is_not_made_for(steps):  # noqa: F811
    q, k, v, mixture = arguments(dtype=torch.float64)
    gmt.gaussian_mixture_attention(q, k, v, mixture)
    state = gmt.write_memory(gmt.responsibilities(k, mixture), v)
    q, k, v = (tensor.float() for tensor in (q, k, v))
    gmt.gaussian_mixture_attention(q, k, v, mixture.to(torch.float32), state=state)
    gmt.gaussian_mixture_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), mixture.to(torch.float32))
    assert not steps


@needs_compiler
def test_means_far_apart_are_routed_in_float64(steps):  # noqa: F811
    x = torch.tensor([[1e4 + 0.2]])
    mixture = gmt.GaussianMixture(torch.tensor([[1e4], [1e4 + 0.5], [-1e4]]), torch.full((3, 1), 0.01), torch.zeros(3))
    state = gmt.Memory(torch.eye(3), torch.ones(3))
    options = {"state": state, "key_mask": torch.tensor([False]), "eps": 0, "implementation": "native"}
    output = gmt.gaussian_mixture_attention(x, x, torch.zeros(1, 3), mixture, **options)
    torch.testing.assert_close(output, torch.tensor([[0.92414, 0.07586, 0]]), rtol=2e-2, atol=1e-5)
    assert not steps


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": torch.float64}, TypeError, r"q must be float32 for implementation=\"native\", got torch.float64"),
        ({"v": torch.bfloat16}, TypeError, "v must be float32"),
        ({"mixture": torch.float64}, TypeError, "mixture.mu must be float32"),
        ({"state": torch.float64}, TypeError, "state.V_tilde must be float32"),
        (dict.fromkeys(("q", "k", "v", "mixture", "state"), "meta"), ValueError, "q must be on the CPU .* on meta"),
    ],
    ids=["float64", "bfloat16", "mixture", "state", "device"],
)
def test_native_refuses_what_it_is_not_made_for(no_compiler, change, error, message):  # noqa: F811
    q, k, v, mixture = arguments()
    given = {"q": q, "k": k, "v": v, "mixture": mixture}
    given["state"] = gmt.write_memory(gmt.responsibilities(k, mixture), v)
    for name, to in change.items():
        given[name] = given[name].to(to)
    with pytest.raises(error, match=message):
        gmt.gaussian_mixture_attention(**given, implementation="native")


def test_native_says_how_to_get_it(no_compiler, monkeypatch):  # noqa: F811
    with pytest.raises(RuntimeError, match="needs a C compiler, and none was found"):
        gmt.gaussian_mixture_attention(*arguments(), implementation="native")
    monkeypatch.setenv("CC", "cc")
    with pytest.raises(RuntimeError, match=r"gma_ref\.pytorch\.native\.build\(\)"):
        gmt.gaussian_mixture_attention(*arguments(), implementation="native")
    assert not native.library.location().exists()


def test_auto_never_builds(no_compiler, monkeypatch):  # noqa: F811
    monkeypatch.setattr(native.library, "build", lambda: pytest.fail("it was built"))
    monkeypatch.setenv("CC", "cc")
    assert torch.isfinite(gmt.gaussian_mixture_attention(*arguments())).all()
    assert not native.library.location().exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@needs_compiler
@both_modes
@pytest.mark.parametrize("name", ["auto", "native"])
def test_a_compiled_layer_takes_the_program(steps, causal, name):  # noqa: F811
    layer = gmt.GaussianMixtureAttention(8, num_components=8, num_heads=2, causal=causal, implementation=name)
    x = torch.randn(2, 80, 8)
    expected = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    del steps[:]
    for found, right in zip(
        torch.autograd.grad(compiled(x).square().sum(), list(layer.parameters())), expected, strict=True
    ):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
    assert any("back" in step for step in steps)
    assert any("read" in step for step in steps)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_a_compiled_call_refuses_where_there_is_no_program(no_compiler):  # noqa: F811
    layer = gmt.GaussianMixtureAttention(8, num_components=8, implementation="native")
    with pytest.raises(RuntimeError, match="needs a C compiler"):
        torch.compile(layer, fullgraph=True, backend="aot_eager")(torch.randn(2, 80, 8))
