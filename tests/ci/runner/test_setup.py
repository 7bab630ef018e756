"""Set-up: what it would do, what it writes, what systemd makes of it, and that a second time there is nothing to do."""

import getpass
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.ci.runner.fake_nvidia_smi import RTX_4090, T4, FakeNvidiaSmi
from tests.ci.runner.services import make_service, unpack_actions_runner
from warpwatch.ci.runner.host import Host
from warpwatch.ci.runner.service_steps import unit_steps
from warpwatch.ci.runner.setup_command import setup
from warpwatch.ci.runner.setup_steps import SetupError, command_step, file_step, perform
from warpwatch.ci.runner.unit_files import unit_files


@pytest.fixture
def checkout(tmp_path: Path, smi: FakeNvidiaSmi, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of asv's on a machine with a T4, calibrated and named already."""
    folder, home = tmp_path / "checkout", tmp_path / "home"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "asv.conf.json").write_text('{"project": "demo"}')
    free = home / ".local/share/warpwatch/ceilings/free-clocks"
    free.mkdir(parents=True)
    for place in (free, free.parent):
        for card in (T4, RTX_4090):
            (place / f"{card['uuid']}.json").write_text(
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
    always = ["--folder", str(checkout), "--user", getpass.getuser(), "--root", str(root), "--runs", "0"]
    return CliRunner().invoke(setup, [*always, *words])


def test_a_dry_run_says_all_and_does_nothing(checkout: Path, tmp_path: Path, smi: FakeNvidiaSmi) -> None:
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
    assert [line for line in smi.asked() if line.strip()] == []


def test_on_a_machine_without_a_gpu_the_cpu_is_measured_and_that_is_said(
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


def test_what_is_wrong_stops_before_anything_is_done(checkout: Path, tmp_path: Path, smi: FakeNvidiaSmi) -> None:
    smi.answers(failure=(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."))
    done = _setup(checkout)
    assert done.exit_code == 1
    assert "first mend what is wrong above: driver" in done.output
    assert list((tmp_path / "root").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", "no-such-user"], "there is no user 'no-such-user'"),
        (["--to", "perf.example.org"], "wanted such as https://"),
        (["--github", "o/r"], "has no run.sh"),
    ],
)
def test_what_cannot_be_meant_is_named(words: list[str], said: str, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    tokens = ["--github-token-file", str(tmp_path / "token"), "--actions-runner", str(tmp_path / "nothing")]
    done = _setup(checkout, "--dry-run", *tokens, *words)
    assert done.exit_code == 1
    assert said in done.output


def test_systemd_takes_every_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    units = tmp_path / "units"
    units.mkdir()
    for name, text in unit_files(make_service(tmp_path)).items():
        (units / name).write_text(text)
    words = ["systemd-analyze", "verify", "--man=no", *(str(path) for path in sorted(units.iterdir()))]
    environ = {**os.environ, "SYSTEMD_UNIT_PATH": f"{units}:"}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if "/var/lib/warpwatch-actions/run.sh" not in line]  # a copy
    assert told == []
    (units / "warpwatch-measure.service").write_text("[Service]\nExecStart=/no/such/program\nUsr=root\n")
    broken = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert "/no/such/program" in broken.stderr  # it reads what it is given


def test_units_are_only_those_that_are_wanted_and_clocks_come_back(tmp_path: Path) -> None:
    files = unit_files(make_service(tmp_path, clocks=(), server=None, repository=None))
    assert set(files) == {"warpwatch-measure.service", "warpwatch-measure.timer"}
    assert "warpwatch-clocks" not in files["warpwatch-measure.service"]
    clocks = unit_files(make_service(tmp_path))["warpwatch-clocks.service"]
    for card in (T4, RTX_4090):
        for when in ("ExecStart", "ExecReload"):
            assert re.search(rf"^{when}=.*-i {card['uuid']} --lock-gpu-clocks=960,960$", clocks, re.MULTILINE)
        assert f"-i {card['uuid']} --reset-gpu-clocks" in clocks
    assert "StopWhenUnneeded=yes" in clocks
    assert clocks.count("ExecStopPost=-") == 4


def _settings(unit: str) -> list[tuple[str, str]]:
    """Of a unit's file, in order."""
    lines = [line for line in unit.splitlines() if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def test_a_job_has_a_user_and_a_home_that_are_gone_with_it(tmp_path: Path) -> None:
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
    assert "User" not in names  # of who measures
    writable = [value for name, value in settings if name in {"ReadWritePaths", "BindPaths"}]
    assert writable == ["-/run/lock"]


def test_a_job_reads_the_ceilings_of_who_measures(tmp_path: Path) -> None:
    settings = _settings(unit_files(make_service(tmp_path))["warpwatch-actions.service"])
    ceilings = tmp_path / "the ceilings"
    assert ("Environment", f'"WARPWATCH_CEILINGS={ceilings}"') in settings
    assert any(name == "BindReadOnlyPaths" and f'"-{ceilings}"' in value for name, value in settings)


def test_what_the_timer_measures_runs_beside_no_other_users_temporary_files(tmp_path: Path) -> None:
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
def test_a_runner_of_a_version_that_does_or_is_not_told_is_taken(
    version: str | None, checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("t")
    runner = unpack_actions_runner(tmp_path / "runner", version)
    words = ["--github", "o/r", "--github-token-file", str(tmp_path / "token"), "--actions-runner", str(runner)]
    done = _setup(checkout, "--dry-run", *words)
    assert done.exit_code == 0, done.output
    assert ("does not say its version" in done.output) == (version is None)


def test_the_registration_says_the_group_of_an_organizations_runners(tmp_path: Path) -> None:
    of_a_repository = unit_files(make_service(tmp_path))["warpwatch-registration.service"]
    assert "--group" not in of_a_repository
    of_an_organization = unit_files(make_service(tmp_path, repository="kernels-org", runner_group=5))
    told = of_an_organization["warpwatch-registration.service"]
    assert "register --repository kernels-org --group 5 --label" in told


def test_a_second_time_everything_is_done_already(checkout: Path, tmp_path: Path) -> None:
    service = make_service(tmp_path)
    where = Host(folder=checkout, root=tmp_path / "root")
    said: list[str] = []
    assert perform(unit_steps(where, service), where, dry_run=False, say=said.append) == []
    assert len(said) == 6
    assert all(line.startswith("  doing") for line in said)
    said.clear()
    perform(unit_steps(where, service), where, dry_run=False, say=said.append)
    assert all(line.startswith("  done already") for line in said)
    changed = make_service(tmp_path, calendar="hourly")
    said.clear()
    perform(unit_steps(where, changed), where, dry_run=False, say=said.append)
    assert [line for line in said if "doing" in line] == ["  doing          unit warpwatch-measure.timer"]


def test_without_root_the_rest_is_done_and_what_wants_it_is_left(host: Host, tmp_path: Path) -> None:
    nobody = replace(host, is_root=False)
    marks = [tmp_path / "ours", tmp_path / "roots"]
    steps = [command_step(nobody, path.name, ["touch", str(path)], wants_root=path.name == "roots") for path in marks]
    said: list[str] = []
    left = perform(steps, nobody, dry_run=False, say=said.append)
    assert [step.shows for step in left] == [(f"touch {marks[1]}",)]
    assert [path.exists() for path in marks] == [True, False]
    assert said == ["  doing          ours", "  wants root     roots"]


def test_a_step_that_fails_says_what_it_ran_and_how_that_ended(host: Host) -> None:
    step = command_step(host, "a step", ["sh", "-c", "echo no such thing >&2; exit 4"])
    with pytest.raises(SetupError, match="ended with 4: no such thing"):
        perform([step], host, dry_run=False, say=print)


def test_a_secret_is_written_for_its_owner_and_shown_to_nobody(host: Host) -> None:
    step = file_step(host, "the token", "etc/warpwatch/push-token", "warpwatch_secret\n", mode=0o600)
    assert "warpwatch_secret" not in "".join(step.shows)
    step.do()
    written = host.root / "etc/warpwatch/push-token"
    assert (written.read_text(), written.stat().st_mode & 0o777) == ("warpwatch_secret\n", 0o600)
    assert file_step(host, "the token", "etc/warpwatch/push-token", "warpwatch_secret\n", mode=0o600).is_done
