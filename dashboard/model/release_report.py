"""What changed between two releases: times of each kernel or module, other metrics, standing against the baselines."""

from typing import ClassVar

from .metric import Better
from .schema import CommitSchema, Schema


class LatencyChange(Schema):
    """Latency of a kernel on a machine, head against base; of all kernels where `kernel` is null.

    Means are geometric, over workloads of the project's main implementation.
    """

    machine: str
    kernel: str | None
    in_means: bool
    """Whether the machine's mean counts the kernel; a policy may exclude kernels that exist for teaching."""
    workloads: int
    """Measured at both commits."""
    change: float | None
    """Mean relative change of latency, the drift of the machine and the effect of another GPU taken off."""
    faster: int
    slower: int
    unchanged: int
    inconclusive: int
    new: int
    """Workloads measured at head only."""
    removed: int
    """Workloads measured at base only."""
    speedup_base: float | None
    """Mean speedup over the best baseline of the same commit, at base; over the workloads that both commits measured,
    if there are any."""
    speedup_head: float | None

    @property
    def is_new(self) -> bool:
        """Whether the kernel was not measured at base."""
        return self.new > 0 and not self.workloads and not self.removed

    @property
    def is_removed(self) -> bool:
        """Whether the kernel was not measured at head."""
        return self.removed > 0 and not self.workloads and not self.new


class MetricChange(Schema):
    """Series of one metric other than latency that changed, of one kernel on one machine."""

    machine: str
    kernel: str
    metric: str
    label: str
    unit: str
    better: Better
    series: int
    change: float | None
    """Mean relative change of these series; null where a value was or became 0."""
    is_worse: bool


class ReleaseReport(Schema):
    """Two releases compared."""

    csv_rows: ClassVar[str] = "kernels"

    project: str
    base: CommitSchema
    head: CommitSchema
    base_name: str | None
    """Its tag; null without one."""
    head_name: str | None
    has_kernels: bool
    """Whether the project's series name kernels and workloads; otherwise `kernel` is a module and a workload a
    benchmark."""
    metric: str
    """Label of the metric of `machines` and `kernels`: latency where it was measured, else time."""
    machines: tuple[LatencyChange, ...]
    kernels: tuple[LatencyChange, ...]
    """The largest improvement first; new ones, then removed ones, last."""
    others: tuple[MetricChange, ...]
    """Regressions first."""
    notes: tuple[str, ...]
    """Remarks on the comparison as a whole."""

    @property
    def kernel_word(self) -> str:
        """What the rows are: "kernel" or "module"."""
        return "kernel" if self.has_kernels else "module"

    @property
    def workload_word(self) -> str:
        """What a row summarises: "workload" or "benchmark"."""
        return "workload" if self.has_kernels else "benchmark"
