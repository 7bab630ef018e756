"""Everything the pages, `report`, `check` and the alerts read: store in, frozen records out.

Each function opens its own read transaction. An unknown name gives None, or an empty tuple where a list is asked.

    projects(store) -> tuple[Project, ...]                    newest data first
    project(store, name) -> Project | None
    machines(store, project) -> tuple[Machine, ...]           newest data first
    overview(store, project, *, machine=None) -> tuple[OverviewRow, ...]
        one row for each listed series of a primary metric (latency-like; see metrics.is_primary) that is not a
        baseline's, by machine, operator, benchmark and parameters
    find_series(store, project, *, search="", machine=None, limit=50, offset=0) -> SeriesPage
        every word of `search` occurs in the benchmark, a parameter, the machine or the environment; listed ones first
    series(store, key) -> Series | None                       by Series.key
    history(store, key) -> History | None
    rooflines(store, project) -> tuple[Roofline, ...]         machines that have ceilings and workloads
    regressions(store, project, *, machine=None, limit=100) -> tuple[RegressionGroup, ...]   newest commit first
    commits(store, project, *, limit=100) -> tuple[Commit, ...]                              newest first
    find_commit(store, project, prefix) -> Commit | None      Raises AmbiguousCommit when several match
    commit_page(store, project, prefix) -> CommitPage | None
    report(store, *, project=None, machine=None) -> tuple[ReportRow, ...]
"""
