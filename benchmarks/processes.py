"""Processes and folders from outside: what a process has begun and taken, and folders that cannot be written."""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path


class _Header(ctypes.Structure):
    """Of the calls on capabilities."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def as_a_user() -> None:
    """Have the permissions of files hold for this process, even if it is root's."""
    libc, header, sets = ctypes.CDLL(None, use_errno=True), _Header(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if os.geteuid() == 0 and libc.capget(ctypes.byref(header), sets) == 0:
        sets[0] &= ~0b10  # CAP_DAC_OVERRIDE
        libc.capset(ctypes.byref(header), sets)


@contextlib.contextmanager
def readonly(out: Path) -> Iterator[None]:
    """Nothing can be made, renamed or taken away in a folder and those in it."""
    folders = [place for place in (out, *out.rglob("*")) if place.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield
    finally:
        for folder in filter(Path.exists, folders):
            folder.chmod(0o755)


def taken(process: BaseProcess) -> float:
    """Seconds of the processor that a process has taken."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """Processes that a process has begun, and those that these have."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        below.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += below.get(one, [])
    return found[1:]


def command(pid: int) -> str:
    """With which a process was begun, or what it calls itself."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
