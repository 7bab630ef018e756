"""Findings of the doctor: GPU states by a fake nvidia-smi, the rest by real files and programs."""

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
from warpwatch.ci.runner.finding import Finding, FindingState
from warpwatch.ci.runner.host import Host
from warpwatch.ci.runner.service_steps import gpu_label, unit_files


def _findings(host: Host, name: str) -> list[Finding]:
    """Findings with this name, from the first function that has one: running all of them takes long."""
    for check in CHECKS:
        findings = [finding for finding in check(host) if finding.check == name]
        if findings:
            return findings
    raise AssertionError(f"no check {name}")


@pytest.mark.parametrize("gpu", [T4, RTX_4090])
def test_a_healthy_gpu_has_only_good_findings(gpu: dict[str, str], host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(gpu)
    gpu_checks = {
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
    states = {finding.check: finding.state for finding in examine(host) if finding.check in gpu_checks}
    assert states == dict.fromkeys(gpu_checks, FindingState.GOOD)


UNHEALTHY = [
    ("driver", {"driver_version": "535.183.01"}, FindingState.WRONG, "driver 535.183.01", "ubuntu-drivers install"),
    ("persistence", {"persistence_mode": "Disabled"}, FindingState.NOTE, "off", "-pm 1"),
    ("compute mode", {"compute_mode": "Prohibited"}, FindingState.WRONG, "Prohibited", "-c DEFAULT"),
    ("MIG", {"mig.mode.current": "Enabled"}, FindingState.WRONG, "on", "-mig 0"),
    ("ECC", {"ecc.errors.uncorrected.volatile.total": "3"}, FindingState.WRONG, "3 uncorrected", "sudo reboot"),
    ("power limit", {"power.limit": "60.00"}, FindingState.NOTE, "60 W; default", "-pl "),
    ("temperature", {"temperature.gpu": "84"}, FindingState.WRONG, "84 °C", "clean the filters"),
    ("throttling", {"clocks_event_reasons.active": "0x40"}, FindingState.WRONG, "hardware thermal slowdown", "cool"),
    ("throttling", {"clocks_event_reasons.active": "0x88"}, FindingState.WRONG, "hardware power brake", "cables"),
    ("throttling", {"clocks_event_reasons.active": "0x04"}, FindingState.GOOD, "none (event reasons 0x4)", ""),
    ("display", {"display_active": "Enabled"}, FindingState.NOTE, "a display is connected", "multi-user.target"),
    (
        "application clocks",
        {"clocks.applications.graphics": "1590", "clocks.default_applications.graphics": "585"},
        FindingState.NOTE,
        "1590 MHz",
        "-rac",
    ),
]


@pytest.mark.parametrize("gpu", [T4, RTX_4090], ids=["t4", "rtx4090"])
@pytest.mark.parametrize(("check", "fields", "state", "observed", "fix"), UNHEALTHY)
def test_each_fault_is_reported_with_its_fix(
    check: str,
    fields: Mapping[str, str],
    state: FindingState,
    observed: str,
    fix: str,
    gpu: dict[str, str],
    host: Host,
    smi: FakeNvidiaSmi,
) -> None:
    smi.answers(gpu | dict(fields))
    (finding,) = _findings(host, check)
    assert finding.state is state
    assert observed in finding.observed
    assert fix in finding.fix
    assert bool(finding.why) == (state is not FindingState.GOOD)


def test_another_process_on_the_gpu_is_named(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(T4, RTX_4090, processes=((T4["uuid"], "4711", "/usr/bin/python3"),))
    busy, free = _findings(host, "processes")
    assert (busy.state, free.state) == (FindingState.WRONG, FindingState.GOOD)
    assert "4711 (/usr/bin/python3)" in busy.observed


@pytest.mark.parametrize(
    ("status", "message", "fix"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "ubuntu-drivers"),
        (18, "Failed to initialize NVML: Driver/library version mismatch", "sudo reboot"),
        (6, "No devices were found", "sudo reboot"),
    ],
)
def test_a_driver_that_does_not_answer_is_reported(
    status: int, message: str, fix: str, host: Host, smi: FakeNvidiaSmi
) -> None:
    smi.answers(failure=(status, message))
    (finding,) = _findings(host, "driver")
    assert (finding.state, finding.observed) == (FindingState.WRONG, message)
    assert fix in finding.fix


def test_a_gpu_without_a_driver_is_wrong_and_no_gpu_is_good(host: Host, smi: FakeNvidiaSmi) -> None:
    (smi.folder / "nvidia-smi").unlink()
    without = {**host.environ, "PATH": str(smi.folder)}
    (finding,) = _findings(replace(host, environ=without), "driver")
    assert finding.state is FindingState.GOOD
    assert "CPU twins" in finding.observed
    device = host.root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    (finding,) = _findings(replace(host, environ=without), "driver")
    assert (finding.state, finding.observed) == (FindingState.WRONG, "an NVIDIA GPU without a driver")


def test_an_older_driver_is_queried_by_older_field_names(host: Host, smi: FakeNvidiaSmi) -> None:
    older = T4 | {"clocks_throttle_reasons.active": "0x0000000000000020", "driver_version": "525.1"}
    smi.answers(older, unknown=("clocks_event_reasons.active", "compute_cap"))
    (finding,) = _findings(host, "throttling")
    assert (finding.state, finding.observed) == (FindingState.WRONG, "software thermal slowdown")


def test_without_root_the_clock_lock_is_a_note(host: Host, smi: FakeNvidiaSmi) -> None:
    (smi.folder / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (smi.folder / "sudo").chmod(0o755)
    (finding,) = _findings(replace(host, is_root=False), "clock lock")
    assert finding.state is FindingState.NOTE
    assert "sudo warpwatch runner setup" in finding.fix


def test_the_lock_of_a_killed_process_is_found(host: Host) -> None:
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    record = {"uuid": T4["uuid"], "sm_mhz": 1350, "pid": int(killed.stdout), "started": "1"}
    (host.root / "run/lock" / f"warpwatch-clocks-{T4['uuid']}.json").write_text(json.dumps(record))
    (finding,) = _findings(host, "stale clock lock")
    assert finding.state is FindingState.WRONG
    assert "locked to 1350 MHz" in finding.observed


def test_the_computer_and_its_software_are_checked(host: Host) -> None:
    for core, name in enumerate(("powersave", "powersave", "performance")):
        folder = host.root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scaling_governor").write_text(f"{name}\n")
    assert _findings(host, "CPU governor")[0].observed == "powersave on 2 cores, performance on 1 cores"
    (host.root / "proc/loadavg").write_text("99.0 1 1 1/1 1\n")
    assert _findings(host, "load")[0].state is FindingState.NOTE
    (host.home / ".asv-machine.json").unlink()
    assert _findings(host, "asv machine")[0].fix == "asv machine --yes"
    (host.home / ".asv-machine.json").write_text("{")
    assert "cannot be read" in _findings(host, "asv machine")[0].observed
    (host.folder / "asv.conf.json").unlink()
    assert _findings(host, "asv project")[0].state is FindingState.WRONG
    without = replace(host, environ={**host.environ, "PATH": str(host.folder)})
    assert {_findings(without, check)[0].state for check in ("git", "compiler")} == {FindingState.WRONG}


def test_a_queue_that_waits_for_days_is_reported(host: Host, tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "queue", "https://perf.example.org", "demo")
    watched = replace(host, environ={**host.environ, "WARPWATCH_SPOOL": str(tmp_path / "queue")})
    batch = queue.add(b"results")
    assert _findings(watched, "queue")[0].state is FindingState.GOOD
    old = time.time() - 3 * 86_400
    os.utime(batch.path, (old, old))
    assert "1 batches waiting, the oldest for 3 days" in _findings(watched, "queue")[0].observed
    queue.quarantine(batch, ["no"])
    assert [each.state for each in _findings(watched, "queue")] == [FindingState.GOOD, FindingState.NOTE]


def test_a_secret_that_others_read_is_wrong(host: Host) -> None:
    token = host.root / "etc/warpwatch/push-token"
    token.parent.mkdir(parents=True)
    token.write_text("secret")
    token.chmod(0o644)
    assert (_findings(host, "secrets")[0].state, _findings(host, "secrets")[0].observed) == (
        FindingState.WRONG,
        "mode 644",
    )
    token.chmod(0o600)
    assert _findings(host, "secrets")[0].state is FindingState.GOOD


def test_the_command_exits_with_1_if_something_is_wrong_and_prints_json(
    tmp_path: Path, smi: FakeNvidiaSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{smi.folder}:{os.environ['PATH']}")
    smi.answers(T4 | {"temperature.gpu": "90"})
    done = CliRunner().invoke(doctor, ["--folder", str(tmp_path), "--json"])
    assert done.exit_code == 1
    states = {(finding["check"], finding["state"]) for finding in json.loads(done.output)}
    assert ("temperature", "wrong") in states
    text = CliRunner().invoke(doctor, ["--folder", str(tmp_path)]).output
    assert "WRONG    temperature: 90 °C before anything is measured" in text
    assert "fix: clean the filters" in text


def test_every_fault_and_note_has_a_reason_and_a_fix(host: Host, smi: FakeNvidiaSmi) -> None:
    smi.answers(T4 | {key: value for _, fields, *_ in UNHEALTHY for key, value in fields.items()})
    for finding in examine(host):
        assert bool(finding.why and finding.fix) == (finding.state in {FindingState.WRONG, FindingState.NOTE}), finding
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
        (finding,) = _findings(replace(host, environ={**host.environ, "WARPWATCH_URL": address}), "dashboard")
        assert finding.state is FindingState.NOTE


def test_packages_are_those_of_the_measuring_interpreter(host: Host) -> None:
    """The interpreter of set-up has neither asv nor PyTorch."""
    assert _findings(host, "python")[0].state is FindingState.GOOD
    own = host.folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(own)], check=True)
    bare = replace(host)
    assert "without asv" in _findings(bare, "python")[0].observed
    assert _findings(bare, "torch")[0].observed == "PyTorch is not installed"
    assert str(own) in _findings(bare, "python")[0].source
    (own / "bin" / "python").unlink()
    (own / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    (own / "bin" / "python").chmod(0o755)
    assert _findings(replace(host), "python")[0].observed == "does not run"


@pytest.mark.parametrize(
    ("properties", "state", "observed"),
    [
        ("ActiveState=active\nUnitFileState=enabled\nResult=success", FindingState.GOOD, "active, enabled"),
        ("ActiveState=failed\nUnitFileState=enabled\nResult=exit-code", FindingState.WRONG, "last result exit-code"),
        ("ActiveState=inactive\nUnitFileState=enabled\nResult=success", FindingState.WRONG, "enabled, but inactive"),
        ("ActiveState=active\nUnitFileState=disabled\nResult=success", FindingState.NOTE, "active, but disabled"),
    ],
)
def test_a_service_that_does_not_run_is_reported(
    properties: str, state: FindingState, observed: str, host: Host, smi: FakeNvidiaSmi
) -> None:
    units = host.root / "etc/systemd/system"
    units.mkdir(parents=True)
    (units / "warpwatch-actions.service").touch()
    (smi.folder / "systemctl").write_text(f"#!/bin/sh\ncat <<'END'\n{properties}\nEND\n")
    (smi.folder / "systemctl").chmod(0o755)
    (service,) = _findings(host, "services")
    assert (service.state, observed in service.observed) == (state, True)


def _install_actions(host: Host, tmp_path: Path, version: str | None, leave_out: str = "") -> None:
    runner = unpack_actions_runner(tmp_path / "runner of GitHub", version)
    unit = unit_files(make_service(tmp_path, actions_runner=runner))["warpwatch-actions.service"]
    folder = host.root / "etc/systemd/system"
    folder.mkdir(parents=True)
    (folder / "warpwatch-actions.service").write_text(unit.replace(f"{leave_out}\n" if leave_out else "", ""))


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("2.335.9", FindingState.WRONG),
        ("2.336.0", FindingState.GOOD),
        ("2.400.1", FindingState.GOOD),
        (None, FindingState.UNKNOWN),
    ],
)
def test_the_version_of_githubs_runner_is_checked(
    version: str | None, state: FindingState, host: Host, tmp_path: Path
) -> None:
    _install_actions(host, tmp_path, version)
    (finding,) = _findings(host, "GitHub's runner")
    assert (finding.state, finding.source) == (state, str(tmp_path / "runner of GitHub"))
    assert version is None or version in finding.observed


def test_a_runner_without_a_list_of_dependencies_is_queried_for_its_version(host: Host, tmp_path: Path) -> None:
    _install_actions(host, tmp_path, None)
    program = tmp_path / "runner of GitHub" / "bin" / "Runner.Listener"
    program.write_text("#!/bin/sh\n[ $1 = --version ] && echo 2.300.1\n")
    program.chmod(0o755)
    assert _findings(host, "GitHub's runner")[0].observed == "version 2.300.1"


@pytest.mark.parametrize(
    "leave_out", ["", "DynamicUser=yes", "PrivateTmp=yes", "Environment=HOME=/var/lib/warpwatch-actions/home"]
)
def test_a_unit_that_gives_jobs_a_shared_home_is_wrong(leave_out: str, host: Host, tmp_path: Path) -> None:
    _install_actions(host, tmp_path, "2.336.0", leave_out)
    assert _findings(host, "jobs")[0].state is (FindingState.WRONG if leave_out else FindingState.GOOD)
