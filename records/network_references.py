"""Right answers for whole networks: long Hamiltonian Monte Carlo, a gate, and what is kept of it.

A reference is two files, as in posteriordb: ``split0.json`` says what it is, how it was made and which checks it
passed; ``split0.npz`` has its numbers at the test points. One that fails a check is kept with the numbers of that
check, and nothing is judged by it.

    python -m records.network_references --tasks boston-tanh --splits 0 1 --weights N 100
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from implementations.backends import use_one_thread
from implementations.infrastructure.artefact import read_npz
from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import Damaged, sha256_of, write_json, write_npz
from implementations.infrastructure.provenance import git_state, machine, versions
from implementations.networks.hmc import HMC, Block, State
from implementations.networks.network import HALF_LOG_2PI, LOG_NOISE, Network
from implementations.networks.tasks import NETWORK_TASKS, NetworkData, find_network_task
from implementations.tasks.data.download import DataError
from metrics.convergence import Convergence, convergence

#: Where the references that come with the suite are.
FOLDER = Path(__file__).parents[1] / "references"

#: The tasks whose references come with the suite, the cheap ones first.
COMMITTED = [
    *("digits", "boston-tanh", "boston-relu", "wine", "yacht", "concrete", "kin8nm-1000", "energy", "power-2000"),
    *("kin8nm-2000", "power-4000"),
]
#: The gate.
MAX_R_HAT, MIN_ESS = 1.02, 400
#: Between the chains from the prior and those from modes: rms difference of predictive means, in sds, and as a
#: multiple of what Monte Carlo error explains; and of their widths.
MAX_HALVES, MAX_EXCESS, MAX_WIDTH = 0.05, 1.5, 0.03
#: The median ESS at which the halves' Monte Carlo error is well below MAX_HALVES: drawing stops there.
ENOUGH_ESS = 3600
#: A draw whose potential is farther above the median, in robust sds, is of a chain that has not arrived.
MAX_OUTLIER = 12.0
#: Draws per chain between two looks at the ESS, the fewest, and the most.
BLOCK, FEWEST_DRAWS, MOST_DRAWS = 100, 200, 1500
#: Test outputs whose convergence is watched.
MOST_WATCHED = 400
#: Of what is kept: numbers in all of predictive draws, and of parameter draws.
MOST_PREDICTIVE, MOST_PARAMETERS = 20_000, 20_000
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)


@dataclass(frozen=True)
class Gate:
    """The checks of a reference: numbers, and whether each passes."""

    r_hat: float
    min_ess: float
    median_ess: float
    #: rms difference of the two halves' predictive means, in sds, and what Monte Carlo error lets expect.
    halves: float
    expected_halves: float
    #: Median ratio of the two halves' predictive sds.
    width_ratio: float
    #: The highest potential of a draw above their median, in robust sds.
    outlier: float

    @property
    def faults(self) -> list[str]:
        """What does not pass, with the bound; empty for a reference that may judge."""
        checks = [
            (self.r_hat <= MAX_R_HAT, f"R-hat {self.r_hat:.3f}, at most {MAX_R_HAT}"),
            (self.min_ess >= MIN_ESS, f"ESS {self.min_ess:.0f}, at least {MIN_ESS}"),
            (self.halves <= MAX_HALVES, f"halves {self.halves:.3f} sd apart, at most {MAX_HALVES}"),
            (
                self.halves <= MAX_EXCESS * self.expected_halves,
                f"halves {self.halves / self.expected_halves:.2f} times as far apart as expected, at most {MAX_EXCESS}",
            ),
            (abs(self.width_ratio - 1) <= MAX_WIDTH, f"widths {self.width_ratio:.3f}, within {MAX_WIDTH:.0%}"),
            (
                self.outlier <= MAX_OUTLIER,
                f"a potential {self.outlier:.0f} sd above the median, at most {MAX_OUTLIER:g}",
            ),
        ]
        return [text for passes, text in checks if not passes]


@dataclass(frozen=True)
class NetworkReference:
    """A reference as it is kept."""

    task: str
    split: int
    weight: float
    gate: Gate
    record: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    @property
    def is_usable(self) -> bool:
        return not self.gate.faults

    @cached_property
    def mean(self) -> np.ndarray:
        """Predictive mean of the network's outputs (T[, K]); of classes, of their centred log odds."""
        return self.arrays["mean"].astype(float)

    @cached_property
    def sd(self) -> np.ndarray:
        return self.arrays["sd"].astype(float)

    @property
    def floor(self) -> float:
        """The rms error of its own predictive mean, in sds."""
        return float(self.gate.median_ess**-0.5)

    @classmethod
    def load(cls, path: Path) -> Self:
        """The reference whose JSON is ``path``, checked against its checksums. Raises Damaged."""
        record = json.loads(path.read_bytes())
        numbers = path.with_suffix(".npz")
        if sha256_of(numbers) != record["sha256"]:
            raise Damaged(f"{numbers} is damaged: its SHA-256 is not the one in {path.name}")
        gate = Gate(**{name: record["gate"][name] for name in Gate.__dataclass_fields__})
        return cls(record["task"]["name"], record["split"], record["weight"], gate, record, read_npz(numbers))


