"""The training loop: draw a batch, add up gradients, move the weights; now and then evaluate and save."""

import math
import time
from dataclasses import asdict, dataclass, field

import torch
from torch import nn
from tqdm import tqdm

from .evaluation import bits, evaluate, is_better, losses, predict
from .parameters import parameter_groups
from .schedule import learning_rate_factor
from .settings import Settings
from .state import read_progress, restore, snapshot, step_seed, store
from .tasks.task import IGNORED
from .workers import Workers

__all__ = ["NonFiniteError", "Progress", "Trainer", "optimizer_of"]


def optimizer_of(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Return the optimiser that a run has: AdamW, with the groups of `parameter_groups` at their highest rates."""
    groups = parameter_groups(model, settings.weight_decay, settings.lr, settings.mixture_lr_factor)
    return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas)


class NonFiniteError(FloatingPointError):
    """A loss or a gradient was infinite or not a number; the weights are those of before that step.

    ``log`` is that of the run so far, once `gma_ref.models.training.train` has passed it on.
    """

    log = None


@dataclass
class Progress:
    """How far a run has come: all that its state holds besides weights and optimiser."""

    step: int = 0
    seconds: float = 0.0  # of training
    elapsed: float = 0.0  # with the evaluations, from start to start
    tokens: int = 0
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # evaluations since the best one
    stopped: str | None = None  # why the run has ended
    history: list = field(default_factory=list)
    losses: list = field(default_factory=list)  # of the steps since the last evaluation


class Trainer:
    """Train a model on a task as the settings say.

    Parameters
    ----------
    settings : Settings
    task : Task
    model : Module
        On its device.
    optimizer : Optimizer
        Its parameter groups hold their highest learning rates.
    workers : Workers
    state : Path or None
        The file that the state is kept in.
    show : bool or None
        Whether there is a progress bar; None for where a terminal is.
    """

    def __init__(self, settings: Settings, task, model: nn.Module, optimizer, workers=None, state=None, show=None):
        self.settings, self.task, self.model, self.optimizer = settings, task, model, optimizer
        self.workers, self.state, self.show = workers or Workers(), state, show
        self.device = next(model.parameters()).device
        self.length = settings.length or task.default_length
        self.highest = [group["lr"] for group in optimizer.param_groups]
        self.progress = Progress()
        self.best = snapshot(model)
        shares = self.workers.size * settings.accumulation
        if settings.batch % shares:
            raise ValueError(
                f"batch must be a multiple of accumulation × processes = {shares}, got {settings.batch} sequences"
            )

    def run(self, until: int | None = None) -> None:
        """Train to the end of the budget, or until a step; resume first if there is a state."""
        self._resume()
        generator, progress = torch.Generator(), self.progress
        batches = self.task.train_batches(generator, self.settings.batch, self.length)
        started, before = time.perf_counter(), progress.elapsed
        with self._bar() as bar:
            while progress.stopped is None and (until is None or progress.step < until):
                progress.losses.append(self._step(generator, batches))
                progress.elapsed = before + time.perf_counter() - started
                used = self._used()
                self._tell(bar, used)
                if used >= 1 or progress.step % self.settings.evaluate_every == 0:
                    self._evaluate()
                    if used >= 1:
                        progress.stopped = progress.stopped or "the budget is used up"
                    self._save()
            if progress.stopped is None:
                self._save()

    def _step(self, generator, batches) -> float:
        """Take one step of the optimiser and return the loss; leave the weights as they are if it is not finite."""
        started = time.perf_counter()
        settings, progress = self.settings, self.progress
        # what a step draws follows from its number, so that a resumed run draws the same
        generator.manual_seed(step_seed(settings.seed, progress.step))
        batch = next(batches)
        torch.manual_seed(step_seed(settings.seed, progress.step, 1 + self.workers.rank))
        factor = learning_rate_factor(self._used(), settings.warmup, settings.final_lr)
        for group, highest in zip(self.optimizer.param_groups, self.highest, strict=True):
            group["lr"] = highest * factor
        loss = self._add_gradients(batch)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip or math.inf)
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise NonFiniteError(self._what_happened(loss, float(norm)))
        self.optimizer.step()
        progress.step += 1
        progress.tokens += batch.inputs.numel()
        progress.seconds += time.perf_counter() - started
        return loss

    def _add_gradients(self, batch) -> float:
        """Leave the gradient of the mean loss over all targets of the batch in the parameters; return that loss."""
        asked = int((batch.targets != IGNORED).sum())
        rows = len(batch.inputs) // (self.workers.size * self.settings.accumulation)
        first = self.workers.rank * self.settings.accumulation * rows
        total = torch.zeros((), device=self.device)
        self.model.train()
        self.optimizer.zero_grad()
        for start in range(first, first + self.settings.accumulation * rows, rows):
            part = batch.rows(start, start + rows).to(self.device)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self._in_bfloat16()):
                logits = predict(self.model, part)
            # divided by the targets of the whole batch: parts may hold different numbers of them
            loss = losses(logits, part.targets).sum() / asked
            loss.backward()
            total += loss.detach()
        self.workers.add_gradients(list(self.model.parameters()))
        return self.workers.add(total).item()

    def _in_bfloat16(self):
        wanted = self.settings.precision
        return wanted == "bfloat16" or (wanted == "auto" and self.device.type == "cuda")

    def _used(self) -> float:
        """Return the part of the budget that is used, the same for all processes."""
        used = []
        if self.settings.max_steps is not None:
            used.append(self.progress.step / self.settings.max_steps)
        if self.settings.minutes is not None:
            used.append(self.workers.from_first(self.progress.elapsed / 60 / self.settings.minutes, self.device))
        return max(used)

    def _evaluate(self) -> None:
        """Evaluate on the validation part, keep the weights if they are the best, and write it down."""
        progress = self.progress
        result = self.evaluation("validation", self.settings.evaluation_tokens)
        if not math.isfinite(result["loss"]):
            raise NonFiniteError(self._what_happened(result["loss"], math.nan))
        if is_better(result["score"], progress.best, self.task.unit):
            progress.best, progress.best_step, progress.stale = result["score"], progress.step, 0
            self.best = snapshot(self.model)
        else:
            progress.stale += 1
        if self.settings.patience is not None and progress.stale >= self.settings.patience:
            progress.stopped = f"no better evaluation in {progress.stale}"
        entry = {"step": progress.step, "seconds": round(progress.seconds, 3), "tokens": progress.tokens}
        train_loss = math.fsum(progress.losses) / len(progress.losses)
        progress.history.append(entry | {"lr": self._lr(), "train_loss": train_loss, "validation": result})
        progress.losses = []

    def evaluation(self, part: str, limit: int | None) -> dict:
        """Evaluate the model as it is on a part of the task."""
        batches = self.task.evaluation(part, self.length, batch=self._evaluation_batch(), limit=limit)
        return evaluate(self.model, batches, self.task.unit, device=self.device, workers=self.workers)

    def _evaluation_batch(self):
        return max(1, self.settings.batch // (self.workers.size * self.settings.accumulation))

    def take_best(self) -> None:
        """Give the model the weights of its best evaluation."""
        self.model.load_state_dict(self.best)

    def _save(self) -> None:
        if self.state is not None and self.workers.is_first:
            kept = {"settings": self.settings.as_dict(), "progress": asdict(self.progress)}
            store(self.state, self.model, self.optimizer, self.best, kept)

    def _resume(self) -> None:
        """Take up the state that a file holds, if it is of this run."""
        if self.state is None or not self.state.exists():
            return
        kept = read_progress(self.state)
        # before the weights, which may not fit; an option that one of them lacks has its default there, or is no more
        ours, theirs = self.settings.as_dict(), Settings().as_dict() | kept["settings"]
        other = [name for name in ours | theirs if ours.get(name) != theirs[name]]
        if other:
            raise ValueError(
                f"folder must hold a run with the same settings, but {', '.join(other)} differ in {self.state.parent}; "
                "choose another folder"
            )
        self.best = restore(self.state, self.model, self.optimizer)
        self.progress = Progress(**kept["progress"])

    def _what_happened(self, loss, norm):
        """Say what was not finite and what is left."""
        last = self.progress.history[-1]["step"] if self.progress.history else None
        kept = f"the state of step {last} is kept" if last and self.state is not None else "no state was saved before"
        return (
            f"loss must be finite, got loss {loss} and gradient norm {norm} in step {self.progress.step + 1} at "
            f"learning rate {self._lr():.3g}; {kept}; try a lower learning rate, a longer warm-up or a smaller clip"
        )

    def _bar(self):
        """Return a progress bar over the budget, in thousandths where it is one of time."""
        hidden = True if not self.workers.is_first or self.show is False else None if self.show is None else False
        total = self.settings.max_steps if self.settings.minutes is None else 1000
        unit = "step" if self.settings.minutes is None else "‰"
        return tqdm(total=total, desc=self.settings.name, unit=unit, disable=hidden, dynamic_ncols=True)

    def _tell(self, bar, used):
        bar.update(round(min(used, 1) * bar.total) - bar.n)
        if not bar.disable and self.progress.step % 10 == 0:
            recent = self.progress.losses[-50:]
            mean = math.fsum(recent) / len(recent)
            is_bits = self.task.unit != "accuracy"
            said = {self.task.unit: f"{bits(mean):.3f}"} if is_bits else {"loss": f"{mean:.3f}"}
            if self.progress.best is not None:
                said["best validation"] = f"{self.progress.best:.3f}"
            bar.set_postfix(said, refresh=False)

    def _lr(self):
        return self.optimizer.param_groups[0]["lr"]
