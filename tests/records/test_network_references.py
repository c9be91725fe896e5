"""References of whole networks: the sampler against a closed form, the gate against chains that must not pass."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from implementations.infrastructure.files import Damaged
from implementations.networks.hmc import HMC
from implementations.networks.network import ACTIVATIONS, HALF_LOG_2PI, LOG_NOISE, PRIORS, Network, columns_of
from implementations.tasks.data.download import DataError
from records import network_references
from records.network_references import gate_of, log_densities, make, write


def _rows(num_points=60, num_inputs=3, seed=0):
    generator = np.random.default_rng(seed)
    inputs = generator.standard_normal((num_points, num_inputs)).astype(np.float32)
    targets = (inputs @ [0.5, -1.0, 0.3] + 0.4 * generator.standard_normal(num_points)).astype(np.float32)
    return inputs, targets


@pytest.mark.parametrize("weight", [None, 15.0])
def test_chains_have_the_closed_form_of_a_network_without_hidden_layers(weight):
    """Linear regression: the prior N(0, 1/3) on weights and N(0, 1) on the bias, any weight of the data."""
    inputs, targets = _rows()
    network = Network((3, 1), noise_sd=0.4)
    test_inputs = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
    chains = HMC(network, inputs, targets, test_inputs, weight, seed=3, num_chains=8, num_warmup=60)
    block = chains.advance(chains.start(), 400)

    design = np.column_stack([inputs, np.ones(60)])
    share = 1.0 if weight is None else weight / 60
    precision = share * design.T @ design / 0.4**2 + np.diag([3.0, 3.0, 3.0, 1.0])
    mean = np.linalg.solve(precision, share * design.T @ targets / 0.4**2)
    test = np.column_stack([test_inputs, np.ones(5)])
    sd = np.sqrt(np.einsum("ti,ij,tj->t", test, np.linalg.inv(precision), test))
    gate = gate_of(block.outputs, block.potentials)
    error = (block.outputs.mean(axis=(0, 1)) - test @ mean) / sd
    assert np.abs(error).max() < 4 / np.sqrt(gate.min_ess)
    np.testing.assert_allclose(block.outputs.std(axis=(0, 1)) / sd, 1, atol=4 / np.sqrt(gate.min_ess))
    assert not [fault for fault in gate.faults if "halves" not in fault]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_the_potential_is_the_negative_log_posterior_in_whitened_coordinates(activation, prior):
    inputs, targets = _rows(num_points=12)
    network = Network((3, 7, 4, 1), activation, prior)
    z = np.random.default_rng(2).standard_normal(network.num_parameters).astype(np.float32)
    function = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x))}[activation]
    twice = 2 if activation == "relu" else 1
    variances = [1 / 3 if prior == "scaled" else 1, twice / 7, twice / 4]
    units, start = inputs.astype(float).T, 0
    for number, (rows, columns) in enumerate([(4, 7), (8, 4), (5, 1)]):
        matrix = z[start : start + rows * columns].astype(float).reshape(rows, columns)
        units = np.sqrt(variances[number]) * matrix[1:].T @ (function(units) if number else units) + matrix[:1].T
        start += rows * columns
    noise = np.exp(z[-1] + LOG_NOISE)
    expected = -10 / 12 * stats.norm.logpdf(targets, units[0], noise).sum() + (z.astype(float) ** 2).sum() / 2
    found = network.potential(jnp.asarray(z), jnp.asarray(columns_of(inputs)), jnp.asarray(targets), 10.0)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_a_softmax_loses_the_negative_log_probability_of_the_class():
    inputs, _ = _rows(num_points=9)
    network = Network((3, 5, 4), likelihood="softmax")
    z = np.random.default_rng(4).standard_normal(network.num_parameters).astype(np.float32)
    classes = np.arange(9, dtype=np.int32) % 4
    columns = jnp.asarray(columns_of(inputs))
    outputs = np.asarray(network.outputs(jnp.asarray(z), columns), float)
    expected = np.log(np.exp(outputs).sum(axis=0)) - outputs[classes, np.arange(9)]
    np.testing.assert_allclose(network.losses(jnp.asarray(z), columns, jnp.asarray(classes)), expected, rtol=1e-5)


def test_chains_that_go_on_make_the_draws_of_chains_that_never_stopped():
    inputs, targets = _rows()
    network = Network((3, 4, 1))

    def chains():
        return HMC(network, inputs, targets, inputs[:3], None, seed=5, num_chains=4, num_warmup=20)

    whole, state = chains(), None
    expected = whole.advance(whole.start(), 10).outputs
    first = chains()
    state = first.start()
    parts = [first.advance(state, 4).outputs, chains().advance(state, 6).outputs]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), expected)


def test_the_gate_stops_halves_that_disagree_and_widths_that_differ():
    generator = np.random.default_rng(0)
    good, potentials = generator.standard_normal((8, 1000, 5)), generator.standard_normal((8, 1000))
    assert gate_of(good, potentials).faults == []
    apart = good + np.repeat([0.0, 0.08], 4)[:, None, None]
    assert any("sd apart" in fault for fault in gate_of(apart, potentials).faults)
    wider = good * np.repeat([1.0, 1.06], 4)[:, None, None]
    assert any("widths" in fault for fault in gate_of(wider, potentials).faults)
    stuck = good + 3 * np.arange(8)[:, None, None]
    assert any("R-hat" in fault for fault in gate_of(stuck, potentials).faults)
    potentials[3, :5] += 1000
    assert any("potential" in fault for fault in gate_of(good, potentials).faults)


def test_log_densities_average_the_density_and_not_its_logarithm():
    network = Network((1, 1), noise_sd=0.5)
    generator = np.random.default_rng(0)
    outputs, positions = generator.standard_normal((2, 50, 4)), np.zeros((2, 50, 2))
    targets = np.array([0.1, -0.4, 1.0, 2.0])
    data = network_references.NetworkData(np.zeros((1, 1)), np.zeros(1), np.zeros((4, 1)), targets, target_sd=3.0)
    expected = np.log(stats.norm.pdf(targets, outputs, 0.5).mean(axis=(0, 1)) / 3.0)
    np.testing.assert_allclose(log_densities(network, data, outputs, positions), expected)
    assert pytest.approx(-stats.norm.logpdf(0)) == HALF_LOG_2PI


def test_a_task_without_its_data_is_skipped_with_the_reason(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(network_references, "find_network_task", lambda name: NoData())
    assert network_references.main(["--tasks", "wine", "--splits", "0", "--out", str(tmp_path)]) == 1
    assert "wine split 0: skipped: no source has data.txt" in capsys.readouterr().err


class NoData:
    def load(self, split, data_dir):
        raise DataError("no source has data.txt")


@pytest.mark.slow
def test_a_reference_of_digits_is_kept_whole_and_a_changed_byte_is_noticed(tmp_path):
    record, arrays = make("digits", 0, 100.0, tmp_path, most_draws=100)
    path = write(tmp_path, record, arrays)
    kept = network_references.NetworkReference.load(path)
    assert kept.mean.shape == (180, 10)
    np.testing.assert_allclose(kept.arrays["probabilities"].sum(axis=1), 1, atol=1e-5)
    # Tempered to 100 points, yet far from chance.
    assert 0.8 < record["scores"]["accuracy"] < 1
    numbers = bytearray(path.with_suffix(".npz").read_bytes())
    numbers[len(numbers) // 2] ^= 1
    path.with_suffix(".npz").write_bytes(numbers)
    with pytest.raises(Damaged, match="SHA-256"):
        network_references.NetworkReference.load(path)
