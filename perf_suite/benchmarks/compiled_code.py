"""asv benchmarks of compiled code: how T4 and RTX are watched on every commit, without the GPU."""

from warpbench.compiled import code_metrics
from warpbench.compiled.code_metrics import ReadCode, known

from ..compiled.session import Library, read_compile_times, read_kernels, read_library, read_twins
from ..compiled.watched_kernels import ARCHITECTURES, watched_operators

SETUP_TIMEOUT_S = 1800.0


class CompiledCode(code_metrics.CodeMetrics):
    """What ptxas made of each CUDA kernel for each architecture."""

    params = ([kernel for watched in watched_operators().values() for kernel in watched.kernels], list(ARCHITECTURES))

    def setup_cache(self) -> ReadCode:
        """One reading of the commit's library."""
        return read_kernels("benchmarks.compiled_code.CompiledCode")

    setup_cache.timeout = SETUP_TIMEOUT_S  # type: ignore[attr-defined]


class CompiledTwins(code_metrics.CodeMetrics):
    """What Triton made of each twin for each architecture."""

    params = ([function for watched in watched_operators().values() for function in watched.twins], list(ARCHITECTURES))

    def setup_cache(self) -> ReadCode:
        """One compilation of each."""
        return read_twins("benchmarks.compiled_code.CompiledTwins")

    setup_cache.timeout = SETUP_TIMEOUT_S  # type: ignore[attr-defined]

    def track_compile_time(self, cache: ReadCode, kernel: str, architecture: str) -> float:
        """CPU time of all configurations together."""
        return float(known(cache.compile_s[kernel, architecture]))

    track_compile_time.unit = "seconds"  # type: ignore[attr-defined]


class CompiledSources:
    """What the build spent on each CUDA source, for all architectures together."""

    measured_by_warpbench = True

    param_names = ("source",)
    params = ([source for watched in watched_operators().values() for source in watched.sources],)
    version = "1"
    timeout = 60.0

    def setup_cache(self) -> ReadCode:
        """One reading of the build's record."""
        return read_compile_times()

    def setup(self, cache: ReadCode, source: str) -> None:
        """What the build did not compile is asv's n/a."""
        if cache.compile_s.get((source,)) is None:
            raise NotImplementedError(cache.why_not(source))

    def track_compile_time(self, cache: ReadCode, source: str) -> float:
        """CPU time."""
        return float(known(cache.compile_s[(source,)]))

    track_compile_time.unit = "seconds"  # type: ignore[attr-defined]


class CompiledLibrary:
    """The built extension as a whole, for all the architectures that it was compiled for."""

    measured_by_warpbench = True

    params = ()

    version = "1"
    timeout = 60.0

    def setup_cache(self) -> Library:
        """One reading of the library and of the build's record."""
        return read_library()

    def setup(self, cache: Library) -> None:
        """A commit without kernels, or whose build recorded no times, is asv's n/a."""
        if cache.why_not:
            raise NotImplementedError(cache.why_not)

    def track_build_time(self, cache: Library) -> float:
        """CPU time of compiling all CUDA sources."""
        return cache.compile_s

    def track_library_size(self, cache: Library) -> int:
        """Bytes of the extension's file."""
        return cache.size_bytes

    track_build_time.unit = "seconds"  # type: ignore[attr-defined]
    track_library_size.unit = "bytes"  # type: ignore[attr-defined]
