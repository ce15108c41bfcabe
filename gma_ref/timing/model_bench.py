"""The book's models in turns: steps of training, prompts, and the token after them, each checked before it is timed."""

import copy
import time

import torch

from gma_ref.models.mixers import num_parameters, tensors_of
from gma_ref.models.tasks import make_task
from gma_ref.models.trainer import Trainer, optimizer_of
from gma_ref.models.training import build_model
from gma_ref.pytorch import native

from .bench import Runs, UnavailableError
from .compiled import set_aside
from .correctness import ALLOWED, WrongResultError
from .memory import peak_memory
from .plan import KINDS

__all__ = ["ModelBench", "state_bytes"]

LEAST = 0.03  # seconds of a sample of steps of decoding, which take a thousandth each


class ModelBench(Runs):
    """Measures models and remembers all of it, for the record.

    ``times``, ``runs``, ``checks``, ``state``, ``memory`` of steps and ``forward_memory`` of passes, ``skipped``, and
    ``models``, one entry for each kind.

    Parameters
    ----------
    plan : Plan
    progress : bool
        Show a progress bar.
    """

    def __init__(self, plan, progress=False):
        super().__init__(plan, progress)
        self.task, self.made = make_task(plan.task), {}
        self.checks, self.state, self.memory, self.forward_memory, self.skipped = [], [], [], [], []
        self.models = [self._make(kind) for kind in KINDS if kind.name in plan.kinds]
        self.kinds = [kind for kind in KINDS if kind.name in self.made]

    def _make(self, kind):
        """Make a model with fresh weights, if that can be, and return its entry."""
        missing = "GMA is this form here" if kind.aside and native.missing() else None
        settings, model = self.settings.settings(kind), None
        if missing is None:
            try:
                model = self.made[kind.name] = build_model(settings, self.task)
            except ModuleNotFoundError as error:
                missing = str(error)
        in_c = kind.mixer == "gma" and not kind.aside and native.missing() is None
        return {
            "name": kind.name,
            "title": kind.title,
            "mixer": kind.mixer,
            "program": ("in C" if in_c else "in PyTorch") if kind.mixer == "gma" else None,
            "qk_norm": settings.qk_norm,
            "parameters": model and num_parameters(model),
            "d_mlp": model and model.config.d_mlp,
            "missing": missing,
        }

    def time_steps(self, batch, tokens):
        """Time a step of training of each model, the steps taken in turns."""

        def prepare(kind, at):
            settings, model = self.settings.settings(kind, batch, tokens), self.made[kind.name]
            wide = copy.deepcopy(model).double()
            step, slow = (stepper(one, settings, self.task, optimizer_of(one, settings)) for one in (model, wide))
            in_its_way(kind, step)()
            slow()
            self._check("step", kind, at, "gradients", *(gradients(one) for one in (model, wide)))
            return step

        self._compare("step", batch, tokens, prepare)

    def time_passes(self, batch, tokens):
        """Time a pass of each model over whole sequences, without gradients."""
        inputs = self._batch(batch, tokens)

        def prepare(kind, at):
            model = self.made[kind.name].eval()
            call = torch.no_grad()(lambda: model(inputs))
            logits = in_its_way(kind, call)()
            with torch.no_grad():
                self._check("forward", kind, at, "logits", [logits], [copy.deepcopy(model).double()(inputs)])
            return call

        self._compare("forward", batch, tokens, prepare)

    def _batch(self, batch, tokens):
        generator = torch.Generator().manual_seed(self.settings.seed)
        return next(self.task.train_batches(generator, batch, tokens)).inputs

    def time_decoding(self, tokens):
        """Time reading a prompt, and one more token after it, and keep the bytes of the state between."""
        text = self._batch(1, tokens + 1)
        prompt, token, after = text[:, :tokens], text[:, tokens], {}

        def prepare_prompt(kind, at):
            model = self.made[kind.name].eval()
            prefill = torch.no_grad()(lambda: model.prefill(prompt))
            logits, state = in_its_way(kind, prefill)()
            with torch.no_grad():
                expected = copy.deepcopy(model).double()(text)
            self._check("prefill", kind, at, "logits", [logits], [expected[:, :-1]])
            self.state.append(at | {"bytes": state_bytes(state)})
            after[kind] = state, expected[:, -1]
            return prefill

        def prepare_token(kind, at):
            if kind not in after:
                raise UnavailableError("there is no state from which to go on")
            model, (state, expected) = self.made[kind.name], after[kind]
            step = torch.no_grad()(lambda: model.step(token, state))
            self._check("decoding", kind, at, "logits", [in_its_way(kind, step)()[0]], [expected])
            return step

        self._compare("prefill", 1, tokens, prepare_prompt)
        self._compare("decoding", 1, tokens, prepare_token, least=LEAST)

    def measure_memory(self, batch, tokens):
        """Measure what a step of training takes beyond weights and moments, each in a fresh process."""
        self._measure_memory(alone, batch, tokens, self.memory)

    def measure_forward_memory(self, batch, tokens):
        """Measure what a pass over whole sequences takes beyond the weights, each in a fresh process."""
        self._measure_memory(alone_forward, batch, tokens, self.forward_memory)

    def _measure_memory(self, prepare, batch, tokens, kept):
        for kind in self.kinds:
            at = {"model": kind.name, "batch": batch, "tokens": tokens}
            arguments = self.settings, kind, batch, tokens
            try:
                found = peak_memory(prepare, *arguments, threads=self.settings.threads)
            except RuntimeError as error:
                self.skipped.append(at | {"part": "memory", "reason": self.reason(error)})
            else:
                kept.append(at | {"peak": found.peak})

    def _compare(self, part, batch, tokens, prepare, **options):
        """Prepare and check each model, and time what is left in turns, with equally many samples."""
        calls, described, slowest = {}, {}, 0.0
        for kind in self.kinds:
            at = {"model": kind.name, "batch": batch, "tokens": tokens}
            try:
                with self.threads():
                    call = in_its_way(kind, prepare(kind, at))
                    start = time.perf_counter()
                    call()
            except Exception as error:  # one model that fails must not take the others with it
                self.skipped.append(at | {"part": part, "reason": self.reason(error)})
                continue
            slowest = max(slowest, time.perf_counter() - start)
            calls[kind.name], described[kind.name] = call, at
        if calls:
            self.in_turns(calls, described, self.samples(slowest), part, f"{part}, {batch} × {tokens:,}", **options)

    def _check(self, part, kind, at, what, given, expected):
        """Keep the largest error of some tensors, each over its own largest entry, or raise WrongResultError."""
        error = max(largest_error(*pair) for pair in zip(given, expected, strict=True))
        allowed = ALLOWED[self.settings.dtype]
        if not error <= allowed:  # also where it is NaN
            raise WrongResultError(
                f"{kind.title}, {part}, {at['batch']} × {at['tokens']}: {what} differ from those in float64 by "
                f"{error:.1e} of the largest, allowed is {allowed:.0e}"
            )
        self.checks.append(at | {"part": part, "what": what, "error": error, "allowed": allowed})


