"""Checks of `doctor`: functions `check(host) -> findings`, listed here."""

from collections.abc import Callable, Iterable

from ..finding import Finding
from ..host import Host
from . import asv, clocks, computer, driver, gpu, queue, service, software

Check = Callable[[Host], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    driver.driver,
    driver.xid,
    gpu.persistence,
    gpu.compute_mode,
    gpu.mig,
    gpu.ecc,
    gpu.power_limit,
    gpu.temperature,
    gpu.processes,
    gpu.display,
    clocks.throttling,
    clocks.application_clocks,
    clocks.lockable,
    clocks.stale_clock_locks,
    computer.governor,
    computer.load,
    computer.time_sync,
    computer.disk_space,
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
