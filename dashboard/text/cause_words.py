"""The cause of a change in words."""

from ..analysis.change_causes import ChangeCause, SoftwareChange

_NAMES = {
    "suite": "harness",
    "cuda": "CUDA",
    "torch": "PyTorch",
    "cudnn": "cuDNN",
    "triton": "Triton",
    "nvbench": "NVBench",
}


def cause_words(cause: ChangeCause) -> str:
    """Strongest evidence first: "other kernel launched: rope_sm90a; harness changed"; empty without any."""
    words = []
    if cause.launched:
        words.append(f"other kernel launched: {cause.launched}")
    elif cause.code_changed:
        of = f" of {cause.code_changed} of {cause.with_code}" if cause.code_changed < cause.with_code else ""
        words.append(f"machine code{of} changed")
    elif cause.with_code:
        words.append("same machine code")
    words += map(software_words, cause.software)
    return "; ".join(words)


def software_words(change: SoftwareChange) -> str:
    """A change of a driver, a library or the harness: "driver 580.1 → 590.2", "harness changed"."""
    name = _NAMES.get(change.name, change.name)
    return f"{name} changed" if change.name == "suite" else f"{name} {change.before} → {change.after}"
