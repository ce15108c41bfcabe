"""The blocked form in C is the blocked form: the same numbers, causal to the bit, with the same care for NaN."""

import ctypes
import inspect
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from gma_ref.pytorch import blocked_pieces, native
from gma_ref.pytorch.native import library, passes
from tests.examples import draw_problem
from tests.pytorch.blocked_examples import NAMES, draw_mask, tensors
from tests.pytorch.blocked_examples import attend as attend_by

both_modes = pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
needs_compiler = pytest.mark.skipif(library.compiler() is None, reason="no C compiler here")
SIZES = [
    {"N": 70, "K": 64, "d_r": 64, "d_v": 64},
    {"N": 1, "K": 1, "d_r": 1, "d_v": 1},
    {"N": 31, "K": 3, "d_r": 5, "d_v": 7},
    {"N": 33, "K": 17, "d_r": 18, "d_v": 16},
    {"N": 577, "K": 9, "d_r": 8, "d_v": 33},
    {"N": 1200, "K": 300, "d_r": 3, "d_v": 1},
]


def attend(*given, program="auto", **options):
    """Attend by the program where it serves."""
    return attend_by(*given, program=program, **options)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def steps(cache, monkeypatch):
    """Build the program into a cache of the tests, and return the list of the steps that are run from now on."""
    monkeypatch.setenv("GMA_REF_CACHE", str(cache))
    native.built.cache_clear()
    if not library.location().exists():
        native.build()
    run, ran = library.run, []
    monkeypatch.setattr(passes, "run", lambda step, *others: ran.append(step) or run(step, *others))
    yield ran
    native.built.cache_clear()


def results(arrays, upstream, dtype, state=None, **options):
    """Return output, memory and all gradients by the blocked form, as arrays in float64."""
    given = tensors(arrays, dtype, requires_grad=True)
    state = None if state is None else tensors(state, dtype, requires_grad=True)
    outputs = attend(*given, state=state, **options)
    upstream = [torch.tensor(upstream, dtype=dtype), outputs[1].detach().sin(), outputs[2].detach().cos()]
    gradients = torch.autograd.grad(outputs, [*given, *(state or ())], upstream)
    names = ["output", "V_tilde", "Z", *NAMES, *(["state V_tilde", "state Z"] if state else [])]
    return dict(zip(names, (t.detach().double().numpy() for t in (*outputs, *gradients)), strict=True))


def assert_close(found, expected, tolerance=3e-5):
    for name, array in expected.items():
        scale = np.abs(array).max(initial=1e-3)
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance * scale, err_msg=name)


@needs_compiler
@both_modes
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_it_is_the_blocked_form_in_float64(steps, size, masked, causal):
    arrays, upstream = draw_problem(batch=(2, 2), heads=(2,), **size)
    arrays[3] *= 0.3  # so that scores need no float64, which have a test of their own
    rng = np.random.default_rng(0)
    state = rng.normal(size=(2, 2, size["K"], size["d_v"])), rng.uniform(1, 2, size=(2, 2, size["K"]))
    options = {"causal": causal, "key_mask": draw_mask((2, 2, size["N"])) if masked else None, "state": state}
    expected = results(arrays, upstream, torch.float64, **options)
    results(arrays, upstream, torch.float32, program="eager", **options)
    assert not steps  # nor is float64 for the program
    found = results(arrays, upstream, torch.float32, **options)
    assert steps
    assert_close(found, expected)


@needs_compiler
@both_modes
def test_few_sequences_are_divided_into_ranges(steps, monkeypatch, causal):
    arrays, upstream = draw_problem(N=1300, K=5, batch=(), heads=())
    whole = results(arrays, upstream, torch.float64, causal=causal)
    monkeypatch.setattr(passes, "RANGE", 512)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert_close(results(arrays, upstream, torch.float32, causal=causal), whole)
    first = {"gma_write", "gma_queries_back"}
    assert first <= set(steps)


