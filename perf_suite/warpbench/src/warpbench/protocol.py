"""What session.py and worker.py say to each other. No torch here."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from .cost import Cost
from .records import MeasurementRecord, Status, from_line, to_line
from .workload import Workload

STARTED = json.dumps({"started": True})  # the worker's line before each job


class Stage(StrEnum):
    """What a worker does about a job. Energy comes last in a run: it leaves the GPU hot and its clock low."""

    LATENCY = "latency"  # and all else that is not energy
    ENERGY = "energy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One workload × implementation to measure. The workload travels whole: it need not be in the catalogue."""

    benchmark: str  # the asv class it is recorded under
    workload: Workload
    implementation: str
    quick: bool = False
    metrics: tuple[str, ...] = ()  # of OPTIONAL_METRICS
    stage: Stage = Stage.LATENCY
    visit: int = 0  # which of the `visits` to this combination
    visits: int = 1  # over how many its samples are spread

    @property
    def is_last_visit(self) -> bool:
        """Whether this visit measures what is measured once."""
        return self.visit == self.visits - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a job: the record, and the latency samples that go to asv."""

    measurement: MeasurementRecord
    samples_s: tuple[float, ...] = ()
    calls_per_sample: int = 1  # each sample is a mean of so many
    warm_samples_s: tuple[float, ...] = ()
    steady_samples_s: tuple[float, ...] = ()
    triton_files: tuple[str, ...] = ()  # of Triton's cache: the JSON files of what it compiled or loaded for the job


# What takes device time of its own and is left out unless requested.
OPTIONAL_METRICS = ("warm_latency", "steady_latency", "energy")
_EXTRA_FIELDS = ("samples_s", "calls_per_sample", "warm_samples_s", "steady_samples_s", "triton_files")


def blank_record(run: str, job: Job) -> MeasurementRecord:
    """What is known of a job before it is measured; failed until it is."""
    return MeasurementRecord(
        run=run,
        benchmark=job.benchmark,
        workload=job.workload.name,
        implementation=job.implementation,
        status=Status.FAILED,
        cache="cold" if job.workload.device == "cuda" else "warm",
        seed=job.workload.seed,
        tolerance=job.workload.tolerance,
    )


def jobs_to_json(jobs: Sequence[Job]) -> str:
    """The worker's standard input."""
    return json.dumps([asdict(job) for job in jobs])


def jobs_from_json(text: str) -> list[Job]:
    """The inverse of jobs_to_json."""
    return [_job(**values) for values in json.loads(text)]


def outcome_to_line(outcome: Outcome) -> str:
    """The measurement's own line with the samples added."""
    extra = {name: getattr(outcome, name) for name in _EXTRA_FIELDS}
    return json.dumps({**json.loads(to_line(outcome.measurement)), **extra})


def outcome_from_line(line: str) -> Outcome:
    """The inverse of outcome_to_line. Raises ValueError if the line holds no measurement."""
    measurement = from_line(line)
    if not isinstance(measurement, MeasurementRecord):
        raise ValueError(f"wanted a measurement from the worker, got {line[:80]!r}")
    values = json.loads(line)
    return Outcome(
        measurement=measurement,
        samples_s=tuple(values["samples_s"]),
        calls_per_sample=values["calls_per_sample"],
        warm_samples_s=tuple(values["warm_samples_s"]),
        steady_samples_s=tuple(values["steady_samples_s"]),
        triton_files=tuple(values["triton_files"]),
    )


def _job(*, workload: dict[str, object], metrics: list[str], stage: str, **values: object) -> Job:
    workload = {name: tuple(value) if isinstance(value, list) else value for name, value in workload.items()}
    workload["cost"] = Cost(**workload["cost"])  # type: ignore[arg-type]
    return Job(workload=Workload(**workload), metrics=tuple(metrics), stage=Stage(stage), **values)  # type: ignore[arg-type]
