"""Set-up steps for services: secrets, units, systemd."""

import grp
import pwd
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import click
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..push.upload import check_server
from .calibration_files import ceiling_folder
from .clock_lock import ClockChoice, lock_commands, reset_commands
from .host import Host
from .service_files import (
    ACTIONS,
    CLOCKS,
    GITHUB_TOKEN,
    MEASURE,
    OLDEST,
    PUSH,
    PUSH_TOKEN,
    REGISTRATION,
    RELEASES,
    TIMER,
    UNIT_FOLDER,
    is_too_old,
    version_of,
)
from .setup_steps import SetupError, SetupStep, command_step, file_step

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


# A runner's label: `gpu-t4`, `gpu-rtx4090`, `gpu-h200`, from the GPU's name in NVML.

_MODEL = re.compile(
    r"\b(?P<kind>RTX|GTX|TITAN|Quadro RTX)?\s*(?P<model>(?:PRO )?[A-Z]{0,3}\d{1,4}[A-Z]{0,2}\d?)"
    r"(?:\s+(?P<more>Ti SUPER|Ti|SUPER|D|Ada))?",
)
_MAKERS = re.compile(r"\b(NVIDIA|Tesla|GeForce|Graphics Device|Laptop GPU|Generation|Blackwell \w+ Edition)\b")


def gpu_label(name: str) -> str:
    """The runner's label for a GPU's name. Raises ValueError for a name without a model."""
    found = _MODEL.search(_MAKERS.sub(" ", name))
    if found is None:
        raise ValueError(f"{name!r} names no GPU model; expected such as 'Tesla T4' or 'NVIDIA GeForce RTX 4090'")
    words = "".join(found[part] or "" for part in ("kind", "model", "more"))
    return "gpu-" + re.sub(r"[^a-z0-9]", "", words.lower())


def service_of(
    host: Host,
    owner: pwd.struct_passwd,
    choices: list[ClockChoice],
    *,
    server: str | None,
    project: str | None,
    repository: str | None,
    runner_group: int | None,
    actions_runner: Path,
    calendar: str,
) -> Service:
    """The settings of the services. Raises SettingsError for an invalid address."""
    labels = tuple(sorted({gpu_label(gpu.name) for gpu in host.gpus.devices})) or ("cpu",)
    click.echo(f"  labels         {', '.join(labels)}")
    serving = Path(sys.executable).parent
    if owner.pw_uid != 0 and (serving.stat().st_uid == owner.pw_uid or serving.stat().st_mode & 0o002):
        click.echo(
            f"  note           {owner.pw_name} can write to {serving}, whose program gets the tokens: measured code "
            "could read them. Install warpwatch as root elsewhere (README), and run setup from there"
        )
    return Service(
        folder=host.folder,
        user=owner.pw_name,
        group=grp.getgrgid(owner.pw_gid).gr_name,
        measuring=Path(host.python).parent,
        serving=serving,
        calendar=calendar,
        labels=labels,
        ceilings=ceiling_folder(host),
        clocks=tuple(choices),
        nvidia_smi=host.which("nvidia-smi") or "/usr/bin/nvidia-smi",
        server=check_server(server) if server else None,
        project=project,
        repository=repository,
        runner_group=runner_group,
        actions_runner=actions_runner.resolve() if repository else None,
    )


def secret_steps(
    target: Host, service: Service, token_file: Path | None, github_token_file: Path | None
) -> list[SetupStep]:
    """Steps that install the tokens, readable by root and the services' users only. Raises SetupError."""
    steps = []
    for is_wanted, given, path, option in (
        (service.server, token_file, PUSH_TOKEN, "--token-file"),
        (service.repository, github_token_file, GITHUB_TOKEN, "--github-token-file"),
    ):
        if is_wanted and given is not None:
            steps.append(file_step(target, f"the token in /{path}", path, given.read_text().strip() + "\n", mode=0o600))
        elif is_wanted and target.is_root and not (target.root / path).is_file():
            raise SetupError(f"{is_wanted} needs a token: give {option}")
    if service.repository and service.actions_runner:
        _check_actions_runner(target, service.actions_runner)
    return steps


def _check_actions_runner(target: Host, folder: Path) -> None:
    if not (folder / "run.sh").is_file():
        raise SetupError(
            f"{folder} has no run.sh: unpack GitHub's runner there ({RELEASES}), or name its "
            "folder with --actions-runner"
        )
    version = version_of(target, folder)
    if version is None:
        click.echo(f"  note           {folder} does not report its version; the workflows need {OLDEST} or newer")
    elif is_too_old(version):
        raise SetupError(
            f"GitHub's runner in {folder} is {version}, and the workflows need {OLDEST} or newer: unpack a newer one "
            f"there ({RELEASES})"
        )


def unit_steps(target: Host, service: Service) -> list[SetupStep]:
    """Steps that install the units and reload systemd where it runs."""
    files = [
        file_step(target, f"unit {name}", f"{UNIT_FOLDER}/{name}", text) for name, text in unit_files(service).items()
    ]
    enabled = [TIMER, *([PUSH] if service.server else []), *([ACTIONS] if service.repository else [])]
    if target.root != Path("/"):
        return files
    if not Path("/run/systemd/system").is_dir():
        click.echo("  note           systemd does not run here: units are written, and nothing is started")
        return files
    changed = not all(step.is_done for step in files)
    reload_ = command_step(
        target, "systemd reads the units", ["systemctl", "daemon-reload"], needs_root=True, is_done=not changed
    )
    active = target.run("systemctl", "is-active", "--quiet", *enabled).status == 0
    enable = command_step(
        target,
        f"{', '.join(enabled)} start now and at each boot",
        ["systemctl", "enable", "--now", *enabled],
        needs_root=True,
        is_done=active and not changed,
    )
    restart = command_step(  # not ACTIONS, whose service restarts by itself after the current job
        target,
        "running services restart with their new units",
        ["systemctl", "try-restart", TIMER, PUSH],
        needs_root=True,
        is_done=not changed or not active,
    )
    return [*files, reload_, enable, restart]
