"""A user's mistake, and what a library says of one: one line that says what is wrong, where, and what to do."""

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MOST_NAMES, LONGEST_NAME = 500, 100
"""Names that are compared with an unknown one, and the characters that such names have: a comparison costs their
product."""
LINE = 2000
"""Characters of a message."""
CODE = "doxascope_code_"
"""How the modules of a user's own files are called."""
SHOWN = 500
"""Characters of a library's message that are shown."""
NO_MEMORY = ("can't start new thread", "DefaultCPUAllocator", "out of memory", "Cannot allocate memory")


class UserError(ValueError):
    """Something that the user can put right. The command line prints it as one line and exits with 2.

    Whatever it is made of, it is one line, and no longer than a screen: its beginning and its end.
    """

    def __init__(self, message: str) -> None:
        line = " ".join(message.splitlines())
        super().__init__(line if len(line) <= LINE else f"{line[: LINE * 3 // 4]} ... {line[-LINE // 4 :]}")

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the line alone, or, where a library raised something, all of it."""
        return [f"doxascope: {self}"] if self.__cause__ is None else traceback.format_exception(self)


def told_briefly(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose UserError has a traceback of the call alone, unless it has a cause."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except UserError as error:
            if error.__cause__ is None:
                error.__traceback__ = None
                error.__suppress_context__ = True
            raise

    return call


@contextlib.contextmanager
def in_one_line(what: object, advice: str = "") -> Iterator[None]:
    """Whatever a library raises while the block is open becomes a UserError: `what` it was about, its cause, `advice`.

    A library that is fed a damaged file may raise anything: there is no list of what. Errors of Rust code that panics
    are no exceptions to Python, and are caught by their name.
    """
    try:
        yield
    except UserError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(f"{what}: {cause(error)}" + (f"; {advice}" if advice else "")) from error


@contextlib.contextmanager
def named(where: object) -> Iterator[None]:
    """A UserError from within begins with `where` it is."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from error.__cause__


def cause(error: BaseException) -> str:
    """What an error says, in a line: of an error of the system its reason, of any other its first line; with its type
    where the message alone would say nothing. What was raised in a user's own file has its line.
    """
    reason = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
    if isinstance(error, KeyError | RecursionError | MemoryError | AttributeError | TypeError) or not reason:
        reason = f"{type(error).__name__}: {reason}".removesuffix(": ")
    frames = [*traceback.walk_tb(error.__traceback__)]
    lines = [
        (frame.f_code.co_filename, line)
        for frame, line in frames
        if frame.f_globals.get("__name__", "").startswith(CODE)
    ]
    place = f" ({lines[-1][0]}, line {lines[-1][1]}; --debug shows its traceback)" if lines else ""
    return (reason if len(reason) <= SHOWN else f"{reason[:SHOWN]}...") + place


def lacks_memory(error: BaseException) -> bool:
    """Whether an error means that there was no memory left, as Python, torch or the system say it."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in NO_MEMORY)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known one, or all of them when none is close.

    >>> nearest("layrs", ["layers", "sites"])
    "did you mean 'layers'?"
    """
    known = sorted(known)
    close = closest(name, known)
    more = ", ..." if len(known) > MOST_NAMES else ""
    return f"did you mean {close!r}?" if close else f"known: {', '.join(known[:MOST_NAMES])}{more}"


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most like `name`, if one is. Names too long or too many to compare are left out."""
    short = (candidate for candidate in known if len(candidate) <= LONGEST_NAME)
    if len(name) > LONGEST_NAME:
        return None
    return next(iter(get_close_matches(name, islice(short, MOST_NAMES), n=1, cutoff=cutoff)), None)
