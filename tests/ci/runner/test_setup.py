"""Set-up: dry run, written units, their validity in systemd, and repetition."""

import getpass
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.ci.runner.fake_nvidia_smi import RTX_4090, T4, FakeNvidiaSmi
from tests.ci.runner.services import make_service, unpack_actions_runner
from warpwatch.ci.cli import main
from warpwatch.ci.runner.host import Host
from warpwatch.ci.runner.service_steps import unit_files, unit_steps
from warpwatch.ci.runner.setup_command import setup
from warpwatch.ci.runner.setup_steps import SetupError, command_step, file_step, perform


@pytest.fixture
def checkout(tmp_path: Path, smi: FakeNvidiaSmi, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An asv project on a machine with a T4 that is calibrated and has a name."""
    folder, home = tmp_path / "checkout", tmp_path / "home"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "asv.conf.json").write_text('{"project": "demo"}')
    free = home / ".local/share/warpwatch/ceilings/free-clocks"
    free.mkdir(parents=True)
    for ceilings in (free, free.parent):
        for gpu in (T4, RTX_4090):
            (ceilings / f"{gpu['uuid']}.json").write_text(
                '{"measured_at": "2026-11-01T00:00:00+00:00", "ceilings": [{"sm_clock_hz": 1.0e9}]}'
            )
    (home / ".asv-machine.json").write_text('{"box": {"machine": "box"}, "version": 1}')
    monkeypatch.setenv("PATH", f"{smi.folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_DATA_HOME", "WARPWATCH_CEILINGS", "WARPWATCH_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


def _setup(checkout: Path, *words: str) -> Result:
    root = checkout.parent / "root"
    root.mkdir(exist_ok=True)
    options = ["--folder", str(checkout), "--user", getpass.getuser(), "--root", str(root), "--runs", "0"]
    return CliRunner().invoke(setup, [*options, *words])


def test_a_dry_run_prints_every_step_and_does_nothing(checkout: Path, tmp_path: Path, smi: FakeNvidiaSmi) -> None:
    (tmp_path / "token").write_text("warpwatch_secret\n")
    smi.answers(T4 | {"persistence_mode": "Disabled"})
    done = _setup(checkout, "--dry-run", "--to", "https://perf.example.org", "--token-file", str(tmp_path / "token"))
    assert done.exit_code == 0, done.output
    if os.geteuid() == 0:
        assert f"nvidia-smi -i {T4['uuid']} -pm 1" in done.output
    assert "clocks         Tesla T4: 960 MHz" in done.output
    assert "labels         gpu-t4" in done.output
    assert "--lock-gpu-clocks=960,960" in done.output
    assert "ExecStart=" in done.output
    assert "warpwatch_secret" not in done.output
    assert list((tmp_path / "root").iterdir()) == []
    assert [line for line in smi.calls() if line.strip()] == []


def test_without_a_gpu_setup_reports_that_the_cpu_is_measured(
    checkout: Path, tmp_path: Path, smi: FakeNvidiaSmi
) -> None:
    smi.answers()
    (smi.folder / "nvidia-smi").unlink()
    done = _setup(checkout, "--dry-run")
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU")
    assert "no GPU: the CPU twins are measured, and there are no clocks to lock" in done.output
    assert "labels         cpu" in done.output
    assert "warpwatch-clocks" not in done.output


def test_a_fault_stops_setup_before_its_first_step(checkout: Path, tmp_path: Path, smi: FakeNvidiaSmi) -> None:
    smi.answers(failure=(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."))
    done = _setup(checkout)
    assert done.exit_code == 1
    assert "first fix the errors above: driver" in done.output
    assert list((tmp_path / "root").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--user", "no-such-user"], "there is no user 'no-such-user'"),
        (["--to", "perf.example.org"], "expected such as https://"),
        (["--github", "o/r"], "has no run.sh"),
    ],
)
def test_invalid_options_are_named(words: list[str], message: str, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    tokens = ["--github-token-file", str(tmp_path / "token"), "--actions-runner", str(tmp_path / "nothing")]
    done = _setup(checkout, "--dry-run", *tokens, *words)
    assert done.exit_code == 1
    assert message in done.output


def test_systemd_accepts_every_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    units = tmp_path / "units"
    units.mkdir()
    for name, text in unit_files(make_service(tmp_path)).items():
        (units / name).write_text(text)
    words = ["systemd-analyze", "verify", "--man=no", *(str(path) for path in sorted(units.iterdir()))]
    environ = {**os.environ, "SYSTEMD_UNIT_PATH": f"{units}:"}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    complaints = [
        line for line in done.stderr.splitlines() if "/var/lib/warpwatch-actions/run.sh" not in line
    ]  # a copy
    assert complaints == []
    (units / "warpwatch-measure.service").write_text("[Service]\nExecStart=/no/such/program\nUsr=root\n")
    broken = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert "/no/such/program" in broken.stderr  # the units are read


def test_units_call_existing_commands(tmp_path: Path) -> None:
    """Each `…/warpwatch WORDS…` of a unit, also one that another runs, names a command."""
    calls = []
    for text in unit_files(make_service(tmp_path)).values():
        for name, value in _settings(text):
            words = shlex.split(value) if name == "ExecStart" else []
            calls += [words[index + 1 :] for index, word in enumerate(words) if word.endswith("/warpwatch")]
    assert len(calls) == 4
    for words in calls:
        command: click.Command = main
        while isinstance(command, click.Group):
            child = command.get_command(click.Context(command), words[0])
            assert child is not None, words
            command, words = child, words[1:]


def test_only_the_needed_units_are_written_and_clocks_are_reset(tmp_path: Path) -> None:
    files = unit_files(make_service(tmp_path, clocks=(), server=None, repository=None))
    assert set(files) == {"warpwatch-measure.service", "warpwatch-measure.timer"}
    assert "warpwatch-clocks" not in files["warpwatch-measure.service"]
    clocks = unit_files(make_service(tmp_path))["warpwatch-clocks.service"]
    for gpu in (T4, RTX_4090):
        for when in ("ExecStart", "ExecReload"):
            assert re.search(rf"^{when}=.*-i {gpu['uuid']} --lock-gpu-clocks=960,960$", clocks, re.MULTILINE)
        assert f"-i {gpu['uuid']} --reset-gpu-clocks" in clocks
    assert "StopWhenUnneeded=yes" in clocks
    assert clocks.count("ExecStopPost=-") == 4


def _settings(unit: str) -> list[tuple[str, str]]:
    """Settings of a unit's file, in order."""
    lines = [line for line in unit.splitlines() if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def test_a_job_has_a_temporary_user_and_home(tmp_path: Path) -> None:
    service = make_service(tmp_path)
    settings = _settings(unit_files(service)["warpwatch-actions.service"])
    names = [name for name, _ in settings]
    wipe = "/usr/bin/find /var/lib/warpwatch-actions/ -mindepth 1 -delete"
    before = [value for name, value in settings if name == "ExecStartPre"]
    assert before[0] == f"+{wipe}"
    assert before[-1] == "/usr/bin/mkdir /var/lib/warpwatch-actions/home"
    assert ("ExecStopPost", f"-+{wipe}") in settings
    assert {
        ("StateDirectory", "warpwatch-actions"),
        ("Environment", "HOME=/var/lib/warpwatch-actions/home"),
        ("DynamicUser", "yes"),
        ("PrivateTmp", "yes"),
        ("ProtectHome", "tmpfs"),
    } <= set(settings)
    assert "User" not in names  # not the measuring user
    writable = [value for name, value in settings if name in {"ReadWritePaths", "BindPaths"}]
    assert writable == ["-/run/lock"]


def test_a_job_reads_the_ceilings_of_the_measuring_user(tmp_path: Path) -> None:
    settings = _settings(unit_files(make_service(tmp_path))["warpwatch-actions.service"])
    ceilings = tmp_path / "the ceilings"
    assert ("Environment", f'"WARPWATCH_CEILINGS={ceilings}"') in settings
    assert any(name == "BindReadOnlyPaths" and f'"-{ceilings}"' in value for name, value in settings)


def test_the_timer_measures_with_private_temporary_files(tmp_path: Path) -> None:
    settings = _settings(unit_files(make_service(tmp_path))["warpwatch-measure.service"])
    assert {("User", "root"), ("PrivateTmp", "yes")} <= set(settings)


@pytest.mark.parametrize("version", ["2.335.0", "2.99.9", "1.400.1"])
def test_a_runner_that_is_too_old_for_the_workflows_is_refused(version: str, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    runner = unpack_actions_runner(tmp_path / "runner", version)
    words = ["--github", "o/r", "--github-token-file", str(tmp_path / "token"), "--actions-runner", str(runner)]
    done = _setup(checkout, "--dry-run", *words)
    assert done.exit_code == 1
    assert f"is {version}, and the workflows need 2.336.0 or newer" in done.output


@pytest.mark.parametrize("version", ["2.336.0", "2.1000.0", "3.0.0", None])
def test_a_runner_of_a_new_or_unknown_version_is_accepted(version: str | None, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    runner = unpack_actions_runner(tmp_path / "runner", version)
    words = ["--github", "o/r", "--github-token-file", str(tmp_path / "token"), "--actions-runner", str(runner)]
    done = _setup(checkout, "--dry-run", *words)
    assert done.exit_code == 0, done.output
    assert ("does not report its version" in done.output) == (version is None)


def test_the_registration_names_the_runner_group_of_an_organization(tmp_path: Path) -> None:
    of_a_repository = unit_files(make_service(tmp_path))["warpwatch-registration.service"]
    assert "--group" not in of_a_repository
    of_an_organization = unit_files(make_service(tmp_path, repository="kernels-org", runner_group=5))
    unit = of_an_organization["warpwatch-registration.service"]
    assert "register --repository kernels-org --group 5 --label" in unit


def test_a_second_setup_finds_every_step_done(checkout: Path, tmp_path: Path) -> None:
    service = make_service(tmp_path)
    target = Host(folder=checkout, root=tmp_path / "root")
    lines: list[str] = []
    assert perform(unit_steps(target, service), target, dry_run=False, say=lines.append) == []
    assert len(lines) == 6
    assert all(line.startswith("  doing") for line in lines)
    lines.clear()
    perform(unit_steps(target, service), target, dry_run=False, say=lines.append)
    assert all(line.startswith("  done already") for line in lines)
    changed = make_service(tmp_path, calendar="hourly")
    lines.clear()
    perform(unit_steps(target, changed), target, dry_run=False, say=lines.append)
    assert [line for line in lines if "doing" in line] == ["  doing          unit warpwatch-measure.timer"]


def test_without_root_the_steps_that_need_it_are_left(host: Host, tmp_path: Path) -> None:
    user = replace(host, is_root=False)
    marks = [tmp_path / "ours", tmp_path / "roots"]
    steps = [command_step(user, path.name, ["touch", str(path)], needs_root=path.name == "roots") for path in marks]
    lines: list[str] = []
    left = perform(steps, user, dry_run=False, say=lines.append)
    assert [step.shows for step in left] == [(f"touch {marks[1]}",)]
    assert [path.exists() for path in marks] == [True, False]
    assert lines == ["  doing          ours", "  needs root     roots"]


def test_a_failed_step_reports_its_command_and_status(host: Host) -> None:
    step = command_step(host, "a step", ["sh", "-c", "echo no such thing >&2; exit 4"])
    with pytest.raises(SetupError, match="ended with 4: no such thing"):
        perform([step], host, dry_run=False, say=print)


def test_a_secret_is_written_for_its_owner_only_and_never_printed(host: Host) -> None:
    step = file_step(host, "the token", "etc/warpwatch/push-token", "warpwatch_secret\n", mode=0o600)
    assert "warpwatch_secret" not in "".join(step.shows)
    step.do()
    written = host.root / "etc/warpwatch/push-token"
    assert (written.read_text(), written.stat().st_mode & 0o777) == ("warpwatch_secret\n", 0o600)
    assert file_step(host, "the token", "etc/warpwatch/push-token", "warpwatch_secret\n", mode=0o600).is_done
