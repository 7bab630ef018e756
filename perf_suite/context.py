"""The machine and its state: what a number was measured on, and whether it may be trusted."""

import importlib.metadata
import platform
from dataclasses import dataclass
from typing import Any

import torch

from . import machines
from .records import Ceilings, ClockEventReasons, Gpu

# NVML's clock-event bits under which a number is not taken. A software power cap is not among them: a T4 (70 W)
# lives under its cap whenever it works, so there it is the normal condition; the bits are recorded all the same.
_INVALIDATING = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The GPU's state at one moment; None where NVML is missing or does not say."""

    temperature_c: float | None
    clock_event_reasons: int | None


UNKNOWN_CONDITIONS = Conditions(temperature_c=None, clock_event_reasons=None)


def device() -> str:
    """cuda where torch sees a GPU, else cpu."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def software() -> dict[str, str]:
    """Versions of everything a number depends on; what is missing has no entry."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    if torch.backends.cudnn.is_available():
        versions["cudnn"] = str(torch.backends.cudnn.version())
    for name, distribution in (("triton", "triton"), ("nvbench", "cuda-bench"), ("numpy", "numpy")):
        try:
            versions[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


class GpuMonitor:
    """NVML's view of torch's current GPU, or nothing where NVML's Python package is missing."""

    def __init__(self) -> None:
        torch.cuda.synchronize()  # from here on NVML counts this process among those on the GPU
        self._properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._nvml: Any = None
        self._handle: Any = None
        try:
            import pynvml
        except ModuleNotFoundError:
            return
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{self._properties.uuid}")
        except pynvml.NVMLError:  # no driver library, or a MIG slice, which has a UUID of its own kind
            return
        self._nvml = pynvml

    def gpu(self) -> Gpu:
        """The GPU's identity and settings."""
        p = self._properties
        power = self._ask("nvmlDeviceGetPowerManagementLimit")  # milliwatts
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        driver = self._nvml.nvmlSystemGetDriverVersion() if self._nvml else None
        return Gpu(
            name=p.name,
            uuid=f"GPU-{p.uuid}",
            compute_capability=f"{p.major}.{p.minor}",
            driver=driver,
            power_limit_w=None if power is None else power / 1000,
            sm_count=p.multi_processor_count,
            l2_bytes=p.L2_cache_size,
            memory_bytes=p.total_memory,
            ecc=_first_flag(self._ask("nvmlDeviceGetEccMode")),
            mig=_first_flag(self._ask("nvmlDeviceGetMigMode")),
            other_processes=None if processes is None else _others(processes),
        )

    def ceilings(self) -> Ceilings | None:
        """The data sheet's ceilings, where machines.py knows this GPU and it is whole."""
        mig = _first_flag(self._ask("nvmlDeviceGetMigMode"))
        return None if mig else machines.ceilings_of(self._properties.name)

    def conditions(self) -> Conditions:
        """Temperature and clock-event bits now."""
        temperature = self._ask("nvmlDeviceGetTemperature", 0)  # 0: the GPU's own sensor
        return Conditions(
            temperature_c=None if temperature is None else float(temperature),
            clock_event_reasons=self._clock_event_reasons(),
        )

    def _clock_event_reasons(self) -> int | None:
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:  # NVML before 12.2 calls them throttle reasons
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if bits is None else int(bits)

    def _ask(self, function: str, *arguments: Any) -> Any:
        """An NVML query's answer, or None where this GPU, driver or package does not have it."""
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


def clock_events(before: Conditions, after: Conditions) -> ClockEventReasons | None:
    """The bits around a measurement, or None where NVML gave none."""
    if before.clock_event_reasons is None or after.clock_event_reasons is None:
        return None
    return ClockEventReasons(before=before.clock_event_reasons, after=after.clock_event_reasons)


def throttled(events: ClockEventReasons | None) -> str | None:
    """The reason for which a measurement between these bits is invalid, or None."""
    if events is None:
        return None
    names = [name for bit, name in _INVALIDATING.items() if (events.before | events.after) & bit]
    return f"the GPU throttled: {', '.join(names)}" if names else None


def _first_flag(answer: Any) -> bool | None:
    """NVML answers ECC and MIG as (current, pending)."""
    return None if answer is None else bool(answer[0])


def _others(processes: Any) -> int:
    """All but this one, which in a container may be listed under another process id."""
    return max(0, len(processes) - 1)
