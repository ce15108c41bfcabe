"""The layer as a module of PyTorch: files, copies, dtypes, autocast, compilation, and as a part of a Transformer."""

import contextlib
import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gma_ref.pytorch import (
    GaussianMixtureAttention,
    LearnedGaussianMixture,
    gaussian_mixture_attention,
    mixture_parameters,
)
from tests.pytorch.test_layer import draw, make_layer

every_layer = pytest.mark.parametrize(
    "options",
    [{}, {"causal": True}, {"shared_mixture": True, "bias": True}, {"qk_norm": True, "causal": True}],
    ids=str,
)


@every_layer
def test_every_parameter_gets_a_gradient(options):
    layer = GaussianMixtureAttention(8, num_components=5, num_heads=2, **options)
    layer(torch.randn(2, 6, 8)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name
        # a bias of the keys, say, may have a small gradient, but never none
        assert parameter.grad.abs().max() > 0, name


def test_parameters_of_one_component_get_a_gradient_of_zero():
    layer = GaussianMixtureAttention(8, num_components=1, causal=True)
    layer(torch.randn(2, 6, 8)).square().sum().backward()
    gradients = {name: parameter.grad.abs().max().item() for name, parameter in layer.named_parameters()}
    routing = {"w_q.weight", "w_k.weight", "mixture.mu", "mixture.omega", "mixture.alpha"}
    assert all(gradients[name] == 0 for name in routing)
    assert all(gradients[name] > 0 for name in gradients.keys() - routing)


@every_layer
def test_layer_survives_copies_and_files(options):
    layer, x = make_layer(**options), draw(2, 6, 8)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded = make_layer(seed=9, **options)
    assert not torch.allclose(loaded(x), layer(x))
    loaded.load_state_dict(torch.load(file, weights_only=True))
    for twin in (loaded, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), layer(x))
        with torch.no_grad():
            twin.w_v.weight.zero_()
        assert not torch.equal(twin(x), layer(x))


def test_state_dict_has_these_names_and_no_others():
    names = {f"w_{letter}.weight" for letter in "qkvo"} | {f"mixture.{name}" for name in ("mu", "omega", "alpha")}
    assert set(GaussianMixtureAttention(8, num_components=4).state_dict()) == names


def test_print_says_what_the_layer_is():
    layer = GaussianMixtureAttention(8, num_components=4, num_heads=2, causal=True)
    start = (
        "GaussianMixtureAttention(\n  d_model=8, num_heads=2, routing_dim=4, value_dim=4, causal=True, qk_norm=False"
    )
    assert repr(layer).startswith(start)
    assert "num_components=4" in repr(layer)


def test_moving_to_a_device_leaves_nothing_behind():
    layer = GaussianMixtureAttention(8, num_components=4, num_heads=2, causal=True).to("meta")
    assert {tensor.device.type for tensor in layer.state_dict().values()} == {"meta"}
    y, state = layer(torch.empty(2, 6, 8, device="meta"), return_state=True)
    assert {tensor.device.type for tensor in (y, *state)} == {"meta"}
    assert y.shape == (2, 6, 8)


def test_layer_made_without_memory_can_be_filled_later():
    with torch.device("meta"):
        layer = GaussianMixtureAttention(8, num_components=4)
    layer = layer.to_empty(device="cpu")
    layer.reset_parameters()
    assert layer(torch.randn(2, 6, 8)).isfinite().all()


@every_layer
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-2), (torch.bfloat16, 1e-1)], ids=str)
def test_16_bit_layers_are_near_their_float64_twins(dtype, tolerance, options):
    layer = GaussianMixtureAttention(8, num_components=5, num_heads=2, **options).to(dtype)
    x = draw(2, 50, 8).to(dtype).requires_grad_()
    y = layer(x)
    assert y.dtype == dtype
    twin = copy.deepcopy(layer).double()
    torch.testing.assert_close(y.double(), twin(x.double()), rtol=0, atol=tolerance)
    y.float().square().mean().backward()
    assert all(parameter.grad.dtype == dtype and parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_small_queries_are_normalised_as_others_are(dtype):
    layer, x = make_layer(qk_norm=True, num_heads=2, dtype=torch.float32).to(dtype), draw(2, 6, 8).to(dtype)
    with torch.no_grad():
        layer.w_q.weight.mul_(2.0**-6)
    q, k, _ = layer.project(x)
    for vectors in (q, k):
        torch.testing.assert_close(vectors.float().square().mean(dim=-1), torch.ones(2, 2, 6), rtol=0, atol=0.02)


@every_layer
def test_autocast_runs_forwards_and_backwards_on_float32_parameters(options):
    layer = GaussianMixtureAttention(8, num_components=5, num_heads=2, **options)
    x = draw(2, 50, 8, dtype=torch.float32).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, state = layer(x, return_state=True)
    assert y.dtype == torch.bfloat16
    assert state.V_tilde.dtype == state.Z.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x), rtol=0, atol=0.1)
    y.float().square().sum().backward()
    for tensor in (x, *layer.parameters()):
        assert tensor.grad.dtype == torch.float32
        assert tensor.grad.isfinite().all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # PyTorch's compiler itself does
