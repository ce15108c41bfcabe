"""The short convolution: each channel of a token mixed with those of a few neighbours."""

import torch
from torch import nn
from torch.nn import functional as F


class ShortConvolution(nn.Module):
    r"""A depthwise convolution over tokens, with SiLU: causal, or symmetric about each token.

    .. math:: y_{i,c} = \operatorname{SiLU}\Bigl(\sum_{t=0}^{w-1} a_{c,t}\, x_{i+t-l,\,c}\Bigr), \qquad
              l = w - 1 \text{ causally, else } (w - 1)/2

    Tokens before the first and after the last are 0.

    Parameters
    ----------
    channels : int
    width : int
        How many tokens are mixed. Without `causal` it must be odd, as many before as after.
    causal : bool

    Raises
    ------
    ValueError
        If the width is even without `causal`.

    Notes
    -----
    Source: the layers of H3 and Mamba (Gu & Dao, 2023), which put one before their mixing of tokens.
    """

    def __init__(self, channels, width, *, causal=True):
        super().__init__()
        if not causal and width % 2 == 0:
            raise ValueError(f"convolution must be odd where causal=False, got {width}: as many before as after")
        self.causal = causal
        self.weight = nn.Parameter(torch.empty(channels, width))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw the weights as PyTorch's own convolutions do."""
        bound = self.weight.shape[1] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, tokens, recent=None):
        """Return the mixed tokens (B, N, C), and the last width - 1 tokens, from which a next piece goes on."""
        if not self.causal:
            side = self.weight.shape[1] // 2
            return F.silu(convolve(F.pad(tokens, (0, 0, side, side)), self.weight)), None
        tokens, recent = after(recent, tokens, self.weight.shape[1] - 1)
        return F.silu(convolve(tokens, self.weight)), recent

    def extra_repr(self):
        """Say the sizes where the module is printed."""
        channels, width = self.weight.shape
        return f"{channels}, {width}, causal={self.causal}"


def after(recent, tokens, count):
    """Return tokens (B, N, C) with the `count` before them, zeros at the start, and the last `count` of all these."""
    tokens = F.pad(tokens, (0, 0, count, 0)) if recent is None else torch.cat([recent, tokens], dim=1)
    return tokens, tokens[:, tokens.shape[1] - count :].clone()  # a view would keep all of them in memory


def convolve(tokens, weight, bias=None):
    """Return (B, N - width + 1, C) sums of neighbours, channel by channel."""
    if tokens.shape[1] < weight.shape[1]:  # no token but those before
        return tokens[:, :0]
    # an image of one row whose channels lie innermost, as they do here: four times as fast on a CPU as conv1d
    image = tokens.mT[:, :, None].contiguous(memory_format=torch.channels_last)
    return F.conv2d(image, weight[:, None, None], bias, groups=len(weight))[:, :, 0].mT
