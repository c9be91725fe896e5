"""What practitioners use in place of a chain, on whole networks: each gives draws of predictions, and what it read.

==============  =====================================================================================================
``map``         one network at a mode
``ensemble``    modes of independent starts (Lakshminarayanan, Pritzel and Blundell 2017)
``swag``        a Gaussian around the path of SGD (Maddox, Garipov, Izmailov, Vetrov and Wilson 2019)
``dropout``     hidden units dropped in training and in prediction (Gal and Ghahramani 2016)
``last_layer``  Laplace approximation of the last layer, Gauss-Newton curvature
``ggn``         linearised Laplace approximation of all layers (Immer, Korzepa and Bauer 2021)
``mean_field``  variational inference, a Gaussian with diagonal covariance (Blundell et al. 2015)
==============  =====================================================================================================

All of them have the prior of the network, so that they differ from its posterior by approximation alone. Training is
Adam on mini-batches, in the whitened coordinates of ``implementations.networks.network``.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from implementations.networks.network import LOG_NOISE, Network, columns_of
from implementations.networks.tasks import NetworkData

#: Of training: points in a mini-batch, passes, steps at the least, and the rate from which Adam's falls along a cosine.
BATCH, EPOCHS, LEAST_STEPS, RATE = 32, 200, 4_000, 0.02
#: The sd of the whitened parameters that training starts from.
START_SPREAD = 0.5
#: Draws of predictions, where a method has as many as one likes.
NUM_DRAWS = 400
#: SWAG: passes along the path, those that count, and the rank of its covariance.
SWAG_EPOCHS, SWAG_KEPT, SWAG_RANK = 100, 80, 20
#: Parameters up to which all layers have a curvature matrix.
MOST_CURVED = 4_000
#: Variational inference: passes, and the sd of every parameter at the start.
VI_EPOCHS, VI_START = 1_000, 0.05


@dataclass(frozen=True)
class Predictions:
    """Draws of a network's outputs at the test points, and what they cost."""

    outputs: np.ndarray  # (draws, T[, K])
    #: The sd of the noise of each draw, in sds of the training targets; none of classes.
    noise_sd: np.ndarray | None
    #: Gradients of single points, in passes over the training rows.
    passes: float
    cpu_seconds: float


