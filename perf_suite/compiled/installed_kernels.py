"""Where the kernels of the commit under test are, and what its build recorded. No torch here."""

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_BUILD_RECORD_SCHEMA = 1


class NoKernelsError(Exception):
    """This commit or this environment has no kernels; the message says which piece is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSource:
    """One source file as the build compiled it; kernels/building/build_record.py says what the facts mean."""

    compile_s: float | None  # CPU time; None where an older commit's build took it from ccache
    host_sha256: str


def kernels_folder() -> Path:
    """The installed `warpwatch.kernels`. Raises NoKernelsError where there is none of this commit."""
    return _extension_module_file().parent


def library() -> Path:
    """The built extension. Raises NoKernelsError where there is none of this commit."""
    folder = _extension_module_file().parent
    extension = importlib.import_module("warpwatch.kernels.extension")
    path: Path | None = extension.extension_path()
    if path is None:
        raise NoKernelsError(f"the kernels are not built in {folder}")
    return path


def compiled_sources() -> Mapping[str, CompiledSource]:
    """By path below kernels/csrc. Raises NoKernelsError where there is no build, or one older than this record."""
    path = library()
    record = path.with_name(path.name.partition(".")[0] + ".build.json")
    if not record.exists():
        raise NoKernelsError(f"the build of this commit leaves no {record.name}")
    recorded = json.loads(record.read_text())
    if recorded["schema"] != _BUILD_RECORD_SCHEMA:
        raise NoKernelsError(f"{record.name} has schema {recorded['schema']}; this suite reads {_BUILD_RECORD_SCHEMA}")
    return {
        source: CompiledSource(compile_s=facts["compile_s"], host_sha256=facts["host_sha256"])
        for source, facts in recorded["sources"].items()
    }


def _extension_module_file() -> Path:
    try:
        extension = importlib.import_module("warpwatch.kernels.extension")
    except ModuleNotFoundError as missing:
        raise NoKernelsError(f"this commit installs no kernels ({missing})") from missing
    file = Path(extension.__file__ or "").resolve()
    environment = os.environ.get("ASV_ENV_DIR")
    if environment and not file.is_relative_to(Path(environment).resolve()):
        raise NoKernelsError(f"warpwatch.kernels is imported from {file.parent}, not from asv's {environment}")
    return file
