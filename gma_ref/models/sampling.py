"""Texts continued token by token: how a token is drawn from logits, and the stream of them."""

from contextlib import contextmanager

import torch

from gma_ref.reference.checks import as_count, as_size

from .checks import check_prompt, check_stream
from .mixers.base import as_width


def generate(model, prompt, steps, temperature=1.0, top_k=None, generator=None):
    """Return an iterator over the tokens that continue a prompt; `Transformer.generate` says what it takes."""
    check_stream(model)
    check_prompt(prompt, model.config.vocabulary)
    steps, temperature = as_count("steps", steps), as_size("temperature", temperature)
    return stream(model, prompt, steps, temperature, None if top_k is None else as_width("top_k", top_k), generator)


def stream(model, prompt, steps, temperature, top_k, generator):
    """Yield the tokens; between them, the model is as its user has set it."""
    state, token = None, None
    for _ in range(steps):
        with evaluating(model), torch.no_grad():
            if state is None:
                logits, state = model.prefill(torch.atleast_2d(prompt))
                logits = logits[:, -1]
            else:
                logits, state = model.step(token, state)
            token = sample(logits, temperature, top_k, generator)
        yield token if prompt.ndim == 2 else token[0]


def sample(logits, temperature=1.0, top_k=None, generator=None):
    """Draw one token (B,) from logits (B, V); with a temperature of 0 take the likeliest.

    Raises
    ------
    FloatingPointError
        If a logit is not finite.
    """
    if not torch.isfinite(logits).all():
        raise FloatingPointError("the model's logits are not finite: is it trained, and are its weights finite?")
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    likeliest, tokens = logits.topk(min(top_k or logits.shape[-1], logits.shape[-1]), dim=-1)
    # float32 has no smaller temperature by which a logit could be divided
    probabilities = torch.softmax(likeliest / max(temperature, 1e-30), dim=-1)
    return tokens.gather(1, torch.multinomial(probabilities, 1, generator=generator))[:, 0]


@contextmanager
def evaluating(model):
    """Switch dropout off, and give each module its mode back afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield model
    finally:
        for module in training:
            module.training = True
