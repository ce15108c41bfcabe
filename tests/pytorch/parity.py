"""Errors of the blocked form against float64 on the inputs as rounded: ``python -m tests.pytorch.parity``."""

import torch

from gma_ref.pytorch.blocked import blocked_attention

NAMES = ("q", "k", "v", "mu", "variance", "log_prior")


def draw(N=1000, H=2, K=64, d=64, offset=0.0, seed=0):
    """Return tokens and a mixture per head in float64, at some distance from the origin."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (H, N, d), (H, N, d), (H, N, d), (H, K, d)
    q, k, v, mu = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    variance = 4 + 8 * torch.rand(H, K, d, generator=generator, dtype=torch.float64)
    log_prior = torch.log_softmax(torch.randn(H, K, generator=generator, dtype=torch.float64), -1)
    return q + offset, k + offset, v, mu + offset, variance, log_prior


def parity_errors(dtype, causal, offset=0.0, **sizes):
    """Return the largest error of the output and of each gradient, over the largest entry of each.

    Tokens are rounded to `dtype`, the mixture to float32 at least; the float64 twin gets the rounded numbers.
    """
    given = draw(offset=offset, **sizes)
    wide = torch.promote_types(dtype, torch.float32)
    given = [t.to(dtype if n < 3 else wide).requires_grad_() for n, t in enumerate(given)]
    exact = [t.detach().double().requires_grad_() for t in given]
    upstream = torch.randn(given[2].shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    found, expected = (differentiated(t, causal, upstream) for t in (given, exact))
    errors = ((a.double() - b).abs().max() / b.abs().max() for a, b in zip(found, expected, strict=True))
    return dict(zip(("output", *NAMES), map(float, errors), strict=True))


def differentiated(given, causal, upstream):
    """Return the output and the gradients."""
    output = blocked_attention(*given, causal=causal, eps=1e-6)[0]
    return output.detach(), *torch.autograd.grad(output, given, upstream.to(output.dtype))


def main():
    """Print the errors by dtype, mode and distance from the origin."""
    torch.set_num_threads(1)
    print(f"{'':36}", *(f"{name:>10}" for name in ("output", *NAMES)))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for causal in (False, True):
            for offset in (0.0, 10.0, 1e3, 1e4) if dtype == torch.float32 else (0.0,):
                row = parity_errors(dtype, causal, offset)
                print(f"{dtype!s:16} {'causal' if causal else 'both ways':10} {offset:8.0f}", end=" ")
                print(*(f"{error:10.1e}" for error in row.values()))


if __name__ == "__main__":
    main()
