"""Content-addressed store of compiled objects on this machine.

Checkouts, asv's environments and commits share it: no source is compiled twice with the same compilers, flags and
architectures. (ccache would do this too; sccache 0.16 keeps nvcc's objects separate by folder.)
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

LARGEST_BYTES = 2 * 2**30  # about a hundred builds for one architecture
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)


def store_folder() -> Path:
    """`warpwatch/objects` in the user's cache folder ($XDG_CACHE_HOME, else ~/.cache)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpwatch" / "objects"


def key_of(source: Path, csrc: Path, compilation: Iterable[str], macros: Mapping[str, str] | None = None) -> str:
    """SHA-256 over `compilation` (compilers, flags, architectures) and the source with all of our headers it includes.

    Of `macros` (name to value), only those that the source or a header mentions are part of the key: most CPU sources
    are the same for every set of architectures. The headers of PyTorch, CUDA and the system are covered by the versions
    in `compilation`.
    """
    texts = {path.relative_to(csrc): path.read_bytes() for path in sorted(_with_headers(source, csrc))}
    used = [
        f"{name}={value}"
        for name, value in (macros or {}).items()
        if any(name.encode() in text for text in texts.values())
    ]
    digest = hashlib.sha256("\0".join([*compilation, *used]).encode())
    for path, text in texts.items():
        digest.update(f"\0{path}\0".encode() + text)
    return digest.hexdigest()


def prune(folder: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Remove the least recently used objects until the rest fits."""
    files = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in folder.glob("*.o")), reverse=True)
    kept = 0
    for _, size, path in files:
        kept += size
        if kept > largest_bytes:
            path.unlink(missing_ok=True)
            path.with_suffix(".times").unlink(missing_ok=True)


def _with_headers(source: Path, csrc: Path) -> set[Path]:
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _included(path, csrc)
    return found


@cache
def _included(path: Path, csrc: Path) -> tuple[Path, ...]:
    names = (name.decode() for name in _INCLUDE.findall(path.read_bytes()))
    places = ((csrc / name, path.parent / name) for name in names)
    return tuple(next(place for place in both if place.is_file()) for both in places if any(p.is_file() for p in both))
