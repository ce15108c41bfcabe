"""What a model is made of, in a form that goes into a file."""

from __future__ import annotations

from dataclasses import dataclass, field

from gma_ref.reference.checks import as_flag, as_size

from .mixers.base import as_width


@dataclass(frozen=True)
class Config:
    """What a model is made of; ``dataclasses.asdict`` gives what JSON can hold, and ``Config(**d)`` takes it back.

    Parameters
    ----------
    vocabulary : int
        How many different tokens there are.
    num_layers, d_model, num_heads : int
    mixer : str
        One of `gma_ref.models.mixers.MIXERS`.
    mixer_options : dict
        The other arguments of `gma_ref.models.mixers.make_mixer`.
    causal : bool
        Without it the model is a bidirectional classifier.
    max_len : int, optional
        The context length: later tokens are all given the last position, and softmax attention reads the last `max_len`
        tokens only. Without it positions run on, and softmax attention reads everything.
    d_mlp : int, optional
        The width inside the MLPs; without it 4 d_model.
    dropout : float
        Of the embedded tokens and of what each half of a layer adds, in training.
    num_classes : int, optional
        Makes the model a classifier: the mean over the tokens that take part, and a linear map. Without it, it is a
        language model, whose output weights are those of its embedding.

    Raises
    ------
    TypeError, ValueError
        If an argument has another kind or range. Options of the mixer are looked at when a model is made.
    """

    vocabulary: int
    num_layers: int = 3
    d_model: int = 128
    num_heads: int = 4
    mixer: str = "gma"
    mixer_options: dict = field(default_factory=dict)
    causal: bool = True
    max_len: int | None = None
    d_mlp: int | None = None
    dropout: float = 0.0
    num_classes: int | None = None

    def __post_init__(self):
        for name in ("vocabulary", "num_layers", "d_model", "num_heads"):
            as_width(name, getattr(self, name))
        for name in ("max_len", "d_mlp", "num_classes"):
            if getattr(self, name) is not None:
                as_width(name, getattr(self, name))
        if as_size("dropout", self.dropout) >= 1:
            raise ValueError(f"dropout must be below 1, got {self.dropout}")
        if not as_flag("causal", self.causal) and self.num_classes is None:
            raise ValueError("causal must be True where num_classes is None: a language model predicts the next token")
        if not isinstance(self.mixer_options, dict):
            raise TypeError(f"mixer_options must be a dict, got {type(self.mixer_options).__name__}")
        twice = sorted({"num_heads", "causal"} & set(self.mixer_options))
        if twice:
            raise ValueError(f"mixer_options must leave {' and '.join(twice)} to the configuration itself")
