"""Print pip's options for PyTorch on a machine without a GPU, and one line on stderr that explains them.

download.pytorch.org has CPU builds, a tenth of the size of PyPI's, which include CUDA and also run without a GPU. If
only PyPI or a mirror is reachable, pip would retry that host for every package, with a warning each time.
"""

from __future__ import annotations

import sys
import threading
import urllib.request

CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
_PATIENCE_S = 3


def options(index: str = CPU_BUILDS, patience_s: float = _PATIENCE_S) -> list[str]:
    """The index as a pip option; empty if it does not answer in time."""
    return ["--extra-index-url", index] if _answers(f"{index}/torch/", patience_s) else []


def _answers(address: str, patience_s: float) -> bool:
    answered = threading.Event()

    def ask() -> None:
        try:
            with urllib.request.urlopen(address, timeout=patience_s):
                answered.set()
        except OSError:  # URLError and TimeoutError are subclasses
            pass

    # In a thread: urlopen's timeout does not cover the DNS look-up.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(patience_s)
    return answered.is_set()


def main() -> None:
    """Entry point, called by the Makefile."""
    found = options()
    choice = f"the CPU build of {CPU_BUILDS}" if found else f"pip's own index, because {CPU_BUILDS} does not answer"
    print(f"PyTorch comes from {choice}", file=sys.stderr)
    print(*found)


if __name__ == "__main__":
    main()
