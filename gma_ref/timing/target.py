"""What a target is: a number that is measured, a bound on it, and a verdict."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """One row of the table.

    Attributes
    ----------
    name, title, at : str
        Its function's name, what it says, and where it is measured.
    measure : callable
        Of a `Bench`; returns, for each program of GMA, a number, or its median and quartiles, or these and a note.
    bound : float or None
        None: the number is reported only.
    sense : str or None
        ``"<="`` or ``">="``.
    """

    name: str
    title: str
    at: str
    measure: Callable
    bound: float | None = None
    sense: str | None = None

    def verdict(self, value, judged):
        """Return ``"met"``, ``"not met"``, ``"reported"`` or ``"not judged"``."""
        if self.bound is None:
            return "reported"
        if not judged:
            return "not judged"
        return "met" if (value <= self.bound if self.sense == "<=" else value >= self.bound) else "not met"

    def values(self, found, judged):
        """Return a row's entries for what was found: a number, or its median and quartiles, or these and a note."""
        value, *more = found if isinstance(found, tuple) else (found,)
        note = more.pop() if more and isinstance(more[-1], str) else ""
        return {
            "value": None if value == float("inf") else value,
            "quartiles": more or None,
            "verdict": self.verdict(value, judged),
            "note": note,
        }
