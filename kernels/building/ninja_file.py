"""Writes build.ninja: one rule per compiler, one edge per source, one shared library."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from . import architectures as arch
from .object_store import key_of, store_folder
from .toolchain import Toolchain

TIMES = ".times"  # next to an object: its CPU time, as reported by the shell's `times`
# ptxas's message, at level info, when it cannot track in-flight wgmmas and so waits for each (C7510 to C7520). Such a
# kernel is correct but several times slower; another nvcc may do this to any of ours.
SERIALIZED_WGMMA = r"wgmma\.mma_async instructions are serialized|warpgroup\.(arrive|wait) is injected"
_PREFIX_MAP = "-ffile-prefix-map="
_SAID = ".said"  # next to an object: nvcc's output, if any
TORCH_TARGET_VERSION = "0x020a000000000000"  # PyTorch 2.10: the first stable ABI with everything we use


def ninja_file(root: Path, folder: Path, toolchain: Toolchain, architectures: tuple[str, ...]) -> str:
    """The text of build.ninja; run from `root`, it creates `folder`/_C.abi3.so.

    An edge names its object in the store. The name is a hash of everything the object depends on, so the edge's command
    changes with it and ninja needs no header dependencies. Objects contain no absolute path.
    """
    defines = [f"-D{name}={value}" for name, value in _macros(toolchain, architectures).items()]
    compile_cxx = _line([toolchain.cxx, *_cxx_flags(toolchain), *defines])
    lines = [
        f"builddir = {_path(folder)}",
        f"store = {_line([str(store_folder())])}",
        *_compile_rule("cxx", compile_cxx, "c++  $in"),
    ]
    if toolchain.cuda:
        compile_cuda = _line([str(toolchain.cuda.nvcc), *_cuda_flags(toolchain)])
        lines += _compile_rule("cuda", f"{compile_cuda} $gencode", "cuda $in", refused=SERIALIZED_WGMMA)
    lines += ["rule link", f"  command = {_link(toolchain)}", "  description = link $out"]

    objects = objects_of(root, folder, toolchain, architectures)
    keys = object_keys(root, toolchain, architectures, objects)
    for source, target in objects.items():
        rule = "cxx" if source.suffix == ".cpp" else "cuda"
        lines += [f"build {_path(target)}: {rule} {_path(source)}", f"  key = {keys[source]}"]
        if rule == "cuda":
            lines += [f"  gencode = {_line(list(arch.gencode(source, architectures)))}"]
    lines += [f"build {_path(folder / '_C.abi3.so')}: link {' '.join(map(_path, objects.values()))}"]
    return "\n".join(lines) + "\n"


def objects_of(root: Path, folder: Path, toolchain: Toolchain, architectures: tuple[str, ...]) -> dict[Path, Path]:
    """Each source of this build and its object, both relative to `root`, in order of compilation."""
    return {
        source: folder / source.relative_to("kernels/csrc").with_suffix(source.suffix + ".o")
        for source in _sources(root)
        if source.suffix == ".cpp" or (toolchain.cuda and arch.gencode(source, architectures))
    }


def object_keys(
    root: Path, toolchain: Toolchain, architectures: tuple[str, ...], sources: Iterable[Path]
) -> dict[Path, str]:
    """Each source's key in the object store."""
    versions = toolchain.versions
    cxx = [versions["c++"], versions["torch"], *_flags_only(_cxx_flags(toolchain))]
    cuda = [versions["c++"], versions.get("cuda", ""), *_flags_only(_cuda_flags(toolchain))] if toolchain.cuda else []
    csrc, macros = root / "kernels/csrc", _macros(toolchain, architectures)
    return {
        source: key_of(root / source, csrc, cxx, macros)
        if source.suffix == ".cpp"
        else key_of(root / source, csrc, [*cuda, *arch.gencode(source, architectures)])
        for source in sources
    }


def _flags_only(words: list[str]) -> list[str]:
    """Drop the paths of compilers and headers: the key has their versions, and paths differ between machines."""
    kept = (_PREFIX_MAP if word.startswith(_PREFIX_MAP) else word for word in words)
    return [word for word in kept if not word.startswith(("/", "-ccbin="))]


