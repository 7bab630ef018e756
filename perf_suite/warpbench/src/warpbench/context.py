"""The machine and its state, as the driver and PyTorch report them: what a number was measured on."""

import importlib.metadata
import os
import platform
from dataclasses import dataclass, field
from typing import Any

import torch

from . import machines
from .records import Ceilings, Gpu

# NVML's counters of nanoseconds throttled, by what they mean; and their elders, for older drivers.
_THROTTLE_FIELDS = {
    "power cap": "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP",
    "sync boost": "NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST",
    "software thermal slowdown": "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
    "hardware thermal slowdown": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
    "hardware power brake": "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
}
_ELDER_THROTTLE_FIELDS = {
    "power cap": "NVML_FI_DEV_PERF_POLICY_POWER",
    "sync boost": "NVML_FI_DEV_PERF_POLICY_SYNC_BOOST",
    "thermal slowdown": "NVML_FI_DEV_PERF_POLICY_THERMAL",
    "board limit": "NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The GPU's state at one moment; None or empty where NVML is missing or does not say."""

    temperature_c: float | None = None
    clock_event_reasons: int | None = None
    throttled_s: dict[str, float] = field(default_factory=dict)  # since the driver was loaded, by reason


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
        self._nvml, before = _nvml(), {}
        if self._nvml is not None:
            before = _processes_by_gpu(self._nvml)
        torch.cuda.synchronize()  # from here on NVML counts this process among those on the GPU
        self._properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._handle: Any = None
        self._own: set[int] = set()
        if self._nvml is None:
            return
        uuid = f"GPU-{self._properties.uuid}"
        try:
            self._handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        except self._nvml.NVMLError:  # a MIG slice has a UUID of its own kind
            self._nvml = None
            return
        now = _processes(self._nvml, self._handle)
        # In a container NVML may list us under the host's process id: then we are who came just now.
        self._own = {os.getpid()} if os.getpid() in now else now - before.get(uuid, set())

    @property
    def l2_bytes(self) -> int:
        """Size of the L2."""
        return int(self._properties.L2_cache_size)

    def gpu(self) -> Gpu:
        """The GPU's identity and settings."""
        p = self._properties
        power = self._ask("nvmlDeviceGetPowerManagementLimit")  # milliwatts
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
            other_processes=len(self.others()) if self.sees_processes else None,
        )

    def ceilings(self) -> Ceilings | None:
        """The data sheet's ceilings, where machines.py knows this GPU and it is whole."""
        p, mig = self._properties, _first_flag(self._ask("nvmlDeviceGetMigMode"))
        return None if mig else machines.ceilings_of(p.name, sm_count=p.multi_processor_count)

    def conditions(self) -> Conditions:
        """Temperature, clock-event bits and throttling counters now."""
        temperature = self._ask("nvmlDeviceGetTemperature", 0)  # 0: the GPU's own sensor
        return Conditions(
            temperature_c=None if temperature is None else float(temperature),
            clock_event_reasons=self._clock_event_reasons(),
            throttled_s=self._throttled_s(),
        )

    @property
    def sees_processes(self) -> bool:
        """Whether NVML lists the processes on this GPU, us among them."""
        return self._nvml is not None and bool(self._own)

    def others(self) -> set[int]:
        """Process ids of others with a compute context on the GPU, at work or not."""
        return _processes(self._nvml, self._handle) - self._own if self._nvml else set()

    def at_work(self, since_us: int) -> set[int]:
        """Those that NVML saw computing since a time on its clock. It samples some five times a second, one
        process at a time."""
        samples = self._ask("nvmlDeviceGetProcessUtilization", since_us) or ()
        return {sample.pid for sample in samples if sample.smUtil > 0 and sample.timeStamp > since_us} - self._own

    def energy_j(self) -> float | None:
        """What the GPU has consumed since the driver was loaded, in joules."""
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules / 1000

    def _throttled_s(self) -> dict[str, float]:
        counters = self._counters(_THROTTLE_FIELDS)
        return counters or self._counters(_ELDER_THROTTLE_FIELDS)

    def _counters(self, fields: dict[str, str]) -> dict[str, float]:
        known = {name: getattr(self._nvml, field, None) for name, field in fields.items()} if self._nvml else {}
        wanted = {name: number for name, number in known.items() if number is not None}
        if not wanted:
            return {}
        try:
            values = self._nvml.nvmlDeviceGetFieldValues(self._handle, list(wanted.values()))
        except self._nvml.NVMLError:
            return {}
        return {
            name: value.value.ullVal * 1e-9
            for name, value in zip(wanted, values, strict=True)
            if value.nvmlReturn == self._nvml.NVML_SUCCESS
        }

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


def _nvml() -> Any:
    """NVML's Python package, started; None without it or without a driver."""
    try:
        import pynvml
    except ModuleNotFoundError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _processes_by_gpu(nvml: Any) -> dict[str, set[int]]:
    found = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            found[nvml.nvmlDeviceGetUUID(handle)] = _processes(nvml, handle)
        except nvml.NVMLError:  # another GPU, which is lost
            continue
    return found


def _processes(nvml: Any, handle: Any) -> set[int]:
    try:
        return {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    except nvml.NVMLError:
        return set()


def _first_flag(answer: Any) -> bool | None:
    """NVML answers ECC and MIG as (current, pending)."""
    return None if answer is None else bool(answer[0])
