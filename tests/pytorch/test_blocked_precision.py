"""What each precision gives: dtypes, autocast, long sums, and errors against float64."""

import numpy as np
import pytest
import torch

from gma_ref.pytorch.blocked import blocked_attention
from tests.pytorch.blocked_examples import attend, draw_problem, from_unconstrained, tensors
from tests.pytorch.parity import parity_errors

both_modes = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@both_modes
@pytest.mark.parametrize("v_dtype", DTYPES)
@pytest.mark.parametrize("others", DTYPES)
def test_the_output_has_the_dtype_of_v_and_each_gradient_its_own(v_dtype, others, causal):
    given = tensors(draw_problem(N=9)[0], others)
    given[2] = given[2].to(v_dtype)
    given[0] = given[0].to(torch.bfloat16)
    given[3:] = from_unconstrained(*given[3:])
    for t in given:
        t.requires_grad_()
    output, V_tilde, Z = blocked_attention(*given, causal=causal, eps=1e-6)
    wide = torch.float64 if torch.float64 in (v_dtype, others) else torch.float32
    assert (output.dtype, V_tilde.dtype, Z.dtype) == (v_dtype, wide, wide)
    found = torch.autograd.grad(output.sum(), given)
    assert [g.dtype for g in found] == [t.dtype for t in given]
    exact = blocked_attention(*(t.detach().double() for t in given), causal=causal, eps=1e-6)[0]
    tolerance = max(2 * torch.finfo(v_dtype).eps, 1e-5 if wide == torch.float32 else 1e-12)
    torch.testing.assert_close(output.double(), exact, rtol=tolerance, atol=tolerance)


@both_modes
def test_autocast_changes_nothing(causal):
    given = tensors(draw_problem(N=9)[0], torch.float32, requires_grad=True)
    mixed = [t.detach().bfloat16().requires_grad_() for t in given[:3]] + given[3:]
    outside = attend(*mixed, causal=causal)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = attend(*mixed, causal=causal)[0]
        found = torch.autograd.grad(inside.float().sum(), mixed)
    assert torch.equal(inside, outside)
    for one, other in zip(found, torch.autograd.grad(outside.float().sum(), mixed), strict=True):
        assert torch.equal(one, other)
        assert one.dtype == other.dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_over_many_keys_are_not_kept_in_16_bits(dtype):
    # F1: K = 1, V = 0 until 3000 then 1, so the last output is the mean 1096 / 4096
    v = (torch.arange(4096) >= 3000).to(dtype)[:, None]
    zeros = torch.zeros(4096, 1, dtype=dtype)
    mixture = (torch.zeros(1, 1, dtype=dtype), torch.zeros(1, 1, dtype=dtype), torch.zeros(1, dtype=dtype))
    for causal in (False, True):
        output = attend(zeros, zeros, v, *mixture, causal=causal, eps=0.0)[0][-1].item()
        assert output == pytest.approx(1096 / 4096, rel=torch.finfo(dtype).eps)
        assert round(output, 4) == 0.2676 or dtype == torch.bfloat16


@both_modes
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_errors_against_float64_on_the_rounded_inputs_are_a_few_roundings(dtype, causal):
    errors = parity_errors(dtype, causal)
    unit = torch.finfo(dtype).eps
    assert errors["output"] < (40 if dtype == torch.float32 else 2) * unit
    assert max(errors.values()) < (200 if dtype == torch.float32 else 8) * unit, errors


def test_denominators_too_small_to_divide_by_give_no_infinite_gradient():
    # the only key lies in a slot that the query reaches with a responsibility of 1e-42 or so
    for distance in (13.0, 13.8, 14.0, 20.0):
        q, k = torch.tensor([[0.0]]), torch.tensor([[2 * distance]])
        mu = torch.tensor([[0.0], [distance]])
        omega = torch.full((2, 1), np.log(np.e - 1))
        given = [q, k, torch.ones(1, 1), mu, omega, torch.zeros(2)]
        given = [t.requires_grad_() for t in given]
        output = attend(*given, eps=0.0)[0]
        assert all(g.isfinite().all() for g in torch.autograd.grad(output.sum(), given))
