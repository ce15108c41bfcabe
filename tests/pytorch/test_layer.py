"""The layer: equal to the reference through its own projections, in every mode, with masks, heads and context."""

import itertools

import numpy as np
import pytest
import torch

import gma_ref
from gma_ref.pytorch import GaussianMixtureAttention

TOKENS = {"batched": (2, 6, 8), "one sequence": (6, 8), "two leading axes": (2, 3, 5, 8), "square": (4, 4, 8)}


def make_layer(seed=0, *, d_model=8, num_components=5, num_heads=4, dtype=torch.float64, **options):
    """Return a layer with unequal variances and priors, so that nothing cancels by chance."""
    torch.manual_seed(seed)
    layer = GaussianMixtureAttention(
        d_model, num_components=num_components, num_heads=num_heads, dtype=dtype, **options
    )
    with torch.no_grad():
        layer.mixture.omega.add_(torch.randn_like(layer.mixture.omega))
        layer.mixture.alpha.normal_()
        for name, parameter in layer.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return layer


def draw(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_the_reference(layer, x, context=None, key_mask=None):
    """Return the layer's output head by head and sequence by sequence, in NumPy."""
    weights = {name: parameter.detach().numpy() for name, parameter in layer.named_parameters()}
    context = x if context is None else context
    H = layer.num_heads

    def heads(name, tokens):
        projected = tokens @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)
        parts = np.split(projected, H, axis=-1)
        if layer.qk_norm and name != "w_v":
            parts = [part / np.sqrt((part**2).mean(-1, keepdims=True) + np.finfo(part.dtype).eps) for part in parts]
        return parts

    outputs = np.empty((*x.shape[:-1], H * layer.value_dim))
    for index in np.ndindex(x.shape[:-2]):
        qs, (ks, vs) = heads("w_q", x[index].numpy()), (heads(name, context[index].numpy()) for name in ("w_k", "w_v"))
        mask = None if key_mask is None else np.broadcast_to(key_mask.numpy(), context.shape[:-1])[index]
        for h in range(H):
            mu, omega, alpha = (weights[f"mixture.{name}"] for name in ("mu", "omega", "alpha"))
            own = mu.ndim == 3
            mixture = gma_ref.GaussianMixture.from_unconstrained(*(a[h] if own else a for a in (mu, omega, alpha)))
            outputs[index][:, h * layer.value_dim : (h + 1) * layer.value_dim] = gma_ref.gaussian_mixture_attention(
                qs[h], ks[h], vs[h], mixture, causal=layer.causal, key_mask=mask, eps=layer.eps
            )
    return outputs @ weights["w_o.weight"].T + weights.get("w_o.bias", 0)


