"""pyproject.toml, requirements.lock and environment.yml describe one environment."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
CONDA = (ROOT / "environment.yml").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")

#: `name==version` and nothing else: no range, no local tag such as +cpu, no editable or file requirement.
PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!]+)")


def read_lock(lock: str) -> tuple[dict[str, Version], list[str]]:
    """The pins of a lock file, and what is wrong with its lines."""
    lines = [line for line in lock.splitlines() if not line.startswith("#")]
    matches = {line: PIN.fullmatch(line) for line in lines}
    problems = [f"requirements.lock: {line!r} is not name==version" for line, match in matches.items() if match is None]
    found = [(canonicalize_name(match[1]), Version(match[2])) for match in matches.values() if match]
    pins = dict(found)
    if len(pins) != len(lines) - len(problems):
        problems.append("requirements.lock: a package is listed twice")
    if lines != sorted(lines, key=str.upper):
        problems.append("requirements.lock: not sorted")
    if not lock.startswith("#") or "make lock" not in lock.partition("\n")[0]:
        problems.append("requirements.lock: the first line does not say how it was made")
    return pins, problems


def disagreements(project_text: str, lock: str, conda_text: str) -> list[str]:
    """Every way in which the three files differ, one sentence each."""
    project = tomllib.loads(project_text)["project"]
    conda = yaml.safe_load(conda_text)["dependencies"]
    pins, problems = read_lock(lock)

    extras = project["optional-dependencies"].values()
    for requirement in map(Requirement, [*project["dependencies"], *(text for extra in extras for text in extra)]):
        pin = pins.get(canonicalize_name(requirement.name))
        if pin is None:
            problems.append(f"requirements.lock: {requirement.name} of pyproject.toml is not pinned")
        elif pin not in requirement.specifier:
            problems.append(f"requirements.lock: {requirement.name}=={pin} is not {requirement.specifier}")
        if requirement.name == "torch" and str(requirement.specifier) != f"=={pin}":
            problems.append(f"pyproject.toml: torch{requirement.specifier} is not exactly the lock's =={pin}")

    python = [Requirement(entry) for entry in conda if isinstance(entry, str) and entry.startswith("python")]
    if [entry.specifier for entry in python] != [SpecifierSet(project["requires-python"])]:
        problems.append(f"environment.yml: python is not {project['requires-python']}")
    if "pip" not in conda or {"pip": ["-r requirements.lock"]} not in conda:
        problems.append("environment.yml: the packages do not come from requirements.lock alone")
    if any(isinstance(entry, str) and entry != "pip" and not entry.startswith("python") for entry in conda):
        problems.append("environment.yml: lists a package beside requirements.lock")
    return problems


def test_the_three_files_describe_the_same_environment():
    assert disagreements(PROJECT, LOCK, CONDA) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("project", '"scipy>=1.17"', '"scipy>=99"', r"scipy==\S+ is not >=99"),
        ("project", '"scipy>=1.17"', '"scipy>=1.17", "left-pad>=1"', "left-pad of pyproject.toml is not pinned"),
        ("project", '"mypy>=2.4"', '"mypy<2"', r"mypy==\S+ is not <2"),
        ("project", '"torch==2.13.0"', '"torch>=2.13.0"', "torch>=2.13.0 is not exactly the lock's ==2.13.0"),
        ("project", 'requires-python = ">=3.11', 'requires-python = ">=3.12', "environment.yml: python is not >=3.12"),
        ("lock", "torch==2.13.0\n", "torch==2.13.1\n", r"torch==2.13.1 is not ==2.13.0"),
        ("lock", "torch==2.13.0\n", "torch==2.13.0+cpu\n", r"'torch==2.13.0\+cpu' is not name==version"),
        ("lock", "torch==2.13.0\n", "", "torch of pyproject.toml is not pinned"),
        ("lock", "torch==2.13.0\n", "torch==2.13.0\ntorch==2.13.0\n", "listed twice"),
        ("lock", "six==1.17.0\n", "six>=1.17.0\n", "'six>=1.17.0' is not name==version"),
        ("lock", "six==1.17.0\n", "-e .\nsix==1.17.0\n", "'-e .' is not name==version"),
        ("lock", "six==1.17.0\n", "zz==1\nsix==1.17.0\n", "not sorted"),
        ("lock", "make lock", "hand", "does not say how it was made"),
        ("conda", "python>=3.11", "python>=3.10", "environment.yml: python is not >=3.11"),
        ("conda", "-r requirements.lock", "torch==2.13.0", "do not come from requirements.lock alone"),
        ("conda", "  - pip\n", "  - pip\n  - numpy=2.3\n", "lists a package beside requirements.lock"),
    ],
)
def test_a_disagreement_is_noticed(file, old, new, expected):
    texts = {"project": PROJECT, "lock": LOCK, "conda": CONDA}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new, 1)
    found = disagreements(texts["project"], texts["lock"], texts["conda"])
    assert any(re.search(expected, problem) for problem in found), found


def test_torch_is_pinned_to_the_version_the_results_were_made_with():
    assert read_lock(LOCK)[0]["torch"] == Version("2.13.0")


def test_ci_covers_the_oldest_and_the_newest_supported_python():
    supported = SpecifierSet(tomllib.loads(PROJECT)["project"]["requires-python"])
    versions = [f"3.{minor}" for minor in range(40) if f"3.{minor}" in supported]
    tested = yaml.safe_load(WORKFLOW)["jobs"]["test"]["strategy"]["matrix"]["python-version"]
    assert tested == [versions[0], versions[-1]]


@pytest.mark.xdist_group("alone")
def test_processes_are_told_which_tests_belong_together(request):
    """Where they are not, all passes as before, but each process makes every fixture and compiles every method."""
    is_grouped = request.config.getoption("loadgroup", False)
    assert request.node.nodeid.endswith("@alone") == is_grouped
