"""Pages from templates: nothing from a network, everything escaped, and no script but the one of ours it may have."""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup


def render_page(template: str, *, script: str = "", **values: Any) -> str:
    """The text of a page; `template`, and `script` if it has one, name files in `templates/`.

    The page allows the script by its hash: a browser that finds any other text in it runs nothing.
    """
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    code = _source(script) if script else ""
    script_hash = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    allowed = f"; script-src 'sha256-{script_hash}'" if script else ""
    return environment.get_template(template).render(script=Markup(code), script_policy=allowed, **values)


def _source(name: str) -> str:
    return (files("doxascope") / "experiments" / "report" / "templates" / name).read_text("utf-8")
