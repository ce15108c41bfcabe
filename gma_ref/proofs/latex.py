"""Formulas of a proof as LaTeX that MathJax 2 and 3 both know."""
# ruff: noqa: N802  SymPy looks for methods of these names

from sympy import Add, Indexed, MatrixSymbol, Mul
from sympy.printing.latex import LatexPrinter

LONG = 34  # letters and signs: about as many as fit on a phone; a longer equation takes several lines
OPEN, CLOSE = r"\Bigl[", r"\Bigr]"  # of a fixed size, so that a line may end between them


class Printer(LatexPrinter):
    """SymPy's printer with the book's ways of writing."""

    def _as_ordered_terms(self, expr, order=None):
        """Begin a sum with a term that has no minus."""
        return terms(expr)

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

    def _print_Pow(self, expr):
        """Let what has indices print its own exponent: SymPy would write two exponents in a row."""
        if isinstance(expr.base, Indexed) and expr.exp.is_Integer and expr.exp > 0:
            return self._print_Indexed(expr.base, exp=self._print(expr.exp))
        return super()._print_Pow(expr)

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
            inner = f"{OPEN} {inner} {CLOSE}"
        return rf"\frac{{\partial}}{{\partial {self._print(variable)}}} {inner}"


def terms(expr):
    """Return the terms of a sum, those with a minus last."""
    return sorted(expr.as_ordered_terms(), key=lambda term: term.could_extract_minus_sign())


def latex(expression):
    """Return an expression as LaTeX; what is LaTeX already stays as it is."""
    if isinstance(expression, str):
        return expression
    return Printer({"fold_short_frac": False, "ln_notation": False, "order": "none"}).doprint(expression)


def relation(left, sign, right, end=""):
    """Return ``left sign right end``, on several lines where it is long."""
    one, other = latex(left), latex(right)
    if shown(one) + shown(other) <= LONG:
        return f"{one} {sign} {other}{end}"
    first, *rest = lines(left)
    then, *more = lines(right)
    below = [*rest, f"{sign} {then}", *(rf"\quad {line}" for line in more)]
    return r"\begin{aligned} & " + r" \\ & \quad ".join([first, *below]) + rf"{end} \end{{aligned}}"


def lines(expression):
    """Return an expression as lines of LaTeX: one, or for a long sum or its derivative one for each term."""
    whole = latex(expression)
    if shown(whole) <= LONG:
        return [whole]
    if isinstance(expression, Add):
        first, *rest = map(latex, terms(expression))
        return [first, *(term if term.startswith("-") else f"+ {term}" for term in rest)]
    if type(expression).__name__ == "Partial" and isinstance(expression.args[0], Add):
        head, *_ = whole.partition(OPEN)
        first, *rest = lines(expression.args[0])
        return [f"{head} {OPEN} {first}", *rest[:-1], f"{rest[-1]} {CLOSE}"] if rest else [whole]
    return [whole]


def shown(tex):
    """Return about how many signs of a formula take room on its line."""
    count = 0
    skip = False
    for letter in tex:
        skip = letter == "\\" or (skip and letter.isalpha())
        count += not skip and letter not in "{}^_ "
    return count + tex.count("\\sum") + tex.count("\\partial")
