"""Pages from templates: no scripts, nothing from a network, everything escaped."""

from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def render_page(template: str, **values: Any) -> str:
    """The text of a page; `template` names a file in `templates/`."""
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def _source(name: str) -> str:
    return (files("doxascope") / "experiments" / "templates" / name).read_text("utf-8")
