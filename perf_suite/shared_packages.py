"""Give an environment that asv made the packages asv's own interpreter has: `python shared_packages.py`.

Run by asv.conf.json with the environment's Python, so that torch (gigabytes) is installed once and not per
environment. A line in a .pth file puts the shared folders at the end of sys.path: what asv installs into the
environment, the commit's own warpwatch first of all, is found before them.
"""

import os
import sys
import sysconfig
from pathlib import Path

VARIABLE = "PERF_SUITE_SHARED_PACKAGES"  # set by asv_plugin.py: folders, separated as in PATH


def main() -> None:
    """Write the .pth file into this interpreter's site-packages."""
    shared = os.environ.get(VARIABLE)
    if not shared:
        sys.exit(f"{VARIABLE} is not set: asv.conf.json has to name perf_suite's asv_plugin among its plugins")
    pth = Path(sysconfig.get_path("purelib")) / "perf_suite_shared_packages.pth"
    pth.write_text("".join(f"{folder}\n" for folder in shared.split(os.pathsep)))


if __name__ == "__main__":
    main()
