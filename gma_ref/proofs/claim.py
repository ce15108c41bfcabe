"""A claim: what it says, on what assumptions, how far it reaches, and steps that a machine decides one by one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from sympy import IndexedBase, Symbol, sympify

from .latex import latex
from .steps import Step
from .symbols import Definition

ANY = "any size"
ALGEBRA = "algebra, any size"
FIXED = "fixed size"

_BUILDERS: dict[str, "Claim"] = {}


class ProofError(AssertionError):
    """A step that was not proved.

    Attributes
    ----------
    label, step : str
        The claim's label and the step's name.
    residual : sympy.Expr
        What should have been zero, or positive.
    """

    def __init__(self, label, step, residual):
        self.label, self.step, self.residual = label, step, residual
        super().__init__(f"({label}), step {step!r} is not proved; what is left: {residual}")


@dataclass(frozen=True)
class Claim:
    """One statement with its proof; the last step is the statement itself.

    Attributes
    ----------
    label : str
        Its name: the label of its row in the ledger.
    title : str
        What it says, in words.
    scope : str
        ``"any size"``: proved with symbols for N, K, d_r, d_v. ``"algebra, any size"``: so are the formulas; between
        them stands an argument in words, such as a triangle inequality. ``"fixed size"``: see `sizes`.
    sizes : str
        The sizes for which a claim of fixed size is proved.
    part : str
        What is proved, where that is less than all that its row says.
    row : str
        The row of the ledger that it belongs to: its label, unless one row has several claims.
    assumptions : tuple of str
        What is taken for granted, in words.
    definitions : tuple of Definition
        The arrays of the steps that stand for something longer.
    build : callable
        Returns the steps.
    """

    label: str
    title: str
    scope: str
    assumptions: tuple[str, ...]
    definitions: tuple[Definition, ...]
    build: Callable[[], list[Step]] = field(repr=False)
    sizes: str = ""
    row: str = ""
    part: str = ""

    @property
    def steps(self):
        """The steps, in order."""
        return _steps(self.build)

    @property
    def statement(self):
        """The last step: what is proved in the end."""
        return self.steps[-1]

    def check(self):
        """Decide every step.

        Returns
        -------
        Claim
            Itself, so that a page can check and show in one line.

        Raises
        ------
        ProofError
            At the first step that is not proved, with what is left of it.
        """
        for step in self.steps:
            left = step.residual(self.definitions)
            if left != 0:
                raise ProofError(self.label, step.name, left)
        return self

    def step(self, name):
        """Return the step of that name."""
        return next(step for step in self.steps if step.name == name)

    def show(self):
        """Display the proof in a notebook: assumptions, signs, definitions, then each step and its reason."""
        from IPython.display import Markdown, Math, display

        signs = "Signs: " + ", ".join(f"${sign}$" for sign in self.signs()) + "." if self.signs() else ""
        display(Markdown(f"**{self.title}** ({self.reach()}). " + " ".join((*self.assumptions, signs)).strip()))
        if self.definitions:
            display(Markdown("Where"))
        for definition in self.definitions:
            display(Math(definition.latex()))
        for number, step in enumerate(self.steps, 1):
            display(Markdown(f"{number}\\. {step.sentence()}"))
            display(Math(step.latex()))

    def reach(self):
        """Say how far the proof reaches."""
        reach = "algebra proved for any size" if self.scope == ALGEBRA else f"proved for {self.sizes or self.scope}"
        return f"{reach}: {self.part}" if self.part else reach

    def signs(self):
        """Return the signs that the proof takes for granted, as LaTeX: of all numbers that no definition explains."""
        parts = [definition.body for definition in self.definitions]
        for step in self.steps:
            sides = (getattr(step, side, 0) for side in ("left", "right", "certificate"))
            parts += [sympify(side) for side in sides]
        bases = set().union(*(part.atoms(IndexedBase) for part in parts))
        labels = {base.label for base in bases}
        scalars = {one for part in parts for one in part.free_symbols - labels if isinstance(one, Symbol)}
        numbers = {base.label: base for base in bases - {definition.entry.base for definition in self.definitions}}
        numbers |= {one: one for one in scalars if not one.is_integer}
        signed = [name for name in sorted(numbers, key=str) if numbers[name].is_nonnegative]
        return [rf"{latex(name)} {'>' if numbers[name].is_positive else chr(92) + 'ge'} 0" for name in signed]

    def _repr_latex_(self):
        return self.statement._repr_latex_()


@cache
def _steps(build):
    return tuple(build())


def proves(label, title, *, scope=ANY, sizes="", row=None, part="", assumptions=(), where=()):
    """Register the function below, which returns the steps of a proof, as the proof of the equation `label`."""

    def register(build):
        if label in _BUILDERS:
            raise ValueError(f"two proofs of {label}")
        given = tuple(assumptions), tuple(where)
        _BUILDERS[label] = Claim(label, title, scope, *given, build, sizes, row or label, part)
        return build

    return register


def claims():
    """Return every claim, in the order in which the modules state them."""
    return tuple(_BUILDERS.values())


def claim(label):
    """Return the claim of an equation, by its label in the ledger.

    Raises
    ------
    KeyError
        If there is none.
    """
    return _BUILDERS[label]
