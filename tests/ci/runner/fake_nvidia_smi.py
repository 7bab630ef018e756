"""A fake `nvidia-smi`: a program on PATH that answers the documented CSV queries for a GPU that does not exist.

Its output follows `nvidia-smi --help-query-gpu` (driver 580): no units with nounits, `[N/A]` for missing fields. It was
not recorded on a real GPU. The program appends its command lines to `calls.txt` in its folder.
"""

import json
import stat
import sys
from pathlib import Path
from typing import Any

T4 = {
    "uuid": "GPU-11111111-2222-3333-4444-555555555555",
    "name": "Tesla T4",
    "driver_version": "580.65.06",
    "compute_cap": "7.5",
    "persistence_mode": "Enabled",
    "compute_mode": "Default",
    "mig.mode.current": "[N/A]",
    "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0",
    "temperature.gpu": "41",
    "power.draw": "10.23",
    "power.limit": "70.00",
    "power.default_limit": "70.00",
    "clocks.sm": "300",
    "clocks.max.sm": "1590",
    "clocks.max.mem": "5001",
    "clocks.applications.graphics": "585",
    "clocks.default_applications.graphics": "585",
    "clocks_event_reasons.active": "0x0000000000000001",
    "display_active": "Disabled",
}
RTX_4090 = T4 | {
    "uuid": "GPU-99999999-8888-7777-6666-555555555555",
    "name": "NVIDIA GeForce RTX 4090",
    "compute_cap": "8.9",
    "ecc.mode.current": "[N/A]",
    "ecc.errors.uncorrected.volatile.total": "[N/A]",
    "power.draw": "21.40",
    "power.limit": "450.00",
    "power.default_limit": "450.00",
    "clocks.sm": "210",
    "clocks.max.sm": "3120",
    "clocks.max.mem": "10501",
    "clocks.applications.graphics": "[N/A]",
    "clocks.default_applications.graphics": "[N/A]",
}

# Started hundreds of times: without site-packages and pathlib in a third of the time.
_PROGRAM = """#!{python} -IS
import json, sys

here = __file__.rpartition("/")[0]
with open(here + "/state.json") as file:
    state = json.load(file)
words = sys.argv[1:]
with open(here + "/calls.txt", "a") as file:
    file.write(" ".join(words) + "\\n")
if state["failure"]:
    status, message = state["failure"]
    print(message)
    sys.exit(status)
query = next((word for word in words if word.startswith("--query-gpu=")), None)
if query:
    names = query.partition("=")[2].split(",")
    for name in names:
        if name in state["unknown"]:
            print(f'Field "{{name}}" is not a valid field to query.')
            sys.exit(2)
    for gpu in state["gpus"]:
        print(", ".join(gpu.get(name, "[N/A]") for name in names))
elif any(word.startswith("--query-compute-apps") for word in words):
    for process in state["processes"]:
        print(", ".join(process))
elif any(word.startswith("--query-supported-clocks") for word in words):
    for pair in state["clocks"]:
        print(", ".join(map(str, pair)))
elif any(word.startswith("--lock-") or word.startswith("--reset-") for word in words):
    refused = any(word.startswith(option) for option in state["refuses"] for word in words)
    if refused:
        print("Setting locked memory clocks is not supported for GPU.")
        sys.exit(3)
elif words == ["-L"]:
    for number, gpu in enumerate(state["gpus"]):
        print(f"GPU {{number}}: {{gpu['name']}} (UUID: {{gpu['uuid']}})")
"""


class FakeNvidiaSmi:
    """The program in a folder, and its answers."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        program = folder / "nvidia-smi"
        program.write_text(_PROGRAM.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.answers(T4)

    def answers(
        self,
        *gpus: dict[str, str],
        processes: tuple[tuple[str, ...], ...] = (),
        unknown: tuple[str, ...] = (),
        failure: tuple[int, str] | None = None,
        refuses: tuple[str, ...] = (),
    ) -> None:
        """Sets the answers from now on."""
        clocks = [(5001, clock) for clock in range(300, 1591, 15)] + [(405, 300)]
        state: dict[str, Any] = {
            "gpus": gpus,
            "processes": processes,
            "unknown": unknown,
            "failure": failure,
            "clocks": clocks,
            "refuses": refuses,
        }
        (self.folder / "state.json").write_text(json.dumps(state))
        (self.folder / "calls.txt").write_text("")

    def calls(self) -> list[str]:
        """Command lines, the queries left out."""
        lines = (self.folder / "calls.txt").read_text().splitlines()
        return [line for line in lines if "--query" not in line and line != "-L"]
