"""A worker process and the eye kept on it: what it says, how long it is silent, how it ended. No torch here."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from .child_process import LinesInTime, SilentError, compiling_alone, python_running
from .protocol import Job, jobs_to_json
from .records import Failure, RunRecord, from_line

_LAST_WORDS = 300  # characters of the worker's output kept as a reason
_OUTPUT = "output"
_LINGER_S = 20.0  # a process that ends CUDA may take its time
SCRATCH_VARIABLE = "WARPBENCH_SCRATCH"  # a folder of the worker's own, cleared away with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a worker may be silent, in seconds."""

    start_s: float = 300.0  # import torch from a cold disk, open the GPU
    job_s: float = 240.0  # references, torch.compile and the measurement itself


class WorkerStartError(Exception):
    """The worker ended, or fell silent, before it could measure anything."""


class WatchedWorker:
    """One worker at a time, in our own process group, so that a signal that kills asv kills it too."""

    record: RunRecord  # what the first worker found the machine to be

    def __init__(self, run: str, limits: Limits) -> None:
        self._run, self._limits, self._begun = run, limits, time.time()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def give(self, jobs: list[Job]) -> None:
        """Hand over all jobs at once, to be made ready for. Should the worker be gone, `read_line` reports it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(jobs_to_json(jobs).encode() + b"\n")
            self._process.stdin.flush()

    def begin(self) -> None:
        """Let the worker begin, by closing its standard input."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def read_line(self) -> str | None:
        """The worker's next line, or None if it ended or was silent for too long (it is killed then)."""
        return self._read_line(self._limits.job_s)

    def restart(self) -> None:
        """End this worker and start another."""
        self._end()
        self._start()

    def failure(self) -> Failure:
        """In what way the worker ended."""
        return Failure.TIME_LIMIT if self._silent else Failure.CRASH

    def last_words(self) -> str:
        """How the worker ended, in a sentence."""
        if self._silent:
            return f"no answer within {self._limits.job_s:g} s; the worker was killed"
        code = self._ended()
        if code is None:
            return "the worker fell silent, and does not end although it was killed"
        said = (self._scratch / _OUTPUT).read_text(errors="replace").strip()[-_LAST_WORDS:]
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return f"the worker died with {how}" + (f": {said}" if said else "")

    def _start(self) -> None:
        reader, writer = os.pipe()
        self._silent = False
        self._scratch = Path(tempfile.mkdtemp(prefix="warpbench_worker_"))
        output = (self._scratch / _OUTPUT).open("wb")
        self._process = subprocess.Popen(
            [*python_running("warpbench.worker"), str(writer), self._run, str(self._begun)],
            env={**compiling_alone(), SCRATCH_VARIABLE: str(self._scratch)},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(writer,),
        )
        self._lines = LinesInTime(reader, self._process)
        output.close()
        os.close(writer)
        line = self._read_line(self._limits.start_s)
        if line is None:
            words = self.last_words()
            self._end()
            raise WorkerStartError(f"no worker could be started: {words}")
        record = from_line(line)
        assert isinstance(record, RunRecord)
        if not hasattr(self, "record"):
            self.record = record

    def _read_line(self, limit_s: float) -> str | None:
        try:
            return self._lines.next(limit_s)
        except SilentError:
            self._silent = True
            self._process.kill()
            return None

    def _end(self) -> None:
        """Nothing of this worker stays, however far it came."""
        self._process.kill()
        self._ended()
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._lines.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _ended(self) -> int | None:
        """The exit status of a worker that has said its last; killed if it lingers, None if even that does not help."""
        for _ in range(2):
            try:
                return self._process.wait(_LINGER_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return None
