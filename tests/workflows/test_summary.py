"""One row per run, whatever became of it, and the lines a person reads last."""

import json
from pathlib import Path

import pytest

from implementations.infrastructure.provenance import git_state, machine, versions
from implementations.run_files import read_run, write_run
from implementations.settings import SETTINGS
from records.artefacts import write_metrics
from records.columns import COLUMNS, main
from records.summary import is_complete, read_rows, table_of
from workflows.progress import closing_lines
from workflows.steps.summary import rows_of
from workflows.study import Study, load_study

STUDY = """
study: small
description: every outcome
seeds: [0]
backends: [jax-cpu, jax-gpu]
tasks:
  - task: linear
    methods:
      full_mh: {}
      pbnn: {batch_size: [2, 5, 10]}
"""
OK, SKIPPED, FAILED, DIVERGED, UNFINISHED, STALE, UNTOUCHED, UNEVALUATED = range(8)


@pytest.fixture
def study(tmp_path) -> Study:
    (tmp_path / "small.yaml").write_text(STUDY)
    return load_study(tmp_path / "small.yaml")


@pytest.fixture
def results(tmp_path, study) -> Path:
    """Files of eight runs, each of another outcome."""
    results = tmp_path / "results" / "small"
    folders = [results / "runs" / run.path for run in study.runs]
    for folder in folders:
        folder.mkdir(parents=True)
    provenance = {"versions": versions(), **git_state(), **machine()}
    outcomes = {
        OK: ("ok", None),
        SKIPPED: ("skipped", "no CUDA device"),
        FAILED: ("failed", "ValueError: no"),
        DIVERGED: ("diverged", "chain 0 left"),
        STALE: ("ok", None),
        UNEVALUATED: ("ok", None),
    }
    for number, (status, reason) in outcomes.items():
        settings = study.runs[number].settings.as_dict() | ({"step_size": 9.0} if number == STALE else {})
        record = {"status": status, "reason": reason, "settings": settings, "acceptance_rate": 0.25, **provenance}
        made = write_run(folders[number], {"run": study.runs[number].path}, record, {})
        if number == OK:
            metrics = {"r_hat": 1.5, "reference_kind": "closed_form", "reference_usable": True}
            write_metrics(results, study.runs[OK].path, metrics, {}, {"run": made["sha256"]})
    (folders[UNFINISHED] / "log.txt").write_text("step 5\nOSError: [Errno 28] No space left on device\n\n")
    return results


@pytest.mark.parametrize(("is_of_run", "shown"), [(True, 250.0), (False, None)])
def test_a_peak_of_memory_that_may_be_another_runs_is_not_shown(study, results, is_of_run, shown):
    path = study.runs[OK].path
    record = read_run(results / "runs" / path) | {"peak_memory_mb": 250.0, "is_peak_memory_of_run": is_of_run}
    made = write_run(results / "runs" / path, {"run": path}, record, {})
    write_metrics(results, path, {}, {}, {"run": made["sha256"]})
    assert rows_of(study.runs, results)[OK]["peak_memory_mb"] == shown


def test_every_run_of_the_study_is_a_row_with_what_became_of_it(study, results):
    rows = rows_of(study.runs, results)
    assert [row["run"] for row in rows] == [run.path for run in study.runs]
    found = {number: (row["status"], row.get("reason")) for number, row in enumerate(rows)}
    assert found == {
        OK: ("ok", None),
        SKIPPED: ("skipped", "no CUDA device"),
        FAILED: ("failed", "ValueError: no"),
        DIVERGED: ("diverged", "chain 0 left"),
        UNFINISHED: ("missing", "not finished; the end of its log: OSError: [Errno 28] No space left on device"),
        STALE: ("missing", "run with other settings"),
        UNTOUCHED: ("missing", "not run yet"),
        UNEVALUATED: ("missing", "not evaluated yet"),
    }
    assert rows[OK]["r_hat"] == 1.5
    assert rows[OK]["version_python"].startswith("3.")
    # What the grid says of a run is there even where the run is not.
    assert (rows[UNTOUCHED]["method"], rows[UNTOUCHED]["batch_size"], rows[UNTOUCHED]["weight"]) == (
        "pbnn",
        10,
        "batch",
    )


def test_a_tuned_setting_stands_with_what_was_chosen_and_empty_before(tmp_path):
    (tmp_path / "small.yaml").write_text(STUDY.replace("full_mh: {}", "full_mh: {step_size: auto}"))
    study = load_study(tmp_path / "small.yaml")
    (row, *_) = rows_of(study.runs, tmp_path)
    assert (row["label"], row["step_size"]) == ("full_mh+step_size=auto", None)
    path = study.runs[0].path
    record = {"status": "ok", "reason": None, "settings": study.runs[0].settings.as_dict(), "versions": versions()}
    record |= {"tuning": {"chosen": {"step_size": 0.25}}, "tuned_settings": "step_size", "tuning_evaluations": 7}
    made = write_run(tmp_path / "runs" / path, {"run": path}, record, {})
    write_metrics(tmp_path, path, {"r_hat": 1.0}, {}, {"run": made["sha256"]})
    (row, *_) = rows_of(study.runs, tmp_path)
    assert [row[name] for name in ("step_size", "tuned_settings", "tuning_evaluations")] == [0.25, "step_size", 7]
    assert table_of([row])["step_size"][0] == 0.25


