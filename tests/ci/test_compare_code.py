"""What changed in compiled code: from two files to what a pull request reads."""

import json

import pytest
from click.testing import CliRunner

from warpwatch.ci.cli import main
from warpwatch.ci.code.code_comparison import CodeComparison

BASE, HEAD = "a" * 40, "b" * 40


def kernel(name="rope_kernel", architecture="sm_75", sha="0", **facts):
    report = {
        "operator": "rope",
        "kernel": name,
        "architecture": architecture,
        "registers": 32,
        "stack_bytes": 0,
        "shared_bytes": 1024,
        "dynamic_shared_bytes": 0,
        "barriers": 1,
        "occupancy": 1.0,
        "occupancy_limit": "warps",
        "local_memory_instructions": 0,
        "code_bytes": 1600,
        "instructions": {"total": 100, "FFMA": 100},
        "sha256": sha * 64,
    }
    return {**report, **facts}


def facts_file(path, commit, *kernels, **code):
    document = {"schema": 1, "commit": commit, "tools": "release 13.0", "kernels": kernels}
    document["code_sha256"] = code or {"sm_75": "0" * 64}
    path.write_text(json.dumps(document))
    return str(path)


def compare(tmp_path, base, head, layout="markdown", **code):
    files = facts_file(tmp_path / "base.json", BASE, *base), facts_file(tmp_path / "head.json", HEAD, *head, **code)
    done = CliRunner().invoke(main, ["compare", "--code", *files, "--format", layout])
    assert done.exit_code == 0, done.output
    return done.output


def test_costly_changes_come_first_and_equal_kernels_are_counted(tmp_path):
    base = [kernel(name) for name in ("alike", "longer", "narrower", "registers", "removed", "shuffled", "spills")]
    head = [
        kernel("added"),
        kernel("alike"),
        kernel("longer", sha="1", instructions={"total": 150, "FFMA": 100, "MOV": 50}),
        kernel("narrower", sha="1", occupancy=0.5),
        kernel("registers", sha="1", registers=64),
        kernel("shuffled", sha="1"),
        kernel("spills", sha="1", local_memory_instructions=8, instructions={"total": 108, "FFMA": 100, "STL": 8}),
    ]
    report = CodeComparison.model_validate_json(compare(tmp_path, base, head, "json"))
    order = ["spills", "narrower", "registers", "longer", "removed", "added", "shuffled"]
    assert [change.kernel for change in report.changes] == order
    assert [change.what for change in report.changes][4:] == ["gone", "new", "reordered"]
    assert report.unchanged == 1
    markdown = compare(tmp_path, base, head)
    assert markdown.startswith(
        "### Compiled code: 4 changed (1 with more spills, 1 with less occupancy, 1 with more registers), 1 new, "
        "1 gone, 1 reordered with equal counts, 1 unchanged\n"
    )
    assert "| `spills` | sm_75 |  | 0 → 8 |" in markdown
    assert "100 → 108 (+8.0 %) | `STL` +8 |" in markdown
    assert "100.0 % → 50.0 %" in markdown
    assert "`alike`" not in markdown
    table = compare(tmp_path, base, head, "table")
    assert table.index("narrower") < table.index("longer") < table.index("removed")


def test_without_changes_there_is_a_sentence_and_no_table(tmp_path):
    report = compare(tmp_path, [kernel()], [kernel()])
    assert "unchanged (1 kernel" in report
    assert "all executed code is equal on every architecture" in report
    assert "|" not in report


def test_the_same_kernels_called_otherwise_are_not_all_that_runs(tmp_path):
    report = compare(tmp_path, [kernel()], [kernel()], "json", sm_75="1" * 64)
    assert CodeComparison.model_validate_json(report).runs_same_code == {"sm_75": False}


def test_an_architecture_of_one_side_alone_does_not_run_the_same(tmp_path):
    report = compare(
        tmp_path, [kernel()], [kernel(), kernel(architecture="sm_89")], "json", sm_75="0" * 64, sm_89="0" * 64
    )
    assert CodeComparison.model_validate_json(report).runs_same_code == {"sm_75": True, "sm_89": False}


def test_many_rows_are_folded_and_fit_a_comment(tmp_path):
    many = [kernel(f"kernel_{number:04}_of_a_rather_long_name", sha="1", registers=40) for number in range(900)]
    report = compare(tmp_path, [kernel(each["kernel"]) for each in many], many)
    assert report.count("\n| `") == 300
    assert report.index("<details>") < report.index("kernel_0020_")
    assert "600 more are not listed" in report
    assert len(report) < 65536


def test_kernels_of_the_longest_names_fit_a_comment_too(tmp_path):
    """Templates have such names; GitHub refuses the comment whole."""
    names = [f"{number:03}{'n' * 197}" for number in range(300)]
    report = compare(
        tmp_path, [kernel(name) for name in names], [kernel(name, sha="1", registers=40) for name in names]
    )
    shown = report.count("\n| `")
    assert 200 < shown < 300
    assert f"{300 - shown} more are not listed" in report
    assert report.count("<summary>") == report.count("</details>") == 1
    assert f"{shown - 20} further kernels" in report
    assert len(report) < 65536


def test_untrusted_instruction_names_are_no_markup(tmp_path):
    more = {"total": 107, "FFMA": 100, "<details>": 4, "www.example.com": 3}
    report = compare(tmp_path, [kernel()], [kernel(sha="1", instructions=more)])
    assert "`<details>` +4, `www.example.com` +3" in report


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"kernels": [kernel("`]($(evil)")]}, "kernels.0.kernel"),
        ({"kernels": [kernel(architecture="sm_75\n# big")]}, "kernels.0.architecture"),
        ({"kernels": [kernel(registers=-1)]}, "kernels.0.registers"),
        ({"kernels": [kernel(instructions={"a | b": 1})]}, "kernels.0.instructions"),
        ({"commit": "main"}, "commit"),
        ({"schema": 2}, "schema"),
    ],
)
def test_an_invalid_file_is_refused_with_the_field(damage, message, tmp_path):
    good = facts_file(tmp_path / "good.json", BASE, kernel())
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({**json.loads((tmp_path / "good.json").read_text()), **damage}))
    done = CliRunner().invoke(main, ["compare", "--code", good, str(bad)])
    assert done.exit_code == 2
    assert str(bad) in done.output
    assert message in done.output


def test_a_missing_file_is_named_with_its_writer(tmp_path):
    done = CliRunner().invoke(main, ["compare", "--code", str(tmp_path / "no.json"), str(tmp_path / "no.json")])
    assert done.exit_code == 2
    assert "python -m perf_suite.compiled" in done.output
