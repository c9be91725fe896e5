"""The figures of a report, in its order: those of the paper first, then what they leave open."""

from records.study import StudyResults
from reports.benchmarks import SECTION, Benchmarks
from reports.figures.calibration import draw_calibration, draw_cure, draw_layers, draw_targets
from reports.figures.cost import (
    draw_best,
    draw_bias_against_evaluations,
    draw_bias_against_seconds,
    draw_bias_cost,
    draw_cost_of_a_draw,
    draw_frontier,
    draw_step_cost,
)
from reports.figures.noise import draw_acceptance, draw_decisions, draw_noise, draw_penalty, draw_regime_map
from reports.figures.paper import draw_alternatives, draw_linear, draw_regression, draw_reliability_diagrams
from reports.figures.runs import draw_backends, draw_convergence, draw_coverage
from reports.figures.speed import draw_batch_size, draw_chains, draw_peers, draw_points, draw_steps
from reports.types import FigureSpec

PAPER = "The figures of the paper"
TARGET = "Calibration and target"
DECISIONS = "Acceptance and decisions"
COST = "Cost"
RUNS = "Convergence and coverage"

FIGURES: tuple[FigureSpec[StudyResults], ...] = (
    FigureSpec(
        "figure1_linear",
        "Figure 1: the penalty on a linear regression",
        PAPER,
        draw_linear,
        paper="With mini-batches of two points the naive chain's band is visibly too wide; with the penalty it matches "
        "the exact posterior.",
        claims=(1,),
    ),
    FigureSpec(
        "figure2_regression",
        "Figure 2: predictive bands of the regression",
        PAPER,
        draw_regression,
        paper="The BNN's band is narrow, PBNN's is wider the smaller n is, and without the penalty it is something "
        "else; no two panels are meant to agree, as each has another target.",
    ),
    FigureSpec(
        "figure3_reliability",
        "Figure 3: reliability diagrams",
        PAPER,
        draw_reliability_diagrams,
        paper="The BNN is overconfident on both tasks and PBNN is closer to the diagonal. On MNIST the accuracies are "
        "similar: 93.6 % (BNN) and 93.2 % (PBNN, n = 100, M = 10).",
        claims=(7, 8),
    ),
    FigureSpec(
        "figure4_alternatives",
        "Figure 4: SGLD, tempering and PBNN",
        PAPER,
        draw_alternatives,
        paper="SGLD's answer depends strongly on its step (η = 1e−7 and 1e−8 there, on a scale of its own), PBNN's "
        "does not depend on it, and tempering to the same n looks qualitatively different from PBNN.",
        claims=(9,),
    ),
    FigureSpec(
        "calibration", "Confidence gap against the weight of the target", TARGET, draw_calibration, claims=(6, 13)
    ),
    FigureSpec("targets", "PBNN's distance from the tempered posterior", TARGET, draw_targets),
    FigureSpec("acceptance", "Acceptance against n, M and η", DECISIONS, draw_acceptance, claims=(3,)),
    FigureSpec("penalty", "What the penalty repairs, and what it costs", DECISIONS, draw_penalty, claims=(2, 5)),
    FigureSpec("regime_map", "How much noise the penalty tolerates", DECISIONS, draw_regime_map, claims=(16,)),
    FigureSpec("decisions", "Wrong decisions", DECISIONS, draw_decisions),
    FigureSpec(
        "noise",
        "Normality of the noise, and its estimated variance, against M",
        DECISIONS,
        draw_noise,
        claims=(4, 12, 14),
    ),
    FigureSpec("bias_evaluations", "Bias against evaluations", COST, draw_bias_against_evaluations, claims=(18,)),
    FigureSpec("bias_seconds", "Bias against seconds", COST, draw_bias_against_seconds),
    FigureSpec("step_cost", "The time of a step against N", COST, draw_step_cost, claims=(11, 22)),
    FigureSpec("backends", "JAX and PyTorch, CPU and GPU", COST, draw_backends),
    FigureSpec("convergence", "R-hat of every run", RUNS, draw_convergence),
    FigureSpec("coverage", "What ran", RUNS, draw_coverage),
)


def _shared(*names: str) -> list[FigureSpec[StudyResults]]:
    """The figures with these names, which other studies show too."""
    return [spec for spec in FIGURES if spec.name in names]


#: Of the study of tall data.
TALL_FIGURES: tuple[FigureSpec[StudyResults], ...] = (
    FigureSpec("cost_of_a_draw", "Cost of an effective draw against N", COST, draw_cost_of_a_draw, claims=(21, 24)),
    FigureSpec(
        "bias_cost",
        "The posterior of all data: what its draws cost, and how far they are off",
        COST,
        draw_bias_cost,
        claims=(23, 25),
    ),
    *_shared("acceptance", "regime_map", "decisions", "noise", "step_cost", "convergence", "coverage"),
)

#: Of the study of networks on MNIST.
CALIBRATION_FIGURES: tuple[FigureSpec[StudyResults], ...] = (
    FigureSpec("cure", "Confidence gap and NLL over n", TARGET, draw_cure, claims=(13, 51, 52, 53)),
    *_shared("convergence", "coverage"),
)

#: Of the network that is stochastic throughout.
LAYERS_FIGURES: tuple[FigureSpec[StudyResults], ...] = (
    FigureSpec("layers", "Width and place of the band, all layers stochastic", TARGET, draw_layers, claims=(20,)),
    *_shared("decisions", "bias_evaluations", "convergence", "coverage"),
)

#: Of the study of all methods.
RIVALS_FIGURES: tuple[FigureSpec[StudyResults], ...] = (
    FigureSpec("best", "The best mini-batch chain and the best full-data chain", COST, draw_best, claims=(42,)),
    FigureSpec("frontier", "Bias against evaluations, all methods", COST, draw_frontier),
    *_shared("decisions", "convergence", "coverage"),
)

#: Of the suite's benchmarks, not of a study.
SPEED_FIGURES: tuple[FigureSpec[Benchmarks], ...] = (
    FigureSpec("speed_steps", "A step over its bare likelihoods and gradients", SECTION, draw_steps),
    FigureSpec("speed_peers", "Our step over other libraries'", SECTION, draw_peers),
    FigureSpec("speed_points", "A step as the data grow, and its memory", SECTION, draw_points),
    FigureSpec("speed_chains", "A step of one chain among many", SECTION, draw_chains),
    FigureSpec("speed_batch_size", "A step as its mini-batches grow", SECTION, draw_batch_size),
)