def path_of(folder: Path, task: str, weight: float, split: int) -> Path:
    """``boston-tanh/weight455/split0.json``"""
    return folder / task / f"weight{weight:g}" / f"split{split}.json"


def watched(outputs: np.ndarray) -> np.ndarray:
    """Outputs (…, T[, K]) whose posterior is identified, as one axis; classes are shifted to a mean of 0."""
    if outputs.ndim == 4:
        outputs = outputs - outputs.mean(axis=-1, keepdims=True)
    return outputs.reshape(*outputs.shape[:2], -1)


def gate_of(outputs: np.ndarray, potentials: np.ndarray) -> Gate:
    """The gate of draws (chains, draws, T[, K]), the first half of the chains from one kind of start."""
    traces = watched(outputs)
    chosen = np.linspace(0, traces.shape[2] - 1, min(MOST_WATCHED, traces.shape[2])).astype(int)
    found: Convergence = convergence(traces[:, :, chosen].astype(float))
    r_hat, least, median = (value or 0.0 for value in (found.r_hat, found.min_bulk_ess, found.median_bulk_ess))
    middle = len(traces) // 2
    first, second = (part.reshape(-1, traces.shape[2]) for part in (traces[:middle], traces[middle:]))
    sd = traces.reshape(-1, traces.shape[2]).std(axis=0)
    apart = float(np.sqrt(np.mean(((first.mean(axis=0) - second.mean(axis=0)) / sd) ** 2)))
    ratio = float(np.median(first.std(axis=0) / second.std(axis=0)))
    # A chain that arrives late hardly moves R-hat or the halves, and widens everything.
    low, middle_potential, high = np.quantile(potentials, [0.16, 0.5, 0.84])
    outlier = float((potentials.max() - middle_potential) / ((high - low) / 2))
    return Gate(r_hat or np.inf, least, median, apart, float(np.sqrt(4 / max(median, 1.0))), ratio, outlier)