def _compile_rule(name: str, command: str, description: str, *, refused: str | None = None) -> list[str]:
    """The ninja rule of one compiler; a compilation whose output matches the pattern `refused` fails."""
    compilation = f"{command} -c $in -o $out"
    if refused is not None:
        said = f"$out{_SAID}"
        found = f"{_line(['grep', '-Eq', refused])} {said}"
        compilation = (
            f"{{ {compilation} 2> {said}; status=$$?; cat {said} >&2; test $$status = 0; }} && "
            f"if {found}; then echo 'refused: what the compiler says of $in' >&2; rm -f $out; false; fi"
        )
    stored = "$store/$key"
    take = f"cp {stored}{TIMES} $out{TIMES} && cp {stored}.o $out && touch {stored}.o"
    # The second line of the shell's `times` is the CPU time of all its children. The object is renamed into place last,
    # as a whole; an unwritable store is not an error. Sources edited during the build no longer match their key, so
    # their objects are not stored.
    unchanged = 'test -z "$$(find kernels/csrc -newer $builddir/build.ninja -print -quit)"'
    keep = f"{unchanged} && cp $out{TIMES} {stored}{TIMES} && cp $out {stored}.$$$$ && mv {stored}.$$$$ {stored}.o"
    return [
        f"rule {name}",
        f"  command = {{ {take}; }} 2>/dev/null || "
        f"{{ {compilation} && times > $out{TIMES} && {{ {{ {keep}; }} 2>/dev/null || true; }}; }}",
        f"  description = {description}",
    ]


def _sources(root: Path) -> list[Path]:
    # CUDA sources first, largest first: they take longest, and ninja starts edges in this order.
    found = [path for suffix in ("*.cu", "*.cpp") for path in (root / "kernels/csrc").rglob(suffix)]
    found.sort(key=lambda path: (path.suffix != ".cu", -path.stat().st_size, path))
    return [path.relative_to(root) for path in found]


def _macros(toolchain: Toolchain, architectures: tuple[str, ...]) -> dict[str, str]:
    """Macros that say whether there is CUDA, for which architectures, and which families of sources have launchers."""
    with_cuda = toolchain.cuda is not None
    families = {name: with_cuda and arch.has_family(name, architectures) for name in arch.FAMILIES}
    return {
        "WARPWATCH_WITH_CUDA": str(int(with_cuda)),
        "WARPWATCH_BUILT_FOR": f'"{";".join(architectures)}"',
        **{f"WARPWATCH_HAS_{name.upper()}": str(int(here)) for name, here in families.items()},
    }


def _cxx_flags(toolchain: Toolchain) -> list[str]:
    flags = ["-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Ikernels/csrc"]
    flags += [f"-DTORCH_TARGET_VERSION={TORCH_TARGET_VERSION}", "-isystem", str(toolchain.torch.include)]
    # Checks in PyTorch's headers contain their file's path; it is removed, since it differs between environments.
    flags += [f"{_PREFIX_MAP}{toolchain.torch.include}=torch"]
    if toolchain.cuda:
        flags += ["-isystem", str(toolchain.cuda.include)]
    return flags


def _cuda_flags(toolchain: Toolchain) -> list[str]:
    return [
        f"-ccbin={toolchain.cxx}",
        "-std=c++20",
        "-O3",
        "--expt-relaxed-constexpr",
        "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall",
        "-Ikernels/csrc",
        "-DWARPWATCH_WITH_CUDA=1",
        "-compress-mode=size",  # a fifth of the library's size; the driver decompresses on load
    ]


def _link(toolchain: Toolchain) -> str:
    # PyTorch is loaded before us and found by name, so no rpath; a CPU build of it lacks the CUDA half, so undefined
    # symbols are allowed. Our own CUDA runtime is static and hidden.
    words = [toolchain.cxx, "-shared", "-o", "$out", "$in", f"-L{toolchain.torch.libraries}"]
    words += ["-Wl,--no-as-needed", "-ltorch", "-lc10", "-Wl,--as-needed"]
    words += ["-Wl,--allow-shlib-undefined", "-Wl,--exclude-libs,ALL", "-Wl,--gc-sections"]
    if toolchain.cuda:
        words += [f"-L{toolchain.cuda.libraries}", "-lcudart_static", "-ldl", "-lrt", "-lpthread"]
    return " ".join(word if word.startswith("$") else shlex.quote(word) for word in words)


def _line(words: list[str]) -> str:
    """Quote words as one shell command in a ninja file, with dollars doubled."""
    return shlex.join(words).replace("$", "$$")


def _path(path: Path) -> str:
    """Quote a path for a ninja build line."""
    return "".join(f"${sign}" if sign in "$ :" else sign for sign in str(path))
