"""What users of attention trip over: denominators, states, padding, precision, layouts, autocast, compilers."""

import copy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch._dynamo.testing import CompileCounter

from gma_ref import pytorch as gmt
from tests.examples import draw_problem
from tests.pytorch.problems import (
    NAMES,
    assert_same,
    attend,
    both_modes,
    every_device,
    every_implementation,
    gradients,
    leaves,
    needs_cuda,
    run,
)

ONE = gmt.GaussianMixture(torch.zeros(1, 1), torch.ones(1, 1), torch.zeros(1))  # every output is a mean
sixteen_bits = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@every_implementation
@both_modes
def test_constant_values_leave_no_gradient_but_their_own(causal, implementation):
    # V ≡ 1 makes O ≈ 1, whatever the routing: a denominator without its gradient would show
    arrays, upstream = draw_problem()
    arrays[2][...] = 1
    output, found = run(arrays, np.ones_like(upstream), causal=causal, eps=1e-12, implementation=implementation)
    assert_allclose(output, 1, rtol=1e-9)
    for name in set(NAMES) - {"v"}:
        assert_allclose(found[name], 0, atol=1e-9)
    assert_allclose(found["v"].sum(), upstream.size, rtol=1e-9)


@every_implementation
def test_state_holds_its_normaliser(implementation):
    v = torch.tensor([[1.0], [2], [3], [4], [5]])
    x = torch.zeros(5, 1)
    options = {"causal": True, "eps": 0, "return_state": True, "implementation": implementation}
    first, state = gmt.gaussian_mixture_attention(x[:3], x[:3], v[:3], ONE, **options)
    assert first[:, 0].tolist() == [1, 1.5, 2]
    second, _ = gmt.gaussian_mixture_attention(x[3:], x[3:], v[3:], ONE, state=state, **options)
    assert second[:, 0].tolist() == [2.5, 3]


