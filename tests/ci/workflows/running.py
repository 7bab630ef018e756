"""The scripts of workflows' steps, run as GitHub runs them."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .workflow_files import step


def run_step(
    name: str,
    job: str,
    title: str,
    *,
    folder: Path,
    temporary: Path,
    values: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """A step's `run` in `folder`; `values` are what its expressions come to, and every one of them has to be there."""
    definition = step(name, job, title)
    given = {"runner.temp": str(temporary), **(values or {})}

    def value(found: re.Match[str]) -> str:
        assert found[1] in given, f"no value for {found[0]}"
        return given[found[1]]

    resolved = {key: re.sub(r"\$\{\{ (.+?) \}\}", value, text) for key, text in definition.get("env", {}).items()}
    where = folder / re.sub(r"\$\{\{ (.+?) \}\}", value, definition.get("working-directory", "."))
    script = temporary / "step.sh"
    script.write_text(definition["run"])
    return subprocess.run(
        ["bash", "-e", str(script)],
        cwd=where,
        capture_output=True,
        text=True,
        env={**os.environ, "RUNNER_TEMP": str(temporary), **(environment or {}), **resolved},
    )
