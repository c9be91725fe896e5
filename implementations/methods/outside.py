"""Samplers of other libraries behind the same contract: their own steps on our model, data and loop.

They see the target in whitened coordinates z, theta = L z, so that they are preconditioned like our own. Their costs
are counted; their decisions are their own and are not audited. The libraries are imported when a kernel is built.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from implementations.card import Card, Exactness
from implementations.kernels.contract import Array, Data, Info, Kernel, Points, Random, Shapes, Target, Values, counted
from implementations.kernels.proposals import scale_by
from implementations.settings import BATCH_SIZE, STEP_SIZE, UNADJUSTED_STEP, WEIGHT, Setting, adjusted_langevin_step

TARGET_ACCEPTANCE = Setting(
    "target_acceptance", "acceptance rate that the step size is adapted to during the warm-up", float, 0.8, 0.05, 0.99
)
NUM_LEAPFROG = Setting("num_leapfrog", "leapfrog steps per trajectory", int, 8, minimum=1, maximum=1000)


def log_density(target: Target, data: Data, values: Values) -> Callable[[Array], Array]:
    """z -> -U_w(L z) of one chain, with the loss averaged over the points given."""

    def of(whitened: Array) -> Array:
        position = scale_by(values.factor, whitened[None])
        losses = target.losses(position, data)
        return (target.log_prior(position) - values.weight * array_namespace(losses).mean(losses, axis=-1))[0]

    return of


class HamiltonianState(NamedTuple):
    """A chain of blackjax and the adaptation of its step size; all with the chains first."""

    position: Array  # theta, (chains, P)
    whitened: Array  # z
    log_density: Array
    gradient: Array  # of the log density in z
    log_step: Array
    log_step_average: Array
    num_adapted: Array
    error_average: Array
    log_step_centre: Array


class Keys(NamedTuple):
    """A key for each chain, from which blackjax draws what it needs."""

    keys: Array


def hamiltonian(name: str) -> Callable[[Target, Shapes], Kernel]:
    """blackjax's ``nuts`` or ``hmc`` with a leapfrog step of sqrt(2 eta) at first, adapted during the warm-up."""

    def kernel(target: Target, shapes: Shapes) -> Kernel:
        import blackjax
        import jax
        import jax.numpy as jnp
        from blackjax.adaptation.step_size import DualAveragingAdaptationState, dual_averaging_adaptation
        from blackjax.mcmc.hmc import HMCState

        step_of = getattr(blackjax, name).build_kernel()
        unit_mass = jnp.ones(target.num_parameters)
        num_leapfrog = [shapes["num_leapfrog"]] if name == "hmc" else []

        def noise(random: Random, shape: tuple[int, ...], values: Values) -> Keys:
            return Keys(random.keys(shape))

        def init(noise: Keys, position: Array, data: Points, values: Values) -> HamiltonianState:
            factor = values.factor
            whitened = jnp.linalg.solve(factor, position.T).T if factor.ndim == 2 else position / factor
            states = jax.vmap(lambda z: blackjax.hmc.init(z, log_density(target, data.together, values)))(whitened)
            start, _, _ = dual_averaging_adaptation(0.8)
            adaptation = jax.vmap(start)(jnp.full(len(position), jnp.sqrt(2 * values.step_size)))
            return HamiltonianState(position, *states, *adaptation)

        def step(noise: Keys, state: HamiltonianState, data: Points, values: Values) -> tuple[HamiltonianState, Info]:
            _, adapt, final_step = dual_averaging_adaptation(values.own["target_acceptance"])

            def one(key: Array, chain: Any, adaptation: Any) -> Any:
                step_size = jnp.where(values.is_warmup, jnp.exp(adaptation.log_step_size), final_step(adaptation))
                # Nothing was adapted without a warm-up.
                step_size = jnp.where(adaptation.step > 1, step_size, jnp.sqrt(2 * values.step_size))
                density = log_density(target, data.together, values)
                chain, info = step_of(key, chain, density, step_size, unit_mass, *num_leapfrog)
                adapted = adapt(adaptation, info.acceptance_rate)
                adaptation = jax.tree.map(lambda new, old: jnp.where(values.is_warmup, new, old), adapted, adaptation)
                return chain, adaptation, info.acceptance_rate, info.num_integration_steps

            chains, adaptation, acceptance, num_steps = jax.vmap(one)(
                noise.keys, HMCState(*state[1:4]), DualAveragingAdaptationState(*state[4:])
            )
            moved = HamiltonianState(scale_by(values.factor, chains.position), *chains, *adaptation)
            evaluations = num_steps.astype(jnp.uint32) * target.num_points
            return moved, Info(acceptance, jnp.zeros_like(acceptance), evaluations, evaluations)

        return Kernel(init, noise, step)

    return kernel


