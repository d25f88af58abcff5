"""A model's chat template, rendered as transformers renders it, but the same on every day and within bounds.

Templates come with checkpoints and are programs. In the sandbox of jinja they cannot reach the machine; but they can
ask for the date, draw at random, loop for hours and ask for strings of gigabytes. Here the date is a setting, nothing
is drawn, and a prompt that takes too long or grows too large is refused.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from datetime import time as clock
from functools import wraps
from typing import Any

from jinja2 import Environment, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..errors import UserError, in_one_line

SECONDS = 3.0
"""That one prompt may take; real templates take a few thousandths."""
LONGEST = 4 * 10**6
"""Characters of a text, and the largest number that something may be repeated or padded to."""
PRODUCT = 10**8
"""Of the sizes of what an operation is given: `replace` and `join` multiply them."""
MADE = 5 * 10**7
"""Characters that are made on the way to one prompt."""
SOURCE = 10**6
"""Characters of a template."""
DIGITS = 10**5
"""Bits of a number."""
DAYS = frozenset("aAdbBmyYjeuwUWGVDFhCx%")
"""Directives of strftime that tell the day; all others tell the time of day."""
CHANCE = ("random", "pprint", "urlize", "wordwrap")
"""Filters that draw, show addresses of memory, or take time that grows with the square."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+>")
WIDE = re.compile(r"\d{7}")


class ChatTemplate:
    """One template.

    Args:
        source: in jinja.
        day: what it is told when it asks for the date.

    Raises UserError if it cannot be compiled, or draws at random.
    """

    def __init__(self, source: str, day: date) -> None:
        self._environment = _Environment(day)
        with in_one_line(CANNOT, INSTEAD):
            if len(source) > SOURCE:
                raise ValueError(f"it has {len(source):,} characters, more than {SOURCE:,}")
            self._template = self._environment.from_string(_watched(self._environment.parse(source), self._environment))

    def render(self, messages: Sequence[Mapping[str, str]], **variables: Any) -> str:
        """The text that asks for the next assistant turn. Raises UserError if the template refuses the conversation, or
        goes beyond the bounds."""
        self._environment.begin()
        told = [dict(message) for message in messages]
        with in_one_line(CANNOT, INSTEAD):
            try:
                text = self._template.render(
                    messages=told, tools=None, documents=None, add_generation_prompt=True, **variables
                )
            except _Bound:
                raise
            except TemplateError as error:
                raise UserError(f"the model's chat template refuses the conversation: {error}") from error
            if len(ADDRESS.findall(text)) > sum(len(ADDRESS.findall(message["content"])) for message in messages):
                raise ValueError("it writes an address of memory, which differs from run to run")
        return text


CANNOT, INSTEAD = "the model's chat template cannot be used", "choose `template: plain` or `template: none`"