@needs_compiler
@pytest.mark.parametrize("later", [1e3, 0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("N", [70, 600])
def test_later_tokens_change_no_earlier_output_by_a_bit(steps, N, later):
    arrays, _ = draw_problem(N=N, K=9, batch=(2,), heads=())
    given = tensors(arrays, torch.float32)
    output = attend(*given, causal=True)[0]
    for t in [0, 1, 7, 8, 30, 31, 32, 33, 63, 64, N - 2]:
        for changed in ((0, 1, 2), (0,), (1,), (2,)):
            other = [x.clone() for x in given]
            for n in changed:
                other[n][..., t + 1 :, :] = later
            again = attend(*other, causal=True)[0]
            assert torch.equal(output[..., : t + 1, :], again[..., : t + 1, :]), (t, changed)
    assert set(steps) == {"gma_read_causal"}


@needs_compiler
@both_modes
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("held", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1, 2], ids=["q", "k", "v"])
def test_what_is_not_finite_is_felt_where_the_blocked_form_feels_it(steps, which, held, masked, causal):
    arrays, upstream = draw_problem(N=70, K=6, batch=(2,), heads=())
    arrays[which][1, 40, 1] = held
    mask = draw_mask((2, 70)) if masked else None
    if masked:
        mask[1, 40] = False
    upstream[0, :20] = 0
    for silent in (False, True):
        upstream[1, 40:] *= not silent  # what nobody asks about sends nothing back
        expected = results(arrays, upstream, torch.float64, causal=causal, key_mask=mask)
        found = results(arrays, upstream, torch.float32, causal=causal, key_mask=mask)
        for name, array in expected.items():
            np.testing.assert_array_equal(np.isnan(found[name]), np.isnan(array), err_msg=name)
            np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4, err_msg=name)
    assert steps


@needs_compiler
@both_modes
@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_a_row_that_no_key_reaches_is_0(steps, eps, causal):
    arrays, upstream = draw_problem(N=40, K=4, batch=(), heads=())
    mask = np.arange(40) > (35 if causal else 40)
    found = results(arrays, upstream, torch.float32, causal=causal, key_mask=mask, eps=eps)
    assert not found["output"][:36].any()
    assert all(np.isfinite(array).all() for array in found.values())
    assert steps


@needs_compiler
@both_modes
def test_responsibilities_too_small_for_float32_are_0(steps, causal):
    arrays, upstream = draw_problem(N=50, K=3, d_r=2, batch=(), heads=())
    arrays[3][:] = [[0, 0], [9, 0], [0, 10]]  # a standard deviation of about 0.7: e^-80 to e^-120 between the means
    arrays[4][:] = 0
    arrays[0][:], arrays[1][:] = arrays[3][0], arrays[3][np.arange(50) % 3]
    expected = results(arrays, upstream, torch.float64, causal=causal)
    assert_close(results(arrays, upstream, torch.float32, causal=causal), expected)
    assert steps


