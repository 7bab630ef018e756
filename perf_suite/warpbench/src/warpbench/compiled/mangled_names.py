"""What a kernel's mangled name contains: its name and launch shape, and nothing of where its file lay."""

import re
from dataclasses import dataclass

# The compiler calls a file's anonymous namespace after the file, between two hashes: of its path and of its content.
_OF_THE_FILE = re.compile(r"\d+_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}|(?<=_GLOBAL__N__)[0-9a-f]{8}")
_OF_A_FILE_STATIC = re.compile(r"_INTERNAL_[0-9a-f]{8}(_\d+_\w+?_cu_[0-9a-f]{8})?")
_LAUNCH_SHAPE = re.compile(r"11LaunchShapeILi(\d+)ELi(\d+)EE")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchShape:
    """What a block of a kernel is launched with; kernels/csrc/primitives/launch_shape.h puts it into the name."""

    threads: int
    dynamic_shared_bytes: int


def kernel_name(mangled: str) -> str:
    """The function's own name: the last of the Itanium ABI's length-prefixed names before its arguments."""
    if not mangled.startswith("_Z"):
        return mangled
    rest = mangled[2:].removeprefix("N").lstrip("K")
    name = mangled
    while found := re.match(r"\d+", rest):
        length = int(found.group())
        name = rest[found.end() : found.end() + length]
        rest = rest[found.end() + length :]
    return name


def signature(mangled: str) -> str:
    """The mangled name without what the compiler made of the source's path and file name."""
    return _OF_A_FILE_STATIC.sub("_INTERNAL_", _OF_THE_FILE.sub("_GLOBAL__N_", mangled))


def launch_shape(mangled: str) -> LaunchShape | None:
    """The LaunchShape among a kernel's template arguments, None if it has none."""
    found = _LAUNCH_SHAPE.search(mangled)
    if found is None:
        return None
    return LaunchShape(threads=int(found.group(1)), dynamic_shared_bytes=int(found.group(2)))
