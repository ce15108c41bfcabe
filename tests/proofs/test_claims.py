"""Every claim is decided, and no step survives a corruption."""

import re
from dataclasses import replace

import pytest
from IPython.display import Markdown, Math
from sympy import Add, Indexed, IndexedBase, Mul, S, Sum, Symbol, sympify

from gma_ref.proofs import ProofError, claim, claims
from gma_ref.proofs.claim import ALGEBRA, ANY, FIXED
from gma_ref.proofs.latex import latex
from gma_ref.proofs.steps import Bounded, Equal, Positive
from gma_ref.proofs.symbols import RANGE, N, N_k, array, j, r, unfold

every_claim = pytest.mark.parametrize("one", claims(), ids=lambda one: one.label)


@every_claim
def test_every_step_is_decided(one):
    assert one.check() is one


# Steps that stay true when a sign inside is changed, and why
STILL_TRUE = {
    ("2", "mass"): "the density about −μ has mass 1 as well",
    ("B1", "covariance"): "it is enough that one of the two factors is centred",
    ("B8", "one token"): "only even moments of the mean enter",
    ("G4", "chain rule"): "the term with the prior drops out, whatever its sign",
    ("G6", "values"): "the normaliser does not depend on the values",
}


def with_one_sign_changed(expression):
    """Yield the expression with the sign of one term of one of its sums changed."""
    expression = sympify(expression)
    if isinstance(expression, Add):
        first, *rest = expression.args
        yield Add(-first, *rest)
    for place, part in enumerate(expression.args):
        if getattr(part, "is_commutative", False):
            for corrupted in with_one_sign_changed(part):
                yield expression.func(*expression.args[:place], corrupted, *expression.args[place + 1 :])


def with_one_index_moved(expression, other):
    """Yield the expression with one of the free indices that it shares with the other side shifted by one."""
    for index in sorted(sympify(expression).free_symbols & sympify(other).free_symbols & RANGE.keys(), key=str):
        yield expression.subs(index, index + 1)


def with_something_more(expression):
    """Yield the expression without its first factor, and with other weights in its outermost sums."""
    if isinstance(expression, Mul):
        yield Mul(*expression.args[1:])
    sums = [expression] if isinstance(expression, Sum) else sorted(expression.atoms(Sum), key=str)
    for one in sums:
        body, *limits = one.args
        yield expression.xreplace({one: Sum(array("weights")[limits[0][0]] * body, *limits)})


def ends(found):
    """Return the first and the last of what was found."""
    return found[:1] + found[1:][-1:]


def corruptions(step):
    """Yield what is wrong, and the step with that wrong in it."""
    if isinstance(step, Positive):
        yield "sign", replace(step, left=-step.left)
        yield "shift", replace(step, left=step.left - 10**9)
        return
    right = sympify(step.right)
    if right != 0:
        yield "sign of the right side", replace(step, right=-right)
        yield "factor", replace(step, right=2 * right)
    elif not list(with_one_sign_changed(step.left)):
        for corrupted in ends(list(with_something_more(step.left))):
            yield f"left side: {corrupted}", replace(step, left=corrupted)
    yield "constant", replace(step, right=right + 1)
    for side in ("left", "right"):
        for corrupted in ends(list(with_one_sign_changed(getattr(step, side)))):
            yield f"sign in the {side} side: {corrupted}", replace(step, **{side: corrupted})
    if isinstance(step, Bounded):
        yield "sides", replace(step, left=step.right, right=step.left)
        yield "both", replace(step, left=step.right, right=step.left, certificate=-step.certificate)
        yield "certificate", replace(step, certificate=2 * step.certificate)
        return
    for side, other in (("left", "right"), ("right", "left")):
        for corrupted in with_one_index_moved(getattr(step, side), getattr(step, other)):
            yield f"index in the {side} side: {corrupted}", replace(step, **{side: corrupted})


@pytest.mark.slow
@every_claim
def test_no_step_survives_a_corruption(one):
    for step in one.steps:
        found = list(corruptions(step))
        assert len(found) >= 2
        for what, corrupted in found:
            if corrupted == step or ("sign in" in what and (one.label, step.name) in STILL_TRUE):
                continue
            wrong = replace(one, build=lambda corrupted=corrupted: [corrupted])
            try:
                wrong.check()
            except ProofError as error:
                assert (error.label, error.step) == (one.label, step.name)  # noqa: PT017
                assert error.residual != 0  # noqa: PT017
            else:
                pytest.fail(f"({one.label}) {step.name}: the {what} was not noticed")


def test_failure_names_claim_step_and_what_is_left():
    one = claim("17")
    wrong = replace(one, build=lambda: (replace(one.statement, right=2 * one.statement.right),))
    with pytest.raises(ProofError, match=r"^\(17\), step 'Jacobian' is not proved; what is left: .*e\(s\["):
        wrong.check()


@every_claim
def test_formulas_and_words_are_there_for_the_page(one):
    assert one.title
    assert one.steps
    names = [step.name for step in one.steps]
    assert len(set(names)) == len(names)
    for step in one.steps:
        assert step.why
        assert re.search(r"[=>≥]|\\ge", step.latex())
        shown = sympify(step.left).atoms(Symbol) | sympify(getattr(step, "right", 0)).atoms(Symbol)
        assert not {j, r} <= shown, "a token and a component would both be printed as j"
        assert not re.search(r"\^\{[^{}]*\}_\{[^{}]*\}\^", step.latex()), "two exponents in a row"
        assert step._repr_latex_() == f"$\\displaystyle {step.latex()}$"
    assert one._repr_latex_() == one.statement._repr_latex_()
    for definition in one.definitions:
        assert definition.latex()


