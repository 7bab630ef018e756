"""An implementation bound to its inputs. No torch here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .output import Output


class UnavailableError(Exception):
    """This machine or this commit has no such implementation; the message names what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An implementation bound to its inputs; each call does the whole operation.

    Its output is new memory, or the inputs that the operator writes to.
    """

    run: Callable[[], Output]
    backend: str | None = None  # the library kernel family taken, where the implementation chooses one
    capturable: bool = True  # False: the call synchronises with the host, so no CUDA graph can capture it