class Baselines:
    """The baselines on one split of a task. Networks that are trained for one are there for the others."""

    def __init__(self, network: Network, data: NetworkData, seed: int = 0) -> None:
        import jax.numpy as jnp

        self.network, self.data, self.seed = network, data, seed
        self.num_rows = len(data.targets)
        self.num_batches = max(1, self.num_rows // BATCH)
        self.epochs = max(EPOCHS, -(-LEAST_STEPS // self.num_batches))
        self.columns, self.targets = jnp.asarray(columns_of(data.inputs)), jnp.asarray(data.targets)
        self.rows = self.columns.T
        self.test_columns = jnp.asarray(columns_of(data.test_inputs))
        self._trained = np.zeros((0, network.num_parameters), np.float32)
        self._seconds: list[float] = []

    def map(self) -> Predictions:
        """The first of the ensemble's networks."""
        return self.ensemble(1)

    def ensemble(self, size: int) -> Predictions:
        modes = self._networks(size)
        return self._of_positions(modes, self.epochs * size, sum(self._seconds[:size]))

    def swag(self, rate: float) -> Predictions:
        """A Gaussian from the iterates of SGD with a constant rate, one per pass: half diagonal, half of low rank."""
        start = time.process_time()
        path = self._path(self._networks(1)[0], rate)[-SWAG_KEPT:]
        mean, variance, deviations = path.mean(axis=0), path.var(axis=0), path[-SWAG_RANK:] - path.mean(axis=0)
        generator = np.random.default_rng([self.seed, 11])
        diagonal = np.sqrt(variance) * generator.standard_normal((NUM_DRAWS, len(mean)))
        low_rank = generator.standard_normal((NUM_DRAWS, SWAG_RANK)) @ deviations / np.sqrt(SWAG_RANK - 1)
        seconds = self._seconds[0] + time.process_time() - start
        return self._of_positions(mean + np.sqrt(0.5) * (diagonal + low_rank), self.epochs + SWAG_EPOCHS, seconds)

    def dropout(self, rate: float) -> Predictions:
        """Trained with units dropped at ``rate``; every draw drops others, the same ones at all points."""
        import jax

        start = time.process_time()
        position = self._train(np.random.default_rng([self.seed, 12]), dropout=rate)
        keys = jax.random.split(jax.random.key(self.seed), NUM_DRAWS)
        widths = self.network.widths[1:-1]

        def outputs(key: Any) -> Any:
            return self.network.outputs(position, self.test_columns, _masks(key, widths, 1, rate))

        found = np.asarray(jax.jit(lambda keys: jax.lax.map(outputs, keys))(keys))
        noise = self._noise(np.repeat(np.asarray(position)[None], NUM_DRAWS, axis=0))
        return Predictions(_shaped(found), noise, self.epochs, time.process_time() - start)

    def last_layer(self) -> Predictions:
        """Outputs are linear in the last layer, so its Laplace approximation needs no linearisation."""
        rows, columns = self.network.shapes[-1]
        noise = int(self.network.learns_noise)
        last = slice(self.network.num_parameters - noise - rows * columns, self.network.num_parameters - noise)
        return self._laplace(last)

    def ggn(self) -> Predictions | None:
        """None where the network has too many parameters for the matrix."""
        if self.network.num_parameters > MOST_CURVED:
            return None
        return self._laplace(slice(0, self.network.num_parameters - int(self.network.learns_noise)))

    def mean_field(self) -> Predictions:
        """Maximises the evidence lower bound by reparametrised gradients, one draw per mini-batch."""
        import jax
        import jax.numpy as jnp
        import optax

        start = time.process_time()
        mean = self._networks(1)[0]
        spread = np.full(len(mean), np.log(VI_START), np.float32)
        steps = VI_EPOCHS * self.num_batches
        optimiser = optax.adam(optax.cosine_decay_schedule(RATE / 4, steps))

        def bound(approximation: Any, key: Any, batch: Any) -> Any:
            centre, log_sd = approximation
            position = centre + jnp.exp(log_sd) * jax.random.normal(key, centre.shape)
            losses = self.network.losses(position, self.rows[batch].T, self.targets[batch])
            # The divergence from the prior N(0, I), per point.
            divergence = 0.5 * (jnp.exp(2 * log_sd) + centre**2 - 1 - 2 * log_sd).sum() / self.num_rows
            return losses.mean() + divergence

        run = self._loop(optimiser, jax.grad(bound), VI_EPOCHS)
        centre, log_sd = run((jnp.asarray(mean), jnp.asarray(spread)), jax.random.key(self.seed + 1))
        noise = np.random.default_rng([self.seed, 13]).standard_normal((NUM_DRAWS, len(mean)))
        positions = np.asarray(centre) + np.exp(np.asarray(log_sd)) * noise
        seconds = self._seconds[0] + time.process_time() - start
        return self._of_positions(positions, self.epochs + VI_EPOCHS, seconds)

    def _networks(self, size: int) -> np.ndarray:
        """At least so many trained networks (size, P)."""
        for member in range(len(self._trained), size):
            start = time.process_time()
            position = np.asarray(self._train(np.random.default_rng([self.seed, 10, member])))
            self._trained = np.concatenate([self._trained, position[None]])
            self._seconds.append(time.process_time() - start)
        return self._trained[:size]

    def _train(self, generator: np.random.Generator, dropout: float = 0.0) -> Any:
        """A mode by Adam on mini-batches."""
        import jax
        import jax.numpy as jnp
        import optax

        widths = self.network.widths[1:-1]
        steps = self.epochs * self.num_batches
        optimiser = optax.adam(optax.cosine_decay_schedule(RATE, steps))

        def loss(position: Any, key: Any, batch: Any) -> Any:
            masks = _masks(key, widths, len(batch), dropout) if dropout else None
            losses = self.network.losses(position, self.rows[batch].T, self.targets[batch], masks)
            return losses.mean() + 0.5 * jnp.vdot(position, position) / self.num_rows

        start = START_SPREAD * generator.standard_normal(self.network.num_parameters, np.float32)
        run = self._cached(("train", dropout), lambda: self._loop(optimiser, jax.grad(loss), self.epochs))
        return run(jnp.asarray(start), jax.random.key(int(generator.integers(2**31))))

    def _path(self, start: np.ndarray, rate: float) -> np.ndarray:
        """Where SGD of a constant rate is after each of SWAG_EPOCHS passes (passes, P)."""
        import jax
        import jax.numpy as jnp
        import optax

        def loss(position: Any, key: Any, batch: Any) -> Any:
            losses = self.network.losses(position, self.rows[batch].T, self.targets[batch])
            return losses.mean() + 0.5 * jnp.vdot(position, position) / self.num_rows

        optimiser = optax.sgd(rate)
        epoch = self._loop(optimiser, jax.grad(loss), 1)

        def step(position: Any, key: Any) -> Any:
            moved = epoch(position, key)
            return moved, moved

        keys = jax.random.split(jax.random.key(self.seed + 2), SWAG_EPOCHS)
        return np.asarray(jax.jit(lambda start: jax.lax.scan(step, start, keys)[1])(jnp.asarray(start)), float)

    def _loop(self, optimiser: Any, gradient: Callable[..., Any], num_epochs: int) -> Callable[[Any, Any], Any]:
        """Passes over shuffled mini-batches, compiled: (start, key) -> end."""
        import jax
        import optax

        size = min(BATCH, self.num_rows)

        def run(start: Any, key: Any) -> Any:
            def epoch(number: Any, carry: Any) -> Any:
                shuffle, draws = jax.random.split(jax.random.fold_in(key, number))
                order = jax.random.permutation(shuffle, self.num_rows)

                def step(place: Any, carry: Any) -> Any:
                    position, state = carry
                    batch = jax.lax.dynamic_slice_in_dim(order, place * size, size)
                    slope = gradient(position, jax.random.fold_in(draws, place), batch)
                    change, state = optimiser.update(slope, state)
                    return optax.apply_updates(position, change), state

                return jax.lax.fori_loop(0, self.num_batches, step, carry)

            return jax.lax.fori_loop(0, num_epochs, epoch, (start, optimiser.init(start)))[0]

        return jax.jit(run)

    def _laplace(self, part: slice) -> Predictions:
        """The Gaussian of the parameters in ``part`` around a mode, in predictions linearised there."""
        import jax

        start = time.process_time()
        mode = self._networks(1)[0]
        jacobian = self._jacobian(mode, self.columns)[..., part]  # (n, K, p)
        at_mode = np.asarray(self.network.outputs(mode, self.columns), float).T
        if self.network.likelihood == "softmax":
            probabilities = np.asarray(jax.nn.softmax(at_mode, axis=1), float)
            weighted = np.sqrt(probabilities)[..., None] * jacobian
            mean = (probabilities[..., None] * jacobian).sum(axis=1)
            curvature = np.tensordot(weighted, weighted, ((0, 1), (0, 1))) - mean.T @ mean
        else:
            flat = jacobian[:, 0]
            curvature = flat.T @ flat / float(np.exp(self.network.log_noise(mode))) ** 2
        factor = np.linalg.cholesky(curvature + np.eye(len(curvature)))
        normals = np.random.default_rng([self.seed, 14]).standard_normal((NUM_DRAWS, len(curvature)))
        moves = np.linalg.solve(factor.T, normals.T).T
        at_test = np.asarray(self.network.outputs(mode, self.test_columns), float).T
        outputs = at_test + np.einsum("sp,tkp->stk", moves, self._jacobian(mode, self.test_columns)[..., part])
        noise = self._noise(np.repeat(mode[None], NUM_DRAWS, axis=0))
        seconds = self._seconds[0] + time.process_time() - start
        # Beside the training, one pass of derivatives of every output.
        return Predictions(_shaped(outputs.swapaxes(1, 2)), noise, self.epochs + self.network.widths[-1], seconds)

    def _jacobian(self, position: np.ndarray, columns: Any) -> np.ndarray:
        """Derivatives of the outputs by the parameters (n, K, P), in double precision."""
        import jax

        def at_point(column: Any) -> Any:
            return jax.jacrev(lambda z: self.network.outputs(z, column[:, None])[:, 0])(position)

        return np.asarray(jax.jit(lambda rows: jax.lax.map(at_point, rows, batch_size=256))(columns.T), float)

    def _of_positions(self, positions: np.ndarray, passes: float, seconds: float) -> Predictions:
        import jax
        import jax.numpy as jnp

        run = self._cached(
            ("outputs",),
            lambda: jax.jit(lambda all_z: jax.lax.map(lambda z: self.network.outputs(z, self.test_columns), all_z)),
        )
        outputs = _shaped(np.asarray(run(jnp.asarray(positions, jnp.float32))))
        return Predictions(outputs, self._noise(positions), passes, seconds)

    def _noise(self, positions: np.ndarray) -> np.ndarray | None:
        if self.network.likelihood == "softmax":
            return None
        if self.network.noise_sd is not None:
            return np.full(len(positions), self.network.noise_sd)
        return np.exp(positions[:, -1].astype(float) + LOG_NOISE)

    def _cached(self, key: tuple[Any, ...], make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        """Compiled once per split."""
        compiled = self.__dict__.setdefault("_compiled", {})
        if key not in compiled:
            compiled[key] = make()
        found: Callable[..., Any] = compiled[key]
        return found


def _masks(key: Any, widths: tuple[int, ...], num_points: int, rate: float) -> list[Any]:
    """Factors of hidden units: 0 with probability ``rate``, else such that their mean is 1."""
    import jax

    keys = jax.random.split(key, len(widths))
    return [
        jax.random.bernoulli(one, 1 - rate, (width, num_points)) / (1 - rate)
        for one, width in zip(keys, widths, strict=True)
    ]


def _shaped(outputs: np.ndarray) -> np.ndarray:
    """(draws, K, T) as (draws, T) of one output, or (draws, T, K)."""
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs.swapaxes(1, 2)
