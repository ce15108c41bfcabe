"""Where should the mixture of a layer start? Routing before training, and a small model of Shakespeare's characters.

    python -m tools.initialisation             # everything, some minutes on one thread
    python -m tools.initialisation --steps 20  # a trial; --output says where to

Two measurements. *Entropy*: tokens of unit variance go through a new layer's own projections; how evenly do its
responsibilities spread, as a share of log K, for every width in use? *Losses*: a causal Transformer of two layers
reads the tragedies, once for each way to start and each seed, with one budget. What is left to chance, batches and
weights, is the same for all.
"""

import argparse
import datetime
import itertools
import json
import math
import platform
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from gma_ref import __version__
from gma_ref.pytorch import GaussianMixtureAttention, mixture_parameters, responsibilities
from gma_ref.pytorch.learned_mixture import inverse_softplus
from gma_ref.shakespeare import plays, read_play

OUTPUT = Path(__file__).parent.parent / "book" / "speed" / "measurements" / "initialisation.json"

ROUTING_DIMS, COMPONENTS, WIDTHS = (1, 2, 4, 16, 64, 256), (2, 8, 64, 1024), (16, 128, 1024)

D_MODEL, HEADS, K, CONTEXT, BATCH, LAYERS = 64, 2, 32, 64, 8, 2
LEARNING_RATE, WARM_UP, WEIGHT_DECAY = 3e-3, 20, 0.1

# How a mixture may start: the common variance, and whether the priors make up for the lengths of the means. None is
# softmax attention, the yardstick.
STARTS = {
    "softmax": None,
    "1": (lambda d_r, K: 1.0, False),
    "sqrt(d_r)": (lambda d_r, K: math.sqrt(d_r), False),
    "sqrt(d_r), priors": (lambda d_r, K: math.sqrt(d_r), True),
    "d_r": (lambda d_r, K: float(d_r), False),
}

# What is trained: a start, whether queries and keys are normalised, and the seeds.
RUNS = {
    ("softmax", False): (0, 1, 2),
    ("sqrt(d_r)", False): (0, 1, 2),
    ("sqrt(d_r), priors", False): (0, 1, 2),
    ("sqrt(d_r), priors", True): (0, 1, 2),
    ("d_r", False): (0, 1, 2),
    ("1", False): (0,),
}


def entropy_shares(repeats=4, tokens=64):
    """Return, for every width, the mean entropy of a new layer's responsibilities, as a share of log K."""
    rows = []
    for d_r, num_components, d_model in itertools.product(ROUTING_DIMS, COMPONENTS, WIDTHS):
        for qk_norm in (False, True):
            torch.manual_seed(0)
            layer = GaussianMixtureAttention(
                d_model, num_components=num_components, num_heads=repeats, routing_dim=d_r, value_dim=1, qk_norm=qk_norm
            )
            with torch.no_grad():
                q, _, _ = layer.project(torch.randn(tokens, d_model))
                gamma = responsibilities(q, layer.mixture())
            shares = torch.special.entr(gamma).sum(dim=-1).mean(dim=-1) / math.log(num_components)
            in_use = torch.special.entr(gamma.mean(dim=-2)).sum(dim=-1).exp() / num_components
            rows.append(
                {
                    "d_r": d_r,
                    "K": num_components,
                    "d_model": d_model,
                    "qk_norm": qk_norm,
                    "least": round(float(shares.min()), 3),
                    "mean": round(float(shares.mean()), 3),
                    "slots_in_use": round(float(in_use.mean()), 3),
                }
            )
    return rows