@pytest.mark.parametrize("name", ["run.json", "metrics.json"])
@pytest.mark.parametrize("content", ["", "[]", "{", "{}", "7"])
def test_a_damaged_file_is_named_in_the_row_of_its_run_and_in_no_other(study, results, name, content):
    others = rows_of(study.runs, results)
    path = results / "runs" / study.runs[OK].path / name
    path.write_text(content)
    rows = rows_of(study.runs, results)
    assert rows[OK]["status"] == "missing"
    assert f"{path} is damaged" in rows[OK]["reason"]
    assert rows[:OK] + rows[OK + 1 :] == others[:OK] + others[OK + 1 :]


def test_the_table_has_the_documented_columns_and_their_types_also_where_all_is_empty(study, results):
    for rows in (rows_of(study.runs, results), rows_of(study.runs, results)[UNTOUCHED:UNEVALUATED]):
        table = table_of(rows)
        assert list(table.columns) == list(COLUMNS)
        kinds = {"text": "string", "count": "Int64", "number": "float64", "flag": "boolean"}
        assert {name: str(kind) for name, kind in table.dtypes.items()} == {
            name: kinds[column.kind] for name, column in COLUMNS.items()
        }
    undocumented = {name for row in rows_of(study.runs, results) for name in row} - COLUMNS.keys()
    assert undocumented == set()
    assert SETTINGS.keys() <= COLUMNS.keys()


def test_the_closing_lines_say_what_is_missing_why_and_how_to_go_on(study, results):
    table_of(rows_of(study.runs, results)).to_csv(results / "summary.csv", index=False)
    rows = read_rows(results / "summary.csv")
    lines = closing_lines(rows, results)
    assert lines[0] == "small: 1 of 8 runs ok"
    assert lines[1] == "1 skipped: no CUDA device"
    text = "\n".join(lines)
    for number in (FAILED, DIVERGED, UNFINISHED, STALE, UNTOUCHED, UNEVALUATED):
        assert f"\n    {study.runs[number].path}\n" in text
    assert "1 missing: not finished; the end of its log: OSError: [Errno 28]" in text
    assert lines[-1].startswith("the same command")
    assert not is_complete(rows)


def test_the_closing_lines_say_where_the_report_is_and_what_of_it_failed(study, results):
    table_of(rows_of(study.runs, results)).to_csv(results / "summary.csv", index=False)
    rows = read_rows(results / "summary.csv")
    assert not [line for line in closing_lines(rows, results) if "report" in line]
    (results / "report.log").write_text("Traceback")
    assert f"report: could not be rendered, see {results / 'report.log'}" in closing_lines(rows, results)
    (results / "report.html").write_text("<p></p>")
    figures = [{"name": "good", "failure": None}, {"name": "bad", "failure": "ValueError: no"}]
    (results / "figures.json").write_text(json.dumps({"figures": figures}))
    (results / "claims.json").write_text(json.dumps({"claims": [{"id": 7, "failure": "KeyError: 'x'"}]}))
    lines = closing_lines(rows, results)
    assert f"report: {results / 'report.html'}" in lines
    assert [line for line in lines if line.startswith("FAILED")] == [
        "FAILED in the report: figure bad: ValueError: no",
        "FAILED in the report: claim 7: KeyError: 'x'",
    ]


def test_skipped_and_diverged_runs_are_results_but_a_failed_reference_is_a_gap(study, results):
    table_of(rows_of(study.runs, results)).to_csv(results / "summary.csv", index=False)
    rows = read_rows(results / "summary.csv")
    complete = [rows[number] for number in (OK, SKIPPED, DIVERGED)]
    assert is_complete(complete)
    assert "command" not in closing_lines(complete, results)[-1]
    without_reference = rows[OK] | {"reference_kind": "failed", "reference_reason": "RuntimeError: no"}
    assert not is_complete([without_reference])
    assert "a reference failed: RuntimeError: no" in closing_lines([without_reference], results)


def test_a_long_list_of_runs_is_cut(study, results):
    row = {"run": "a", "status": "failed", "reason": "no", "reference_kind": "", "reference_reason": ""}
    lines = closing_lines([row] * 30, results, most=3)
    assert lines[1:6] == ["30 failed: no", "    a", "    a", "    a", "    and 27 more"]


def test_the_columns_can_be_printed(capsys):
    main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(COLUMNS)
    assert all(column.meaning for column in COLUMNS.values())
