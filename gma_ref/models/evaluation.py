"""How good a model is: the mean over sequences, with its standard error, in the unit of the task."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.nn import functional

from .tasks.task import IGNORED, Batch
from .workers import Workers

__all__ = ["bits", "evaluate", "is_better", "losses", "predict"]


def bits(nats: float) -> float:
    """Convert nats to bits: a uniform guess among 65 symbols costs 4.1744 nats, which are 6.0224 bits."""
    return nats / math.log(2)


def is_better(score: float, than: float | None, unit: str) -> bool:
    """Say whether a score beats another: accuracy should be high, bits should be few."""
    return than is None or (score > than if unit == "accuracy" else score < than)


def predict(model: nn.Module, batch: Batch):
    """Return the logits of a batch; models see a mask only where there is padding."""
    return model(batch.inputs) if batch.key_mask is None else model(batch.inputs, key_mask=batch.key_mask)


def losses(logits, targets):
    """Return the cross-entropy of each target in nats, 0 where nothing is asked, in the shape of `targets`."""
    flat = functional.cross_entropy(
        logits.float().flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction="none"
    )
    return flat.view(targets.shape)


@torch.no_grad()
def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    unit: str,
    *,
    device=None,
    workers: Workers | None = None,
    groups: Sequence[str] = (),
):
    """Evaluate a model on all batches, without dropout; its mode is afterwards what it was.

    Parameters
    ----------
    model : Module
        From tokens to logits.
    batches : iterable of Batch
        As ``task.evaluation`` gives them.
    unit : str
        That of the task.
    device : device, optional
        Where the model is; by default where its first parameter is.
    workers : Workers, optional
        The processes that share the batches.
    groups : sequence of str
        The names of the groups of sequences, where the batches have some.

    Returns
    -------
    dict
        ``unit``, ``score`` in it, ``standard_error`` of the score (over sequences), ``loss`` in nats,
        ``sequences`` and ``targets``; with groups also ``groups``, the ``score``, ``standard_error`` and ``sequences``
        of each that has any.

    Raises
    ------
    ValueError
        If the batches ask for nothing.
    """
    workers = workers or Workers()
    device = device or next(model.parameters()).device
    training = model.training
    model.eval()
    # sequences, targets, loss, score of each sequence and its square: of all, and of each group
    total = torch.zeros(1 + len(groups), 5, dtype=torch.float64)
    try:
        for number, batch in enumerate(batches):
            if number % workers.size == workers.rank:
                sums = _sums(model, batch.to(device), unit)
                total[0] += sums.sum(dim=0)
                if groups:
                    total.index_add_(0, 1 + batch.group, sums)
    finally:
        model.train(training)
    of_all, *of_groups = workers.add(total.to(device)).tolist()
    sequences, targets, loss, *_ = of_all
    if not targets:
        raise ValueError("batches must ask for something, got no target")
    result = {"unit": unit, **_mean(of_all), "loss": loss / sequences, "targets": int(targets)}
    if groups:
        result["groups"] = {name: _mean(sums) for name, sums in zip(groups, of_groups, strict=True) if sums[0]}
    return result


def _mean(sums):
    """Return the mean score over sequences, and its standard error."""
    sequences, _, _, score, square = sums
    mean = score / sequences
    spread = max(square / sequences - mean**2, 0.0) * sequences / max(sequences - 1, 1)
    return {"score": mean, "standard_error": math.sqrt(spread / sequences), "sequences": int(sequences)}


def _sums(model, batch, unit):
    """Return what `evaluate` adds up, a row for each sequence: they weigh the same, however many targets they have."""
    logits = predict(model, batch)
    asked = (batch.targets != IGNORED).view(len(batch.targets), -1)
    count = asked.sum(dim=1).clamp(min=1)
    loss = losses(logits, batch.targets).view_as(asked).double().sum(dim=1) / count
    if unit == "accuracy":
        right = (logits.argmax(dim=-1) == batch.targets).view_as(asked)
        score = (right & asked).sum(dim=1).double() / count
    else:
        score = loss / math.log(2)
    columns = torch.ones_like(score), asked.sum(dim=1).double(), loss, score, score * score
    return torch.stack(columns, dim=1).cpu()