@every_claim
def test_no_index_is_both_free_and_summed(one):
    for step in one.steps:
        for side in map(sympify, (step.left, getattr(step, "right", 0))):
            summed = {limits[0] for part in side.atoms(Sum) for limits in part.limits}
            assert not side.free_symbols & summed, step.name


@every_claim
def test_reach_is_said(one):
    assert one.scope in (ANY, ALGEBRA, FIXED)
    assert bool(one.sizes) == (one.scope == FIXED)


LESS_THAN_THE_ROW = {"2", "B5", "B6", "B8", "G7", "G7b", "G7c", "G7d", "L4b"}


@every_claim
def test_reach_says_which_part_of_its_row_is_proved(one):
    assert bool(one.part) == (one.label in LESS_THAN_THE_ROW)
    assert one.reach().endswith(one.part)
    assert one.reach().startswith("algebra proved for any size" if one.scope == ALGEBRA else "proved for ")


def test_reach_of_the_trace_trap_tells_diagonal_from_full():
    assert claim("G7").reach() == "proved for any size: diagonal covariance, fixed weights"
    assert claim("G7c").reach() == "proved for d_r = 2 and any number of tokens: full covariance, fixed weights"
    assert claim("G7d").reach() == "algebra proved for any size: full covariance, fixed weights"


@every_claim
def test_every_sign_that_the_algebra_uses_is_printed(one):
    decided = [unfold(side, one.definitions) for side in sides(one)]
    labels = {base.label for side in decided for base in side.atoms(IndexedBase)}
    indices = {index for side in decided for index in side.free_symbols if index.is_integer}
    signed = {base.label: base for side in decided for base in side.atoms(IndexedBase)}
    signed |= {scalar: scalar for side in decided for scalar in side.free_symbols - labels - indices}
    for name, number in signed.items():
        if number.is_nonnegative and isinstance(name, Symbol):
            sign = ">" if number.is_positive else r"\ge"
            assert any(printed.endswith(f"{sign} 0") and latex(name) in printed for printed in one.signs()), name


def test_signs_are_displayed(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    claim("10").show()
    assert shown[0].data.endswith(r"Signs: $\epsilon \ge 0$, $\gamma^{K} > 0$, $\gamma^{Q} > 0$.")
    assert claim("16").signs() == [r"\pi > 0", r"\sigma^{2} > 0"]


def sides(one):
    """Return the sides of every step and what they are compared by."""
    return [sympify(getattr(step, name, 0)) for step in one.steps for name in ("left", "right", "certificate")]


@every_claim
def test_an_index_stands_for_one_kind_of_thing(one):
    kinds = {}
    for side in [*sides(one), *(definition.body for definition in one.definitions)]:
        limits = [limit for part in side.atoms(Sum) for limit in part.limits]
        kind = {index: RANGE.get(upper, upper) for index, _, upper in limits} | RANGE
        for part in side.atoms(Indexed):
            for axis, index in enumerate(part.indices):
                size = kind.get(index)
                if size is not None:
                    kinds.setdefault((part.base.label.name, axis), set()).add("tokens" if size in (N, N_k) else size)
        for index, _, upper in limits:
            if index in RANGE and upper in RANGE:
                assert {RANGE[index], RANGE[upper]} in ({N}, {N, N_k}, {N_k})
    assert all(len(sizes) == 1 for sizes in kinds.values()), kinds


@every_claim
def test_no_two_indices_of_a_formula_are_printed_alike(one):
    for step in one.steps:
        for side in (sympify(step.left), sympify(getattr(step, "right", 0))):
            alike(side.free_symbols - {base.label for base in side.atoms(IndexedBase)}, side)
    for definition in one.definitions:
        alike(set(definition.entry.indices), definition.body)


def alike(free, expression):
    """Fail if a summed index has the name of a free one."""
    summed = {limits[0] for part in expression.atoms(Sum) for limits in part.limits}
    printed = {index.name for index in free if isinstance(index, Symbol) and index.is_integer}
    assert not printed & {index.name for index in summed}, expression


def test_keys_are_counted_apart_where_queries_meet_them():
    for label in ("6", "7", "9", "10", "G6", "G6b", "B2b", "S1", "B11"):
        names = {size for side in sides(claim(label)) for size in unfold(side, claim(label).definitions).free_symbols}
        names |= {size for one in claim(label).definitions for size in one.body.free_symbols}
        assert N_k in names, label


def test_unknown_label_has_no_claim():
    with pytest.raises(KeyError):
        claim("no such label")


def test_statement_is_the_last_step():
    assert claim("18").statement.name == "gradient"
    assert isinstance(claim("18").statement, Equal)
    assert claim("18").step("sums to zero").right == S.Zero


def test_proof_is_displayed_step_by_step(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    one = claim("17")
    one.show()
    words = [part.data for part in shown if isinstance(part, Markdown)]
    formulas = [part.data for part in shown if isinstance(part, Math)]
    assert formulas == [part.latex() for part in (*one.definitions, *one.steps)]
    assert words[0].startswith("**The Jacobian of the softmax** (proved for any size).")
    assert all(step.name in word for step, word in zip(one.steps, words[-len(one.steps) :], strict=True))
