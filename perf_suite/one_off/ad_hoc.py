"""A workload of any shape, outside the catalogue: which operators and options there are, and one made of them.

The options are the keyword arguments of the operator's own row builder in workloads/<op>.py, so a new operator needs
nothing here. No torch here.
"""

import difflib
import importlib
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from warpbench.cost import ELEMENT_BYTES
from warpbench.workload import Workload

from ..catalogue import OPERATORS

DEFAULT_DTYPE = {"cuda": "fp16", "cpu": "fp32"}
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


def operators() -> tuple[str, ...]:
    """The operators that can be asked for at any shape."""
    return tuple(operator for operator in OPERATORS if _builder(operator) is not None)


def options(operator: str) -> tuple[Option, ...]:
    """The options of an operator's shape. Raises BadRequestError."""
    parameters = inspect.signature(_known_builder(operator)).parameters.values()
    return tuple(
        Option(
            name=parameter.name,
            is_flag=parameter.annotation is bool,
            required=parameter.default is parameter.empty,
            default=None if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY
    )


def ad_hoc_workload(operator: str, device: str, dtype: str | None = None, **shape: int | bool | None) -> Workload:
    """A row of this shape; what is not given has its default. Raises BadRequestError with what there is instead."""
    build = _known_builder(operator)
    known = {option.name: option for option in options(operator)}
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
        return build(device, dtype, **shape)
    except ValueError as error:
        raise BadRequestError(f"{operator}: {error}") from error


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


def _known_builder(operator: str) -> Callable[..., Workload]:
    build = _builder(operator) if operator in OPERATORS else None
    if build is None:
        raise BadRequestError(
            f"no operator {operator!r}{hint(operator, operators())}; there are {', '.join(operators())}"
        )
    return build


def _builder(operator: str) -> Callable[..., Workload] | None:
    module = importlib.import_module(f"..workloads.{operator}", __package__)
    build: Callable[..., Workload] | None = getattr(module, "workload", None)
    return build if inspect.isfunction(build) else None