class _Bound(TemplateError):
    """A template goes beyond the bounds."""


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with the names that chat templates know, and bounds."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, day: date) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[_Generation, loopcontrols])
        self._day = datetime.combine(day, clock())
        self.globals |= {"raise_exception": _raise, "strftime_now": self._strftime}
        self.globals.pop("lipsum")
        self.filters["tojson"] = _tojson
        for name in CHANCE:
            self.filters.pop(name)
        self.filters = {name: self._bounded(one) for name, one in self.filters.items()}
        self.filters |= {"_counted": self._count, "_joined": lambda parts: self.concat(map(str, parts))}
        self.concat = self._concat
        self.begin()

    def begin(self) -> None:
        """Begin to count anew."""
        self._until = time.monotonic() + SECONDS
        self._left = MADE

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """An operator that can make much of little."""
        if operator == "**" or (operator == "*" and isinstance(left, int) and isinstance(right, int)):
            bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
            if isinstance(bits, int) and bits > DIGITS:
                raise _Bound(f"it makes a number of {bits:,} bits")
        elif operator != "+":
            self._check([left, right], formats=operator == "%" and isinstance(left, str))
        return self._spend(super().call_binop(context, operator, left, right))

    def call(self, context: Any, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A function or a method."""
        if isinstance(called, LoopContext):
            args = (self._count(args[0]), *args[1:])
        own = getattr(getattr(called, "__wrapped__", called), "__self__", None)
        given = [own, *args] if isinstance(own, str) else [*args]
        self._check([*given, *kwargs.values()], formats="format" in getattr(called, "__name__", ""))
        return self._spend(super().call(context, called, *args, **kwargs))

    def _bounded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            self._check([*args, *kwargs.values()], formats=function.__name__ == "do_format")
            return self._spend(function(*args, **kwargs))

        return bounded

    def _check(self, given: Sequence[Any], *, formats: bool) -> None:
        """Before something is done with these."""
        sizes = sorted(map(_size, given))
        largest = sizes[-1] if sizes else 0
        if formats and any(isinstance(one, str) and WIDE.search(one) for one in given):
            raise _Bound("it pads a text to a million characters or more")
        if largest > LONGEST or (len(sizes) > 1 and largest * sizes[-2] > PRODUCT):
            raise _Bound(f"it asks for more than {LONGEST:,} characters or repetitions")

    def _spend(self, made: Any) -> Any:
        """After something was made, which is given back."""
        self._left -= len(made) if isinstance(made, str | list | tuple | dict) else 0
        if self._left < 0:
            raise _Bound(f"it makes more than {MADE:,} characters for one prompt")
        if time.monotonic() > self._until:
            raise _Bound(f"it takes longer than {SECONDS:g} s for one prompt")
        return made

    def _concat(self, parts: Iterable[str]) -> str:
        parts = list(parts)
        if (n := sum(map(len, parts))) > LONGEST:
            raise _Bound(f"it writes {n:,} characters, more than {LONGEST:,}")
        return self._spend("".join(parts))

    def _count(self, values: Any) -> "_Counted":
        return _Counted(values, self._spend)

    def _strftime(self, told: str) -> str:
        """The date, in a format that asks for no more."""
        if clocks := sorted(set(re.findall(r"%[-_0^#]*(.)", str(told))) - DAYS):
            raise _Bound(f"it asks for the time of day (%{clocks[0]})")
        return self._day.strftime(told)


class _Counted:
    """What a loop runs over; every turn is watched."""

    def __init__(self, values: Any, spend: Callable[[Any], Any]) -> None:
        self._values, self._spend = values, spend

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return map(self._spend_none, self._values)

    def _spend_none(self, value: Any) -> Any:
        self._spend(None)
        return value


class _Generation(Extension):
    """`{% generation %}`, by which templates mark what a model is trained on. Here it marks nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller: Callable[[], str]) -> str:
        return caller()


def _watched(tree: nodes.Template, environment: Environment) -> nodes.Template:
    """The template with its loops counted, and what it joins by `~` measured first."""
    for loop in list(tree.find_all(nodes.For)):
        loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
    for node in [tree, *tree.find_all(nodes.Node)]:
        for name, value in list(node.iter_fields()):
            if isinstance(value, nodes.Concat):
                setattr(node, name, _joined(value))
            elif isinstance(value, list):
                setattr(node, name, [_joined(one) if isinstance(one, nodes.Concat) else one for one in value])
    tree.set_environment(environment)
    return tree


def _joined(node: nodes.Concat) -> nodes.Filter:
    return nodes.Filter(nodes.List(node.nodes, lineno=node.lineno), "_joined", [], [], None, None, lineno=node.lineno)


def _size(value: Any) -> int:
    """How large a value is, or how often it may repeat another."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return len(value) + sum(_size(one) for one in value if isinstance(one, str | int))
    return 0


def _raise(message: str) -> None:
    raise TemplateError(message)


def _tojson(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """As transformers has it: jinja's own escapes HTML."""
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
