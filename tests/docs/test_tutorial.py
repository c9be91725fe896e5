"""The tutorial notebook: every cell runs, in order, and shows what the text beside it says."""

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


def run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does, on the names of those before it; the value of an expression at its end."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names) if last else None


@pytest.mark.slow
def test_the_tutorial_runs_from_a_torch_classifier_to_the_chosen_n(capsys):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    names: dict[str, Any] = {}
    values = [run(cell.source, names) for cell in notebook.cells if cell.cell_type == "code"]
    shown = capsys.readouterr().out
    assert values[1] == "300 points, 170 parameters, 10 classes"
    assert "temperature scaling" in shown and "Laplace" in shown
    choice = names["choice"]
    assert f"chosen n: {choice.batch_size}" in shown
    drawn = [names[name] for name in ("alone", "scaled", "laplace")] + [choice.best]
    assert [line.get_label() for line in names["axes"].lines[1:]] == [one.name for one in drawn]
    # Chains on all the data beat the Gaussian there, which spreads too far: 0.1 nats per image is five standard errors.
    assert choice.batch_size == 300 and choice.best.test.nll + 0.1 < names["laplace"].test.nll
    assert abs(choice.best.test.gap) < 0.06 and choice.best.test.accuracy > 0.85
    assert names["probabilities"].shape == (5, 10)


def test_the_notebook_is_kept_without_outputs():
    """They would be of another machine, and of an older version."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
