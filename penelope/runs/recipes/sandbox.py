"""The language of the templates: Jinja's sandbox, narrowed until it reaches values and nothing else.

`a.b` and `a["b"]` are a field of an object, never an attribute of Python's: there is no way from a value to its class,
its methods or its module, so none has to be guarded. Nothing but `range` can be called. Loops, lists and texts are paid
for (see `budget`). Statements are `if`, `for` and `set`.
"""

from typing import Any, Final

from jinja2 import StrictUndefined, Undefined, UndefinedError, meta, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from penelope.runs.recipes.budget import MAX_ITEMS, TooMuch, spend
from penelope.runs.recipes.filters import FILTERS, TESTS
from penelope.runs.recipes.values import kind, small, text

CALLABLE: Final = frozenset({"range"})
_OF_LOOP: Final = frozenset(
    "index index0 first last length revindex revindex0 previtem nextitem depth".split()
)
_STATEMENTS: Final = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign)
_EXPRESSIONS: Final = (
    nodes.BinExpr,
    nodes.UnaryExpr,
    nodes.Name,
    nodes.Literal,
    nodes.CondExpr,
    nodes.Filter,
    nodes.Test,
    nodes.Call,
    nodes.Getitem,
    nodes.Getattr,
    nodes.Slice,
    nodes.Concat,
    nodes.Compare,
    nodes.Operand,
    nodes.Pair,
    nodes.Keyword,
)


def _range(*bounds: int) -> range:
    """Numbers, at most as many as a list may have items."""
    numbers = range(*bounds)
    # Not len(): it cannot count further than a machine's word.
    if numbers and (numbers[-1] - numbers[0]) // numbers.step >= MAX_ITEMS:
        raise TooMuch(f"range makes more than {MAX_ITEMS} numbers")
    return numbers


class Missing(StrictUndefined):
    """A value that is not there; whoever uses it, but for `default` and `is defined`, fails with what is there."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        of, name = self._undefined_obj, self._undefined_name
        if self._undefined_hint or of is missing:
            return self._undefined_hint or f"nothing is called {name}"
        match of:
            case dict():
                there = ", ".join(map(str, list(of)[:10])) or "none"
                return f"there is no field {name!r:.60}; there are: {there:.200}"
            case list() | tuple():
                return f"there is no item {name!r:.60} in a list of {len(of)}"
        return f"there is no field {name!r:.60} of {kind(of)}"


class Sandbox(ImmutableSandboxedEnvironment):
    """Compiles and runs templates. One for all: it holds nothing of theirs."""

    intercepted_binops = frozenset({"+", "-", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=Missing, autoescape=False, keep_trailing_newline=True, finalize=text)
        self.filters = dict(FILTERS)
        self.tests = dict(TESTS)
        self.globals = {"range": _range}
        self.policies = {**self.policies, "truncate.leeway": 0}

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        match obj:
            case Undefined():
                raise UndefinedError(obj._undefined_message)
            case dict() if isinstance(argument, str) and argument in obj:
                return obj[argument]
            case list() | tuple() | str() | range() if isinstance(argument, int):
                try:
                    return obj[argument]
                except IndexError:
                    pass
            case LoopContext() if argument in _OF_LOOP:
                return getattr(obj, argument)
        return self.undefined(obj=obj, name=argument)

    def is_safe_callable(self, obj: Any) -> bool:
        return obj is _range

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator, left, right:
            case "*", str(), int():
                spend(len(left) * max(0, right))
            case "*", _, str() | list() | tuple():
                raise TypeError("a text is multiplied by a number on its right, and a list is not at all")
            case "*", list() | tuple(), _:
                raise TypeError("a list cannot be multiplied")
            case "+", str() | list() | tuple(), str() | list() | tuple():
                spend(len(left) + len(right))
            case "**", _, _ if not (_is_number(left) and _is_number(right) and abs(right) <= 128):
                raise TypeError("only a number can be raised, and at most to 128")
            case "%", str(), _:
                raise TypeError('% divides numbers; for texts there is "…" | format(…)')
        result = self.binop_table[operator](left, right)
        return small(result) if isinstance(result, int) else result


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and (isinstance(value, float) or abs(value) < 2**64)


class _Paying(NodeTransformer):
    """Sends what a template does without a filter or an operator through one, so that it is paid for."""

    # The names are the library's: it finds them by the class of the node.
    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        assert isinstance(node.iter, nodes.Expr)
        node.iter = _filter(node.iter, "counted")
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        parts = nodes.List([self.visit(part) for part in node.nodes], lineno=node.lineno)
        return _filter(parts, "join")

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        if not isinstance(node.arg, nodes.Slice):
            return self.generic_visit(node)
        bounds = [part or nodes.Const(None) for part in (node.arg.start, node.arg.stop, node.arg.step)]
        return self.generic_visit(_filter(node.node, "cut", *bounds))


def _filter(value: nodes.Expr, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), [], None, None, lineno=value.lineno)


def parsed(sandbox: Sandbox, source: str) -> nodes.Template:
    """A template's tree, of what the language has.

    Raises:
        TemplateSyntaxError: it is none, or has something else in it.
    """
    return _checked(sandbox.parse(source))


def parsed_expression(sandbox: Sandbox, source: str) -> nodes.Template:
    """The tree of what stands between `{{` and `}}`, or is written without them.

    Raises:
        TemplateSyntaxError: as `parsed`.
    """
    braced = source.strip()
    if not braced.startswith(("{{", "{%", "{#")):
        braced = "{{ " + braced + " }}"
    tree = parsed(sandbox, braced)
    if expression(tree) is None:
        raise TemplateSyntaxError("is not one expression", 1)
    return tree


def expression(tree: nodes.Template) -> nodes.Expr | None:
    """The one expression that a template consists of; None: it makes a text."""
    match tree.body:
        case [nodes.Output(nodes=[nodes.Expr() as only])] if not isinstance(only, nodes.TemplateData):
            return only
    return None


def names(tree: nodes.Template) -> set[str]:
    """The names that a template takes from outside."""
    return set(meta.find_undeclared_variables(tree))


def finished(sandbox: Sandbox, tree: nodes.Template) -> nodes.Template:
    """The tree as it is compiled: what it does is paid for, and a single expression is assigned to `result`, so that
    its value is had as it is, not as a text."""
    only = expression(tree)
    if only is not None:
        tree = nodes.Template([nodes.Assign(nodes.Name("result", "store"), only, lineno=1)], lineno=1)
    paying: nodes.Template = _Paying().visit(tree)
    paying.set_environment(sandbox)
    return paying


def _checked(tree: nodes.Template) -> nodes.Template:
    for node in (tree, *tree.find_all(nodes.Node)):
        if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)):
            word = type(node).__name__
            raise TemplateSyntaxError(f"{word} is not taken: there are if, for and set", node.lineno or 1)
        match node:
            case nodes.Call(node=called) if not (isinstance(called, nodes.Name) and called.name in CALLABLE):
                raise TemplateSyntaxError(
                    "nothing but range can be called; values have filters, not methods", node.lineno
                )
            case nodes.Name() if node.name.startswith("_") or node.name == "self":
                raise TemplateSyntaxError(f"nothing is called {node.name}", node.lineno)
            case nodes.Assign(target=target) if not isinstance(target, nodes.Name):
                raise TemplateSyntaxError("set takes one name", node.lineno)
            case nodes.For(recursive=True):
                raise TemplateSyntaxError("a loop cannot be recursive", node.lineno)
    return tree
