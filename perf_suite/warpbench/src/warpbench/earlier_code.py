"""Which measurements of earlier commits stand for today's: of the same code, on the same machine, with its software."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .records import Gpu, MeasurementRecord, RunRecord, Status, from_line


@dataclass(frozen=True, slots=True)
class Code:
    """A workload × implementation, and the code_digest of what ran."""

    benchmark: str
    workload: str
    implementation: str
    sha256: str
    metrics: tuple[str, ...]  # the optional ones that were asked for


def measured_before(contexts: Iterable[Path], here: RunRecord) -> Mapping[Code, str]:
    """The full hash of the commit that measured each code last and got a number, of context files of earlier commits.

    A run counts only if its GPU, or on the CPU its processor, and its software were those of `here`. What was skipped
    as unchanged counts for the commit that it was measured at, not for the one that skipped it.
    """
    found: dict[Code, tuple[str, str]] = {}
    for path in contexts:
        runs: dict[str, RunRecord] = {}
        for line in path.read_text().splitlines():
            if json.loads(line)["record"] not in (RunRecord.record, MeasurementRecord.record):
                continue
            record = from_line(line)
            if isinstance(record, RunRecord):
                runs[record.run] = record
            elif isinstance(record, MeasurementRecord) and _counts(record):
                run = runs.get(record.run)
                names = record.benchmark, record.workload, record.implementation
                code = Code(*names, record.code_sha256 or "", record.metrics)
                if run and _is_alike(run, here) and run.started_at > found.get(code, ("", ""))[0]:
                    found[code] = run.started_at, run.commit
    return {code: commit for code, (_, commit) in found.items()}


def _counts(record: MeasurementRecord) -> bool:
    return record.status is Status.OK and record.code_sha256 is not None and not record.quick


def _is_alike(run: RunRecord, here: RunRecord) -> bool:
    """Another commit, on the same device, by the same software and the same suite."""
    if run.commit == here.commit or run.suite_sha256 is None or run.suite_sha256 != here.suite_sha256:
        return False
    if run.device != here.device or dict(run.software) != dict(here.software):
        return False
    if run.gpu is None or here.gpu is None:
        return run.gpu == here.gpu and (run.cpu.model, run.cpu.threads) == (here.cpu.model, here.cpu.threads)
    return _lasting(run.gpu) == _lasting(here.gpu)


def _lasting(gpu: Gpu) -> dict[str, object]:
    return {name: value for name, value in asdict(gpu).items() if name != "other_processes"}
