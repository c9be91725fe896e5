"""What the study `layers` found: a network all of whose layers are stochastic."""

from records.display import format_number
from records.study import StudyResults
from reports.claims.rules import RULES
from reports.evidence import require, settings
from reports.types import Finding


def _whole_network(study: StudyResults) -> Finding:
    rule = RULES[20]
    found = [one for one in settings(study, variant="regression-all", method="pbnn") if one.has("sd_ratio")]
    require(bool(found))
    errors = [one.bias() for one in found]
    widths = [one.mean("sd_ratio") for one in found]
    require(max(one.mean or 0.0 for one in errors) <= rule["place"])
    require(all(abs(width - 1) <= rule["width"] for width in widths))
    off = errors[0].high
    # One seed has no interval.
    require(off is not None)
    return Finding(
        "The penalty method also works where every layer of the network is stochastic.",
        f"With all {found[0]['num_parameters']} parameters of the regression network stochastic, the "
        f"predictive band is {format_number(widths[0], 2)} times as wide as that of long Hamiltonian chains, and its "
        f"mean is off by at most {format_number(off, 2)} sd, on {errors[0].num_seeds} seeds, with "
        f"{found[0]['num_batches']} mini-batches of {found[0]['batch_size']} points.",
    )


OF_LAYERS = (_whole_network,)
