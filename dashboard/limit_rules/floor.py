"""An absolute floor: the change below which nobody cares, whatever share of the value it is."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from warpwatch.dashboard.metrics import Metric
from warpwatch.dashboard.quantities import in_seconds

WANTED = 'an amount with its unit such as "0.5 us", "64 KiB" or "2 registers"'
_BYTES = {"b": 1, "bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_COUNTS = {"registers", "instructions", "launches", "barriers", "cycles"}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([^\s\d\0][^\d\0]*)")


@dataclass(frozen=True, slots=True)
class Floor:
    """So much, in a unit as people write it."""

    amount: float
    unit: str

    def of(self, metric: Metric) -> float | None:
        """In the unit that the metric is recorded in; None where it is a floor of something else."""
        seconds = in_seconds(self.amount, self.unit)
        if seconds is not None:
            of_one = in_seconds(1.0, metric.unit)
            return seconds / of_one if of_one else None
        if self.unit.lower() in _BYTES:
            return self.amount * _BYTES[self.unit.lower()] if metric.unit.lower() in {"b", "bytes"} else None
        return self.amount if self.unit.lower() == metric.unit.lower() else None

    @property
    def is_of_known_unit(self) -> bool:
        """Whether it is a time, bytes or a count that warpwatch records; a project may have units of its own."""
        return in_seconds(1.0, self.unit) is not None or self.unit.lower() in _BYTES.keys() | _COUNTS

    def __str__(self) -> str:
        return f"{Decimal(repr(self.amount)).normalize():f} {self.unit}"  # as it can be read again


def parse_floor(value: Any) -> Floor:
    """Raises ValueError for what has no amount or no unit."""
    if isinstance(value, Floor):
        return value
    found = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not math.isfinite(float(found[1])):
        raise ValueError("no amount with a unit")
    return Floor(amount=float(found[1]), unit=found[2])


FloorValue = Annotated[
    Floor, PlainValidator(parse_floor), PlainSerializer(str), WithJsonSchema({"type": "string", "examples": ["0.5 us"]})
]
