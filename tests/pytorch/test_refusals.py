"""What cannot be meant is refused, in one sentence: which argument, what came, what was expected."""

import re

import numpy as np
import pytest
import torch

import gma_ref
from gma_ref import pytorch as gmt
from tests.pytorch.calls import CALLS, MEMORY, TENSORS, call

ARRAYS = [(function, name) for function, (_, _, axes) in CALLS.items() for name in axes]
every_tensor = pytest.mark.parametrize(("function", "name"), ARRAYS)
WITH_MASK = ["write_memory", "prefix_memory", "update_memory", "attention_weights", "gaussian_mixture_attention"]
every_masked = pytest.mark.parametrize("function", WITH_MASK)


def test_table_holds_the_functions_of_the_room():
    assert set(gmt.__all__) & set(gma_ref.__all__) == {*CALLS, "Memory"} - {"from_unconstrained"}


@pytest.mark.parametrize("function", CALLS)
def test_the_arguments_from_which_the_refused_ones_differ_are_accepted(function):
    call(function)


@every_tensor
@pytest.mark.parametrize("made", [np.asarray, torch.Tensor.tolist, lambda _: 1.0, lambda _: None], ids=str)
def test_what_is_no_tensor_is_refused(function, name, made):
    value = made(CALLS[function][1][name])
    came = type(value).__name__
    with pytest.raises(TypeError, match=rf"^{name} must be a tensor, got {came} \(torch\.as_tensor makes one\)$"):
        call(function, **{name: value})


@every_tensor
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn], ids=str)
def test_tensors_of_no_real_numbers_are_refused(function, name, dtype):
    tensor = CALLS[function][1][name].to(dtype)
    message = rf"^{name} must be float16, bfloat16, float32 or float64, got {dtype}"
    with pytest.raises(TypeError, match=message):
        call(function, **{name: tensor})


@every_tensor
def test_tensors_of_another_layout_are_refused(function, name):
    tensor = CALLS[function][1][name].to_sparse()
    with pytest.raises(TypeError, match=rf"^{name} must be a dense tensor, got layout torch\.sparse_coo$"):
        call(function, **{name: tensor})


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_refused(layout):
    nested = torch.nested.nested_tensor([torch.zeros(3, 2), torch.zeros(4, 2)], layout=layout)
    with pytest.raises(TypeError, match=r"^gamma_k must be a dense tensor, got a nested tensor$"):
        call("write_memory", gamma_k=nested)


@every_tensor
def test_tensors_on_two_devices_are_refused(function, name):
    tensor = CALLS[function][1][name].to("meta")
    if len(CALLS[function][1]) == 1:
        return
    with pytest.raises(ValueError, match=r"^\S+ must be on (cpu|meta) as \S+ is, got a tensor on (cpu|meta)$"):
        call(function, **{name: tensor})


@every_tensor
def test_tensors_with_too_few_axes_are_refused(function, name):
    axes = CALLS[function][2][name].split()
    expected = re.escape(f"{name} must have shape (..., {', '.join(axes)}), got shape ")
    for ndim in range(len(axes)):
        with pytest.raises(ValueError, match=f"^{expected}"):
            call(function, **{name: torch.ones((2,) * ndim)})


@pytest.mark.parametrize(
    ("function", "name", "axis", "size"),
    [
        ("GaussianMixture", "variance", "K", 8),
        ("gaussian_mixture_attention", "q", "d_r", 6),
        ("gaussian_mixture_attention", "v", "N_k", 12),
        ("read_memory", "gamma_q", "K", 8),
        ("update_memory", "v", "d_v", 10),
        ("project", "w_q", "d_model", 6),
    ],
)
def test_axes_of_one_name_must_have_one_size(function, name, axis, size):
    _, arguments, axes = CALLS[function]
    trailing = axes[name].split().index(axis) - len(axes[name].split())
    tensor = arguments[name].repeat_interleave(2, dim=trailing)
    assert tensor.shape[trailing] == size
    message = rf"^\S+ must have shape \(\.\.\..*\) with {axis} = (\d+) as in \S+, got shape \(.*\)$"
    with pytest.raises(ValueError, match=message):
        call(function, **{name: tensor})


