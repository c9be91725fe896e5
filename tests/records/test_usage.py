"""Where the processor time of a study went, from lines that its own processes wrote."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from records.usage import WORK, budget, main, read_usage

ROOT = Path(__file__).parents[2]
#: A process that imports for a while, works for a while, and has a child that works.
STEP = """
import subprocess, sys, time
from pathlib import Path

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

work(0.2)
from records.usage import metered
with metered(Path(sys.argv[1]), "sample", "a part") as meter:
    with meter.clock("imports"):
        work(0.1)
    meter.add("sampling", 0.3)
    work(0.5)
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"])
    if sys.argv[2:]:
        raise KeyboardInterrupt
"""


def test_the_kinds_of_work_of_a_process_add_up_to_what_it_used_with_its_children(tmp_path):
    for more in ([], ["interrupted"]):
        subprocess.run([sys.executable, "-c", STEP, str(tmp_path), *more], cwd=ROOT, capture_output=True)
    usages = read_usage(tmp_path)
    assert [usage["step"] for usage in usages] == ["sample", "sample"]
    (seconds, again) = (budget([usage]) for usage in usages)
    assert seconds["imports"] >= 0.3
    assert seconds["sampling"] == 0.3
    assert seconds["compilation"] >= 0.3
    assert seconds["files"] == pytest.approx(0.2, abs=0.1)
    assert sum(seconds.values()) == pytest.approx(usages[0]["cpu_s"] + usages[0]["children_s"])
    both = budget(usages)
    assert both == pytest.approx({kind: seconds[kind] + again[kind] for kind in seconds})
    assert list(both.values()) == sorted(both.values(), reverse=True)
    assert set(both) <= set(WORK)


def test_children_count_as_the_work_of_their_step_and_those_of_snakemake_have_lines_of_their_own():
    def spent(step, **phases):
        return budget([{"step": step, "what": "", "cpu_s": 2.0, "children_s": 5.0, "phases": phases}])

    assert spent("track") == {"tracking": 7.0}
    assert spent("tune") == {"compilation": 5.0, "tuning": 2.0}
    assert spent("snakemake") == {"snakemake": 2.0}
    # A run that goes on from a killed process has that one's seconds too, which no other line has.
    assert spent("sample", sampling=3.0) == {"compilation": 5.0, "sampling": 3.0, "files": 0.0}


def test_a_line_that_was_cut_short_is_left_out_and_a_study_without_any_says_so(tmp_path, capsys):
    line = json.dumps({"step": "report", "what": "", "cpu_s": 4.0, "children_s": 0.0, "phases": {"imports": 1.0}})
    (tmp_path / "usage.log").write_text(f"{line}\n{line[:30]}\n[]\n{{}}\n")
    assert budget(read_usage(tmp_path)) == {"report": 3.0, "imports": 1.0}
    assert main([str(tmp_path)]) == 0
    lines = [text.split() for text in capsys.readouterr().out.splitlines()]
    assert [words[0] for words in lines] == ["report", "imports", "all"]
    assert lines[0][1:4] == ["3.0", "s", "75.0%"]
    assert main([str(tmp_path / "other")]) == 2