def make(
    task_name: str, split: int, weight: float | None, data_dir: Path, *, seed: int = 0, most_draws: int = MOST_DRAWS
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Draw until the reference is good enough or ``most_draws`` are made; its record, without checksum, and arrays."""
    use_one_thread("jax-cpu")
    task = find_network_task(task_name)
    data = task.load(split, data_dir)
    network = task.network(data)
    total = len(data.targets)
    chains = HMC(network, data.inputs, data.targets, data.test_inputs, weight, seed)
    state = chains.start()
    blocks: list[Block] = []
    while True:
        blocks.append(chains.advance(state, BLOCK))
        outputs = np.concatenate([block.outputs for block in blocks], axis=1)
        gate = gate_of(outputs, np.concatenate([block.potentials for block in blocks], axis=1))
        num_draws = outputs.shape[1]
        print(
            f"{task_name} split {split} w {weight or total:g}: {num_draws} draws of {len(outputs)} chains, R-hat "
            f"{gate.r_hat:.3f}, ESS {gate.min_ess:.0f} / {gate.median_ess:.0f}, halves {gate.halves:.3f} "
            f"({gate.expected_halves:.3f}), {state.cpu_seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        is_enough = gate.median_ess >= ENOUGH_ESS and gate.min_ess >= 1.2 * MIN_ESS and gate.r_hat < MAX_R_HAT
        if num_draws >= most_draws or (num_draws >= FEWEST_DRAWS and is_enough):
            break
    positions = np.concatenate([block.positions for block in blocks], axis=1)
    record = {
        "kind": "network reference",
        "version": 1,
        "task": asdict(task),
        "split": split,
        "weight": float(weight or total),
        "num_rows": total,
        "num_test": len(data.test_targets),
        "num_parameters": network.num_parameters,
        "widths": network.widths,
        "target_sd": data.target_sd,
        "data_sha256": data_digest(data),
        "gate": {**asdict(gate), "faults": gate.faults},
        "scores": scores(network, data, outputs, positions),
        "sampler": _sampler(chains, state, blocks, seed),
        "versions": versions(),
        **git_state(),
        **machine(),
    }
    return record, _arrays(network, data, outputs, positions)


def write(folder: Path, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Path:
    path = path_of(folder, record["task"]["name"], record["weight"], record["split"])
    write_npz(path.with_suffix(".npz"), arrays, compress=True)
    # Last: a record means a whole reference.
    write_json(path, {**record, "sha256": sha256_of(path.with_suffix(".npz"))})
    return path


def log_densities(network: Network, data: NetworkData, outputs: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The log of the posterior mean of p(y | x, z) at every test point (T,), in units of the data."""
    flat = outputs.reshape(-1, *outputs.shape[2:]).astype(float)
    if network.likelihood == "softmax":
        draws = log_softmax(flat, axis=-1)[:, np.arange(len(data.test_targets)), data.test_targets]
    else:
        log_noise = log_noises(network, positions)[:, None]
        draws = -0.5 * ((data.test_targets - flat) * np.exp(-log_noise)) ** 2 - log_noise - HALF_LOG_2PI
    found: np.ndarray = logsumexp(draws, axis=0) - np.log(len(draws)) - np.log(data.target_sd)
    return found


def log_noises(network: Network, positions: np.ndarray) -> np.ndarray:
    """The logarithm of the noise sd of every draw (S,), in sds of the training targets."""
    flat = positions.reshape(-1, positions.shape[-1])
    if network.learns_noise:
        return flat[:, -1].astype(float) + LOG_NOISE
    assert network.noise_sd is not None
    return np.full(len(flat), np.log(network.noise_sd))


def scores(network: Network, data: NetworkData, outputs: np.ndarray, positions: np.ndarray) -> dict[str, float]:
    """How well the posterior predicts, which is not how right it is."""
    found = {"log_likelihood": float(log_densities(network, data, outputs, positions).mean())}
    flat = outputs.reshape(-1, *outputs.shape[2:]).astype(float)
    if network.likelihood == "softmax":
        probabilities = softmax(flat, axis=-1).mean(axis=0)
        found["accuracy"] = float((probabilities.argmax(axis=1) == data.test_targets).mean())
        found["confidence"] = float(probabilities.max(axis=1).mean())
    else:
        errors = flat.mean(axis=0) - data.test_targets
        found["rmse"] = float(np.sqrt(np.mean(errors**2)) * data.target_sd)
        found["noise_sd"] = float(np.exp(log_noises(network, positions)).mean())
    return found


def _arrays(network: Network, data: NetworkData, outputs: np.ndarray, positions: np.ndarray) -> dict[str, np.ndarray]:
    """What is kept: moments and quantiles at all test points, and evenly spaced draws of predictions and parameters."""
    shifted = watched(outputs).reshape(outputs.shape) if outputs.ndim == 4 else outputs
    flat = shifted.reshape(-1, *outputs.shape[2:]).astype(float)
    # A hundred draws at the first points rather than a few at all.
    num_points = min(flat.shape[1], max(1, MOST_PREDICTIVE // (100 * flat[0, 0].size)))
    num_predictive = MOST_PREDICTIVE // flat[0, :num_points].size
    parameters = positions.reshape(-1, positions.shape[-1])
    num_parameters = max(4, min(64, MOST_PARAMETERS // parameters.shape[1]))
    kept = {
        "mean": flat.mean(axis=0).astype(np.float32),
        "sd": flat.std(axis=0).astype(np.float32),
        "quantiles": np.quantile(flat, QUANTILES, axis=0).astype(np.float16),
        "log_density": log_densities(network, data, outputs, positions).astype(np.float32),
        "predictive_draws": flat[_evenly(len(flat), num_predictive), :num_points].astype(np.float16),
        "parameter_draws": parameters[_evenly(len(parameters), num_parameters)].astype(np.float16),
    }
    if network.likelihood == "softmax":
        del kept["quantiles"]
        probabilities = softmax(flat, axis=-1)
        kept["probabilities"] = probabilities.mean(axis=0).astype(np.float32)
        kept["probabilities_sd"] = probabilities.std(axis=0).astype(np.float32)
    if network.learns_noise:
        kept["log_noise_draws"] = log_noises(network, positions)[_evenly(len(flat), 400)].astype(np.float16)
    return kept


def _evenly(length: int, count: int) -> np.ndarray:
    return np.linspace(0, length - 1, min(count, length)).astype(int)


def _sampler(chains: HMC, state: State, blocks: Sequence[Block], seed: int) -> dict[str, Any]:
    return {
        "method": "Hamiltonian Monte Carlo, identity mass in whitened coordinates",
        "num_chains": chains.num_chains,
        "starts": "half draws of the prior, half modes of independent searches",
        "num_descent": state.num_descent,
        "num_warmup": chains.num_warmup,
        "num_draws": sum(block.outputs.shape[1] for block in blocks),
        "trajectory": chains.trajectory,
        "step_size": chains.step_size(state),
        "acceptance": float(np.mean([block.acceptance.mean() for block in blocks])),
        "num_gradients": state.num_gradients,
        "cpu_s": round(state.cpu_seconds, 1),
        "seed": seed,
    }


def data_digest(data: NetworkData) -> str:
    """Of the standardised rows, so that another split or standardisation is noticed."""
    digest = hashlib.sha256()
    for array in (data.inputs, data.targets, data.test_inputs, data.test_targets):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m records.network_references", description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=COMMITTED, choices=list(NETWORK_TASKS), metavar="TASK")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--weights", nargs="+", default=["N"], help="numbers, or N for the number of rows")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--most-draws", type=int, default=MOST_DRAWS, help="per chain")
    arguments = parser.parse_args(argv)
    num_skipped = 0
    for split, task, written in product(arguments.splits, arguments.tasks, arguments.weights):
        weight = None if written == "N" else float(written)
        try:
            rows = len(find_network_task(task).load(split, arguments.data).targets)
        except (DataError, SettingError) as error:
            num_skipped += 1
            print(f"{task} split {split}: skipped: {error}", file=sys.stderr)
            continue
        if path_of(arguments.out, task, weight or rows, split).exists():
            continue
        record, arrays = make(task, split, weight, arguments.data, most_draws=arguments.most_draws)
        path = write(arguments.out, record, arrays)
        faults = "; ".join(record["gate"]["faults"])
        print(f"{path}: {f'fails its gate: {faults}' if faults else 'passes'}; {record['scores']}", flush=True)
    return int(num_skipped > 0)


if __name__ == "__main__":
    sys.exit(main())
