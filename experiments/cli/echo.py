"""What the command line prints: names of strangers are shown, not obeyed."""

import logging

import click

from ...hooks.text import visible


def echo(text: object, err: bool = False) -> None:
    """Print a line; control characters in it are escaped."""
    click.echo(visible(str(text)), err=err)


class VisibleFormatter(logging.Formatter):
    """The same for the log."""

    def format(self, record: logging.LogRecord) -> str:
        """The message alone."""
        return visible(super().format(record))
