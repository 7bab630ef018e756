"""How this suite starts a Python process of its own. No torch here."""

import os
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_SUITE_PARENT = Path(__file__).resolve().parent.parent


def compiling_alone() -> dict[str, str]:
    """The environment of a process that may meet torch.compile, which otherwise starts a compiler on every core.

    Those would work beside what is timed, or eight times over where several processes compile ahead.
    """
    return {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def python_running(module: str, *, under_another_program: bool = False) -> list[str]:
    """The command that runs `module` with the packages that this process finds.

    It ends with the thread that starts it: the main one, or one that waits for it. This process has to start it itself,
    unless it runs `under_another_program` such as a profiler, with which it ends then.
    asv puts ASV_PYTHONPATH on sys.path alone, so sys.path itself is handed on. -P keeps the working directory off
    it, where a folder may be called like an installed package.
    """
    places = [*filter(None, sys.path), str(_SUITE_PARENT)]
    # It must not outlive whoever started it: in a hung kernel it would hold the GPU for ever.
    code = "import ctypes, os, signal, sys; "
    code += f"sys.platform == 'linux' and ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, signal.SIGKILL); "
    if not under_another_program:  # no signal comes from a parent that ended before it was asked for
        code += f"os.getppid() == {os.getpid()} or sys.exit('the process that started this one has ended'); "
    code += f"sys.path[:] = {places!r}; import runpy; "
    code += f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-P", "-c", code]
