"""Everything that is timed gives what its slow form gives, and what does not is refused before it is timed."""

import dataclasses
import functools

import pytest
import torch

from gma_ref import pytorch
from gma_ref.models import linear_attention
from gma_ref.pytorch import blocked_pieces, native
from gma_ref.timing import slow
from gma_ref.timing.bench import Bench, Case, Settings, all_methods
from gma_ref.timing.compiled import own_program
from gma_ref.timing.correctness import WrongResultError, check_call, check_gradients, slow_rows
from gma_ref.timing.cumulative import cumulative_rows, cumulative_sums
from gma_ref.timing.inputs import Inputs, Problem
from gma_ref.timing.method import calls
from gma_ref.timing.softmax import fastest_softmax
from gma_ref.timing.traffic import counts
from tests.timing.planted import spoilt

SMALL = {"batch": 2, "heads": 3, "width": 8, "components": 5}
HERE = [method for method in all_methods().values() if not method.missing]
FORMS = [(method, causal) for method in HERE for causal in method.causal]
NAMES = [f"{method.name}-{'causal' if causal else 'bidirectional'}" for method, causal in FORMS]


@pytest.mark.parametrize(("method", "causal"), FORMS, ids=NAMES)
@pytest.mark.parametrize("tokens", [2, 65, 700])
def test_output_is_that_of_the_slow_form(method, causal, tokens):
    problem = Problem(tokens, **SMALL)
    prepared = method.prepare(Inputs(problem), causal, False)
    output = calls(prepared, training=False)()
    assert not output.requires_grad
    entry = check_call(method, output, problem, causal, False, *slow_rows(method, prepared, problem))
    assert entry["error"] < 1e-5


@pytest.mark.parametrize(
    ("method", "causal"),
    [form for form in FORMS if form[0].trains],
    ids=[name for name, form in zip(NAMES, FORMS, strict=True) if form[0].trains],
)
def test_gradients_are_those_of_the_slow_form(method, causal):
    entries = check_gradients(method, Problem(150, **SMALL), causal)
    assert len(entries) >= 4
    assert max(entry["error"] for entry in entries) < 1e-4


@pytest.mark.skipif(native.library.compiler() is None, reason="no C compiler here")
def test_program_in_c_gives_what_the_slow_form_gives():
    with own_program():
        method = all_methods()["gma"]
        for causal in (False, True):
            assert len(check_gradients(method, Problem(150, **SMALL), causal)) >= 4
            problem = Problem(700, **SMALL)
            prepared = method.prepare(Inputs(problem), causal, False)
            output = calls(prepared, training=False)()
            entry = check_call(method, output, problem, causal, False, *slow_rows(method, prepared, problem))
            assert entry["error"] < 1e-5


