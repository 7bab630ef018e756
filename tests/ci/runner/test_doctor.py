"""What the doctor says of each state; the card's states are a fake nvidia-smi's, the rest real files and programs."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.ci.runner.fake_nvidia_smi import RTX_4090, T4, FakeNvidiaSmi
from tests.ci.runner.services import make_service, unpack_actions_runner
from warpwatch.ci.push.queue import open_queue
from warpwatch.ci.runner.checks import CHECKS, examine
from warpwatch.ci.runner.doctor import as_text, doctor
from warpwatch.ci.runner.finding import Finding, State
from warpwatch.ci.runner.host import Host
from warpwatch.ci.runner.service_steps import gpu_label
from warpwatch.ci.runner.unit_files import unit_files


def _of(host: Host, check: str) -> list[Finding]:
    """What the first function tells that knows of it: the others, which ask many programs, need not run."""
    for examined in CHECKS:
        found = [each for each in examined(host) if each.check == check]
        if found:
            return found
    raise AssertionError(f"no check {check}")


@pytest.mark.parametrize("card", [T4, RTX_4090])
def test_of_a_healthy_card_nothing_is_wrong(card: dict[str, str], host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(card)
    of_the_card = {
        "driver",
        "persistence",
        "compute mode",
        "MIG",
        "ECC",
        "power limit",
        "temperature",
        "processes",
        "display",
        "throttling",
        "clock lock",
    }
    states = {each.check: each.state for each in examine(host) if each.check in of_the_card}
    assert states == dict.fromkeys(of_the_card, State.GOOD)


SICK = [
    ("driver", {"driver_version": "535.183.01"}, State.WRONG, "driver 535.183.01", "ubuntu-drivers install"),
    ("persistence", {"persistence_mode": "Disabled"}, State.NOTE, "off", "-pm 1"),
    ("compute mode", {"compute_mode": "Prohibited"}, State.WRONG, "Prohibited", "-c DEFAULT"),
    ("MIG", {"mig.mode.current": "Enabled"}, State.WRONG, "on", "-mig 0"),
    ("ECC", {"ecc.errors.uncorrected.volatile.total": "3"}, State.WRONG, "3 uncorrected", "sudo reboot"),
    ("power limit", {"power.limit": "60.00"}, State.NOTE, "60 W, where the card's own is", "-pl "),
    ("temperature", {"temperature.gpu": "84"}, State.WRONG, "84 °C", "clean the filters"),
    ("throttling", {"clocks_event_reasons.active": "0x40"}, State.WRONG, "hardware thermal slowdown", "cool"),
    ("throttling", {"clocks_event_reasons.active": "0x88"}, State.WRONG, "hardware power brake", "cables"),
    ("throttling", {"clocks_event_reasons.active": "0x04"}, State.GOOD, "nothing holds", ""),
    ("display", {"display_active": "Enabled"}, State.NOTE, "a display is drawn", "multi-user.target"),
    (
        "application clocks",
        {"clocks.applications.graphics": "1590", "clocks.default_applications.graphics": "585"},
        State.NOTE,
        "1590 MHz",
        "-rac",
    ),
]


@pytest.mark.parametrize("card", [T4, RTX_4090], ids=["t4", "rtx4090"])
@pytest.mark.parametrize(("check", "sick", "state", "found", "fix"), SICK)
def test_each_sick_state_is_told_with_its_remedy(
    check: str,
    sick: Mapping[str, str],
    state: State,
    found: str,
    fix: str,
    card: dict[str, str],
    host: Host,
    smi: FakeNvidiaSmi,
) -> None:
    smi.answers(card | dict(sick))
    (told,) = _of(host, check)
    assert told.state is state
    assert found in told.found
    assert fix in told.fix
    assert bool(told.why) == (state is not State.GOOD)


def test_another_process_on_the_card_is_named(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(T4, RTX_4090, processes=((T4["uuid"], "4711", "/usr/bin/python3"),))
    busy, free = _of(host, "processes")
    assert (busy.state, free.state) == (State.WRONG, State.GOOD)
    assert "4711 (/usr/bin/python3)" in busy.found


@pytest.mark.parametrize(
    ("status", "said", "fix"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "ubuntu-drivers"),
        (18, "Failed to initialize NVML: Driver/library version mismatch", "sudo reboot"),
        (6, "No devices were found", "sudo reboot"),
    ],
)
def test_a_driver_that_does_not_answer_is_told(
    status: int, said: str, fix: str, host: Host, smi: FakeNvidiaSmi
) -> None:
    smi.answers(failure=(status, said))
    (told,) = _of(host, "driver")
    assert (told.state, told.found) == (State.WRONG, said)
    assert fix in told.fix


def test_a_card_without_a_driver_and_no_card_at_all_are_different_things(host: Host, smi: FakeNvidiaSmi) -> None:
    (smi.folder / "nvidia-smi").unlink()
    without = {**host.environ, "PATH": str(smi.folder)}
    (told,) = _of(replace(host, environ=without), "driver")
    assert told.state is State.GOOD
    assert "CPU twins" in told.found
    card = host.root / "sys/bus/pci/devices/0000:01:00.0"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030200\n")
    (told,) = _of(replace(host, environ=without), "driver")
    assert (told.state, told.found) == (State.WRONG, "an NVIDIA card, but no driver")


def test_an_elder_driver_is_asked_for_what_it_knows(host: Host, smi: FakeNvidiaSmi) -> None:
    elder = T4 | {"clocks_throttle_reasons.active": "0x0000000000000020", "driver_version": "525.1"}
    smi.answers(elder, unknown=("clocks_event_reasons.active", "compute_cap"))
    (told,) = _of(host, "throttling")
    assert (told.state, told.found) == (State.WRONG, "software thermal slowdown")


def test_without_root_the_clock_lock_is_a_note(host: Host, smi: FakeNvidiaSmi) -> None:
    (smi.folder / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (smi.folder / "sudo").chmod(0o755)
    (told,) = _of(replace(host, is_root=False), "clock lock")
    assert told.state is State.NOTE
    assert "sudo warpwatch runner setup" in told.fix


def test_what_a_killed_process_left_locked_is_found(host: Host) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    note = {"uuid": T4["uuid"], "sm_mhz": 1350, "pid": int(gone.stdout), "started": "1"}
    (host.root / "run/lock" / f"warpwatch-clocks-{T4['uuid']}.json").write_text(json.dumps(note))
    (told,) = _of(host, "left locked")
    assert told.state is State.WRONG
    assert "locked to 1350 MHz" in told.found


def test_the_computer_and_its_software_are_looked_at_too(host: Host) -> None:
    for core, name in enumerate(("powersave", "powersave", "performance")):
        place = host.root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        place.mkdir(parents=True, exist_ok=True)
        (place / "scaling_governor").write_text(f"{name}\n")
    assert _of(host, "CPU governor")[0].found == "powersave on 2 cores, performance on 1 cores"
    (host.root / "proc/loadavg").write_text("99.0 1 1 1/1 1\n")
    assert _of(host, "load")[0].state is State.NOTE
    (host.home / ".asv-machine.json").unlink()
    assert _of(host, "asv machine")[0].fix == "asv machine --yes"
    (host.home / ".asv-machine.json").write_text("{")
    assert "cannot be read" in _of(host, "asv machine")[0].found
    (host.folder / "asv.conf.json").unlink()
    assert _of(host, "asv project")[0].state is State.WRONG
    without = replace(host, environ={**host.environ, "PATH": str(host.folder)})
    assert {_of(without, check)[0].state for check in ("git", "compiler")} == {State.WRONG}


def test_a_queue_that_waits_for_days_is_told(host: Host, tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "queue", "https://perf.example.org", "demo")
    watched = replace(host, environ={**host.environ, "WARPWATCH_SPOOL": str(tmp_path / "queue")})
    batch = queue.add(b"results")
    assert _of(watched, "queue")[0].state is State.GOOD
    old = time.time() - 3 * 86_400
    os.utime(batch.path, (old, old))
    assert "1 batches wait, the first for 3 days" in _of(watched, "queue")[0].found
    queue.quarantine(batch, ["no"])
    assert [each.state for each in _of(watched, "queue")] == [State.GOOD, State.NOTE]


def test_a_secret_that_others_read_is_wrong(host: Host) -> None:
    token = host.root / "etc/warpwatch/push-token"
    token.parent.mkdir(parents=True)
    token.write_text("secret")
    token.chmod(0o644)
    assert (_of(host, "secrets")[0].state, _of(host, "secrets")[0].found) == (State.WRONG, "mode 644")
    token.chmod(0o600)
    assert _of(host, "secrets")[0].state is State.GOOD


def test_the_command_ends_with_one_where_something_is_wrong_and_speaks_json(
    tmp_path: Path, smi: FakeNvidiaSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{smi.folder}:{os.environ['PATH']}")
    smi.answers(T4 | {"temperature.gpu": "90"})
    done = CliRunner().invoke(doctor, ["--folder", str(tmp_path), "--json"])
    assert done.exit_code == 1
    told = {(each["check"], each["state"]) for each in json.loads(done.output)}
    assert ("temperature", "wrong") in told
    text = CliRunner().invoke(doctor, ["--folder", str(tmp_path)]).output
    assert "WRONG    temperature: 90 °C before anything is measured" in text
    assert "fix: clean the filters" in text


def test_every_finding_that_is_not_good_says_why_and_what_to_do(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(T4 | {key: value for _, sick, *_ in SICK for key, value in sick.items()})
    for each in examine(host):
        assert bool(each.why and each.fix) == (each.state in {State.WRONG, State.NOTE}), each
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS)
    assert as_text(examine(host), shows_all=True).count("\n") > len(CHECKS)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Tesla T4", "gpu-t4"),
        ("NVIDIA GeForce RTX 4090", "gpu-rtx4090"),
        ("NVIDIA GeForce GTX 1650 Ti", "gpu-gtx1650ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "gpu-rtx4070tisuper"),
        ("NVIDIA H100 80GB HBM3", "gpu-h100"),
        ("NVIDIA A100-SXM4-80GB", "gpu-a100"),
        ("NVIDIA L40S", "gpu-l40s"),
        ("NVIDIA RTX A6000", "gpu-rtxa6000"),
        ("NVIDIA RTX 6000 Ada Generation", "gpu-rtx6000ada"),
        ("NVIDIA GH200 480GB", "gpu-gh200"),
    ],
)
def test_a_label_is_the_model(name: str, label: str) -> None:
    assert gpu_label(name) == label


def test_a_name_without_a_model_has_no_label() -> None:
    with pytest.raises(ValueError, match="names no GPU model"):
        gpu_label("NVIDIA Graphics Device")


def test_the_doctor_needs_click_alone() -> None:
    script = "import sys, warpwatch.ci.runner.doctor; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split()) - set(sys.stdlib_module_names) - {"__main__", "warpwatch"}
    assert not loaded & {"requests", "jinja2", "flask", "sqlalchemy", "pydantic", "numpy", "torch", "asv"}
    assert "click" in loaded


def test_a_dashboard_that_does_not_answer_is_a_note(host: Host) -> None:
    for address in ("http://127.0.0.1:9", "perf.example.org"):
        (told,) = _of(replace(host, environ={**host.environ, "WARPWATCH_URL": address}), "dashboard")
        assert told.state is State.NOTE


def test_what_is_installed_is_asked_of_the_interpreter_that_measures(host: Host) -> None:
    """Set-up's own program lies elsewhere, and has neither asv nor PyTorch."""
    assert _of(host, "python")[0].state is State.GOOD
    own = host.folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(own)], check=True)
    bare = replace(host)
    assert "without asv" in _of(bare, "python")[0].found
    assert _of(bare, "torch")[0].found == "PyTorch is not installed"
    assert str(own) in _of(bare, "python")[0].looked_at
    (own / "bin" / "python").unlink()
    (own / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    (own / "bin" / "python").chmod(0o755)
    assert _of(replace(host), "python")[0].found == "it does not run"


@pytest.mark.parametrize(
    ("told", "state", "found"),
    [
        ("ActiveState=active\nUnitFileState=enabled\nResult=success", State.GOOD, "active, enabled"),
        ("ActiveState=failed\nUnitFileState=enabled\nResult=exit-code", State.WRONG, "its last end was exit-code"),
        ("ActiveState=inactive\nUnitFileState=enabled\nResult=success", State.WRONG, "inactive, though enabled"),
        ("ActiveState=active\nUnitFileState=disabled\nResult=success", State.NOTE, "active, but disabled"),
    ],
)
def test_a_service_that_does_not_run_is_told(
    told: str, state: State, found: str, host: Host, smi: FakeNvidiaSmi
) -> None:
    units = host.root / "etc/systemd/system"
    units.mkdir(parents=True)
    (units / "warpwatch-actions.service").touch()
    (smi.folder / "systemctl").write_text(f"#!/bin/sh\ncat <<'END'\n{told}\nEND\n")
    (smi.folder / "systemctl").chmod(0o755)
    (service,) = _of(host, "services")
    assert (service.state, found in service.found) == (state, True)


def _install_actions(host: Host, tmp_path: Path, version: str | None, leave_out: str = "") -> None:
    runner = unpack_actions_runner(tmp_path / "runner of GitHub", version)
    unit = unit_files(make_service(tmp_path, actions_runner=runner))["warpwatch-actions.service"]
    folder = host.root / "etc/systemd/system"
    folder.mkdir(parents=True)
    (folder / "warpwatch-actions.service").write_text(unit.replace(f"{leave_out}\n" if leave_out else "", ""))


@pytest.mark.parametrize(
    ("version", "state"),
    [("2.335.9", State.WRONG), ("2.336.0", State.GOOD), ("2.400.1", State.GOOD), (None, State.UNKNOWN)],
)
def test_the_version_of_githubs_runner_is_looked_at(
    version: str | None, state: State, host: Host, tmp_path: Path
) -> None:
    _install_actions(host, tmp_path, version)
    (told,) = _of(host, "GitHub's runner")
    assert (told.state, told.looked_at) == (state, str(tmp_path / "runner of GitHub"))
    assert version is None or version in told.found


def test_a_runner_without_its_list_is_asked_for_its_version(host: Host, tmp_path: Path) -> None:
    _install_actions(host, tmp_path, None)
    program = tmp_path / "runner of GitHub" / "bin" / "Runner.Listener"
    program.write_text("#!/bin/sh\n[ $1 = --version ] && echo 2.300.1\n")
    program.chmod(0o755)
    assert _of(host, "GitHub's runner")[0].found == "version 2.300.1"


@pytest.mark.parametrize(
    "leave_out", ["", "DynamicUser=yes", "PrivateTmp=yes", "Environment=HOME=/var/lib/warpwatch-actions/home"]
)
def test_a_unit_that_gives_jobs_a_shared_home_is_wrong(leave_out: str, host: Host, tmp_path: Path) -> None:
    _install_actions(host, tmp_path, "2.336.0", leave_out)
    assert _of(host, "jobs")[0].state is (State.WRONG if leave_out else State.GOOD)