@every_implementation
def test_state_is_the_same_from_prefill_and_step_and_is_not_changed(implementation):
    arrays, _ = draw_problem(N=6, batch=(2, 3), heads=(3,))
    q, k, v, *parameters = (tensor.detach() for tensor in leaves(arrays, torch.float32))
    options = {"causal": True, "return_state": True, "implementation": implementation}
    _, prefill = attend([q, k, v, *parameters], **options)
    state = None
    for t in range(6):
        _, state = attend([x[..., t : t + 1, :] for x in (q, k, v)] + parameters, state=state, **options)
        for one, other in zip(state, prefill, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
    for one, other in zip(state, prefill, strict=True):
        assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    # two continuations of one state
    before = [part.clone() for part in prefill]
    forks = [attend([q + n, k + n, v + n, *parameters], state=prefill, **options) for n in (0, 1, 0)]
    for part, old in zip(prefill, before, strict=True):
        assert torch.equal(part, old)
    assert torch.equal(forks[0][0], forks[2][0])
    assert not torch.equal(forks[0][0], forks[1][0])


@every_implementation
@both_modes
@pytest.mark.parametrize("N", [1, 15, 16, 17, 63, 64, 65, 127, 513])
def test_slots_hold_the_number_of_keys(N, causal, implementation):
    arrays, _ = draw_problem(N=N, K=7)
    tensors = [tensor.detach() for tensor in leaves(arrays)]
    _, state = attend(tensors, causal=causal, return_state=True, implementation=implementation)
    assert_allclose(state.Z.sum(dim=-1), N, rtol=1e-12)


@every_device
@every_implementation
@both_modes
@sixteen_bits
def test_sums_over_keys_are_not_kept_in_sixteen_bits(dtype, causal, implementation, device):
    x = torch.zeros(4096, 1, dtype=dtype, device=device)
    v = (torch.arange(4096, device=device) >= 3000).to(dtype)[:, None].requires_grad_()
    mixture = ONE.to(device)
    options = {"causal": causal, "eps": 0, "return_state": True, "implementation": implementation}
    output, state = gmt.gaussian_mixture_attention(x, x, v, mixture, **options)
    assert output.dtype == dtype
    assert state.V_tilde.dtype == state.Z.dtype == torch.float32
    assert_allclose(output[-1].item(), 1096 / 4096, rtol=torch.finfo(dtype).eps)
    assert state.Z.item() == 4096
    (gradient,) = torch.autograd.grad(output.float().sum(), v)
    assert gradient.dtype == dtype
    # a value is divided by the number of keys in the mean, for each mean that it is in
    means = 1 / np.arange(1, 4097)
    expected = means[::-1].cumsum()[::-1] if causal else np.ones(4096)
    assert_allclose(gradient[:, 0].double().cpu(), expected, rtol=2 * torch.finfo(dtype).eps)


@every_implementation
@both_modes
@sixteen_bits
def test_sixteen_bits_differ_from_the_exact_by_one_rounding_of_the_output(dtype, causal, implementation):
    arrays, upstream = draw_problem(N=150, batch=(2, 3), heads=(3,))
    rounded = [tensor.detach() for tensor in leaves(arrays, dtype)]
    exact, by = run([t.double().numpy() for t in rounded], upstream, causal=causal, implementation=implementation)
    output, found = run([t.float().numpy() for t in rounded], upstream, dtype=dtype, causal=causal,
                        implementation=implementation)  # fmt: skip
    step = torch.finfo(dtype).eps
    assert_allclose(output, exact, rtol=step, atol=step / 8)
    for name in NAMES:
        assert_allclose(found[name], by[name], rtol=4 * step, atol=4 * step * np.abs(by[name]).max())


@every_implementation
@both_modes
def test_state_in_float64_keeps_the_sums_in_float64(causal, implementation):
    arrays, _ = draw_problem(N=100, batch=())
    tensors = [tensor.detach() for tensor in leaves(arrays, torch.float32)]
    start = gmt.Memory(torch.full((4, 5), 1e9, dtype=torch.float64), torch.full((4,), 1e9, dtype=torch.float64))
    options = {"causal": causal, "return_state": True, "implementation": implementation}
    output, state = attend(tensors, state=start, **options)
    assert output.dtype == torch.float32
    assert state.V_tilde.dtype == state.Z.dtype == torch.float64
    _, alone = attend([tensor.double() for tensor in tensors], **options)
    assert_allclose(state.Z - 1e9, alone.Z, atol=1e-4)  # float32 has steps of 64 there
    assert_allclose(state.V_tilde - 1e9, alone.V_tilde, atol=1e-4)
    _, narrow = attend(tensors, state=start.to(torch.bfloat16), **options)
    assert narrow.Z.dtype == torch.float32


@every_implementation
@both_modes
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)], ids=str)
def test_empty_batch_has_the_right_shapes(shape, causal, implementation):
    arrays, _ = draw_problem(batch=shape, heads=())
    tensors = leaves(arrays)
    output, state = attend(tensors, causal=causal, return_state=True, implementation=implementation)
    assert output.shape == (*shape, 6, 5)
    assert state.V_tilde.shape == (*shape, 4, 5)
    assert state.Z.shape == (*shape, 4)
    for tensor, gradient in zip(tensors, torch.autograd.grad(output.sum(), tensors), strict=True):
        assert gradient.shape == tensor.shape
        assert not gradient.any()


