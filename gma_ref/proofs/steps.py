"""Steps of a proof: an equation, a sign, an inequality with its certificate. Each is decided, none is sampled."""

from dataclasses import dataclass
from functools import lru_cache

from sympy import Add, Expr, S, sympify

from .decide import canonical, settle
from .latex import latex, relation
from .symbols import unfold


@dataclass(frozen=True)
class Step:
    """A named step and its reason.

    Attributes
    ----------
    name : str
    why : str
        In words, for the page.
    """

    name: str

    def sentence(self):
        """Return name and reason as one line of Markdown."""
        return f"**{self.name}**" + (f": {self.why}" if self.why else "")

    def _repr_latex_(self):
        return f"$\\displaystyle {self.latex()}$"


@dataclass(frozen=True)
class Equal(Step):
    """Left and right are equal: their difference, with the definitions put in, is decided to be zero."""

    left: Expr
    right: Expr
    why: str = ""

    def residual(self, definitions):
        """Return 0 if the step is proved, else what is left."""
        return settle(form(sympify(self.left), definitions) - form(sympify(self.right), definitions))

    def latex(self):
        """Return the equation as LaTeX."""
        return relation(self.left, "=", self.right)


@dataclass(frozen=True)
class Positive(Step):
    """The expression is positive, as SymPy concludes from the signs of its parts."""

    left: Expr
    why: str = ""

    def residual(self, definitions):
        """Return 0 if the step is proved, else the expression."""
        expression = unfold(sympify(self.left), definitions)
        return S.Zero if expression.is_positive else expression

    def latex(self):
        """Return the inequality as LaTeX."""
        return relation(self.left, ">", 0)


@dataclass(frozen=True)
class Bounded(Step):
    """Left is at most right: their difference equals the certificate, which no sign of a part makes negative."""

    left: Expr
    right: Expr
    certificate: Expr
    why: str = ""

    def residual(self, definitions):
        """Return 0 if the step is proved, else what is left."""
        certificate = unfold(sympify(self.certificate), definitions)
        gap = form(sympify(self.right) - self.left, definitions)
        left = settle(gap - form(sympify(self.certificate), definitions))
        if left != 0:
            return left
        return S.Zero if certificate.is_nonnegative else certificate

    def latex(self):
        """Return the inequality and its certificate as LaTeX."""
        gap = f"{latex(self.right)} - {in_brackets(self.left)}"
        return relation(gap, "=", self.certificate, r" \;\ge\; 0")


@lru_cache(maxsize=256)
def form(expression, definitions):
    """Return one side of a step in its fixed form, with the definitions put in."""
    return canonical(unfold(expression, definitions))


def in_brackets(expression):
    """Return an expression as LaTeX, in brackets where it is a sum."""
    tex = latex(expression)
    return rf"\left({tex}\right)" if isinstance(expression, Add) else tex
