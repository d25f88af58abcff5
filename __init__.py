"""doxascope: measure whether open language models hold coherent beliefs, from the inside.

>>> from doxascope import load
>>> with load("smollm2-135m") as lm:                                              # doctest: +SKIP
...     beliefs, _ = lm.beliefs("Is the sky green?", options=["Yes", "No"])
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .hooks.errors import UserError
    from .hooks.lm import LanguageModel, load
    from .hooks.store import ActivationStore

__version__ = "0.1.0"
__all__ = ["ActivationStore", "LanguageModel", "UserError", "load"]

_HOMES = {
    "ActivationStore": ".hooks.store",
    "LanguageModel": ".hooks.lm",
    "UserError": ".hooks.errors",
    "load": ".hooks.lm",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `import doxascope.metrics` needs no torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'doxascope' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