@every_implementation
@both_modes
def test_any_layout_of_inputs_and_of_gradients_is_as_the_contiguous_one(causal, implementation):
    arrays, upstream = draw_problem(N=70, batch=(2, 3), heads=(3,))
    expected_output, expected = run(arrays, upstream, causal=causal, implementation=implementation)

    def transposed(array):
        return torch.tensor(array).mT.contiguous().mT

    def heads_last(array):
        return torch.tensor(array).transpose(0, 1).contiguous().transpose(0, 1)

    def sliced(array):
        return torch.tensor(array).repeat_interleave(2, dim=-1)[..., ::2]

    for layout in (transposed, heads_last, sliced):
        tensors = [layout(array) if array.ndim > 3 else torch.tensor(array) for array in arrays]
        tensors = [tensor.requires_grad_() for tensor in tensors]
        output = attend(tensors, causal=causal, implementation=implementation)
        assert_allclose(output.detach(), expected_output, rtol=1e-12, atol=1e-14)
        assert_same(gradients(output, layout(upstream), tensors), expected, rtol=1e-11)
    one = [array[:1, :1] for array in arrays[:3]] + [array[:1] for array in arrays[3:]]
    tensors = leaves(one)
    spread = [tensor.expand(2, 3, *tensor.shape[2:]) for tensor in tensors[:3]] + tensors[3:]
    output = attend(spread, causal=causal, implementation=implementation)
    by_hand, by = run(one, 6 * upstream[:1, :1, :1].repeat(70, axis=2), causal=causal, implementation=implementation)
    assert_allclose(output.detach(), np.broadcast_to(by_hand, output.shape), rtol=1e-12)
    same_gradient = torch.tensor(upstream[:1, :1, :1]).expand(output.shape)
    assert_same(gradients(output, same_gradient, tensors), by)


@every_device
@every_implementation
@both_modes
def test_autocast_runs_and_squeezes_nothing(causal, implementation, device):
    arrays, upstream = draw_problem(N=40)
    tensors = leaves(arrays, torch.float32, device)
    plain = attend(tensors, causal=causal, implementation=implementation)
    upstream = torch.as_tensor(upstream, dtype=torch.float32, device=device)
    expected = torch.autograd.grad(plain, tensors, upstream)
    with torch.autocast(device, dtype=torch.bfloat16):
        output = attend(tensors, causal=causal, implementation=implementation)
        half = attend([t.bfloat16() for t in tensors[:3]] + tensors[3:], causal=causal, implementation=implementation)
    assert torch.equal(output, plain)
    for gradient, other in zip(torch.autograd.grad(output, tensors, upstream), expected, strict=True):
        assert torch.equal(gradient, other)
    assert half.dtype == torch.bfloat16
    found = torch.autograd.grad(half, tensors, upstream.bfloat16())
    assert {gradient.dtype for gradient in found} == {torch.float32}
    assert all(torch.isfinite(gradient).all() for gradient in found)


@every_implementation
@both_modes
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_gradients_are_the_changes_of_the_outputs(masked, causal, implementation):
    arrays, _ = draw_problem(N=5, batch=(2,), heads=())
    state = leaves([np.random.default_rng(0).normal(size=(4, 5)), np.random.default_rng(0).random((2, 4))])
    mask = torch.tensor([True, False, True, True, False]) if masked else None

    def function(*tensors):
        options = {"state": gmt.Memory(*tensors[6:]), "return_state": True, "key_mask": mask, "causal": causal}
        output, after = attend(tensors[:6], implementation=implementation, **options)
        return output, *after

    assert torch.autograd.gradcheck(function, (*leaves(arrays), *state))


@both_modes
def test_second_derivatives_are_those_of_the_equations(causal):
    arrays, _ = draw_problem(N=3, K=2, d_r=2, d_v=2, batch=())
    assert torch.autograd.gradgradcheck(
        lambda *tensors: attend(tensors, causal=causal, implementation="naive"), leaves(arrays)
    )


@both_modes
def test_second_derivatives_of_the_blocked_form_are_refused(causal):
    tensors = leaves(draw_problem()[0])
    output = attend(tensors, causal=causal, implementation="blocked")
    first = torch.autograd.grad(output.square().sum(), tensors, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"second derivatives.* implementation='naive'"):
        torch.autograd.grad(sum(gradient.square().sum() for gradient in first), tensors)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # PyTorch's own doing
