"""Workflows as data. Every scalar is the text that is written there: `on` stays "on", `false` stays "false"."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".github/workflows"
ACTIONS = ROOT / ".github/actions"
Workflow = dict[str, Any]


def read(path: Path) -> Workflow:
    """One file."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> Workflow:
    """Its text."""
    return yaml.load(text, Loader=yaml.BaseLoader)


def names() -> list[str]:
    """Of all workflows."""
    return sorted(path.name for path in FOLDER.glob("*.yml"))


def triggers(workflow: Workflow) -> set[str]:
    """What starts it."""
    events = workflow["on"]
    return {events} if isinstance(events, str) else set(events)


def jobs(workflow: Workflow) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """With their names."""
    yield from workflow["jobs"].items()


def steps(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """None of a job that calls a workflow."""
    return job.get("steps", [])


def step(name: str, job: str, title: str) -> Mapping[str, Any]:
    """A step of this repository's, by its name."""
    found = [each for each in steps(read(FOLDER / name)["jobs"][job]) if each.get("name") == title]
    assert len(found) == 1, f"{name}: {job} has {len(found)} steps called {title!r}"
    return found[0]
