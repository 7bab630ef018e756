"""A fake `nvidia-smi`: a program on PATH that answers the documented CSV queries for a card that is not here.

What it prints follows `nvidia-smi --help-query-gpu` (driver 580): no units with nounits, `[N/A]` for what a card lacks.
Nothing of it was recorded on a real card. What it is asked is appended to `asked.txt` beside it.
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

_PROGRAM = """#!{python}
import json, sys
from pathlib import Path

here = Path(__file__).parent
told = json.loads((here / "state.json").read_text())
words = sys.argv[1:]
with (here / "asked.txt").open("a") as file:
    file.write(" ".join(words) + "\\n")
if told.get("failure"):
    status, said = told["failure"]
    print(said)
    sys.exit(status)
query = next((word for word in words if word.startswith("--query-gpu=")), None)
if query:
    names = query.partition("=")[2].split(",")
    for name in names:
        if name in told["unknown"]:
            print(f'Field "{{name}}" is not a valid field to query.')
            sys.exit(2)
    for card in told["cards"]:
        print(", ".join(card.get(name, "[N/A]") for name in names))
elif any(word.startswith("--query-compute-apps") for word in words):
    for process in told["processes"]:
        print(", ".join(process))
elif any(word.startswith("--query-supported-clocks") for word in words):
    for pair in told["clocks"]:
        print(", ".join(map(str, pair)))
elif any(word.startswith("--lock-") or word.startswith("--reset-") for word in words):
    refused = next((each for each in told["refuses"] if any(word.startswith(each) for word in words)), None)
    if refused:
        print("Setting locked memory clocks is not supported for GPU.")
        sys.exit(3)
elif words == ["-L"]:
    for number, card in enumerate(told["cards"]):
        print(f"GPU {{number}}: {{card['name']}} (UUID: {{card['uuid']}})")
"""


class FakeNvidiaSmi:
    """The program in a folder, and what it is to answer."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        program = folder / "nvidia-smi"
        program.write_text(_PROGRAM.format(python=sys.executable))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.answers(T4)

    def answers(
        self,
        *cards: dict[str, str],
        processes: tuple[tuple[str, ...], ...] = (),
        unknown: tuple[str, ...] = (),
        failure: tuple[int, str] | None = None,
        refuses: tuple[str, ...] = (),
    ) -> None:
        """From now on."""
        clocks = [(5001, clock) for clock in range(300, 1591, 15)] + [(405, 300)]
        told: dict[str, Any] = {
            "cards": cards,
            "processes": processes,
            "unknown": unknown,
            "failure": failure,
            "clocks": clocks,
            "refuses": refuses,
        }
        (self.folder / "state.json").write_text(json.dumps(told))
        (self.folder / "asked.txt").write_text("")

    def asked(self) -> list[str]:
        """Command lines, the queries left out."""
        lines = (self.folder / "asked.txt").read_text().splitlines()
        return [line for line in lines if "--query" not in line and line != "-L"]