@pytest.mark.parametrize("implementation", ["naive", "blocked"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shared_mixture": True},
        {"qk_norm": True},
        {"bias": True},
        {"routing_dim": 3, "value_dim": 5},
        {"num_components": 1},
        {"num_heads": 1, "eps": 0.1},
    ],
    ids=str,
)
@pytest.mark.parametrize("causal", [False, True])
def test_layer_equals_reference(options, causal, implementation):
    layer = make_layer(causal=causal, implementation=implementation, **options)
    x, mask = draw(2, 6, 8), torch.tensor([[True, False, True, True, False, True], [True] * 4 + [False] * 2])
    for key_mask in (None, mask, mask[0]):
        y = layer(x, key_mask=key_mask)
        np.testing.assert_allclose(y.detach(), by_the_reference(layer, x, key_mask=key_mask), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", TOKENS.values(), ids=TOKENS.keys())
def test_any_leading_axes_are_sequences(shape):
    layer, x = make_layer(), draw(*shape)
    y = layer(x)
    assert y.shape == x.shape
    np.testing.assert_allclose(y.detach(), by_the_reference(layer, x), rtol=1e-10, atol=1e-10)


def test_context_gives_keys_and_values():
    layer, x, context = make_layer(routing_dim=3), draw(2, 6, 8), draw(2, 9, 8, seed=2)
    mask = draw(2, 9, seed=3) > 0
    for key_mask in (None, mask):
        expected = by_the_reference(layer, x, context, key_mask)
        np.testing.assert_allclose(layer(x, context, key_mask=key_mask).detach(), expected, rtol=1e-10, atol=1e-10)


def test_context_may_come_in_pieces_and_be_read_again():
    layer, x, context = make_layer(), draw(2, 6, 8), draw(2, 9, 8, seed=2)
    whole, memory = layer(x, context, return_state=True)
    _, first = layer(x, context[:, :4], return_state=True)
    torch.testing.assert_close(layer(x, context[:, 4:], state=first), whole, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(layer(x, x[:, :0], state=memory), whole, rtol=1e-10, atol=1e-10)


def test_one_component_gives_the_mean_of_the_values():
    layer, x = make_layer(num_components=1, eps=0.0), draw(2, 6, 8)
    mean = layer.w_o(layer.w_v(x).mean(dim=1, keepdim=True)).expand_as(x)
    torch.testing.assert_close(layer(x), mean, rtol=1e-10, atol=1e-10)


def test_normalised_queries_and_keys_make_routing_blind_to_size():
    layer, x = make_layer(qk_norm=True, num_heads=2), draw(2, 6, 8)
    before, sizes = layer(x), {"w_q": 5.0, "w_k": 0.3}
    with torch.no_grad():
        for name, size in sizes.items():
            getattr(layer, name).weight.mul_(size)
    torch.testing.assert_close(layer(x), before, rtol=1e-9, atol=1e-9)
    layer.qk_norm = False
    assert not torch.allclose(layer(x), before, rtol=1e-2)


def test_heads_have_their_own_mixture_unless_they_share():
    shapes = {shared: make_layer(shared_mixture=shared).mixture.mu.shape for shared in (False, True)}
    assert shapes == {False: (4, 5, 2), True: (5, 2)}


@pytest.mark.parametrize(("N", "H"), [(5, 3), (4, 4), (3, 1)])
def test_each_head_equals_itself_alone(N, H):
    layer, x = make_layer(d_model=12, num_heads=H, causal=True), draw(2, N, 12)
    whole = layer(x)
    parts = []
    for h in range(H):
        alone = make_layer(d_model=12, num_heads=1, routing_dim=12 // H, value_dim=12 // H, causal=True)
        state = {}
        for name, tensor in layer.state_dict().items():
            if name.startswith("mixture"):
                state[name] = tensor[h, None]
            elif name.startswith("w_o"):
                state[name] = tensor.chunk(H, dim=1)[h]
            else:
                state[name] = tensor.chunk(H, dim=0)[h]
        alone.load_state_dict(state)
        parts.append(alone(x))
    torch.testing.assert_close(sum(parts), whole, rtol=1e-10, atol=1e-10)


def test_masked_tokens_write_nothing_and_still_read():
    layer, x = make_layer(), draw(2, 6, 8)
    mask = torch.tensor([True] * 4 + [False] * 2)
    y, state = layer(x, key_mask=mask, return_state=True)
    torch.testing.assert_close(state.Z.sum(dim=-1), torch.full((2, 4), 4.0).double())
    torch.testing.assert_close(y[:, :4], layer(x[:, :4]), rtol=1e-10, atol=1e-10)
    broken = x.clone()
    broken[:, 4:] = torch.nan
    for causal in (False, True):
        layer.causal = causal
        y, z = layer(x, key_mask=mask), layer(broken, key_mask=mask)
        torch.testing.assert_close(z[:, :4], y[:, :4], rtol=1e-12, atol=1e-12)
        assert z[:, 4:].isnan().all()
        assert y.isfinite().all()


def test_sequence_without_keys_gives_zeros_and_finite_gradients():
    layer, x = make_layer(eps=0.0), draw(2, 6, 8).requires_grad_()
    y = layer(x, key_mask=torch.tensor([[True] * 6, [False] * 6]))
    assert torch.equal(y[1], torch.zeros_like(y[1]))
    y.square().sum().backward()
    assert x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


def test_mask_polarity_is_the_opposite_of_multihead_attention():
    # one component, so that both are means over the keys that take part: F1 with the first two of four kept
    layer = GaussianMixtureAttention(1, num_components=1, eps=0.0)
    theirs = torch.nn.MultiheadAttention(1, 1, batch_first=True, bias=False)
    with torch.no_grad():
        for parameter in (layer.w_v.weight, layer.w_o.weight, theirs.out_proj.weight):
            parameter.fill_(1)
        theirs.in_proj_weight.copy_(torch.tensor([[0.0], [0.0], [1.0]]))
    x = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    kept = torch.tensor([[True, True, False, False]])
    torch.testing.assert_close(layer(x, key_mask=kept), torch.full_like(x, 1.5))
    torch.testing.assert_close(theirs(x, x, x, key_padding_mask=~kept)[0], torch.full_like(x, 1.5))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda layer, x: layer(x[..., :7]), ValueError, "x must have shape (..., N, d_model) with d_model = 8 as in"),
        (lambda layer, x: layer(x[0, 0]), ValueError, "x must have shape (..., N, d_model), got shape (8,)"),
        (lambda layer, x: layer(x.numpy()), TypeError, "x must be a tensor, got ndarray"),
        (lambda layer, x: layer(x.long()), TypeError, "x must be float16, bfloat16, float32 or float64, got"),
        (lambda layer, x: layer(x, x[..., :7]), ValueError, "context must have shape (..., N_k, d_model) with"),
        (lambda layer, x: layer(x, x[:1].expand(3, 4, 8)), ValueError, "context must have leading axes that"),
        (lambda layer, x: layer(x, key_mask=torch.ones(2, 4)), TypeError, "key_mask must be boolean (True: this key"),
        (lambda layer, x: layer(x, key_mask=[True] * 4), TypeError, "key_mask must be a tensor, got list"),
        (lambda layer, x: layer(x, key_mask=torch.ones(3, dtype=bool)), ValueError, "key_mask must have shape (4,)"),
        (lambda layer, x: layer(x, key_mask=torch.ones(4, 2, dtype=bool)), ValueError, "key_mask must have shape (4,)"),
        (
            lambda layer, x: layer(x, key_mask=torch.ones(2, 1, 4, dtype=bool)),
            ValueError,
            "key_mask must have shape (4,) or (2, 4), since the tokens have shape (2, 4, 8); got shape (2, 1, 4)",
        ),
        (lambda layer, x: layer(x, state=(x, x)), TypeError, "state must be a gma_ref.pytorch.Memory, got tuple"),
        (lambda layer, x: layer.step(x[:, 0]), ValueError, "step must be called on a layer with causal=True"),
        (lambda layer, x: layer(x, x, x), TypeError, None),
        (lambda layer, x: layer(x, key_padding_mask=None), TypeError, None),
        (lambda layer, x: layer(x, attn_mask=torch.zeros(4, 4)), TypeError, None),
        (lambda layer, x: layer(x, is_causal=True), TypeError, None),
    ],
)
def test_what_does_not_fit_is_refused(call, error, sentence):
    layer, x = make_layer(), draw(2, 4, 8)
    with pytest.raises(error) as caught:
        call(layer, x)
    if sentence:
        assert str(caught.value).startswith(sentence)


