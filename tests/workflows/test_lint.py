"""The workflow passes Snakemake's linter but for what is accepted, and anything else is reported."""

import subprocess

from workflows import lint

FOUND = """\
Lints for rule sample (line 1, sample.smk):
    * Specify a conda environment or container for each rule.:
      This way, the used software for each specific step is documented.
    * No log directive defined:
      Without a log directive, all output will be printed to the terminal.

Lints for snakefile Snakefile:
    * Absolute path "/x" in line 3:
      Do not.
"""


def test_the_workflow_is_clean():
    assert lint.main() == 0


def test_what_is_not_accepted_is_told_with_its_place():
    assert list(lint.remaining(FOUND)) == [
        "rule sample (line 1, sample.smk): No log directive defined",
        'snakefile Snakefile: Absolute path "/x" in line 3',
    ]


def test_a_workflow_that_cannot_be_read_is_no_clean_one(monkeypatch, capsys):
    ended = subprocess.CompletedProcess([], 1, stdout="SyntaxError in line 3")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **more: ended)
    assert lint.main() == 1
    assert "SyntaxError in line 3" in capsys.readouterr().err
