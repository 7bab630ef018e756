"""The facts of one twin for one GPU, and the file that keeps them. No torch here."""

import hashlib
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from warpbench.compiled.machine_code import KernelCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTwin:
    """One function for one architecture, in all configurations that the catalogue's workloads lead to."""

    code: KernelCode
    compile_s: float | None  # CPU time of all together, the start of the compiler left out


def keep(twin: CompiledTwin, folder: Path, digest: str) -> None:
    """Write a twin's facts under the digest of what they depend on; a reader sees all of them or none."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = json.dumps(asdict(twin))
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".tmp", delete=False) as file:
        file.write(f"{_seal(digest, facts)}\n{facts}\n")
    Path(file.name).replace(_file(folder, digest))


def kept(folder: Path, digest: str) -> CompiledTwin | None:
    """What `keep` wrote under this digest; None where it wrote nothing, or where its file is no longer as it was."""
    try:
        seal, facts = _file(folder, digest).read_text().splitlines()
    except (OSError, ValueError):  # no file; other than two lines, or than text
        return None
    if seal != _seal(digest, facts):
        return None
    stored = json.loads(facts)
    return CompiledTwin(code=KernelCode(**stored["code"]), compile_s=stored["compile_s"])


def _file(folder: Path, digest: str) -> Path:
    return folder / f"{digest}.facts"


def _seal(digest: str, facts: str) -> str:
    return hashlib.sha256(f"{digest} {facts}".encode()).hexdigest()
