"""Importers, history store, statistics and pages. Needs no GPU and no torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cli.measurement_rows import history

__all__ = ["history"]


def __getattr__(name: str) -> Any:
    if name == "history":  # lazily: every command imports this package
        from .cli.measurement_rows import history

        return history
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
