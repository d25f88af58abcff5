"""How threads of a CPU wait for each other."""

import os


def wait_passively() -> None:
    """Let threads that wait for work sleep: those that spin cost a factor of three where cores are shared. It holds for
    a process that has not imported torch yet; a choice of the user's own (`OMP_WAIT_POLICY`) stands.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
