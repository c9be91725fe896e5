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
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: `name==version` and nothing else: no range, no local tag such as +cpu, no editable or file requirement.
PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!]+)")


@pytest.fixture(scope="module")
def pins():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert "make lock" in lines[0], "the first line says how it was made"
    lines = [line for line in lines if not line.startswith("#")]
    matches = [PIN.fullmatch(line) for line in lines]
    assert [line for line, match in zip(lines, matches, strict=True) if match is None] == []
    assert lines == sorted(set(lines), key=str.upper), "sorted, and no package twice"
    return {canonicalize_name(match[1]): Version(match[2]) for match in matches}


def test_every_requirement_is_pinned_to_a_version_that_it_allows(pins):
    extras = PROJECT["optional-dependencies"].values()
    for requirement in map(Requirement, [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]):
        assert pins[canonicalize_name(requirement.name)] in requirement.specifier, requirement.name
    # The version that the results were made with.
    assert pins["torch"] == Version("2.13.0") and "torch==2.13.0" in PROJECT["dependencies"]


def test_conda_takes_python_and_the_lock_and_nothing_else():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    assert {"pip": ["-r requirements.lock"]} in conda and "pip" in conda
    (python,) = (Requirement(entry) for entry in conda if isinstance(entry, str) and entry != "pip")
    assert (python.name, python.specifier) == ("python", SpecifierSet(PROJECT["requires-python"]))


def test_ci_covers_the_oldest_and_the_newest_supported_python():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    supported = SpecifierSet(PROJECT["requires-python"])
    versions = [f"3.{minor}" for minor in range(40) if f"3.{minor}" in supported]
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python-version"] == [versions[0], versions[-1]]


@pytest.mark.xdist_group("alone")
def test_processes_are_told_which_tests_belong_together(request):
    """Where they are not, all passes as before, but each process makes every fixture and compiles every method."""
    is_grouped = request.config.getoption("loadgroup", False)
    assert request.node.nodeid.endswith("@alone") == is_grouped
