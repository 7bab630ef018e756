"""A workload of any shape, whether or not it is among the cases: which options there are, and one made of them.

The options are the keyword arguments of the benchmark class's `case`. No torch here.
"""

import difflib
import inspect
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ..benchmark import DEFAULT_DTYPE, KernelBenchmark
from ..cost import ELEMENT_BYTES
from ..workload import Workload

DTYPES = tuple(ELEMENT_BYTES)


class BadRequestError(ValueError):
    """No such operator, option, implementation or shape; the message says what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of an operator's shape."""

    name: str
    is_flag: bool  # else a whole number
    required: bool
    default: int | bool | None


def options(kind: type[KernelBenchmark]) -> tuple[Option, ...]:
    """The options of an operator's shape; none where its class has no `case`."""
    if kind.case is None:
        return ()
    parameters = inspect.signature(kind.case, eval_str=True).parameters.values()
    return tuple(
        Option(
            name=parameter.name,
            is_flag=parameter.annotation is bool,
            required=parameter.default is parameter.empty,
            default=None if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.annotation in (bool, int, int | None)
    )


def ad_hoc_workload(
    kind: type[KernelBenchmark], device: str, dtype: str | None = None, **shape: int | bool | None
) -> Workload:
    """A workload of this shape; what is not given has its default. Raises BadRequestError."""
    operator = kind.operator
    if kind.case is None:
        raise BadRequestError(f"{operator} has its cases alone: its class has no `case` that makes one of any shape")
    known = {option.name: option for option in options(kind)}
    for name in shape:
        if name not in known:
            raise BadRequestError(f"{operator} has no option {name!r}{hint(name, known)}; it has {', '.join(known)}")
    missing = [name for name, option in known.items() if option.required and name not in shape]
    if missing:
        raise BadRequestError(f"{operator} needs {' and '.join(missing)}")
    for name, value in shape.items():
        _refuse_nonsense(operator, known[name], value)
    dtype = dtype or DEFAULT_DTYPE[device]
    if dtype not in DTYPES:
        raise BadRequestError(f"no dtype {dtype!r}; there are {', '.join(DTYPES)}")
    try:
        return kind.workload_of(kind.case(device, dtype, **shape))
    except (ValueError, KeyError) as error:
        reason = f"it has no {dtype}" if isinstance(error, KeyError) else str(error)
        raise BadRequestError(f"{operator}: {reason}") from error


def hint(wrong: str, known: Collection[str]) -> str:
    """What to put behind a wrong name: " (did you mean 'x'?)" where something known is close, else nothing."""
    close = difflib.get_close_matches(wrong, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _refuse_nonsense(operator: str, option: Option, value: Any) -> None:
    if value is None and not option.required and option.default is None:
        return
    if option.is_flag:
        if not isinstance(value, bool):
            raise BadRequestError(f"{operator}: {option.name} must be true or false, got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequestError(f"{operator}: {option.name} must be a whole number of at least 1, got {value!r}")