@needs_compiler
@both_modes
@pytest.mark.parametrize("far", [0, 30], ids=["", "far"])
@pytest.mark.parametrize("equal", [False, True], ids=["", "one covariance"])
@pytest.mark.parametrize("sigma", [0.3, 0.03])
@pytest.mark.parametrize("size", SIZES[:1] + SIZES[2:5], ids=str)
def test_scores_of_a_sharp_mixture_are_taken_in_float64(steps, size, sigma, equal, far, causal):
    arrays, upstream = draw_problem(batch=(2,), heads=(2,), **size)
    q, k, _, mu, omega, _ = arrays
    # means that lie in pairs, which share tokens, and many standard deviations from the others
    mu *= 2 / np.sqrt(size["d_r"])
    mu += 50 * np.sqrt(size["d_r"]) * mu[:, np.arange(size["K"]) // 2 * 2] + far / sigma
    n = np.random.default_rng(0).integers(size["K"], size=(2, size["N"]))
    for tokens in (q, k):
        tokens += np.take_along_axis(mu, n[..., None], axis=1)
    for points in (q, k, mu):
        points *= sigma
    omega[:] = np.log(np.expm1(sigma**2 * (1 if equal else np.exp(omega / 4))))
    arrays = [np.float32(array) for array in arrays]
    found = results(arrays, upstream, torch.float32, causal=causal)
    assert {step.endswith("_precise") for step in steps} == {True}
    # gradients of tokens are sums in which what the distance to other pairs gives cancels
    assert_close(found, results(arrays, upstream, torch.float64, causal=causal), tolerance=5e-4)


@needs_compiler
@both_modes
@pytest.mark.parametrize("program", ["eager", "auto"])
def test_responsibilities_that_eps_hides_are_0_and_without_eps_all_are_kept(steps, program, causal):
    arrays, upstream = draw_problem(N=40, K=2, d_r=1, d_v=3, batch=(), heads=())
    arrays[3][:], arrays[4][:], arrays[5][:] = [[0], [12]], 0.5413, -0.7  # e^-72 = 5e-32 between the means
    arrays[0][:], arrays[1][:] = 12, 0
    exact = {"causal": causal, "program": program, "eps": 0.0}
    kept = results(arrays, upstream, torch.float32, **exact)["output"]
    np.testing.assert_allclose(kept, results(arrays, upstream, torch.float64, **exact)["output"], rtol=1e-5, atol=1e-6)
    assert np.abs(kept).max() > 0.1
    hidden = {"causal": causal, "program": program, "eps": 1e-6}
    assert not results(arrays, upstream, torch.float32, **hidden)["output"].any()
    exact = results(arrays, upstream, torch.float64, **hidden)["output"]
    assert 0 < np.abs(exact).max() < 1e-20
    assert bool(steps) == (program == "auto")


@needs_compiler
@both_modes
@pytest.mark.parametrize("program", ["eager", "auto"])
@pytest.mark.parametrize("eps", [1.0, 1e12, 1e14])
def test_a_large_eps_hides_nothing_from_the_memory(steps, eps, program, causal):
    arrays, upstream = draw_problem(N=40, K=3, d_r=1, d_v=3, batch=(), heads=())
    arrays[0][:], arrays[1][:], arrays[3][:] = 0, 0, [[0], [1], [9]]
    arrays[4][:] = 0.5413  # e^-40 = 2e-18 for the last
    options = {"causal": causal, "eps": eps}
    expected = results(arrays, upstream, torch.float64, **options)
    found = results(arrays, upstream, torch.float32, program=program, **options)
    assert_close(found, expected)
    assert 0 < expected["Z"][2] < 1e-13
    np.testing.assert_allclose(found["Z"], expected["Z"], rtol=1e-4)
    np.testing.assert_allclose(found["output"], expected["output"], rtol=1e-3)
    assert bool(steps) == (program == "auto")


@needs_compiler
def test_every_task_is_done_once_and_what_they_return_is_put_together(steps):
    check_threads()


@needs_compiler
def test_threads_of_its_own_do_without_those_of_pytorch(steps):
    """A process without PyTorch has no OpenMP to ask."""
    code = inspect.getsource(check_threads).replace("library.built()", f"ctypes.CDLL({str(library.location())!r})")
    code = f"import ctypes, threading\n{code}\ncheck_threads()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def check_threads():
    """Run tasks by several threads, and see that each was run once, by more than one of them if they may."""
    for tasks, threads in ((1, 1), (1, 4), (200, 1), (200, 2), (200, 5)):
        ran, by = [], set()

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
        def task(call, number, ran=ran, by=by):
            ran.append(number)
            by.add(threading.get_native_id())
            threading.Event().wait(0.001)  # so that the others get some
            return {7: 1, 9: 2}.get(number, 0)

        returned = library.built().gma_run(task, None, ctypes.c_int64(tasks), threads)
        assert sorted(ran) == list(range(tasks))
        assert returned == (3 if tasks > 9 else 0)
        assert len(by) == min(tasks, threads)


@needs_compiler
@both_modes
def test_strides_do_not_matter(steps, causal):
    arrays, upstream = draw_problem(N=45, K=6, d_r=4, d_v=4, batch=(2, 3), heads=(3,))
    expected = results(arrays, upstream, torch.float32, causal=causal)
    for layout in ((0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 3, 2)):
        back = np.argsort(layout)
        given = [torch.tensor(a.transpose(layout).copy(), dtype=torch.float32) for a in arrays[:3]]
        given = [t.permute(*back).requires_grad_() for t in given]
        parameters = tensors(arrays[3:], torch.float32, requires_grad=True)
        output = attend(*given, *parameters, causal=causal)[0]
        np.testing.assert_array_equal(output.detach().numpy(), expected["output"])
        loss = (output * torch.tensor(upstream, dtype=torch.float32)).sum()
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, [*given, *parameters]))
    assert steps


@needs_compiler
def test_the_program_is_found_again_and_a_changed_one_is_not(steps, monkeypatch):
    native.built.cache_clear()
    assert native.built() is not None
    text = library.source()
    monkeypatch.setattr(library, "source", lambda: text | {"tile.h": text["tile.h"] + "\n"})
    native.built.cache_clear()
    assert native.built() is None


@pytest.mark.parametrize(
    ("compiler", "refusal"),
    [(None, "no.* was found"), ("false", "could not compile"), ("not-a-compiler", "could not be started")],
    ids=["none", "one that fails", "one that is not there"],
)
def test_without_a_compiler_everything_goes_on_in_eager_mode(no_compiler, monkeypatch, compiler, refusal):
    if compiler:
        monkeypatch.setenv("CC", compiler)
    with pytest.raises(RuntimeError, match=refusal):
        native.build()
    assert native.built() is None
    arrays, _ = draw_problem(N=5)
    assert torch.isfinite(attend(*tensors(arrays, torch.float32))[0]).all()


@pytest.fixture
def no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("GMA_REF_CACHE", str(tmp_path))
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    monkeypatch.delenv("CC", raising=False)
    native.built.cache_clear()
    yield
    native.built.cache_clear()


def test_sizes_agree_with_the_program():
    text = library.source()
    assert f"enum {{ T = {passes.TILE}, R = {passes.ROWS}," in text["vectors.h"]
    assert blocked_pieces.CHUNK % passes.TILE == 0
