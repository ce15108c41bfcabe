"""Everything that decides what a training run gives, as data: it goes into the log, and comes from the command line."""

import math
import shlex
from dataclasses import asdict, dataclass, field, fields
from typing import Literal

__all__ = ["Settings"]

Option = bool | int | float | str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One training run.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """

    task: Literal["shakespeare", "genre", "recall", "digits", "wikitext", "listops"] = "shakespeare"
    """What the model is trained on."""
    task_options: dict[str, Option] = field(default_factory=dict)
    """Options of the task, as pairs, such as `num_pairs 16 interleaved True` for recall, `folder PATH` for wikitext."""
    length: int | None = None
    """Tokens of a sequence; by default what suits the task."""

    mixer: Literal["softmax", "gma", "linear", "favor", "mamba"] = "gma"
    """What mixes the tokens, softmax attention, GMA, linear attention (elu + 1), FAVOR+, or Mamba (extra `mamba`)."""
    num_layers: int = 3
    """Number of layers, each a mixer and an MLP."""
    d_model: int = 128
    """Width of the tokens."""
    num_heads: int = 4
    """Number of heads of each mixer, which share the width; Mamba has none."""
    parameters: int | None = None
    """Parameters of the whole model, met by the width of its MLPs in steps of 8; by default that is 4 d_model."""
    num_components: int = 64
    """K, the slots of a head of GMA; the other mixers have none."""
    convolution: int = 4
    """Width of the short convolution before any mixer; 0 for none."""
    qk_norm: bool = False
    """Whether queries and keys are normalised to a root mean square of 1 (RMSNorm)."""
    causal: bool = True
    """Whether a token sees only what came before it; False is for tasks that ask about whole sequences."""
    placement: float | None = None
    """Place the mixtures by the first batch, so soft that responsibilities have this part of the entropy log K."""
    dropout: float = 0.0
    """Probability with which an activation is dropped in training."""
    mixer_options: dict[str, Option] = field(default_factory=dict)
    """Further options of the mixer, as pairs, such as `initial_variance 4.0 shared_mixture True`."""

    steps: int | None = None
    """Budget in steps of the optimiser; 1,000 if neither this nor minutes is given. Only such a run can be repeated."""
    minutes: float | None = None
    """Budget in minutes, evaluations among them; the schedule follows the clock. With both, what ends first ends it."""
    batch: int = 16
    """Sequences of a step, over all accumulations and processes."""
    accumulation: int = 1
    """Gradient accumulation, the parts into which a batch is divided to save memory; the gradient is the same."""
    lr: float = 2e-3
    """Learning rate at its highest, after the warm-up."""
    mixture_lr_factor: float = 1.0
    """Learning rate of the mixtures (means, variances, priors), as a multiple of lr."""
    warmup: float = 0.05
    """Warm-up, the part of the budget in which the learning rate rises."""
    final_lr: float = 0.0
    """What is left of the learning rate at the end of its cosine, as a part of the highest."""
    weight_decay: float = 0.1
    """Weight decay of AdamW; mixtures, norms, biases and embeddings are never decayed."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay rates of the two moments of AdamW."""
    clip: float = 1.0
    """Gradient clipping, the largest norm of the whole gradient; 0 for none."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the products in training; auto is bfloat16 on a GPU, else float32. Evaluations are in float32."""
    seed: int = 0
    """Seed of the first weights and, with the number of the step, of all that is drawn."""

    evaluate_every: int = 250
    """Steps between evaluations, at each of which the state is saved."""
    evaluation_tokens: int = 65_536
    """Tokens of such an evaluation, taken evenly from the validation part."""
    final_tokens: int | None = 262_144
    """Tokens of the evaluation at the end; None for all."""
    patience: int | None = None
    """Early stopping, after so many evaluations without a better one; by default none."""
    test: bool = False
    """Whether the test part is looked at, once, at the end."""

    def __post_init__(self):
        for name in ("num_layers", "d_model", "num_heads", "num_components", "batch", "accumulation", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("length", "steps", "minutes", "patience", "evaluation_tokens", "final_tokens", "parameters"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
        for name in ("lr", "mixture_lr_factor"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)}")
        for name in ("warmup", "final_lr", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if self.placement is not None and not 0 < self.placement < 1:
            raise ValueError(f"placement must be above 0 and below 1, got {self.placement}")
        for name in ("weight_decay", "clip", "seed", "convolution"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if not self.seed < 2**64:
            raise ValueError(f"seed must be below 2**64, got {self.seed}")
        object.__setattr__(self, "betas", tuple(self.betas))  # a list, where they come from JSON

    @property
    def max_steps(self) -> int | None:
        """The budget in steps, 1,000 if none is given."""
        return 1000 if self.steps is None and self.minutes is None else self.steps

    @property
    def name(self) -> str:
        """A short name that tells runs apart by what is compared most often, which is task, mixer, length and seed."""
        parts = [self.task, self.mixer, *([] if self.length is None else [f"n{self.length}"]), f"s{self.seed}"]
        return "-".join(parts)

    def as_dict(self) -> dict:
        """Return the settings as JSON has them."""
        return asdict(self) | {"betas": list(self.betas)}

    def command(self) -> str:
        """Return the command that starts this run, with what differs from the defaults."""
        words = ["python", "-m", "gma_ref.models.training"]
        for each in fields(self):
            value, option = getattr(self, each.name), "--" + each.name.replace("_", "-")
            default = each.default_factory() if isinstance(value, dict) else each.default
            if each.name not in ("task", "mixer") and value == default:
                continue
            if isinstance(value, bool):
                words.append(option if value else "--no-" + option[2:])
            elif isinstance(value, dict):
                words += [option, *(str(part) for pair in value.items() for part in pair)]
            elif isinstance(value, tuple):
                words += [option, *map(str, value)]
            else:
                words += [option, str(value)]
        return shlex.join(words)