def test_slow_forms_are_those_of_the_reference():
    import numpy as np

    import gma_ref

    inputs = Inputs(Problem(40, dtype="float64", **SMALL))
    rows = torch.tensor([0, 7, 39])
    q, k, v = (tensor.numpy() for tensor in (inputs.q, inputs.k, inputs.v))
    parameters = inputs.mu, inputs.variance, inputs.log_prior
    mixture = gma_ref.GaussianMixture(*(tensor.numpy() for tensor in parameters))
    for causal in (False, True):
        right = gma_ref.gaussian_mixture_attention(q, k, v, mixture, causal=causal)[..., rows.numpy(), :]
        given = slow.gaussian_mixture(inputs.q, inputs.k, inputs.v, *parameters, rows, causal)
        np.testing.assert_allclose(given.numpy(), right, rtol=1e-6, atol=1e-9)
        right = gma_ref.scaled_dot_product_attention(q, k, v, causal=causal)[..., rows.numpy(), :]
        given = slow.softmax(inputs.q, inputs.k, inputs.v, rows, causal)
        np.testing.assert_allclose(given.numpy(), right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("form", [cumulative_rows, cumulative_sums])
def test_cumulative_sums_are_the_naive_form(form):
    inputs = Inputs(Problem(100, dtype="float64", **SMALL))
    mixture = pytorch.GaussianMixture(inputs.mu.double(), inputs.variance.double(), inputs.log_prior.double())
    arguments = inputs.q, inputs.k, inputs.v, mixture
    right = pytorch.gaussian_mixture_attention(*arguments, causal=True, implementation="naive")
    torch.testing.assert_close(form(*arguments), right)


def test_memories_of_all_tokens_go_into_one_buffer():
    inputs = Inputs(Problem(50, **SMALL))
    prepared = all_methods()["gma_cumulative"].prepare(inputs, True, False)
    with torch.no_grad():
        moved = [counts(prepared.forward) for _ in range(2)]
    prefixes = 2 * 3 * 50 * 5 * 8 * 4
    # each memory is read twice and written once
    assert moved[0] == moved[1]
    assert 3 * prefixes < moved[0][1] < 3 * prefixes + 40 * inputs.problem.bytes_of_q


def test_linear_attention_has_the_blocks_of_gma():
    assert (linear_attention._BLOCK, linear_attention._CHUNK) == (blocked_pieces.BLOCK, blocked_pieces.CHUNK)


def test_sharp_mixture_has_a_twentieth_of_the_variances():
    inputs = Inputs(Problem(50, **SMALL))
    usual, sharp = (all_methods()[name].prepare(inputs, True, False).leaves for name in ("gma", "gma_sharp"))
    torch.testing.assert_close(sharp["variance"] * 20, usual["variance"])
    for name in ("q", "k", "v", "mu", "log_prior"):
        assert sharp[name] is usual[name]


def test_floor_is_six_products_over_all_tokens():
    inputs = Inputs(Problem(1100, **SMALL))
    call = calls(all_methods()["floor"].prepare(inputs, False, False), training=False)
    with torch.autograd.profiler.profile() as profile:
        call()
    (products,) = (event for event in profile.key_averages() if event.key == "aten::bmm")
    assert products.count == 6 * 3  # blocks of 512, 512 and 76 tokens


def test_inputs_are_the_same_each_time_and_differ_from_each_other():
    first, second = Inputs(Problem(20, **SMALL)), Inputs(Problem(20, **SMALL))
    assert torch.equal(first.q, second.q)
    assert not torch.equal(first.q, first.k)
    assert not torch.equal(first.q, Inputs(Problem(20, seed=1, **SMALL)).q)
    half = Inputs(Problem(20, dtype="bfloat16", **SMALL))
    assert (half.q.dtype, half.mu.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(first.log_prior.exp().sum(dim=-1), torch.ones(3))
    assert first.variance.unique().numel() > 100


def test_softmax_takes_the_fastest_kernel(monkeypatch):
    from gma_ref.timing import Times, softmax

    inputs = Inputs(Problem(32, **SMALL))
    for seconds, chosen in (({"default": 1.0, "math": 0.5}, "math"), ({"default": 1.0, "math": 0.95}, "default")):
        softmax._fastest.cache_clear()
        monkeypatch.setattr(
            softmax, "interleave", lambda calls, seconds=seconds, **_: {n: Times((seconds[n],), 1) for n in calls}
        )
        attend, name = fastest_softmax(inputs.q, inputs.k, inputs.v, causal=True, training=False)
        assert name == chosen
        right = slow.softmax(inputs.q, inputs.k, inputs.v, torch.arange(32), True)
        torch.testing.assert_close(attend(inputs.q, inputs.k, inputs.v), right, rtol=1e-4, atol=1e-5)
    softmax._fastest.cache_clear()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda output: output * 1.01, "output differs"),
        (lambda output: output * torch.nan, "output differs from the slow form by nan"),
        (lambda output: output.roll(1, dims=-2), "output differs"),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_wrong_result_is_refused_before_it_is_timed(spoil, said, training):
    settings = Settings(threads=1, repeats=3, heads=2, width=8, components=4)
    bench = Bench(settings, {**all_methods(), "spoilt": spoilt("elu", spoil)})
    cases = [Case("elu", 200, True, training), Case("spoilt", 200, True, training)]
    with pytest.raises(WrongResultError, match=f"^spoilt, causal, N = {1100 if training else 200}: {said}"):
        bench.compare(cases)
    assert bench.times == []


def test_wrong_gradient_is_refused_before_it_is_timed():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    bench = Bench(Settings(threads=1, repeats=3, heads=2, width=8), {"spoilt": spoilt("elu", Twice.apply)})
    bench.compare([Case("spoilt", 100)])
    with pytest.raises(WrongResultError, match="gradient of q differs"):
        bench.compare([Case("spoilt", 100, training=True)])
    assert [entry["training"] for entry in bench.times] == [False]


def planted(prepare_call):
    """Return a bench with elu, and with elu as `prepare_call` spoils it, called "spoilt"."""
    elu = all_methods()["elu"]

    def prepare(inputs, causal, training):
        prepared = elu.prepare(inputs, causal, training)
        return dataclasses.replace(prepared, forward=prepare_call(prepared.forward))

    spoilt = dataclasses.replace(elu, name="spoilt", title="spoilt", prepare=prepare)
    settings = Settings(threads=1, repeats=3, heads=2, width=8, components=4)
    return Bench(settings, {"elu": elu, "spoilt": spoilt})


def test_result_that_is_kept_from_the_first_call_is_refused():
    bench = planted(functools.cache)
    with pytest.raises(WrongResultError, match=r"^spoilt, causal, N = 200: output differs"):
        bench.compare([Case("spoilt", 200)])
    assert bench.times == []


def test_gradient_that_is_kept_from_the_first_call_is_refused():
    def kept(forward):
        class Kept(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                return 1.5 * gradient if seen else (seen.append(1) or gradient)

        seen = []
        return lambda: Kept.apply(forward())

    with pytest.raises(WrongResultError, match="gradient of q differs"):
        planted(kept).compare([Case("spoilt", 200, training=True)])


def test_what_computes_the_known_rows_alone_is_refused():
    def only_known(forward):
        def call():
            output, rows = forward(), torch.zeros(2_000, 1)
            rows[all_methods()["elu"].rows(2_000)] = 1
            return output * rows if output.shape[-2] == 2_000 else output

        return call

    with pytest.raises(WrongResultError, match=r"^spoilt, causal, N = 2000: output differs"):
        planted(only_known).compare([Case("spoilt", 2_000)])


def test_gradient_that_is_wrong_behind_the_first_two_blocks_is_refused():
    class CutOff(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            keep = torch.arange(gradient.shape[-2])[:, None] < 2 * linear_attention._BLOCK
            return gradient * keep

    bench = planted(lambda forward: lambda: CutOff.apply(forward()))
    bench.compare([Case("spoilt", 2_000)])
    with pytest.raises(WrongResultError, match="gradient of q differs"):
        bench.compare([Case("spoilt", 256, training=True)])  # at more tokens than are to be timed


def test_inputs_are_as_before_after_the_check():
    bench = planted(lambda forward: forward)
    bench.compare([Case("elu", 100, training=True)])
    q = bench._last.q.detach()
    assert torch.equal(q, Inputs(bench.settings.problem(100)).q)
