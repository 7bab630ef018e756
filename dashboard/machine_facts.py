"""A machine's facts as asv's machine.json has them, which anybody may have written by hand: GPU, memory, Python."""

import re
from collections.abc import Iterator, Mapping

from warpwatch.dashboard.quantities import quantity

_GPU_KEYS = frozenset({"gpu", "gpus", "gpu_name", "gpu_model", "gpu name", "gpu model"})
_NOT_SHOWN = frozenset({"machine", "version", "cpu", *_GPU_KEYS})
_LABELS = {"os": "Operating system", "arch": "Architecture", "num_cpu": "CPUs", "ram": "Memory", "python": "Python"}
_BYTES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SIZE = re.compile(r"([0-9.]+)\s*([kmgt])(i?)b?", re.IGNORECASE)


def gpu_of(details: Mapping[str, str]) -> str | None:
    """The GPU's name; no word in it twice in a row, as in "NVIDIA NVIDIA L40S"."""
    told = next((said for name, said in details.items() if name.lower() in _GPU_KEYS and said.strip()), None)
    return re.sub(r"\b(\w+)(\s+\1\b)+", r"\1", told.strip(), flags=re.IGNORECASE) if told else None


def further_facts(details: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Label and text of everything but the names of GPU and CPU."""
    for name, said in details.items():
        if not said or name.lower() in _NOT_SHOWN:
            continue
        label = _LABELS.get(name.lower(), name.replace("_", " ").capitalize() if name.islower() else name)
        if name.lower() == "python" and re.search(r"[/\\]", said):
            label = "Python’s path"
        yield label, _memory(said, details) if name.lower() == "ram" else said


def _memory(said: str, details: Mapping[str, str]) -> str:
    """In one unit, however it was written: asv's own is a number of KiB on Linux."""
    if said.isdecimal() and details.get("os", "").startswith("Linux"):
        return quantity(int(said) * 1024, "bytes")
    found = _SIZE.fullmatch(said.strip())
    if found is None:
        return said
    number, prefix, binary = found.groups()
    factor = 1024.0 ** ("kmgt".index(prefix.lower()) + 1) if binary else _BYTES[prefix.lower()]
    return quantity(float(number) * factor, "bytes") if number.count(".") < 2 else said
