"""Do the tests bite? Perturb the function of each row of the ledger and see that the row's test fails.

    python -m tools.perturb            # every row
    python -m tools.perturb 7 8b       # these rows

Two kinds of perturbation, one at a time: the function's result off by one part in a thousand (each array of a container
in turn, each count by one), and one sign changed in its source or in that of a private helper that it calls: + and −
exchanged, or a minus before an expression dropped. Ends with status 1 if a test passes all the same.
"""

import __future__

import argparse
import ast
import copy
import inspect
import os
import pkgutil
import sys
import textwrap
import types
from contextlib import ExitStack, contextmanager
from itertools import chain

import pytest
from _pytest.runner import runtestprotocol

from gma_ref import reference
from gma_ref.equations import EQUATIONS

FACTOR = 1 + 1e-3


class Perturbations:
    """A pytest plugin that, in place of the usual run, runs each row's test once for each perturbation."""

    def __init__(self, rows):
        self.rows = rows
        self.caught, self.survived = [], []

    def pytest_runtestloop(self, session):
        """Run the rows; returning True tells pytest that the tests have been run."""
        for row in self.rows:
            items = [item for item in session.items if item.nodeid.partition("[")[0] == row.test]
            function = inspect.unwrap(pkgutil.resolve_name(row.function))
            with ExitStack() as unchanged:
                for one in (function, *helpers(function)):
                    unchanged.enter_context(replaced(one, syntax_tree(one)))
                if not passes(items):
                    raise pytest.UsageError(f"{row.test} must pass before anything is perturbed")
            for what, perturbed in chain(results(function), signs(function)):
                with perturbed:
                    caught = not passes(items)
                (self.caught if caught else self.survived).append((row.label, what))
                print(f"{'caught' if caught else 'NOT CAUGHT':<12}{row.label:<6}{what}", flush=True)
        return True


def passes(items):
    """Run the cases of one test up to the first that fails."""
    return bool(items) and all(
        report.passed for item in items for report in runtestprotocol(item, log=False, nextitem=None)
    )


def results(function):
    """Yield a perturbation of each part of the function's result."""
    count = 1
    part = 0
    while part < count:
        seen = []

        def off(value, part=part, seen=seen):
            names = parts(value)
            seen.append(len(names))
            return with_part_off(value, names[part])

        tree = syntax_tree(function)
        for node in ast.walk(tree):
            if isinstance(node, ast.Return):
                node.value = ast.Call(ast.Name("_off", ast.Load()), [node.value], [])
        yield f"result off by a thousandth, part {part + 1}", replaced(function, tree, _off=off)
        if not seen:
            raise pytest.UsageError(f"{function.__name__} was not called by its test")
        count = max(seen)
        part += 1


def parts(value):
    """Return the names or positions of the arrays or numbers in a result."""
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, tuple):
        return list(range(len(value)))
    return list(getattr(value, "AXES", [None]))


def with_part_off(value, part):
    """Return a result with one part off: a count by one, an array by a thousandth."""
    if isinstance(value, dict):
        return value | {part: value[part] + 1}
    if isinstance(value, tuple):
        changed = [entry * FACTOR if i == part else entry for i, entry in enumerate(value)]
        return type(value)._make(changed) if hasattr(value, "_make") else tuple(changed)
    if part is None:
        return value * FACTOR
    changed = copy.copy(value)
    object.__setattr__(changed, part, getattr(value, part) * FACTOR)  # a frozen dataclass, past its checks
    return changed


def signs(function):
    """Yield a change of each sign in the function and in the private helpers that it calls."""
    for one in (function, *helpers(function)):
        lines, start = inspect.getsourcelines(one)
        for i in range(len(sign_nodes(syntax_tree(one)))):
            tree = syntax_tree(one)
            node = sign_nodes(tree)[i]
            before = lines[node.lineno - 1].strip()
            flip(node)
            where = f"{one.__module__.removeprefix('gma_ref.')}:{start + node.lineno - 1}"
            yield f"sign {i + 1} of {one.__name__} ({where}): {before}", replaced(one, tree)


def sign_nodes(tree):
    """Return the nodes of a function's body that are a binary + or −, or a unary −."""

    def is_sign(node):
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.USub)
        return isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub)

    return [node for statement in tree.body[0].body for node in ast.walk(statement) if is_sign(node)]


def flip(node):
    """Exchange + and − in a node; a unary − becomes a unary +."""
    opposite = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.USub: ast.UAdd}
    node.op = opposite[type(node.op)]()


def helpers(function):
    """Return the functions of the reference that this one calls and that are neither public, nor a row, nor a check."""
    rows = {inspect.unwrap(pkgutil.resolve_name(row.function)) for row in EQUATIONS}
    public = {inspect.unwrap(getattr(reference, name)) for name in reference.__all__}
    called = {node.func.id for node in ast.walk(syntax_tree(function)) if is_call_of_name(node)}
    found = {inspect.unwrap(function.__globals__.get(name)) for name in called} - rows - public
    return sorted(filter(is_equation, found), key=lambda one: one.__name__)


def is_call_of_name(node):
    """Tell whether a node is ``name(...)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def is_equation(function):
    """Tell whether a function of the reference computes something: refusals have tests of their own."""
    inside = isinstance(function, types.FunctionType) and function.__module__.startswith("gma_ref.reference.")
    return inside and not function.__module__.endswith(".checks") and not function.__name__.startswith("check_")


def syntax_tree(function):
    """Return the source of a function as a tree, without its decorators."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree.body[0].decorator_list.clear()
    return tree


@contextmanager
def replaced(function, tree, **names):
    """Let the function run the code of another tree, for everyone who has imported it."""
    module = compile(
        ast.fix_missing_locations(tree), function.__code__.co_filename, "exec", __future__.annotations.compiler_flag
    )
    code = next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
    original = function.__code__
    function.__globals__.update(names)
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = original
        for name in names:
            del function.__globals__[name]


def main():
    """Perturb the rows with the given labels, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("labels", nargs="*", help="labels of the ledger; all if none is given")
    labels = parser.parse_args().labels
    rows = [row for row in EQUATIONS if not labels or row.label in labels]
    if unknown := set(labels) - {row.label for row in rows}:
        parser.error(f"not in the ledger: {', '.join(sorted(unknown))}")
    os.environ["GMA_REF_SHAPE_CHECKS"] = "0"  # their wrappers would hide the functions
    plugin = Perturbations(rows)
    options = ["-qq", "--capture=no", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *sorted({row.test for row in rows})], plugins=[plugin])
    total = len(plugin.caught) + len(plugin.survived)
    print(f"{len(rows)} rows, {total} perturbations, {len(plugin.survived)} not caught")
    sys.exit(1 if plugin.survived or not total or status not in (0, pytest.ExitCode.NO_TESTS_COLLECTED) else 0)


if __name__ == "__main__":
    main()
