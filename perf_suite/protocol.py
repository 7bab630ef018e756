"""What session.py and worker.py say to each other. No torch here."""

import json
from dataclasses import asdict, dataclass

from .records import MeasurementRecord, from_line, to_line

STARTED = json.dumps({"started": True})  # the worker's line before each job


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One workload × implementation to measure."""

    benchmark: str  # the asv class it is recorded under
    operator: str
    workload: str
    implementation: str
    quick: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a job: the record, and the thinned latency samples that go to asv."""

    measurement: MeasurementRecord
    samples_s: tuple[float, ...]


def jobs_to_json(jobs: list[Job]) -> str:
    """The worker's standard input."""
    return json.dumps([asdict(job) for job in jobs])


def jobs_from_json(text: str) -> list[Job]:
    """The inverse of jobs_to_json."""
    return [Job(**values) for values in json.loads(text)]


def outcome_to_line(outcome: Outcome) -> str:
    """The measurement's own line with the samples added."""
    return json.dumps({**json.loads(to_line(outcome.measurement)), "samples_s": outcome.samples_s})


def outcome_from_line(line: str) -> Outcome:
    """The inverse of outcome_to_line. Raises ValueError if the line holds no measurement."""
    measurement = from_line(line)
    if not isinstance(measurement, MeasurementRecord):
        raise ValueError(f"wanted a measurement from the worker, got {line[:80]!r}")
    return Outcome(measurement=measurement, samples_s=tuple(json.loads(line)["samples_s"]))
