"""What automatic differentiation, transformations and compilers do with the blocked form."""

import shutil

import pytest
import torch

from gma_ref.pytorch import blocked
from gma_ref.pytorch.blocked import blocked_attention
from tests.pytorch.blocked_examples import attend, draw_mask, draw_problem, make_blocks_small, tensors

both_modes = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])


def problem(N=9, dtype=torch.float64, requires_grad=True, batch=(2, 2), d_r=3, d_v=5):
    """Return tensors of batches and heads, with a mixture per head, and a state."""
    arrays, _ = draw_problem(N=N, K=3, batch=batch, heads=batch[-1:], d_r=d_r, d_v=d_v)
    torch.manual_seed(0)
    state = torch.randn(*batch, 3, d_v, dtype=dtype), torch.rand(*batch, 3, dtype=dtype)
    return [*tensors(arrays, dtype, requires_grad), *(s.requires_grad_(requires_grad) for s in state)]


@both_modes
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_gradcheck_of_outputs_and_memory_by_everything(monkeypatch, masked, causal):
    make_blocks_small(monkeypatch, block=4, chunk=2, rows=4)
    mask = draw_mask((2, 7)) if masked else None

    def function(*given):
        return attend(*given[:6], causal=causal, key_mask=mask, state=given[6:])

    assert torch.autograd.gradcheck(function, problem(7, batch=(2,), d_r=2, d_v=3))


@both_modes
def test_gradcheck_in_the_difference_form(monkeypatch, causal):
    from gma_ref.pytorch import quadratic

    make_blocks_small(monkeypatch, block=4, chunk=2, rows=4)
    monkeypatch.setattr(quadratic, "LARGEST_SPREAD", {torch.float64: -1})
    monkeypatch.setattr(quadratic.Expanded, "of", None)  # it is not the form in use
    given = problem(7, batch=(2,), d_r=2, d_v=3)
    assert torch.autograd.gradcheck(lambda *given: attend(*given[:6], causal=causal, state=given[6:]), given)


@both_modes
@pytest.mark.parametrize("wanted", [0, 1, 2, 3, 4, 5, 6, 7])
def test_gradient_of_one_argument_alone(causal, wanted):
    given = problem()
    everything = torch.autograd.grad(attend(*given[:6], causal=causal, state=given[6:])[0].sum(), given)
    alone = [t if n == wanted else t.detach() for n, t in enumerate(given)]
    found = torch.autograd.grad(attend(*alone[:6], causal=causal, state=alone[6:])[0].sum(), alone[wanted])[0]
    torch.testing.assert_close(found, everything[wanted], rtol=1e-12, atol=0)


@both_modes
def test_gradient_of_the_memory_alone(causal):
    given = problem()
    _, V_tilde, Z = attend(*given[:6], causal=causal, state=given[6:])
    found = torch.autograd.grad(Z.sum(), given, allow_unused=True, retain_graph=True)
    torch.testing.assert_close(found[7], torch.ones_like(given[7]))
    assert all(g is None or g.abs().max() < 1e-12 for n, g in enumerate(found) if n != 7)  # Z sums to a count
    torch.testing.assert_close(torch.autograd.grad(V_tilde.sum(), given[2])[0], torch.ones_like(given[2]))


@both_modes
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_no_gradient(causal, reentrant):
    from torch.utils.checkpoint import checkpoint

    def function(*given):
        return attend(*given[:6], causal=causal, state=given[6:])[0].sin()

    found, expected = problem(), problem()
    checkpoint(function, *found, use_reentrant=reentrant).sum().backward()
    function(*expected).sum().backward()
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.grad, other.grad)


@both_modes
def test_many_upstream_gradients_at_once_are_as_many_one_by_one(causal):
    given = problem()
    output = attend(*given[:6], causal=causal, state=given[6:])[0]
    upstream = torch.randn(3, *output.shape, dtype=output.dtype)
    found = torch.autograd.grad(output, given, upstream, is_grads_batched=True, retain_graph=True)
    for n, one in enumerate(upstream):
        for several, alone in zip(found, torch.autograd.grad(output, given, one, retain_graph=True), strict=True):
            torch.testing.assert_close(several[n], alone, rtol=1e-10, atol=1e-12)