@every_tensor
def test_leading_axes_must_broadcast(function, name):
    _, arguments, _ = CALLS[function]
    if len(arguments) == 1:
        return
    tensor = arguments[name][:1].repeat_interleave(3, dim=0)
    with pytest.raises(ValueError, match=r"^\S+ must have leading axes that broadcast with \(\d,\), got shape \(\d, "):
        call(function, **{name: tensor})


@pytest.mark.parametrize("function", [f for f, (_, arguments, _) in CALLS.items() if "mixture" in arguments])
@pytest.mark.parametrize("mixture", [None, (1, 2, 3), TENSORS.mu], ids=lambda m: type(m).__name__)
def test_mixture_must_be_a_mixture(function, mixture):
    came = type(mixture).__name__
    with pytest.raises(TypeError, match=rf"^mixture must be a gma_ref\.pytorch\.GaussianMixture, got {came}$"):
        call(function, mixture=mixture)


def test_mixture_of_the_reference_is_told_apart():
    arrays = (np.zeros((4, 3)), np.ones((4, 3)), np.full(4, -np.log(4)))
    message = (
        r"^mixture must be a gma_ref\.pytorch\.GaussianMixture, got GaussianMixture of gma_ref\.reference\.mixture$"
    )
    with pytest.raises(TypeError, match=message):
        call("scores", mixture=gma_ref.GaussianMixture(*arrays))


@pytest.mark.parametrize("memory", [tuple(MEMORY), MEMORY.V_tilde, TENSORS], ids=lambda m: type(m).__name__)
def test_memory_must_be_a_memory(memory):
    for function, name in (
        ("read_memory", "memory"),
        ("slot_means", "memory"),
        ("gaussian_mixture_attention", "state"),
    ):
        with pytest.raises(
            TypeError, match=rf"^{name} must be a gma_ref\.pytorch\.Memory, got {type(memory).__name__}$"
        ):
            call(function, **{name: memory})


def test_memory_must_hold_tensors_that_fit():
    with pytest.raises(TypeError, match=r"^memory\.Z must be float16, .*, got torch\.complex128$"):
        call("read_memory", memory=MEMORY._replace(Z=MEMORY.Z.to(torch.complex128)))
    with pytest.raises(ValueError, match=r"^state\.Z must have shape \(\.\.\., K\) with K = 4"):
        call("gaussian_mixture_attention", state=MEMORY._replace(Z=MEMORY.Z[:, :3]))
    with pytest.raises(
        ValueError, match=r"^state\.V_tilde must have shape \(\.\.\., K, d_v\) with d_v = 5 as in v, got"
    ):
        call("gaussian_mixture_attention", state=MEMORY._replace(V_tilde=MEMORY.V_tilde[..., :4]))


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)], ids=str)
def test_mixture_of_nothing_is_refused(shape):
    with pytest.raises(ValueError, match=r"^mu must have at least one component and one dimension, got shape"):
        gmt.GaussianMixture(torch.ones(shape), torch.ones(shape), torch.ones(shape[0]))


@every_masked
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8], ids=str)
def test_masks_that_are_not_boolean_are_refused(function, dtype):
    message = rf"^key_mask must be boolean \(True: this key takes part\), got dtype {dtype}$"
    with pytest.raises(TypeError, match=message):
        call(function, key_mask=torch.ones(6, dtype=dtype))
    with pytest.raises(TypeError, match=r"^key_mask must be a tensor, got ndarray"):
        call(function, key_mask=np.ones(6, bool))


@every_masked
@pytest.mark.parametrize("shape", [(), (5,), (1,), (2, 1, 6), (2, 5), (3, 6), (2, 6, 1)], ids=str)
def test_masks_of_another_shape_are_refused(function, shape):
    with pytest.raises(ValueError, match=r"^key_mask must have shape \(6,\), or 2 axes that broadcast to \(2, 6\)"):
        call(function, key_mask=torch.ones(shape, dtype=torch.bool))
    for fits in ((6,), (1, 6), (2, 6)):
        call(function, key_mask=torch.ones(fits, dtype=torch.bool))


