"""Pages of blocks: nothing from a network, everything escaped, and no script but the one of ours it may have."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from .blocks import Block, Instances


def render_page(heading: str, of: str, blocks: Sequence[Block]) -> str:
    """The text of a page.

    Only a page with instances has a script, which filters them. The page allows it by its hash: a browser that finds
    any other text in it runs nothing.
    """
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    code = _source("filter.js") if any(isinstance(block, Instances) for block in blocks) else ""
    script_hash = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        heading=heading,
        of=of,
        blocks=blocks,
        script=Markup(code),
        script_policy=f"; script-src 'sha256-{script_hash}'" if code else "",
    )


def _source(name: str) -> str:
    return (files("doxascope") / "experiments" / "report" / "templates" / name).read_text("utf-8")
