"""How an implementation looks in every figure: always the same colour and symbol, and rivals hollow and dashed.

The colours are Okabe and Ito's ("Color Universal Design", 2008), told apart with any colour vision, and four more, so
that no two implementations of the table share one; their values for each theme are in static/warpwatch.css. Vermillion
is kept for regressions.
"""

import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Name, colour and line of one implementation."""

    label: str
    colour: str
    dash: str


INK = "--ww-ink"
MUTED = "--ww-muted"
GRID = "--ww-grid"
SURFACE = "--ww-surface"
GREY = "--ww-grey"
SKY = "--ww-sky"
WORSE = "--ww-vermillion"
BETTER = "--ww-green"
# Of canaries by their place in the order of their workloads' names: colour, dash, symbol.
CANARIES = (
    (GREY, "solid", "square"),
    (SKY, "dash", "cross"),
    ("--ww-purple", "dot", "diamond"),
    ("--ww-green", "dashdot", "triangle-up"),
)

_LOOKS = {
    "warpwatch": Look(label="warpwatch", colour="--ww-blue", dash="solid"),
    "triton": Look(label="Triton", colour="--ww-purple", dash="solid"),
    "unfused": Look(label="warpwatch, unfused", colour="--ww-indigo", dash="solid"),
    "naive": Look(label="naive", colour="--ww-yellow", dash="solid"),
    "unquantized": Look(label="warpwatch, unquantized", colour="--ww-brown", dash="solid"),
    "sdpa": Look(label="SDPA", colour="--ww-green", dash="dash"),
    "sdpa_flash": Look(label="SDPA, FlashAttention-2", colour="--ww-lime", dash="longdash"),
    "cublas": Look(label="cuBLAS", colour="--ww-orange", dash="dash"),
    "eager": Look(label="PyTorch eager", colour="--ww-grey", dash="dot"),
    "torch_compile": Look(label="torch.compile", colour="--ww-teal", dash="dashdot"),
}
_FURTHER_COLOURS = (
    "--ww-orange",
    "--ww-teal",
    "--ww-purple",
    "--ww-green",
    "--ww-yellow",
    "--ww-indigo",
    "--ww-brown",
    "--ww-lime",
)


def look(implementation: str | None) -> Look:
    """The look of an implementation; one without a row in the table gets the same colour in every process."""
    if implementation is None:
        return _LOOKS["warpwatch"]
    if implementation in _LOOKS:
        return _LOOKS[implementation]
    colour = _FURTHER_COLOURS[zlib.crc32(implementation.encode()) % len(_FURTHER_COLOURS)]
    return Look(label=implementation, colour=colour, dash="longdash")
