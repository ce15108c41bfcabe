"""The comparison itself: prepare, check, time in turns, measure memory, and keep everything for the record."""

import time
from contextlib import contextmanager
from dataclasses import replace

import psutil
import torch

from .clock import interleave
from .correctness import WrongResultError, altered, check_call, check_gradients, slow_rows
from .decoding import STEPS
from .inputs import Inputs
from .load import Watch
from .memory import peak_memory
from .method import calls
from .methods import functions
from .peers import layers, peers
from .settings import Case, Settings

__all__ = ["CALLS", "Bench", "Case", "Runs", "Settings", "UnavailableError", "all_methods"]

CALLS = 7  # of a slow callable, at least: two for its check, two to warm up, three samples


class UnavailableError(RuntimeError):
    """Something cannot be measured here: it is not installed, or does not fit."""


def all_methods():
    """Return everything that can be timed, by name; GMA as it is built now."""
    return {method.name: method for method in (*functions(), *layers(), *peers(), *STEPS)}


class Runs:
    """Times callables in turns, and keeps it: in ``times``, and what else is known of each run in ``runs``.

    What was timed in turns is one *run*, and has its number: only times of one run are to be compared.

    Parameters
    ----------
    settings
        With ``device``, ``threads``, ``repeats`` and ``seconds_per_point``, as `Settings` has them.
    progress : bool
        Show a progress bar.
    """

    def __init__(self, settings, progress=False):
        self.settings, self.progress = settings, progress
        self.times, self.runs, self.wrong = [], [], []

    def in_turns(self, calls, described, repeats, part, label, **options):
        """Time callables in turns, and keep for each what describes it and its times; options are `interleave`'s."""
        watch, start = Watch(), time.perf_counter()
        with self.threads():
            progress = label if self.progress else False
            times = interleave(calls, repeats=repeats, synchronise=self.synchronise, progress=progress, **options)
        run = {"run": len(self.runs) + 1, "part": part}
        self.runs.append(run | {"seconds": time.perf_counter() - start, "others": watch.others()})
        for name, taken in times.items():
            spread = {"median": taken.median, "quartiles": list(taken.quartiles)}
            entry = run | described[name] | spread
            self.times.append(entry | {"samples": list(taken.samples), "calls": taken.calls})
        return times

    def reason(self, error):
        """Return why something was not measured, in a sentence, and keep it if something was wrong."""
        if isinstance(error, UnavailableError):
            return str(error)
        sentence = (
            str(error) if isinstance(error, WrongResultError) else f"{type(error).__name__}: {error}".splitlines()[0]
        )
        self.wrong.append(sentence)
        return sentence

    def samples(self, seconds):
        """Return how many samples of a call there shall be: as many as there is time for, at least three."""
        possible = int(self.settings.seconds_per_point / max(seconds, 1e-9)) - (CALLS - 3)
        return max(3, min(self.settings.repeats, possible))

    @contextmanager
    def threads(self):
        """Let PyTorch use as many threads as the settings say, until this is left."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.settings.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def synchronise(self):
        """Wait until the device has finished."""
        if self.settings.device != "cpu":
            torch.cuda.synchronize()


class Bench(Runs):
    """Measures cases and remembers all of it: in ``times``, ``runs``, ``memory``, ``checks`` and ``skipped``.

    Parameters
    ----------
    settings : Settings
    methods : dict of str to Method
        By name, as `all_methods` gives them.
    progress : bool
        Show a progress bar.
    """

    def __init__(self, settings, methods, progress=False):
        super().__init__(settings, progress)
        self.methods = methods
        self.checks, self.memory, self.skipped = [], [], []
        self._loaded = set()
        self._slow = {}

    def compare(self, cases, heads=None, part="compared"):
        """Time some cases in turns, with equally many samples.

        Parameters
        ----------
        cases : sequence of Case
        heads : int, optional
            Where it is not that of the settings.
        part : str
            Of what the times are a part, for the record.

        Returns
        -------
        list of Times

        Raises
        ------
        UnavailableError
            If one of them cannot be measured here.
        WrongResultError
            If one of them is wrong; nothing has been timed then.
        """
        ready = {case: self.prepare(case, heads) for case in cases}
        fewest = min(self.samples(seconds) for _, seconds, _ in ready.values())
        times = self.time(ready, dict.fromkeys(ready, fewest), heads, part)
        return [times[case] for case in cases]

    def prepare(self, case, heads=None):
        """Return the callable of a case, checked; how long a call took; and the variant that was chosen."""
        with self.threads():
            return self._prepare(case, heads)

    def _prepare(self, case, heads):
        method = self.methods[case.method]
        problem = self.settings.problem(case.tokens, heads)
        self._require(method, problem)
        needed, free = self._needed(method, problem, case), self._free()
        if needed > 0.7 * free:
            raise UnavailableError(f"it takes about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")
        small, form = replace(problem, tokens=method.checked_at), (case.method, *case[2:])
        if form not in self._loaded:
            if case.training:
                self.checks += check_gradients(method, small, case.causal)
            else:  # what is loaded at the first call shall not count
                calls(method.prepare(Inputs(small), case.causal, False), False)()
            self._loaded.add(form)
        prepared = method.prepare(self._inputs(problem), case.causal, case.training)
        call = calls(prepared, case.training)
        key = (method.same_as or method.name, problem, case.causal)
        if key not in self._slow:
            self._slow[key] = slow_rows(method, prepared, problem)
        try:
            with altered(prepared):
                call()
            self.synchronise()
            start = time.perf_counter()
            result = call()
            self.synchronise()
        except torch.cuda.OutOfMemoryError as error:
            raise UnavailableError("the device has too little memory for it") from error
        seconds = time.perf_counter() - start
        output = result[0] if case.training else result
        self.checks.append(check_call(method, output, problem, case.causal, case.training, *self._slow[key]))
        return call, seconds, prepared.variant

    def time(self, ready, repeats, heads=None, part="compared"):
        """Time cases that `prepare` has made ready, in turns, and keep the times."""
        label = f"N = {max(case.tokens for case in ready) // self.settings.shrink:,}"
        variants = {case: {"variant": variant} if variant else {} for case, (_, _, variant) in ready.items()}
        described = {case: self.describe(case, heads) | variant for case, variant in variants.items()}
        calls = {case: call for case, (call, _, _) in ready.items()}
        return self.in_turns(calls, described, repeats, part, label)

    def peak(self, case, heads=None):
        """Measure the peak memory of a case, and keep it."""
        method, problem = self.methods[case.method], self.settings.problem(case.tokens, heads)
        self._require(method, problem)
        if self._needed(method, problem, case) > 0.7 * self._free():
            raise UnavailableError("there is not enough memory free")
        arguments = case.method, problem, case.causal, case.training, self.settings.threads
        found = peak_memory(_alone, *arguments, device=self.settings.device, threads=self.settings.threads)
        entry = self.describe(case, heads) | {"peak": found.peak, "held": found.held, "over": found.over}
        self.memory.append(entry)
        return found

    def skip(self, case, error):
        """Note why a case was not measured, and as wrong what failed for any other reason than want of something."""
        self.skipped.append(self.describe(case) | {"reason": self.reason(error)})

    def describe(self, case, heads=None):
        """Return the entry of a case, with the length that was measured."""
        problem = self.settings.problem(case.tokens, heads)
        return case._asdict() | {"tokens": problem.tokens, "heads": problem.heads}

    def _require(self, method, problem):
        """Refuse a method that is missing, or that does not take a problem."""
        reason = f"is missing: {method.missing}" if method.missing else method.refuses(problem)
        if reason:
            raise UnavailableError(f"{method.title} {reason}")

    def _needed(self, method, problem, case):
        """Return the bytes that a case takes, about: its inputs, the slow form's copies of them, and its own."""
        return 12 * problem.bytes_of_q + method.workspace(problem, case.causal, case.training)

    def _inputs(self, problem):
        """Return the tensors of a problem; only the last problem's are kept."""
        if getattr(self, "_last", None) is None or self._last.problem != problem:
            self._last = None  # the old ones go before the new ones come
            self._last = Inputs(problem)
        return self._last

    def _free(self):
        """Return the bytes that are free on the device."""
        if self.settings.device == "cpu":
            return psutil.virtual_memory().available
        return torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()


def _alone(name, problem, causal, training, threads):
    """Prepare one case in a process of its own: everything is loaded by a small call before the inputs are made."""
    torch.set_num_threads(threads)
    # a library is imported only if it is asked for
    method = next(method for make in (functions, layers, peers) for method in make() if method.name == name)
    calls(method.prepare(Inputs(replace(problem, tokens=min(256, problem.tokens))), causal, training), training)()
    return calls(method.prepare(Inputs(problem), causal, training), training)
