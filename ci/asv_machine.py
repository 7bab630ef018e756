"""What asv calls this machine."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path


def asv_machine(arguments: Sequence[str] = ()) -> str | None:
    """By `--machine` among asv's arguments, else by its file in the home folder, as asv does; None without one."""
    for place, word in enumerate(arguments):
        if word == "--machine" and place + 1 < len(arguments):
            return arguments[place + 1]
        if word.startswith("--machine="):
            return word.partition("=")[2]
    try:
        known = json.loads((Path.home() / ".asv-machine.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    names = [name for name, its in known.items() if isinstance(its, dict)] if isinstance(known, dict) else []
    here = platform.uname().node
    chosen = here if here in names else names[0] if len(names) == 1 else None
    return str(known[chosen].get("machine", chosen)) if chosen is not None else None
