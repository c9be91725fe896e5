"""Imports point one way: from workflows and reports down to records, and from there to the library."""

import graphlib

from tests.layers import ALLOWED, CONTRIBUTING, ROOT, edges, imports, modules, package, refresh


def test_no_package_imports_one_above_it():
    backward = {
        (one, other)
        for one, other in edges()
        if package(other) != package(one) and package(other) not in ALLOWED[package(one)]
    }
    assert backward == set()


def test_no_two_modules_import_each_other_not_even_by_a_detour():
    graph = {name: {other for one, other in edges() if one == name} for name in modules()}
    graphlib.TopologicalSorter(graph).prepare()


def test_every_folder_with_code_has_its_place():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders - {"tests"} <= set(ALLOWED)


def test_the_drawing_in_contributing_is_current():
    text = CONTRIBUTING.read_text(encoding="utf-8")
    assert refresh(text) == text, "run `python -m tests.layers`"


def test_no_product_module_imports_a_test_or_what_only_tests_need():
    assert len(modules()) > 50
    # Benchmarks are run by pytest.
    product = {
        name: file for name, file in modules().items() if name not in ("benchmarks.bench", "benchmarks.conftest")
    }
    for name, file in product.items():
        found = {package(target) for target in imports(file)} & {"tests", "pytest", "_pytest", "hypothesis"}
        assert not found, f"{name} imports {', '.join(found)}"