def test_causal_layer_refuses_a_context_and_other_widths():
    layer, x = make_layer(causal=True), draw(2, 4, 8)
    with pytest.raises(ValueError, match=r"^context must be None where causal=True"):
        layer(x, x)
    with pytest.raises(ValueError, match=r"^x_t must have shape \(\.\.\., d_model\)|^x must have shape"):
        layer.step(x[:, 0, :5])
    with pytest.raises(TypeError, match=r"^x_t must be a tensor, got list"):
        layer.step([1.0] * 8)
    with pytest.raises(TypeError, match=r"^return_state must be True or False, got int$"):
        layer(draw(2, 4, 8), return_state=1)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"d_model": 0}, ValueError, "d_model must be at least 1, got 0"),
        ({"num_heads": 3}, ValueError, "d_model must be a multiple of num_heads where routing_dim or value_dim is not"),
        ({"num_heads": 0}, ValueError, "num_heads must be at least 1, got 0"),
        ({"num_components": 0}, ValueError, "num_components must be at least 1, got 0"),
        ({"routing_dim": 2.0}, TypeError, "routing_dim must be an integer, got float"),
        ({"value_dim": 0}, ValueError, "value_dim must be at least 1, got 0"),
        ({"causal": 1}, TypeError, "causal must be True or False, got int"),
        ({"shared_mixture": None}, TypeError, "shared_mixture must be True or False, got NoneType"),
        ({"qk_norm": "yes"}, TypeError, "qk_norm must be True or False, got str"),
        ({"bias": 0}, TypeError, "bias must be True or False, got int"),
        ({"eps": -1}, ValueError, "eps must be finite and at least 0, got -1.0"),
        ({"eps_sigma": "0"}, TypeError, "eps_sigma must be a real number, got str"),
        ({"implementation": "fastest"}, ValueError, 'implementation must be "auto"'),
        ({"implementation": None}, TypeError, 'implementation must be "auto"'),
    ],
)
def test_options_that_make_no_layer_are_refused(options, error, sentence):
    given = {"d_model": 8, "num_components": 4} | options
    with pytest.raises(error) as caught:
        GaussianMixtureAttention(given.pop("d_model"), **given)
    assert str(caught.value).startswith(sentence)


