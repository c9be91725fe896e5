"""The methods of the paper and their full-data counterparts: nine choices of parts, each a row.

Target with weight w, from the per-point losses l_j(theta) = -log p(y_j | x_j, theta):

    U_w(theta) = -log p(theta) + (w / N) sum_j l_j(theta)

with w = N (``data``, the posterior), w = n (``batch``, the tempered posterior) or any number. Labels in ``citation``
are those of *Data Subsampling for Bayesian Neural Networks* (Kawasaki, Adu-Gyamfi, Holzmann). Colours are the palette
of Okabe and Ito, which colour-blind readers can tell apart, with two greys for ``ula`` and ``mala``.
"""

from implementations.card import Card, Exactness
from implementations.kernels.metropolis import Metropolis
from implementations.settings import (
    BATCH_SIZE,
    DECAY,
    DECAY_START,
    NUM_BATCHES,
    STEP_SIZE,
    UNADJUSTED_STEP,
    VARIANCE,
    WEIGHT,
    adjusted_langevin_step,
    noisy_step,
    random_walk_step,
)

_TEMPERED = WEIGHT.but(default="batch")
_NOISY = STEP_SIZE.but(default=noisy_step)

ROWS = (
    Card(
        name="full_mh",
        label="full-data MH",
        summary="random-walk Metropolis-Hastings on all data",
        citation="MH usual acceptance",
        kernel=Metropolis(estimate="all", proposal="random_walk", acceptance="exact"),
        exactness=Exactness.EXACT,
        own_settings=(STEP_SIZE.but(default=random_walk_step), WEIGHT),
        needs=frozenset({"all"}),
        colour="#000000",
    ),
    Card(
        name="tempered",
        label="tempered",
        summary="random-walk Metropolis-Hastings on all data, with the likelihood tempered to weight n",
        citation="mini-batch loss (Safe Bayes, L_N^n)",
        kernel=Metropolis(estimate="all", proposal="random_walk", acceptance="exact"),
        exactness=Exactness.EXACT,
        own_settings=(BATCH_SIZE, STEP_SIZE.but(default=random_walk_step), _TEMPERED),
        needs=frozenset({"all"}),
        colour="#e69f00",
    ),
    Card(
        name="naive",
        label="naive",
        summary="Metropolis-Hastings that takes the mini-batch loss difference for the full one",
        citation="usual delta",
        kernel=Metropolis(estimate="batches", proposal="random_walk", acceptance="naive"),
        exactness=Exactness.BIASED,
        condition="ignores the noise of the loss difference",
        own_settings=(BATCH_SIZE, NUM_BATCHES.but(default=1), _NOISY, WEIGHT),
        needs=frozenset({"rows"}),
        colour="#d55e00",
    ),
    Card(
        name="pbnn",
        label="PBNN",
        summary="penalty Bayesian neural network: accepts by the mini-batch loss difference plus half its variance",
        citation="random walk penalty acceptance (Algorithm 1)",
        kernel=Metropolis(estimate="batches", proposal="random_walk", acceptance="penalty"),
        exactness=Exactness.CONDITIONAL,
        condition="for Gaussian noise of known variance",
        own_settings=(BATCH_SIZE, NUM_BATCHES, _NOISY, _TEMPERED, VARIANCE),
        needs=frozenset({"rows"}),
        colour="#0072b2",
    ),
    Card(
        name="pbnn_corrected",
        label="PBNN, corrected",
        summary="pbnn with Ceperley and Dewing's correction for an estimated variance",
        citation="the extension left open after random walk penalty acceptance",
        kernel=Metropolis(estimate="batches", proposal="random_walk", acceptance="penalty_corrected"),
        exactness=Exactness.CONDITIONAL,
        condition="nearly, for Gaussian noise with an estimated variance below 1",
        own_settings=(BATCH_SIZE, NUM_BATCHES, _NOISY, _TEMPERED, VARIANCE),
        needs=frozenset({"rows"}),
        colour="#56b4e9",
    ),
    Card(
        name="sgld",
        label="SGLD",
        summary="stochastic gradient Langevin dynamics, with a constant or decaying step",
        citation="SGLD",
        kernel=Metropolis(estimate="none", proposal="langevin", gradient="batch", acceptance="always"),
        exactness=Exactness.BIASED,
        condition="discretisation and gradient noise",
        own_settings=(BATCH_SIZE, STEP_SIZE.but(default=UNADJUSTED_STEP), _TEMPERED, DECAY, DECAY_START),
        needs=frozenset({"rows"}),
        colour="#cc79a7",
    ),
    Card(
        name="ula",
        label="ULA",
        summary="unadjusted Langevin algorithm: the full gradient, every move accepted",
        citation="ULA",
        kernel=Metropolis(estimate="none", proposal="langevin", gradient="all", acceptance="always"),
        exactness=Exactness.BIASED,
        condition="discretisation",
        own_settings=(STEP_SIZE.but(default=UNADJUSTED_STEP), WEIGHT, DECAY, DECAY_START),
        needs=frozenset({"all"}),
        colour="#a8a8a8",
    ),
    Card(
        name="mala",
        label="MALA",
        summary="Metropolis-adjusted Langevin algorithm on all data",
        citation="Langevin proposal",
        kernel=Metropolis(estimate="all", proposal="langevin", gradient="all", acceptance="exact"),
        exactness=Exactness.EXACT,
        own_settings=(STEP_SIZE.but(default=adjusted_langevin_step), WEIGHT),
        needs=frozenset({"all"}),
        colour="#6b6b6b",
    ),
    Card(
        name="pbnn_mala",
        label="PBNN, MALA",
        summary="penalised MALA: mini-batch gradient in the proposal, penalty in the acceptance",
        citation="PBNN MH acceptance",
        kernel=Metropolis(estimate="batches", proposal="langevin", gradient="batch", acceptance="penalty"),
        exactness=Exactness.CONDITIONAL,
        condition="for Gaussian noise of known variance",
        own_settings=(BATCH_SIZE, NUM_BATCHES, _NOISY, _TEMPERED, VARIANCE),
        needs=frozenset({"rows"}),
        colour="#009e73",
    ),
)