class Softmax(nn.Module):
    """Scaled dot-product attention with the projections of the layer that it is compared with."""

    def __init__(self, qk_norm):
        super().__init__()
        self.qk_norm = qk_norm
        for name in ("w_q", "w_k", "w_v", "w_o"):
            self.add_module(name, nn.Linear(D_MODEL, D_MODEL, bias=False))
            nn.init.normal_(getattr(self, name).weight, std=D_MODEL**-0.5)

    def forward(self, x):
        """Attend causally."""
        q, k, v = (w(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if self.qk_norm:
            q, k = (F.rms_norm(vectors, vectors.shape[-1:]) for vectors in (q, k))
        return self.w_o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def attention(start, qk_norm):
    """Return a layer whose mixture starts as said."""
    if start is None:
        return Softmax(qk_norm)
    layer = GaussianMixtureAttention(D_MODEL, num_components=K, num_heads=HEADS, causal=True, qk_norm=qk_norm)
    mixture, (rule, even) = layer.mixture, start
    variance = rule(mixture.routing_dim, K)
    with torch.no_grad():
        mixture.omega.copy_(inverse_softplus(torch.full_like(mixture.omega, variance), mixture.eps_sigma))
        mixture.alpha.copy_(mixture.mu.square().sum(dim=-1) / (2 * (variance + 1)) * even)
    return layer


class Model(nn.Module):
    """A pre-norm Transformer that predicts the next character."""

    def __init__(self, characters, start, qk_norm):
        super().__init__()
        self.token, self.position = nn.Embedding(characters, D_MODEL), nn.Embedding(CONTEXT, D_MODEL)
        self.attention = nn.ModuleList(attention(start, qk_norm) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(2 * LAYERS + 1))
        wide = 4 * D_MODEL
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(D_MODEL, wide), nn.GELU(), nn.Linear(wide, D_MODEL)) for _ in range(LAYERS)
        )
        self.head = nn.Linear(D_MODEL, characters)
        for embedding in (self.token, self.position):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens):
        """Return logits of the character after each."""
        x = self.token(tokens) + self.position.weight[: tokens.shape[-1]]
        for i in range(LAYERS):
            x = x + self.attention[i](self.norms[2 * i](x))
            x = x + self.mlp[i](self.norms[2 * i + 1](x))
        return self.head(self.norms[-1](x))


def text():
    """Return the tragedies as numbers, split by position into what is learnt from and what is not, and the alphabet."""
    written = "\n\n".join(
        f"{speech.speaker}\n{speech.text}"
        for play in plays()
        if play.genre == "tragedies"
        for part in read_play(play.title)
        for speech in part.speeches
    )
    characters = sorted(set(written))
    numbers = torch.tensor([characters.index(character) for character in written])
    cut = len(numbers) * 95 // 100
    return numbers[:cut], numbers[cut:], characters


def batch(numbers, size, generator):
    """Return windows of the text, and the same shifted by one."""
    starts = torch.randint(len(numbers) - CONTEXT, (size, 1), generator=generator)
    windows = numbers[starts + torch.arange(CONTEXT + 1)]
    return windows[:, :-1], windows[:, 1:]


def loss_of(model, pair):
    """Return the mean loss in nats a character."""
    tokens, following = pair
    return F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())


def train(start, qk_norm, seed, steps, learnt, unseen, characters):
    """Train one model; return its loss on text it has not seen."""
    torch.manual_seed(seed)
    model = Model(characters, start, qk_norm)
    generator = torch.Generator().manual_seed(seed)
    names = mixture_parameters(model)
    groups = {WEIGHT_DECAY: [], 0.0: []}
    for name, parameter in model.named_parameters():
        groups[0.0 if name in names or parameter.ndim < 2 else WEIGHT_DECAY].append(parameter)
    optimiser = torch.optim.AdamW(
        [{"params": group, "weight_decay": decay} for decay, group in groups.items()],
        lr=LEARNING_RATE,
        betas=(0.9, 0.99),
    )
    for step in range(steps):
        fall = 0.1 + 0.9 * (1 + math.cos(math.pi * step / steps)) / 2
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * min((step + 1) / WARM_UP, fall)
        loss = loss_of(model, batch(learnt, BATCH, generator))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    generator.manual_seed(99)
    with torch.no_grad():
        return sum(float(loss_of(model, batch(unseen, 32, generator))) for _ in range(10)) / 10


def losses(steps):
    """Yield the losses of all runs, seed by seed."""
    learnt, unseen, characters = text()
    for seed, (name, qk_norm) in itertools.product(range(3), RUNS):
        if seed not in RUNS[name, qk_norm]:
            continue
        began = time.perf_counter()
        loss = train(STARTS[name], qk_norm, seed, steps, learnt, unseen, len(characters))
        row = {"start": name, "qk_norm": qk_norm, "seed": seed, "loss": round(loss, 4)}
        print(*row.values(), f"({time.perf_counter() - began:.0f} s)", flush=True)
        yield row


def main():
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = {"d_model": D_MODEL, "num_heads": HEADS, "num_components": K, "context": CONTEXT, "batch": BATCH}
    settings |= {"layers": LAYERS, "steps": options.steps, "learning_rate": LEARNING_RATE, "unit": "nats a character"}
    record = {
        "made": {
            "date": datetime.date.today().isoformat(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "gma_ref": __version__,
            "threads": 1,
        },
        "entropy": entropy_shares(),
        "model": settings,
        "losses": list(losses(options.steps)),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