def test_heads_that_do_not_divide_the_width_need_both_widths():
    layer = GaussianMixtureAttention(8, num_components=4, num_heads=3, routing_dim=2, value_dim=5)
    assert layer(torch.randn(2, 6, 8)).shape == (2, 6, 8)


@pytest.mark.parametrize(("B", "N"), list(itertools.product([0, 1, 3], [0, 1, 5])))
@pytest.mark.parametrize("causal", [False, True])
def test_empty_batches_and_sequences_have_shapes_and_gradients(B, N, causal):
    layer, x = make_layer(causal=causal), draw(B, N, 8).requires_grad_()
    y, state = layer(x, return_state=True)
    assert y.shape == (B, N, 8)
    assert (state.V_tilde.shape, state.Z.shape) == ((B, 4, 5, 2), (B, 4, 5))
    (y.sum() + state.V_tilde.sum()).backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_inputs_of_other_strides_and_gradients_that_are_not_contiguous(causal):
    layer, x = make_layer(causal=causal), draw(8, 6, 2)
    strided = x.permute(2, 1, 0)
    upstream = draw(8, 6, 2, seed=3).permute(2, 1, 0)

    def gradients(tokens, incoming):
        tokens = tokens.detach().requires_grad_()
        return torch.autograd.grad(layer(tokens), (tokens, *layer.parameters()), incoming)

    pairs = zip(gradients(strided, upstream), gradients(strided.contiguous(), upstream.contiguous()), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_first_batch_places_the_mixture_by_queries_and_keys():
    layer, x = (
        make_layer(d_model=16, num_heads=2, routing_dim=4, num_components=6, dtype=torch.float32),
        draw(8, 50, 16),
    )
    x = x.float() * 5 + 3
    assert layer.initialise_from(x, generator=torch.Generator().manual_seed(0)) is layer
    q, k, _ = layer.project(x)
    gamma = gma_ref.pytorch.responsibilities(torch.cat([q, k], dim=-2), layer.mixture()).detach()
    share = torch.special.entr(gamma).sum(dim=-1).mean(dim=(0, 2)) / np.log(6)
    assert (share > 0.49).all()
    shared = make_layer(d_model=16, num_heads=2, num_components=6, shared_mixture=True, dtype=torch.float32)
    assert shared.initialise_from(x).mixture.mu.isfinite().all()
