"""Room on the disks that builds, results and the queue lie on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from warpwatch.ci.push.spool import default_spool
from warpwatch.ci.runner.finding import Finding, good, note, wrong
from warpwatch.ci.runner.host import Host

_GIB = 2**30
_LEAST, _GOOD = 4 * _GIB, 20 * _GIB  # an environment with PyTorch for CUDA has 6 GB, ten kept wheels 1 GB


def room(host: Host) -> Iterator[Finding]:
    """Each disk once."""
    seen: set[int] = set()
    for path in (host.folder, default_spool(), Path("/tmp")):
        there = next(each for each in (path, *path.parents) if each.exists())
        device = there.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(there).free
        said = f"{free / _GIB:.0f} GiB free"
        why = "Builds, environments and results that wait for the dashboard want room; without it runs fail."
        fix = f"du -xh --max-depth=2 {there} | sort -h | tail; old builds: rm -r {host.folder / '.asv' / 'env'}"
        if free < _LEAST:
            yield wrong("disk", str(there), said, why=why, fix=fix)
        elif free < _GOOD:
            yield note("disk", str(there), said, why=why, fix=fix)
        else:
            yield good("disk", str(there), said)
