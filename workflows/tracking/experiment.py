"""The study's experiment in MLflow, with the views of its table that are worth seeing."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from workflows.tracking.entries import HEADLINE, SETTING
from workflows.tracking.store import is_beside, is_database

if TYPE_CHECKING:
    from mlflow import MlflowClient

NUM_SHOWN = 6
#: Saved views of MLflow's table of runs, in its menu "Views": the columns worth seeing, sorted by name.
_NAME_COLUMN = "attributes.`Run Name`"
_COLUMNS = [*(f"metrics.`{name}`" for name in HEADLINE[:NUM_SHOWN]), "tags.`status`"]
_TABLE = {
    "selectedColumns": _COLUMNS,
    "columnOrder": [_NAME_COLUMN, *_COLUMNS],
    "columnWidths": {_NAME_COLUMN: 360} | dict.fromkeys(_COLUMNS, 125),
    "orderByKey": "tags.`mlflow.runName`",
    "orderByAsc": True,
}
_VIEWS = {
    "means": ("Means over seeds", _TABLE | {"searchFilter": f"tags.level = '{SETTING}' and tags.status != 'stale'"}),
    "seeds": ("Every seed", _TABLE | {"searchFilter": "tags.status != 'stale'"}),
}
EXPERIMENT_TAGS = {
    # Shows the pages of runs, and not those of language models.
    "mlflow.experimentKind": "custom_model_development",
    **{
        f"mlflow.sharedViewState.{key}": json.dumps({"name": name, "createdAt": 0, "state": json.dumps(state)})
        for key, (name, state) in _VIEWS.items()
    },
}


def experiment_of(client: "MlflowClient", uri: str, study: str, artifacts: Path) -> str:
    """The id of the study's experiment; one that a person has deleted is taken out of the bin."""
    # A server has a place of its own for them.
    location = (artifacts / study).resolve().as_uri() if is_database(uri) else None
    experiment = client.get_experiment_by_name(study)
    if experiment is None:
        return str(client.create_experiment(study, location, EXPERIMENT_TAGS))
    if location and _is_elsewhere(experiment.artifact_location, location):
        if not is_beside(uri, artifacts):
            raise ValueError(
                f"the experiment {study} there has its files with other results, in {experiment.artifact_location}; "
                "rename it, or choose another MLFLOW_TRACKING_URI"
            )
        _move_files(uri, experiment.artifact_location, location)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    for name, value in EXPERIMENT_TAGS.items():
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.experiment_id, name, value)
    return str(experiment.experiment_id)


def _is_elsewhere(found: str, expected: str) -> bool:
    """Are the files of an experiment in the folder of other results? A place that a person chose is left alone."""
    # mlflow-artifacts/<study>
    ends = [location.rsplit("/", 2)[1:] for location in (found, expected)]
    return found.startswith("file:") and ends[0] == ends[1] and found != expected


def _move_files(uri: str, old: str, new: str) -> None:
    """Let a database in results that were moved or copied look for its files beside it.

    MLflow keeps whole paths only, and would read and write the files of the original.
    """
    from sqlalchemy import create_engine, text

    engine = create_engine(uri)
    with engine.begin() as connection:
        values = {"old": old, "new": new, "start": len(old) + 1, "length": len(old)}
        for command in (
            "UPDATE experiments SET artifact_location = :new WHERE artifact_location = :old",
            "UPDATE runs SET artifact_uri = :new || substr(artifact_uri, :start)"
            " WHERE substr(artifact_uri, 1, :length) = :old",
        ):
            connection.execute(text(command), values)
    engine.dispose()
