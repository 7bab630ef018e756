"""Decorators that make a method of a KernelBenchmark one of its implementations. No torch here."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

_ATTRIBUTE = "_warpbench_implementation"
_DEVICES = ("cuda", "cpu")
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """How a method is measured."""

    role: str  # "kernel", "baseline" or "control"
    binds: bool = False  # the method is called once, untimed, and returns what is timed
    capturable: bool = True
    devices: tuple[str, ...] = _DEVICES
    library: str | None = None  # "package/file.so": the CUDA extension that has the kernels
    kernels: tuple[str, ...] = ()  # regular expressions of whole names; without a library, of Triton functions


@overload
def kernel(method: Method, /) -> Method: ...
@overload
def kernel(
    *,
    binds: bool = False,
    capturable: bool = True,
    devices: Sequence[str] = _DEVICES,
    library: str | None = None,
    kernels: Sequence[str] = (),
) -> Callable[[Method], Method]: ...
def kernel(method: Any = None, /, **options: Any) -> Any:
    """An implementation of this project, which commits change.

    The method takes the inputs by name and returns the output. With `binds` it is called once, untimed, and returns
    what is timed: a function without arguments, or a Prepared. `capturable=False` is for a call that synchronises with
    the host: it is timed with its host time, and recorded as not captured. `devices` restricts it to "cuda" or "cpu".
    `kernels` names the CUDA kernels of `library`, or without one the Triton functions, whose compiled code is recorded.
    """
    return _marked("kernel", method, options)


@overload
def baseline(method: Method, /) -> Method: ...
@overload
def baseline(
    *,
    binds: bool = False,
    capturable: bool = True,
    devices: Sequence[str] = _DEVICES,
    library: str | None = None,
    kernels: Sequence[str] = (),
) -> Callable[[Method], Method]: ...
def baseline(method: Any = None, /, **options: Any) -> Any:
    """An implementation of somebody else, measured in the same run. Options as those of `kernel`."""
    return _marked("baseline", method, options)


@overload
def control(method: Method, /) -> Method: ...
@overload
def control(
    *, binds: bool = False, capturable: bool = True, devices: Sequence[str] = _DEVICES
) -> Callable[[Method], Method]: ...
def control(method: Any = None, /, **options: Any) -> Any:
    """An implementation that no commit changes: what moves it is the machine. Options as those of `kernel`."""
    return _marked("control", method, options)


def implementations_of(kind: type) -> dict[str, Implementation]:
    """The implementations of a class by name, in the order in which the class defines them, inherited ones first."""
    found: dict[str, Implementation] = {}
    for base in reversed(kind.__mro__):
        for name, member in vars(base).items():
            mark = getattr(member, _ATTRIBUTE, None)
            if isinstance(mark, Implementation):
                found[name] = mark
    return found


def _marked(role: str, method: Any, options: dict[str, Any]) -> Any:
    devices = tuple(options.pop("devices", _DEVICES))
    if not devices or not set(devices) <= set(_DEVICES):
        raise ValueError(f"devices of a {role} are of {', '.join(_DEVICES)}, got {', '.join(map(str, devices))}")
    mark = Implementation(role=role, devices=devices, **options | {"kernels": _patterns(**options)})

    def decorate(function: Any) -> Any:
        setattr(function, _ATTRIBUTE, mark)
        return function

    return decorate if method is None else decorate(method)


def _patterns(*, library: str | None = None, kernels: Sequence[str] = (), **_: Any) -> tuple[str, ...]:
    """The names of kernels, checked."""
    patterns = (kernels,) if isinstance(kernels, str) else tuple(kernels)
    if library is not None and not patterns:
        raise ValueError(f"library={library!r} needs kernels=: names or regular expressions of the kernels to watch")
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"kernels={pattern!r} is no regular expression: {error}") from None
    return patterns
