"""One row of an operator's cases. No torch here."""

from collections.abc import Sequence
from typing import Any

from .cost import ELEMENT_BYTES, UNKNOWN_DTYPE, Cost
from .workload import ANY_DEVICE


class Case:
    """One shape and dtype of an operator.

    Further keyword arguments are the shape: `Case("r2048", …, r=2048).r` is 2048, and the dashboard filters by them.
    `bytes` counts each input and output once, `flops` follows the formula (0 for what only moves data); `tolerance` is
    the largest ||out - reference|| / ||reference|| that counts as right. `dtype` and `bytes` are None where they are
    not known: then bandwidth, FLOP/s and shares of the speed of light are n/a. `implementations` restricts the case to
    some of the class's, `energy_of` names those whose energy is measured. Raises ValueError for what cannot be.
    """

    def __init__(
        self,
        name: str,
        *,
        dtype: str | None,
        tolerance: float,
        bytes: int | None,
        flops: int = 0,
        device: str = ANY_DEVICE,
        arithmetic: str | None = None,
        implementations: Sequence[str] | None = None,
        energy_of: Sequence[str] = (),
        replayed: bool = False,
        seed: int = 20250,
        **shape: int | float | bool | str,
    ) -> None:
        if dtype is None:
            dtype = UNKNOWN_DTYPE
        if dtype not in (*ELEMENT_BYTES, UNKNOWN_DTYPE):
            raise ValueError(f"case {name!r}: no dtype {dtype!r}; there are {', '.join(ELEMENT_BYTES)}")
        if device not in ("cuda", "cpu", ANY_DEVICE):
            raise ValueError(f"case {name!r}: no device {device!r}; there are cuda, cpu and {ANY_DEVICE}")
        if not tolerance >= 0:
            raise ValueError(f"case {name!r}: tolerance must be zero or more, got {tolerance!r}")
        if bytes is not None and (bytes <= 0 or flops < 0):
            raise ValueError(f"case {name!r}: bytes must be positive and flops not negative, got {bytes} and {flops}")
        if bytes is None and flops:
            raise ValueError(f"case {name!r}: flops is {flops} and bytes is not known: give both or neither")
        self.name, self.dtype, self.device, self.tolerance = name, dtype, device, tolerance
        self.cost = Cost(flops=int(flops), bytes=int(bytes or 0))
        self.arithmetic, self.replayed, self.seed = arithmetic, replayed, seed
        self.implementations = None if implementations is None else tuple(implementations)
        self.energy_of = tuple(energy_of)
        self.shape: dict[str, Any] = dict(shape)

    def __getattr__(self, name: str) -> Any:
        shape = self.__dict__.get("shape", {})
        if name in shape:
            return shape[name]
        raise AttributeError(f"case {self.__dict__.get('name')!r} has no {name!r}; its shape has {', '.join(shape)}")

    def __repr__(self) -> str:
        return f"Case({self.name!r})"
