"""Snakemake on a study of a test's own, in a folder of its own."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
#: Compiled code, one cache for all tests.
COMPILED = ROOT / "results" / ".cache" / "tests"


def heed_interrupts() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so does all that it starts in turn, but for this."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Workdir:
    """A folder with a study file, in which the project's Snakefile runs."""

    def __init__(self, folder: Path, study: dict[str, Any], shares_compiled: bool = True) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.results = folder / "results" / study["study"]
        if shares_compiled and not self.results.parent.exists():
            COMPILED.mkdir(parents=True, exist_ok=True)
            self.results.parent.mkdir()
            (self.results.parent / ".cache").symlink_to(COMPILED)
        self.write(study)

    def write(self, study: dict[str, Any]) -> None:
        (self.folder / "study.yaml").write_text(json.dumps(study))

    def edit(self, change: Any) -> None:
        """Write the study as ``change`` leaves it."""
        study = yaml.safe_load((self.folder / "study.yaml").read_text())
        change(study)
        self.write(study)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "snakemake", "--cores", "2", "--snakefile", str(ROOT / "Snakefile")]
        command += ["--directory", str(self.folder), "--configfile", str(self.folder / "study.yaml"), *arguments]
        # Snakemake's own caches of a user belong to the user.
        environment = os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache")}
        # Into a file: jobs that outlive Snakemake would keep a pipe open.
        with (self.folder / "output.txt").open("wb") as file:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=heed_interrupts,
            )

    def end(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Exit code and output, when it has come to its end."""
        code = process.wait(timeout=900)
        return code, (self.folder / "output.txt").read_text()

    def run(self, *arguments: str) -> tuple[int, str]:
        return self.end(self.start(*arguments))

    def planned(self) -> dict[str, int]:
        """How many jobs of each rule a dry run announces."""
        code, output = self.run("--dry-run", "--quiet", "host")
        assert code == 0, output
        table = output.partition("Job stats:")[2].partition("\n\n")[0]
        return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)}

    def rows(self) -> list[dict[str, str]]:
        with (self.results / "summary.csv").open(newline="") as file:
            return list(csv.DictReader(file))
