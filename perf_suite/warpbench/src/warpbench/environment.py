"""asv's environment for kernels: a virtualenv that has the packages of asv's own interpreter too.

So torch (gigabytes) is installed once and not for each environment. A .pth file puts the shared folders at the end of
sys.path: what asv installs into the environment, the commit under test first of all, is found before them. Projects are
built without isolation, since a CUDA extension has to be built with the torch that it will run with.
"""

import sys
from pathlib import Path
from typing import Any

from asv.environment import get_env_name
from asv.plugins.virtualenv import Virtualenv

_INSTALLED_IN = Path(__file__).resolve().parent.parent
_PTH = "warpbench_shared_packages.pth"
_WRITE_PTH = """
import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), sys.argv[1]).write_text("".join(folder + "\\n" for folder in sys.argv[2:]))
"""
_BUILD = ["python -m pip wheel --no-deps --no-build-isolation -w {build_cache_dir} {build_dir}"]
# Not compiled by pip: Python compiles the modules that a benchmark imports, which are few of those of a commit.
_INSTALL = ["in-dir={env_dir} python -m pip install --no-deps --no-compile --force-reinstall {wheel_file}"]


class WarpbenchEnvironment(Virtualenv):
    """`"environment_type": "warpbench"` in asv.conf.json."""

    tool_name = "warpbench"

    def __init__(self, conf: Any, *arguments: Any) -> None:
        super().__init__(conf, *arguments)
        if conf.build_command is None:
            self._build_command = _BUILD
        if conf.install_command is None:
            self._install_command = _INSTALL
            if conf.uninstall_command is None:  # the commit before goes as its wheel is reinstalled
                self._uninstall_command: list[str] = []

    @property
    def name(self) -> str:
        """That of a virtualenv, so that a project that comes from one keeps its series."""
        name: str = get_env_name("virtualenv", self._python, self._requirements, self._tagged_env_vars)
        return name

    def install_project(self, *arguments: Any, **keywords: Any) -> None:
        """Build and install a commit; the shared folders may have moved since the environment was made."""
        self._share_packages()
        super().install_project(*arguments, **keywords)

    def _install_requirements(self) -> None:
        self._share_packages()
        super()._install_requirements()

    def _share_packages(self) -> None:
        self.run(["-c", _WRITE_PTH, _PTH, *shared_folders()])


def shared_folders() -> list[str]:
    """Where asv's own interpreter keeps packages, and where warpbench is."""
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return list(dict.fromkeys([*folders, str(_INSTALLED_IN)]))
