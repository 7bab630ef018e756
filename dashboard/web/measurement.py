"""The measurement that `make run` has under way on this machine: its state, and the line that states it.

The process that measures hands its `Current` to the application it serves; no other dashboard has one.
"""

import math
from dataclasses import dataclass
from typing import Literal

from flask import current_app
from pydantic import BaseModel, ConfigDict, Field, computed_field

_EXTENSION = "measurement"


class Count(BaseModel):
    """How much of a step is done."""

    model_config = ConfigDict(frozen=True)
    done: int = Field(ge=0)
    total: int = Field(ge=1)


class Measurement(BaseModel):
    """What this machine measures now; `none` where nothing does."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    state: Literal["none", "running", "finished", "failed"] = "none"
    task: str = ""
    """Work other than compiling and measuring commits, such as installing PyTorch."""
    commit: int | None = None
    """Of the commits to measure, counted from 1."""
    commits: int | None = None
    compiled: Count | None = None
    """Sources of the commit."""
    triton: Count | None = None
    """Configurations of Triton kernels, while they are compiled."""
    measured: Count | None = None
    """Benchmarks of the commit."""
    left_s: float | None = Field(default=None, ge=0)
    """Estimated from the steps done so far; null without a basis."""
    left_of: Literal["all commits", "this step"] = "all commits"
    problem: str = ""
    """What failed, and where to read of it."""
    imports: int = 0
    """How often results of this measurement went into the history: where it grows, pages have new data."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        """The line that the terminal and the overview show."""
        if self.state == "failed":
            return self.problem
        if self.state != "running":
            return "measured" if self.state == "finished" else ""
        parts = [f"commit {self.commit} of {self.commits}"] if self.commit and self.commits else []
        parts += [self.task] if self.task else []
        if self.compiled is not None:
            is_compiled = self.compiled.done >= self.compiled.total
            parts.append(f"compiled {self.compiled.total}" if is_compiled else _progress("compiling", self.compiled))
        if self.triton is not None:
            parts.append(_progress("compiling Triton kernels", self.triton))
        if self.measured is not None:
            parts.append(_progress("measuring", self.measured))
        if self.left_s is not None:
            parts.append(_left(self.left_s) + (" of this step" if self.left_of == "this step" else ""))
        return " · ".join(parts)


@dataclass(slots=True)
class Current:
    """The newest state, which the measuring thread replaces and requests read."""

    project: str
    now: Measurement


def show_on(pages: dict[str, object], current: Current) -> None:
    """Have an application's pages and API (its `extensions`) state this measurement."""
    pages[_EXTENSION] = current


def measurement_of(project: str) -> Measurement:
    current: Current | None = current_app.extensions.get(_EXTENSION)
    if current is None or current.project != project:
        return Measurement()
    return current.now


def _progress(step: str, count: Count) -> str:
    return f"{step} {count.done} of {count.total}"


def _left(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return "about a minute left" if minutes <= 1 else f"about {minutes} min left"
