"""What a model refuses: tokens and states that are not its own, each in one sentence."""

import torch

from gma_ref.pytorch.checks import check_tensor


def check_tokens(name, tokens, axes, vocabulary):
    """Refuse what is no tensor of integers with such axes; on a CPU, also tokens outside the vocabulary.

    A GPU is not asked for their values, since the host would wait for it.
    """
    check_tensor(name, tokens)
    if tokens.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name} must be int32 or int64, got {tokens.dtype}")
    if tokens.ndim != axes.count(",") + (not axes.endswith(",)")):
        raise ValueError(f"{name} must have shape {axes}, got shape {tuple(tokens.shape)}")
    if tokens.device.type == "cpu" and tokens.numel():
        least, most = (int(end) for end in tokens.aminmax())
        if least < 0 or most >= vocabulary:
            raise ValueError(f"{name} must be from 0 to {vocabulary - 1}, got {least if least < 0 else most}")


def check_prompt(prompt, vocabulary):
    """Refuse a prompt that is no text (N,) or batch of texts (B, N) with at least one token."""
    check_tensor("prompt", prompt)
    if prompt.ndim not in (1, 2) or prompt.shape[-1] == 0:
        raise ValueError(f"prompt must have shape (N,) or (B, N) with N at least 1, got shape {tuple(prompt.shape)}")
    check_tokens("prompt", torch.atleast_2d(prompt), "(B, N)", vocabulary)


def check_stream(model, state=None):
    """Refuse to stream through a classifier, or from what is no state of such a model."""
    if model.classifier is not None:
        raise ValueError("num_classes must be None to read a text token by token: this model is a classifier")
    if state is None:
        return
    layers = getattr(state, "layers", None)
    if not isinstance(layers, tuple) or not hasattr(state, "position"):
        raise TypeError(f"state must be one that this model has returned, got {type(state).__name__}")
    if len(layers) != len(model.blocks):
        raise ValueError(f"state must be that of {len(model.blocks)} layers, got {len(layers)}")
