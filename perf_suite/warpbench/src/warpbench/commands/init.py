"""`warpbench init`: asv's configuration and a first benchmark for a project that has none."""

import argparse
import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

_CONFIGURATION = "asv.conf.json"


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Offer the sub-command."""
    parser = commands.add_parser(
        "init",
        help="write asv.conf.json and a first benchmark",
        description="Write asv.conf.json and a benchmark directory with a first benchmark, rms_norm.py, to start from. "
        "A file that exists stays as it is.",
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="the project's checkout; default: here")
    parser.add_argument(
        "--benchmarks", default="benchmarks", metavar="NAME", help="folder's name; default: %(default)s"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Write what is missing. Exit status 2 where there is no git checkout."""
    folder: Path = arguments.folder.resolve()
    branch = _git(folder, "symbolic-ref", "--short", "HEAD")
    if branch is None:
        print(
            f"warpbench init: {folder} is no git checkout with a branch: `git init` and commit first", file=sys.stderr
        )
        sys.exit(2)
    name: str = arguments.benchmarks
    if not name.isidentifier():
        print(f"warpbench init: the folder {name!r} cannot be imported: take letters, digits and _", file=sys.stderr)
        sys.exit(2)
    configuration = {
        "version": 1,
        "project": re.sub(r"\W", "_", folder.name),
        "repo": ".",
        "branches": [branch],
        "benchmark_dir": name,
        "plugins": [".warpbench.asv"],  # asv takes a module of its own name only with the dot
        "environment_type": "warpbench",
        "launch_method": "spawn",
        "results_dir": ".asv/results",
        "env_dir": ".asv/env",
        "html_dir": ".asv/html",
        # asv takes every rise for a regression; of these a rise is good.
        "regressions_first_commits": {".*track_(bandwidth|tflops|sol_peak|sol_ceiling).*": None},
    }
    if not (folder / "setup.py").is_file() and not (folder / "pyproject.toml").is_file():
        # Nothing to build: each commit's own files are put on the environment's path.
        configuration["build_command"] = []
        configuration["install_command"] = [
            "python -c \"import pathlib, sysconfig; pathlib.Path(sysconfig.get_path('purelib'), 'project.pth')"
            ".write_text(r'{build_dir}')\""
        ]
        configuration["uninstall_command"] = []
    _write(folder / _CONFIGURATION, json.dumps(configuration, indent=4) + "\n")
    (folder / name).mkdir(exist_ok=True)
    _write(folder / name / "__init__.py", '"""Benchmarks of this project, run by asv with warpbench."""\n')
    for module in ("rms_norm", "control"):
        template = resources.files("warpbench") / "templates" / f"{module}.txt"
        _write(folder / name / f"{module}.py", template.read_text())


def _write(file: Path, text: str) -> None:
    if file.exists():
        print(f"kept {file}")
        return
    file.write_text(text)
    print(f"wrote {file}")


def _git(folder: Path, *arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None
