"""A summary made from run files on file since an earlier version has the same values."""

import csv
from pathlib import Path

from records.summary import read_rows
from tests.workflows.made_up import MadeUp

KEPT = Path(__file__).with_name("made_up.csv")


def test_the_same_run_files_give_the_same_summary_as_before(tmp_path):
    study = MadeUp(tmp_path)
    failed = next(run for run in study.runs.values() if (run.settings.num_batches, run.seed) == (5, 2))
    study.make(failed.path, status="failed", reason="MemoryError: all of it", acceptance_rate=None)
    study.summarise()
    with KEPT.open(encoding="utf-8", newline="") as file:
        kept = list(csv.DictReader(file))
    # What a run's folder is called is no result, nor which data it was made up for.
    names = [name for name in kept[0] if name not in ("run", "problem_sha256")]
    found = [{name: row[name] for name in names} for row in read_rows(study.results / "summary.csv")]
    assert found == [{name: row[name] for name in names} for row in kept]


def test_variant_and_label_are_columns(tmp_path):
    study = MadeUp(tmp_path)
    rows = read_rows(study.results / "summary.csv")
    assert {(row["variant"], row["label"]) for row in rows} == {
        (run.variant.label, run.label) for run in study.runs.values()
    }
