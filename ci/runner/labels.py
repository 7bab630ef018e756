"""A runner's label: `gpu-t4`, `gpu-rtx4090`, `gpu-h200`, from the card's name as NVML says it."""

import re

_MODEL = re.compile(
    r"\b(?P<kind>RTX|GTX|TITAN|Quadro RTX)?\s*(?P<model>(?:PRO )?[A-Z]{0,3}\d{1,4}[A-Z]{0,2}\d?)"
    r"(?:\s+(?P<more>Ti SUPER|Ti|SUPER|D|Ada))?",
)
_MAKERS = re.compile(r"\b(NVIDIA|Tesla|GeForce|Graphics Device|Laptop GPU|Generation|Blackwell \w+ Edition)\b")


def gpu_label(name: str) -> str:
    """Raises ValueError for a name without a model in it."""
    found = _MODEL.search(_MAKERS.sub(" ", name))
    if found is None:
        raise ValueError(f"{name!r} names no GPU model; wanted such as 'Tesla T4' or 'NVIDIA GeForce RTX 4090'")
    words = "".join(found[part] or "" for part in ("kind", "model", "more"))
    return "gpu-" + re.sub(r"[^a-z0-9]", "", words.lower())