class PosteriorsState(NamedTuple):
    """A chain of posteriors."""

    position: Array


class SeededBatches(NamedTuple):
    """A seed for torch's global generator, from which posteriors draws, and a mini-batch for each chain."""

    seeds: Array  # (chains,)
    indices: Array  # (chains, n)


def posteriors_sgld(target: Target, shapes: Shapes) -> Kernel:
    """posteriors' SGLD, whose learning rate is our eta."""
    import torch

    with warnings.catch_warnings():
        # tensordict's own, about every state of posteriors.
        warnings.simplefilter("ignore", FutureWarning)
        from posteriors.sgmcmc import sgld

    def noise(random: Random, shape: tuple[int, ...], values: Values) -> SeededBatches:
        return SeededBatches(random.keys(shape), random.points(shape, shapes["batch_size"]))

    def init(noise: SeededBatches, position: Array, data: Points, values: Values) -> PosteriorsState:
        return PosteriorsState(position)

    def step(
        noise: SeededBatches, state: PosteriorsState, data: Points, values: Values
    ) -> tuple[PosteriorsState, Info]:
        factor = values.factor
        whitened = torch.linalg.solve(factor, state.position.T).T if factor.ndim == 2 else state.position / factor

        def log_posterior(z: Array, batch: Data) -> tuple[Array, Array]:
            return log_density(target, batch, values)(z), z[:0]

        def one(z: Array, batch: Data) -> Array:
            return sgld.update(sgld.init(z), batch, log_posterior, lr=values.step_size)[0].params

        with torch.random.fork_rng():
            torch.manual_seed(int(noise.seeds[0]))
            moved = torch.vmap(one, randomness="different")(whitened, target.take(data.rows, noise.indices))
        position = scale_by(factor, moved)
        nothing = torch.zeros_like(position[:, 0])
        costs = counted(nothing, 0), counted(nothing, shapes["batch_size"])
        return PosteriorsState(position), Info(nothing == 0, nothing, *costs)

    return Kernel(init, noise, step)


_on_all_data = partial(Card, exactness=Exactness.EXACT, needs=frozenset({"all"}), libraries=("jax",), accepts="exact")
ROWS = (
    _on_all_data(
        name="blackjax_hmc",
        label="HMC (blackjax)",
        summary="Hamiltonian Monte Carlo from blackjax on all data, with a fixed number of leapfrog steps; not audited",
        citation="blackjax.hmc; Neal (2011)",
        kernel=hamiltonian("hmc"),
        own_settings=(STEP_SIZE.but(default=adjusted_langevin_step), WEIGHT, TARGET_ACCEPTANCE, NUM_LEAPFROG),
        colour="#8c564b",
    ),
    _on_all_data(
        name="blackjax_nuts",
        label="NUTS (blackjax)",
        summary="no-U-turn sampler (NUTS) from blackjax on all data; not audited",
        citation="blackjax.nuts; Hoffman and Gelman (2014)",
        kernel=hamiltonian("nuts"),
        own_settings=(STEP_SIZE.but(default=adjusted_langevin_step), WEIGHT, TARGET_ACCEPTANCE),
        colour="#7f3c8d",
    ),
    Card(
        name="posteriors_sgld",
        label="SGLD (posteriors)",
        summary="stochastic gradient Langevin dynamics from posteriors, in a Python loop; not audited",
        citation="posteriors.sgmcmc.sgld; Welling and Teh (2011)",
        kernel=posteriors_sgld,
        exactness=Exactness.BIASED,
        condition="discretisation and gradient noise",
        own_settings=(BATCH_SIZE, STEP_SIZE.but(default=UNADJUSTED_STEP), WEIGHT.but(default="batch")),
        needs=frozenset({"rows"}),
        libraries=("torch",),
        is_compiled=False,
        accepts="always",
        colour="#e78ac3",
    ),
)
