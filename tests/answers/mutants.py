"""Mutants: the reference solution of a lab with one thing in it changed, as a slip of
the hand would change it."""

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

BINARY = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult],
    ast.MatMult: [ast.Mult],
    ast.Pow: [ast.Mult],
    ast.FloorDiv: [ast.Div],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
}
COMPARE = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
WORDS = {
    "softmax": ["log_softmax", "sigmoid"],
    "tanh": ["sigmoid", "relu"],
    "sigmoid": ["tanh", "relu"],
    "relu": ["tanh", "sigmoid"],
    "sum": ["mean"],
    "mean": ["sum"],
    "max": ["min"],
    "min": ["max"],
    "amax": ["amin"],
    "sqrt": ["square", "exp"],
    "square": ["abs"],
    "exp": ["tanh"],
    "sin": ["cos"],
    "cos": ["sin"],
    "cat": ["stack"],
    "stack": ["cat"],
    "tril": ["triu"],
    "triu": ["tril"],
    "zeros_like": ["ones_like"],
    "zeros": ["ones"],
    "ones": ["zeros"],
}


class Mutant(NamedTuple):
    """A changed program, and the change in words."""

    change: str
    source: str


def mutants(cell: str) -> Iterator[Mutant]:
    """Make all mutants of the code between the solution marks of a cell."""
    tree = ast.parse(cell)
    lines = cell.splitlines()
    first = [
        number for number, line in enumerate(lines, 1) if "### BEGIN SOLUTION" in line
    ]
    last = [
        number for number, line in enumerate(lines, 1) if "### END SOLUTION" in line
    ]
    solved = {
        number for a, b in zip(first, last, strict=True) for number in range(a, b)
    }
    seen = {ast.unparse(tree)}
    for index, node in enumerate(ast.walk(tree)):
        if getattr(node, "lineno", None) not in solved:
            continue
        for new in _replacements(node, _names(tree, node, solved)):
            changed = copy.deepcopy(tree)
            source = ast.unparse(
                ast.fix_missing_locations(
                    _Replace(_nth(changed, index), new).visit(changed)
                )
            )
            if source not in seen:
                seen.add(source)
                yield Mutant(
                    f"line {node.lineno}: {_show(node)} -> {_show(new)}", source
                )


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _nth(tree: ast.AST, index: int) -> ast.AST:
    return next(node for number, node in enumerate(ast.walk(tree)) if number == index)


def _show(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _names(tree: ast.AST, node: ast.AST, solved: set[int]) -> list[str]:
    """Names that could stand for another by mistake: the arguments and variables of the
    function around a node."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(
            child is node for child in ast.walk(function)
        ):
            stored = [
                x.id
                for x in ast.walk(function)
                if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
            ]
            arguments = [a.arg for a in function.args.args if a.arg != "self"]
            return list(dict.fromkeys(arguments + stored))
    return []


def _replacements(node: ast.AST, names: list[str]) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp():
            for operator in BINARY.get(type(node.op), []):
                yield ast.BinOp(node.left, operator(), node.right)
            yield ast.BinOp(node.right, node.op, node.left)
            yield from (node.left, node.right)
        case ast.UnaryOp():
            yield node.operand
        case ast.Compare(ops=[operator]):
            for other in COMPARE.get(type(operator), []):
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp():
            yield from node.values
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.IfExp():
            yield from (
                node.body,
                node.orelse,
                ast.IfExp(node.test, node.orelse, node.body),
            )
        case ast.If():
            yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
            yield ast.If(ast.Constant(False), node.body, node.orelse)
            yield ast.If(ast.Constant(True), node.body, node.orelse)
        case ast.Call():
            yield from _calls(node)
        case ast.Attribute(ctx=ast.Load()):
            for word in WORDS.get(node.attr, []):
                yield ast.Attribute(node.value, word, node.ctx)
            if node.attr in ("mT", "T"):
                yield node.value
        case ast.Name(ctx=ast.Load()) if node.id in names:
            for name in names:
                yield ast.Name(name, node.ctx)
        case ast.Subscript(ctx=ast.Load()):
            yield node.value
        case ast.Tuple(ctx=ast.Load(), elts=[first, second, *rest]) if isinstance(
            first, ast.expr
        ):
            yield ast.Tuple([second, first, *rest], node.ctx)
        case ast.Return():
            yield ast.Return(ast.Constant(None))
        case ast.Assign() | ast.AugAssign() | ast.Expr():
            yield ast.Pass()
        case _:
            return


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Attribute) and not isinstance(
        node.func.value, ast.Name | ast.Attribute
    ):
        yield node.func.value  # a method left out of a chain
    yield from node.args[:1]
    if len(node.args) == 2:
        yield ast.Call(node.func, node.args[::-1], node.keywords)
    for number in range(len(node.args)):
        yield ast.Call(
            node.func,
            [arg for other, arg in enumerate(node.args) if other != number],
            node.keywords,
        )
    for number in range(len(node.keywords)):
        yield ast.Call(
            node.func,
            node.args,
            [word for other, word in enumerate(node.keywords) if other != number],
        )
