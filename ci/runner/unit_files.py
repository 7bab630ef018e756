"""The systemd units of a runner, rendered from `templates/`."""

from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .clock_lock import ClockChoice, lock_commands, reset_commands
from .installation import ACTIONS, CLOCKS, GITHUB_TOKEN, MEASURE, PUSH, PUSH_TOKEN, REGISTRATION, TIMER

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Settings of a runner's services."""

    folder: Path  # the checkout
    user: str  # that measures
    group: str  # may read the results
    measuring: Path  # the bin folder with asv and PyTorch
    serving: Path  # the bin folder of the program that gets secrets; not writable by `user`
    calendar: str  # systemd.time(7)
    labels: tuple[str, ...]
    ceilings: Path  # the folder with the GPUs' calibrations
    clocks: tuple[ClockChoice, ...] = ()
    nvidia_smi: str = "/usr/bin/nvidia-smi"
    server: str | None = None  # a dashboard
    project: str | None = None
    repository: str | None = None  # OWNER/NAME on GitHub, or an organization
    runner_group: int | None = None  # of an organization
    actions_runner: Path | None = None  # unpacked
    lock_commands: tuple[str, ...] = field(init=False)
    memory_lock_commands: tuple[str, ...] = field(init=False)
    reset_commands: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        locks = [lock_commands(choice) for choice in self.clocks]
        object.__setattr__(self, "lock_commands", tuple(self._line(each[0]) for each in locks))
        object.__setattr__(self, "memory_lock_commands", tuple(self._line(e) for each in locks for e in each[1:]))
        resets = [each for choice in self.clocks for each in reset_commands(choice.gpu.uuid)]
        object.__setattr__(self, "reset_commands", tuple(map(self._line, resets)))

    def _line(self, command: tuple[str, ...]) -> str:
        return " ".join((self.nvidia_smi, *command[1:]))


def unit_files(service: Service) -> dict[str, str]:
    """Texts of the needed units, by name."""
    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    templates.filters.update(quoted=_quoted, path=_path)
    names = [MEASURE, TIMER]
    if service.clocks:
        names.append(CLOCKS)
    if service.server:
        names.append(PUSH)
    if service.repository:
        names += [REGISTRATION, ACTIONS]
    return {
        name: templates.get_template(f"{name}.j2").render(
            service=service, push_token=f"/{PUSH_TOKEN}", github_token=f"/{GITHUB_TOKEN}"
        )
        for name in sorted(names)
    }


def _path(value: object) -> str:
    """Escaped for systemd's settings that are one path, to the end of the line."""
    return str(value).replace("%", "%%")


def _quoted(value: object) -> str:
    """Escaped for systemd's command lines: percent and dollar signs doubled, quoted if needed."""
    word = str(value).replace("%", "%%").replace("$", "$$")
    if word and not any(sign in word for sign in " \t\"'\\;"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