@both_modes
def test_functional_transforms_agree_with_autograd(causal):
    arrays, _ = draw_problem(N=4, batch=())
    tensors = [tensor.detach() for tensor in leaves(arrays)]

    def function(q):
        return attend([q, *tensors[1:]], causal=causal, implementation="naive")

    forwards, backwards = torch.func.jacfwd(function)(tensors[0]), torch.func.jacrev(function)(tensors[0])
    assert_allclose(forwards, backwards, rtol=1e-9, atol=1e-13)
    assert_allclose(backwards, torch.autograd.functional.jacobian(function, tensors[0]), rtol=1e-12, atol=1e-15)
    many = torch.stack([tensors[0], tensors[0] + 1])
    assert_allclose(torch.func.vmap(function)(many), function(many), rtol=1e-12)
    per_query = torch.func.vmap(torch.func.grad(lambda q: function(q).sum()))(many)
    assert per_query.shape == (2, 4, 3)


@pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning")  # the compiler's own doing
@every_implementation
@both_modes
def test_compiled_function_equals_the_eager_one_and_compiles_at_most_three_times(causal, implementation):
    counter = CompileCounter()

    def function(*tensors):
        output, state = attend(tensors, causal=causal, return_state=True, implementation=implementation)
        return output, *state

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend=counter)
    for N in (2, 3, 17, 64, 65, 130):
        arrays, upstream = draw_problem(N, N=N)
        tensors = leaves(arrays)
        for one, other in zip(compiled(*tensors), function(*tensors), strict=True):
            # compiled, "auto" takes the blocked form for all lengths, and here the other one
            assert torch.equal(one, other) or implementation == "auto"
            assert_allclose(one.detach(), other.detach(), rtol=1e-10, atol=1e-14)
        output, expected = compiled(*tensors)[0], gradients(function(*tensors)[0], upstream, tensors)
        assert_same(gradients(output, upstream, tensors), expected, rtol=1e-12)
    assert 1 <= counter.frame_count <= (3 if implementation == "naive" else 2)


@every_implementation
@both_modes
def test_shapes_are_known_without_numbers(causal, implementation):
    tensors = [tensor.to("meta").requires_grad_() for tensor in leaves(draw_problem(batch=(2, 3), heads=(3,))[0])]
    mask = torch.ones(6, dtype=torch.bool, device="meta")
    options = {"causal": causal, "key_mask": mask, "return_state": True, "implementation": implementation}
    output, state = attend(tensors, **options)
    assert (output.shape, state.V_tilde.shape, state.Z.shape) == ((2, 3, 6, 5), (2, 3, 4, 5), (2, 3, 4))
    assert {tensor.device.type for tensor in (output, *state)} == {"meta"}
    for tensor, gradient in zip(tensors, torch.autograd.grad(output.sum(), tensors), strict=True):
        assert (gradient.shape, gradient.device.type) == (tensor.shape, "meta")


@every_implementation
def test_inputs_are_left_as_they_were(implementation):
    arrays, upstream = draw_problem(N=70)
    tensors = leaves(arrays)
    with torch.no_grad():
        tensors[2][:, 7] = torch.nan
    before = copy.deepcopy([tensor.detach() for tensor in tensors])
    for causal in (False, True):
        upstream = torch.as_tensor(upstream)
        kept = upstream.clone()
        torch.autograd.grad(attend(tensors, causal=causal, implementation=implementation), tensors, upstream)
        assert torch.equal(upstream, kept)
    for tensor, old in zip(tensors, before, strict=True):
        assert torch.equal(tensor.nan_to_num(7), old.nan_to_num(7))


@pytest.mark.parametrize(
    "implementation", [pytest.param("naive", marks=needs_cuda), pytest.param("blocked", marks=needs_cuda)]
)
@both_modes
def test_scores_are_never_taken_in_tf32(causal, implementation):
    arrays, upstream = draw_problem(N=200, d_r=32, K=32, batch=())
    exact, _ = run(arrays, upstream, causal=causal, implementation="naive")
    before = torch.backends.cuda.matmul.allow_tf32
    results = []
    try:
        for allowed in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = allowed
            options = {"causal": causal, "implementation": implementation}
            results.append(run(arrays, upstream, dtype=torch.float32, device="cuda", **options)[0])
            assert torch.backends.cuda.matmul.allow_tf32 == allowed
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    errors = [np.abs(result - exact).max() for result in results]
    assert errors[1] <= 2 * errors[0] + 2e-3 * np.abs(exact).max()
