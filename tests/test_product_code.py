"""What users run stands without the tests and without what only tests need."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("implementations", "metrics", "workflows", "reports", "benchmarks", "pbnn_bench")


def imports_of(text: str) -> set[str]:
    """The first parts of all modules that a source text imports, also inside functions."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in names}


def test_no_product_module_imports_pytest_or_a_test():
    # Benchmarks proper are run by pytest.
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    product = [path for path in paths if not path.name.startswith("bench_") and path.name != "conftest.py"]
    assert len(product) > 50
    for path in product:
        found = imports_of(path.read_text(encoding="utf-8")) & {"tests", "pytest", "_pytest", "hypothesis"}
        assert not found, f"{path.relative_to(ROOT)} imports {', '.join(found)}"


def test_an_import_inside_a_function_is_found():
    assert imports_of("import a.b as c\ndef f():\n    from tests.x import y\n") == {"a", "tests"}