@pytest.mark.parametrize("function", ["read_memory", "attention_weights", "gaussian_mixture_attention", "slot_means"])
@pytest.mark.parametrize("eps", [-1e-9, float("inf"), float("nan"), "1", None, True, torch.tensor(1.0)], ids=repr)
def test_eps_that_is_no_size_is_refused(function, eps):
    real = isinstance(eps, float)
    message = "^eps must be finite and at least 0, got " if real else "^eps must be a real number, got "
    with pytest.raises(ValueError if real else TypeError, match=message):
        call(function, eps=eps)


@pytest.mark.parametrize(
    "function", ["attention_weights", "gaussian_mixture_attention", "scaled_dot_product_attention"]
)
@pytest.mark.parametrize("causal", [1, None, "yes"])
def test_causal_must_be_true_or_false(function, causal):
    with pytest.raises(TypeError, match=r"^causal must be True or False, got "):
        call(function, causal=causal)


@pytest.mark.parametrize("num_queries", [5, 7])
def test_causal_attention_needs_as_many_queries_as_keys(num_queries):
    message = f"^causal=True must get as many queries as keys, got {num_queries} queries and 6 keys"
    with pytest.raises(ValueError, match=message):
        call("gaussian_mixture_attention", q=torch.ones(2, num_queries, 3), causal=True)
    with pytest.raises(ValueError, match=message):
        call("scaled_dot_product_attention", q=torch.ones(2, num_queries, 3), causal=True)
    with pytest.raises(ValueError, match=message):
        call("attention_weights", gamma_q=torch.ones(2, num_queries, 4), causal=True)


def test_implementation_that_cannot_serve_says_why():
    with pytest.raises(ValueError, match=r'^implementation must be "auto".* or "naive".*, got "triton" \(.*Triton\)$'):
        call("gaussian_mixture_attention", implementation="triton")
    with pytest.raises(ValueError, match=r'^implementation must be .*, got "fast"$'):
        call("gaussian_mixture_attention", implementation="fast")
    with pytest.raises(TypeError, match=r"^implementation must be .*, got NoneType$"):
        call("gaussian_mixture_attention", implementation=None)


@pytest.mark.parametrize("return_state", [1, None, "yes"])
def test_return_state_must_be_true_or_false(return_state):
    with pytest.raises(TypeError, match=r"^return_state must be True or False, got "):
        call("gaussian_mixture_attention", return_state=return_state)


def test_arguments_that_do_not_fit_the_signature_name_the_function():
    with pytest.raises(TypeError, match=r"^scores: missing a required argument: 'mixture'$"):
        gmt.scores(TENSORS.mu)
    with pytest.raises(TypeError, match=r"^scores: too many positional arguments$"):
        gmt.scores(TENSORS.mu, TENSORS, 3)
    with pytest.raises(TypeError, match=r"^scores: multiple values for argument 'x'$"):
        gmt.scores(TENSORS.mu, TENSORS, x=3)
    with pytest.raises(TypeError, match=r"^scores: got an unexpected keyword argument 'y'$"):
        gmt.scores(TENSORS.mu, TENSORS, y=3)


@pytest.mark.parametrize("index", [[0], torch.tensor([0.0]), torch.tensor([True, False]), torch.tensor([[0]])], ids=str)
def test_memory_selects_by_a_list_of_positions_alone(index):
    with pytest.raises((TypeError, ValueError), match=r"^index must (be|have) "):
        MEMORY.select(index)
    V_tilde, Z = MEMORY
    for one in gmt.Memory(V_tilde[0], Z[0]), gmt.Memory(V_tilde[None], Z):  # the second has only broadcast so far
        with pytest.raises(ValueError, match=r"^the memory must have a batch axis in both tensors, got shapes \("):
            one.select(torch.tensor([0]))
