"""What the documentation says of whole networks is what is kept with the code."""

from pathlib import Path

import numpy as np

from docs._build import networks
from records.network_references import FOLDER, NetworkReference


def test_every_kept_reference_is_whole_small_and_listed():
    paths = sorted(FOLDER.glob("*/*/split*.json"))
    table = networks.references_table()
    assert paths
    for path in paths:
        reference = NetworkReference.load(path)
        assert path == FOLDER / reference.task / f"weight{reference.weight:g}" / f"split{reference.split}.json"
        assert f"`{path.parent.relative_to(FOLDER)}`" in table
        assert np.isfinite(reference.mean).all() and (reference.sd > 0).all()
    # The budget of the repository.
    assert sum(file.stat().st_size for file in Path(FOLDER).rglob("*") if file.is_file()) < 12e6


def test_scores_are_of_kept_references_that_pass_their_gate():
    for (task, split), group in networks.scores().groupby(["task", "split"]):
        (path,) = (path for path in FOLDER.glob(f"{task}/*/split{split}.json") if path.parent.name != "weight100")
        reference = NetworkReference.load(path)
        assert reference.is_usable
        np.testing.assert_allclose(
            group.reference_log_likelihood, reference.record["scores"]["log_likelihood"], atol=1e-6
        )
    assert set(networks.scores().method) == set(networks.NAMES)


def test_the_table_has_medians_over_tasks():
    found = networks.scores().query("method == 'map'").groupby("task").mean_error.mean()
    line = next(line for line in networks.baselines_table().splitlines() if line.startswith("| MAP"))
    assert f" {found.median():.2f} ({found.min():.2f} to {found.max():.2f})" in line


def test_the_picture_is_the_same_every_time():
    assert networks.baselines_picture() == networks.baselines_picture()