@both_modes
def test_second_derivatives_are_refused(causal):
    given = problem()
    first = torch.autograd.grad(attend(*given[:6], causal=causal)[0].sum(), given[0], create_graph=True)[0]
    with pytest.raises(NotImplementedError, match=r"first derivatives only.*implementation='naive'"):
        first.sum().backward()


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # PyTorch's own, on its way to forward mode
@both_modes
def test_forward_mode_is_refused(causal):
    given = problem(requires_grad=False)
    with pytest.raises(NotImplementedError, match=r"no forward-mode derivative.*implementation='naive'"):
        torch.func.jvp(lambda q: attend(q, *given[1:6], causal=causal)[0], (given[0],), (given[0],))
    with pytest.raises(NotImplementedError, match="implementation='naive'"):
        torch.func.hessian(lambda alpha: attend(*given[:5], alpha, causal=causal)[0].sum())(given[5])


@both_modes
def test_func_grad_is_autograd(causal):
    given = problem()

    def loss(*given):
        return attend(*given[:6], causal=causal, state=given[6:])[0].sin().sum()

    found = torch.func.grad(loss, argnums=tuple(range(8)))(*given)
    for one, other in zip(found, torch.autograd.grad(loss(*given), given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@both_modes
@pytest.mark.parametrize("mapped", [(0, 1, 2), (0,), (3, 4, 5), tuple(range(8))])
def test_vmap_is_a_loop(causal, mapped):
    given = problem(requires_grad=False)
    several = [torch.stack([t, t.flip(0) + 0.1, t * 0.9]) if n in mapped else t for n, t in enumerate(given)]
    dims = tuple(0 if n in mapped else None for n in range(8))

    def function(*given):
        return attend(*given[:6], causal=causal, state=given[6:])

    def loss(*given):
        return function(*given)[0].sin().sum()

    for run in (function, torch.func.grad(loss, argnums=tuple(range(8)))):
        found = torch.vmap(run, in_dims=dims)(*several)
        for n in range(3):
            expected = run(*(t[n] if d == 0 else t for t, d in zip(several, dims, strict=True)))
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one[n], other, rtol=1e-10, atol=1e-12)


def test_vmap_over_attention_without_state_and_over_masks():
    given = problem(requires_grad=False)[:6]
    masks = torch.as_tensor(draw_mask((3, 2, 2, 9)))
    found = torch.vmap(lambda mask: attend(*given, key_mask=mask)[0])(masks)
    expected = torch.stack([attend(*given, key_mask=mask)[0] for mask in masks])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


@both_modes
@pytest.mark.parametrize("stateful", [False, True])
def test_operations_keep_the_rules_of_custom_operations(causal, stateful):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 9, 4), torch.randn(2, 3, 9, 4), torch.randn(3, 2, 9, 5).transpose(0, 1)
    mixture = torch.randn(2, 6, 4), torch.rand(2, 6, 4) + 1, torch.zeros(2, 6)
    state = (torch.randn(2, 3, 6, 5), torch.rand(2, 3, 6)) if stateful else (None, None)
    mask = torch.rand(2, 3, 9) < 0.7
    arguments = (q, k, v, *mixture, mask, *state, causal, 1e-6, "eager")
    torch.library.opcheck(blocked.blocked_op, arguments)
    results = blocked.blocked_op(*arguments)
    upstream = torch.randn_like(results[0])
    torch.library.opcheck(blocked.blocked_backward_op, (*arguments, *results, upstream, None, results[2]))


needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="no C++ compiler here, which inductor needs"
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.slow
@both_modes
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])
def test_compiled_over_six_lengths_it_is_the_same_in_two_graphs_at_most(causal, backend):
    import torch._dynamo.testing

    def function(q, k, v, mu, variance, log_prior, mask, V_tilde, Z):
        options = {"causal": causal, "eps": 1e-6, "key_mask": mask, "state": (V_tilde, Z)}
        output, *memory = blocked_attention(q, k, v, mu, variance, log_prior, **options)
        return output * 2, *memory

    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(function, fullgraph=True, backend=counter)
    for N in (2, 5, 64, 65, 200, 1025):
        q, k, v, mu, omega, alpha, *state = problem(N, torch.float32)
        variance = omega.detach().exp().requires_grad_()
        given = q, k, v, mu, variance, alpha, *state
        mask = torch.as_tensor(draw_mask((2, 2, N)))
        found, expected = (
            torch.autograd.grad(sum(r.sin().sum() for r in results), given) + results
            for results in (f(*given[:6], mask, *state) for f in (compiled, function))
        )
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert counter.frame_count <= 2
    torch._dynamo.reset()
