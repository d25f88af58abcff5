"""Processes and folders from outside: what a process has begun and taken, folders that cannot be written, and the files
of a folder that are opened."""

import contextlib
import ctypes
import os
import struct
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


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[set[str]]:
    """The files of a folder that anybody opens meanwhile, by their paths within it; known at the end."""
    libc, seen, places = ctypes.CDLL(None, use_errno=True), set[str](), dict[int, Path]()
    watch = libc.inotify_init1(os.O_NONBLOCK)
    for place in (folder, *(place for place in folder.rglob("*") if place.is_dir())):
        places[libc.inotify_add_watch(watch, os.fsencode(place), 0x20)] = place  # IN_OPEN
    if watch < 0 or -1 in places:
        raise OSError(ctypes.get_errno(), "inotify")
    try:
        yield seen
        with contextlib.suppress(BlockingIOError):
            while events := os.read(watch, 1 << 20):
                while events:
                    number, _, _, size = struct.unpack_from("iIII", events)
                    name = os.fsdecode(events[16 : 16 + size].rstrip(b"\0"))
                    seen.add(str((places[number] / name).relative_to(folder)))  # -1, of too many events, is no place
                    events = events[16 + size :]
    finally:
        os.close(watch)


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
