"""Checks of `doctor`: functions `check(host) -> findings`, listed here."""

from collections.abc import Callable, Iterable

from ..finding import Finding
from ..host import Host
from . import computer, gpu, service, software

Check = Callable[[Host], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    gpu.driver,
    gpu.xid,
    gpu.persistence,
    gpu.compute_mode,
    gpu.mig,
    gpu.ecc,
    gpu.power_limit,
    gpu.temperature,
    gpu.processes,
    gpu.display,
    gpu.throttling,
    gpu.application_clocks,
    gpu.lockable,
    gpu.stale_clock_locks,
    computer.governor,
    computer.load,
    computer.time_sync,
    computer.disk_space,
    software.python,
    software.torch,
    software.compiler,
    software.cuda_compiler,
    software.git,
    software.project,
    software.machine,
    software.calibration,
    service.units,
    service.jobs,
    service.actions_runner,
    service.credentials,
    service.waiting,
    service.dashboard,
)


def examine(host: Host) -> tuple[Finding, ...]:
    """All findings, in the order of the list."""
    return tuple(finding for check in CHECKS for finding in check(host))
