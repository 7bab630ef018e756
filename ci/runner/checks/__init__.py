"""Checks of `doctor`: functions `check(host) -> findings`, listed here."""

from collections.abc import Callable, Iterable

from ..finding import Finding
from ..host import Host
from . import asv, card, clocks, computer, driver, queue, service, software

Check = Callable[[Host], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    driver.driver,
    driver.xid,
    card.persistence,
    card.compute_mode,
    card.mig,
    card.ecc,
    card.power_limit,
    card.temperature,
    card.processes,
    card.display,
    clocks.held_down,
    clocks.application_clocks,
    clocks.lockable,
    clocks.left_locked,
    computer.governor,
    computer.load,
    computer.time_sync,
    computer.room,
    software.python,
    software.torch,
    software.compiler,
    software.cuda_compiler,
    software.git,
    asv.project,
    asv.machine,
    asv.calibration,
    service.units,
    service.jobs,
    service.actions_runner,
    service.credentials,
    queue.waiting,
    queue.dashboard,
)


def examine(host: Host) -> tuple[Finding, ...]:
    """All findings, in the order of the list."""
    return tuple(finding for check in CHECKS for finding in check(host))
