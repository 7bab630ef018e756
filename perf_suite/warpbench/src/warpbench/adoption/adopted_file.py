"""A benchmark file of any kind that can be adopted: `python -m warpbench.adoption.adopted_file FILE OUT`.

As a program it writes what the file would measure as JSON: in a process of its own, since files share names of modules
and may end the process.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .sweep import NotAdoptedError

if TYPE_CHECKING:
    from .operator_file import OperatorFile
    from .script import Script

_SCRIPTS = ("perf_report", "run_benchmarks")
_OPERATOR = "BenchmarkOperator"


@functools.cache
def adopted_file(file: Path) -> Script | OperatorFile:
    """The file, run once in this process. Raises NotAdoptedError where it has no case, or what the file raises."""
    text = file.read_text()
    found: Script | OperatorFile
    if _OPERATOR in text:
        from .operator_file import OperatorFile  # torch, which a file without benchmarks needs not

        found = OperatorFile(file)
    elif any(word in text for word in _SCRIPTS):
        from .script import Script

        found = Script(file)
    else:
        calls = (
            "it calls do_bench itself, so that its cases cannot be distinguished, and has" if "do_bench" in text else ""
        )
        raise NotAdoptedError(f"{calls or 'it has'} no perf_report, no run_benchmarks and no BenchmarkOperator")
    found.run()
    if not any(sweep.cases for sweep in found.sweeps.values()):
        raise NotAdoptedError("; ".join(found.remarks) or "it measures nothing when it runs without arguments")
    return found


def main() -> None:
    """Write {"sweeps": …, "remarks": …}, {"nothing": …} where there is nothing to adopt, or {"error": …}."""
    file, out = Path(sys.argv[1]), Path(sys.argv[2])
    try:
        found = adopted_file(file)
    except NotAdoptedError as error:
        out.write_text(json.dumps({"nothing": str(error)}))
        return
    except Exception as error:
        import torch

        if isinstance(error, ImportError):
            hint = "; install what the file imports where warpbench runs"
        else:
            hint = "" if torch.cuda.is_available() else " (torch sees no GPU here, which the file may need)"
        out.write_text(json.dumps({"error": f"it fails: {type(error).__name__}: {error}{hint}"}))
        return
    sweeps = [
        {
            "name": sweep.name,
            "providers": sweep.providers,
            "baselines": None if sweep.baselines is None else sorted(sweep.baselines),
            "cases": [
                {
                    "name": case.name,
                    "shape": dict(case.shape),
                    "dtype": case.dtype,
                    "providers": case.providers,
                }
                for case in sweep.cases.values()
            ],
        }
        for sweep in found.sweeps.values()
        if sweep.cases
    ]
    out.write_text(json.dumps({"sweeps": sweeps, "remarks": found.remarks}))


if __name__ == "__main__":
    main()
