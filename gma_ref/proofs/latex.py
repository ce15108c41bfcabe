"""Formulas of a proof as LaTeX that MathJax 2 and 3 both know."""
# ruff: noqa: N802  SymPy looks for methods of these names

from sympy import Add, MatrixSymbol, Mul
from sympy.printing.latex import LatexPrinter

LONG = 60  # letters and signs, above which an equation takes two lines


class Printer(LatexPrinter):
    """SymPy's printer with the book's ways of writing."""

    def _as_ordered_terms(self, expr, order=None):
        """Begin a sum with a term that has no minus."""
        return sorted(expr.as_ordered_terms(), key=lambda term: term.could_extract_minus_sign())

    def _print_Mul(self, expr):
        """Put brackets after what stands alone: γ(1 − γ), not (1 − γ)γ."""
        if expr.could_extract_minus_sign():
            return f"- {self._print(-expr)}"
        factors = sorted(expr.as_ordered_factors(), key=lambda factor: factor.as_base_exp()[0].is_Add)
        return super()._print_Mul(Mul(*factors, evaluate=False))

    def _print_Indexed(self, expr, exp=None):
        name = self._print(expr.base.label)
        indices = ",".join(map(self._print, expr.indices))
        if exp is None:
            return f"{name}_{{{indices}}}"
        # a name such as \sigma^{2} takes its exponent outside a bracket
        return f"({name}_{{{indices}}})^{{{exp}}}" if "^" in name else f"{name}_{{{indices}}}^{{{exp}}}"

    def _print_MatrixElement(self, expr):
        name = self._print(expr.parent)
        if not isinstance(expr.parent, MatrixSymbol):
            name = rf"\bigl[{name}\bigr]"
        return f"{name}_{{{','.join(self._print(index + 1) for index in (expr.i, expr.j))}}}"

    def _print_Transpose(self, expr):
        return rf"({self._print(expr.arg)})^\top"

    def _print_OneMatrix(self, expr):
        return rf"\mathbf{{1}}_{{{self._print(expr.shape[0])}}}"

    def mark(self, relation, expr):
        """Return 1{a relation b}."""
        one, other = map(self._print, expr.args[:2])
        return rf"\mathbf{{1}}\{{{one} {relation} {other}\}}"

    def _print_KroneckerDelta(self, expr, exp=None):
        return self.mark("=", expr)

    def _print_Apart(self, expr, exp=None):
        return self.mark(r"\ne", expr)

    def _print_UpTo(self, expr, exp=None):
        return self.mark(r"\le", expr)

    def _print_At(self, expr, exp=None):
        expression, value, *variables = map(self._print, expr.args)
        tex = rf"{expression} \Bigr|_{{{' = '.join([*variables, value])}}}"
        return rf"\Bigl({tex}\Bigr)^{{{exp}}}" if exp else rf"\Bigl. {tex}"

    def _print_Partial(self, expr):
        expression, variable = expr.args
        inner = self._print(expression)
        if isinstance(expression, Add):
            inner = rf"\Bigl[{inner}\Bigr]"
        return rf"\frac{{\partial}}{{\partial {self._print(variable)}}} {inner}"


def latex(expression):
    """Return an expression as LaTeX."""
    return Printer({"fold_short_frac": False, "ln_notation": False, "order": "none"}).doprint(expression)


def relation(left, sign, right):
    """Return ``left sign right``, on two lines where it is long."""
    if shown(left) + shown(right) <= LONG:
        return f"{left} {sign} {right}"
    return rf"\begin{{aligned}} & {left} \\ & \qquad {sign} {right} \end{{aligned}}"


def shown(tex):
    """Return about how many signs of a formula take room on its line."""
    count = 0
    skip = False
    for letter in tex:
        skip = letter == "\\" or (skip and letter.isalpha())
        count += not skip and letter not in "{}^_ "
    return count + tex.count("\\sum") + tex.count("\\partial")