def stepper(model, settings, task, optimizer):
    """Return a call that takes one more step of the book's own training loop."""
    trainer = Trainer(settings, task, model, optimizer, show=False)
    return lambda: trainer.run(trainer.progress.step + 1)


def in_its_way(kind, call):
    """Return a call that goes on without the program in C, where the kind of model wants it so."""

    def without():
        with set_aside():
            return call()

    return without if kind.aside else call


def gradients(model):
    """Return the gradients that a step has left."""
    return [parameter.grad for parameter in model.parameters()]


def largest_error(given, expected):
    """Return the largest difference over the largest entry."""
    return ((given.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()


def state_bytes(state):
    """Return the bytes of what a model keeps of the tokens it has seen, over all its layers."""
    return sum(tensor.nbytes for layer in state.layers for tensor in tensors_of(layer))


def alone(plan, kind, batch, tokens):
    """Prepare a step in a process of its own; a small one before it loads what is needed, and makes the moments."""
    torch.set_num_threads(plan.threads)
    task, settings = make_task(plan.task), plan.settings(kind, batch, tokens)
    model = build_model(settings, task)
    optimizer = optimizer_of(model, settings)
    in_its_way(kind, stepper(model, plan.settings(kind, 1, min(64, tokens)), task, optimizer))()
    return in_its_way(kind, stepper(model, settings, task, optimizer))


def alone_forward(plan, kind, batch, tokens):
    """Prepare a pass in a process of its own; a small one before it loads what is needed."""
    torch.set_num_threads(plan.threads)
    task = make_task(plan.task)
    model = build_model(plan.settings(kind, batch, tokens), task).eval()
    generator = torch.Generator().manual_seed(plan.seed)
    inputs = next(task.train_batches(generator, batch, tokens)).inputs
    with torch.no_grad():
        in_its_way(kind, lambda: model(inputs[:1, :64]))()
    return in_its_way(kind, torch.no_grad()(lambda: model(inputs)))
