"""Which destinations an alert goes to: those of every route that matches it, else those for all the rest."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from warpwatch.ci.alerting.places import address_names
from warpwatch.ci.policy.alerts import AlertsTable, Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """What an alert is about, as routes ask."""

    kind: str  # policy.alerts.KINDS
    machine: str | None  # None: of all
    kernels: Collection[str]
    owners: Collection[str]


def destinations(matter: Matter, policy: AlertsTable, given: Sequence[str]) -> tuple[str, ...]:
    """The names of destinations, each once. `given` are addresses of the command line, which get everything."""
    matching = [name for route in policy.route if _matches(route, matter) for name in route.to]
    return tuple(dict.fromkeys((*address_names(given), *(matching or policy.to))))


def _matches(route: Route, matter: Matter) -> bool:
    return (
        (not route.kind or matter.kind in route.kind)
        and _any(route.machine, (matter.machine,) if matter.machine is not None else ())
        and _any(route.kernel, matter.kernels)
        and _any(route.owner, matter.owners)
    )


def _any(globs: tuple[str, ...], values: Collection[str]) -> bool:
    """Without globs everything goes; with some, one value must."""
    return not globs or any(fnmatchcase(value, glob) for value in values for glob in globs)
