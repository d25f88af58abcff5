"""Renders a chat template in jinja's sandbox: the program of the process that `template.ChatTemplate` starts.

It reads and writes a line of JSON at a time: first the template and the date that it is told, then conversations. It
imports nothing of doxascope, so that it starts quickly.
"""

import json
import re
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

DAYS = frozenset("aAdbBmyYjeuwUWGVDFhCx%")
"""Directives of strftime that tell the day; all others tell the time of day."""


class Generation(Extension):
    """`{% generation %}`, by which templates mark what a model is trained on. Here it marks nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """The block, as what is in it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller: Callable[[], str]) -> str:
        return caller()


def environment(day: datetime) -> ImmutableSandboxedEnvironment:
    """The sandbox with the names that chat templates know; the date is a setting, and nothing is drawn."""

    def strftime_now(form: str) -> str:
        if clocks := sorted(set(re.findall(r"%[-_0^#]*(.)", str(form))) - DAYS):
            raise ValueError(f"it asks for the time of day (%{clocks[0]})")
        return day.strftime(form)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(
        x: Any, ensure_ascii: bool = False, **layout: Any
    ) -> str:  # as transformers has it: jinja's escapes HTML
        return json.dumps(x, ensure_ascii=ensure_ascii, **layout)

    sandbox = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    functions: dict[str, Any] = {"raise_exception": raise_exception, "strftime_now": strftime_now}
    sandbox.globals |= functions
    sandbox.filters["tojson"] = tojson
    del sandbox.globals["lipsum"], sandbox.filters["random"]
    return sandbox


def limit_memory(n_bytes: int) -> None:
    """Of this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


def limit_seconds(seconds: float) -> None:
    """Of a processor, from now on, after which the system ends this process, where it can; 0: no limit."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def main() -> None:
    """Answer line by line: `text`, `refuses` what the template says against a conversation, or `error`."""
    template: Any = None
    print("{}", flush=True)  # imports are done
    for line in sys.stdin:
        asked = json.loads(line)
        limit_seconds(asked.pop("seconds"))
        try:
            if template is None:
                limit_memory(asked["memory"])
                template = environment(datetime.fromisoformat(asked["day"])).from_string(asked["source"])
                answer = {}
            else:
                answer = {"text": template.render(asked)}
        except TemplateError as error:
            answer = {"refuses" if template else "error": str(error) or type(error).__name__}
        except MemoryError:
            answer = {"error": "it takes too much memory for one prompt"}
        except Exception as error:  # a template breaks in any way
            answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
        limit_seconds(0)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