@pytest.mark.parametrize("causal", [False, True])
def test_compiled_layer_is_the_layer(causal):
    layer = GaussianMixtureAttention(8, num_components=5, num_heads=2, causal=causal)
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for N in (2, 3, 7, 16, 33, 64):
        x = draw(2, N, 8, seed=N, dtype=torch.float32)
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-5, atol=1e-6)
    assert len(graphs) <= 2


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("implementation", ["blocked", "naive"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, None], ids=["no_grad", "inference", "frozen"])
def test_compiled_layer_serves_where_no_gradient_is_asked_for(mode, implementation):
    layer = GaussianMixtureAttention(8, num_components=5, num_heads=2, causal=True, implementation=implementation)
    layer.requires_grad_(mode is not None)
    torch._dynamo.reset()
    step = torch.compile(layer.step, fullgraph=True, backend="eager")
    x = draw(2, 6, 8, dtype=torch.float32)
    with contextlib.nullcontext() if mode is None else mode():
        state, outputs = None, []
        for x_t in x.unbind(1):
            y_t, state = step(x_t, state)
            outputs.append(y_t)
        torch.testing.assert_close(torch.stack(outputs, 1), layer(x), rtol=1e-5, atol=1e-6)


def test_weight_decay_can_leave_the_mixture_alone():
    layer = GaussianMixtureAttention(8, num_components=5)
    names = mixture_parameters(layer)
    assert names == {"mixture.mu", "mixture.omega", "mixture.alpha"}
    groups = {True: [], False: []}
    for name, parameter in layer.named_parameters():
        groups[name in names].append(parameter)
    optimiser = torch.optim.AdamW(
        [{"params": groups[True], "weight_decay": 0.0}, {"params": groups[False], "weight_decay": 0.1}], lr=0.1
    )
    before = copy.deepcopy(layer.state_dict())
    (layer(torch.randn(1, 4, 8)) * 0).sum().backward()
    optimiser.step()
    for name, tensor in layer.state_dict().items():
        assert torch.equal(tensor, before[name]) == (name in names), name


class Block(nn.Module):
    """A standard pre-norm block; the attention in the middle is what the subclasses change."""

    def __init__(self, d_model=16, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.w_in, self.w_out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x):
        heads = self.w_in(self.norm_1(x)).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.w_out(self.attend(*heads).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class MixtureBlock(Block):
    """The same with two lines changed: one makes the mixture, one uses it."""

    def __init__(self, d_model=16, num_heads=2):
        super().__init__(d_model, num_heads)
        self.mixture = LearnedGaussianMixture(8, d_model // num_heads, num_heads)

    def attend(self, q, k, v):
        return gaussian_mixture_attention(q, k, v, self.mixture(), causal=True)


@pytest.mark.parametrize("block", [Block, MixtureBlock])
def test_attention_of_a_transformer_block_is_replaced_in_two_lines(block):
    # the task needs another token: say which of eight symbols stood before this one
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(8, 16), block(), nn.Linear(16, 8))
    positions = nn.Parameter(torch.randn(8, 16))
    optimiser = torch.optim.Adam([*model.parameters(), positions], lr=1e-2)
    losses = []
    for _ in range(150):
        tokens = torch.randint(8, (16, 8))
        hidden = model[1](model[0](tokens) + positions)
        assert hidden.shape == (16, 8, 16)
        loss = F.cross_entropy(model[2](hidden)[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] > 2.0
    assert losses[-1] < 1.2, losses[-1]


def test_functional_call_and_gradients_of_a_function_of_the_parameters():
    layer, x = make_layer(causal=True, implementation="naive"), draw(2, 6, 8)
    parameters = dict(layer.named_parameters())

    def loss(parameters):
        return torch.func.functional_call(layer, parameters, (x,)).square().sum()

    found = torch.func.grad(loss)({name: tensor.detach() for name, tensor in parameters.items()})
    expected = torch.autograd.grad(layer(x).square().sum(), tuple(parameters.values()))
    for name, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(found[name], gradient, rtol=1e-10, atol=1e-12)
