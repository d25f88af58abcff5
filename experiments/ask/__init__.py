"""The everyday job: these questions, each with its own options; what does the model believe, and is it right?"""

from .config import AskConfig
from .experiment import Ask

__all__ = ["Ask", "AskConfig"]
