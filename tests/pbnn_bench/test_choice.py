"""The choice of n on features of one's own, against closed forms and on data whose right n is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from scipy.special import log_softmax

from implementations.infrastructure.errors import SettingError
from implementations.tasks.problem import network_outputs
from implementations.tasks.references.closed_form import gaussian_posterior
from implementations.tasks.temperature import at_temperature, fit_temperature
from pbnn_bench import Problem, choose_batch_size, sample, score
from pbnn_bench.choice import Difference

#: Enough for the chains of these small problems.
SHORT = {"num_steps": 2000, "num_warmup": 200}


def classes_data(seed: int = 0, num_points: int = 900):
    """Three classes, features of different scales."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(num_points, 3)) * [1.0, 50.0, 0.01] + [0.0, 300.0, 1.0]
    logits = ((features - [0.0, 300.0, 1.0]) / [1.0, 50.0, 0.01]) @ generator.normal(size=(3, 3)) * 1.5
    names = np.array(["ant", "bee", "cat"])
    return features, names[(logits + generator.gumbel(size=logits.shape)).argmax(axis=1)]


def parts(features, targets, *ends):
    return [(features[start:end], targets[start:end]) for start, end in zip((0, *ends), (*ends, None), strict=True)]


@pytest.fixture(scope="module")
def three_classes():
    train, validation, test = parts(*classes_data(), 300, 600)
    return Problem.from_features(*train, validation=validation, test=test)


@pytest.fixture(scope="module")
def regression():
    """A line with noise of sd 5, in units far from 1."""
    generator = np.random.default_rng(1)
    features = generator.normal(size=(600, 2))
    targets = 1000 + features @ [30.0, -20.0] + generator.normal(scale=5, size=600)
    train, validation, test = parts(features, targets, 200, 400)
    return Problem.from_features(*train, validation=validation, test=test), test


def test_features_are_standardised_and_their_mode_is_the_fit_of_a_library(three_classes):
    """scikit-learn's ridge-penalised softmax, whose C = 1 is a prior of sd 1 on the weights, the bias apart."""
    from sklearn.linear_model import LogisticRegression

    features = three_classes.features
    np.testing.assert_allclose(features[:, 1:].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(features[:, 1:].std(axis=0), 1, rtol=1e-5)
    # Its intercept has no prior, so ours goes in as a feature.
    fit = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    fit.fit(features, three_classes.targets)
    np.testing.assert_allclose(three_classes.map.reshape(4, 3), fit.coef_.T, atol=1e-4)
    raw = classes_data()[0]
    np.testing.assert_allclose(three_classes.features_of(raw[:300]), three_classes.features, rtol=1e-6)
    assert three_classes.classes.tolist() == ["ant", "bee", "cat"]


def test_a_regression_predicts_in_the_units_of_its_targets(regression):
    """Against the closed-form posterior."""
    problem, (features, _) = regression
    assert problem.noise_sd * problem.target_scale == pytest.approx(5, rel=0.15)
    found = sample(problem, "laplace", {"num_steps": 20_000, "num_warmup": 0, "thin": 1, "chains": 1}, is_audited=False)
    prediction = problem.predict(found.draws.positions, features)
    exact_answer = gaussian_posterior(problem, problem.num_points)
    mean, covariance = exact_answer.mean, exact_answer.covariance
    exact = problem.test_features @ mean
    sd = np.sqrt(np.einsum("ni,ij,nj->n", problem.test_features, covariance, problem.test_features))
    np.testing.assert_allclose(prediction.mean, problem.target_centre + problem.target_scale * exact, atol=0.05)
    expected_sd = problem.target_scale * np.sqrt(sd**2 + problem.noise_sd**2)
    np.testing.assert_allclose(prediction.sd, expected_sd, rtol=0.01)


def test_a_problem_survives_its_file(three_classes, tmp_path):
    three_classes.save(tmp_path / "problem.npz")
    again = Problem.load(tmp_path / "problem.npz")
    np.testing.assert_array_equal(again.columns, three_classes.columns)
    assert again.classes.tolist() == three_classes.classes.tolist()
    assert again.identity() == three_classes.identity()


@pytest.mark.parametrize("factor", [0.4, 1.0, 3.0])
def test_temperature_is_the_one_that_fits_the_validation_points(three_classes, factor):
    """A network whose logits were multiplied by a factor needs the temperature that undoes it."""
    plain = fit_temperature(three_classes)
    changed = replace(three_classes, map=three_classes.map * np.float32(factor))
    assert fit_temperature(changed) == pytest.approx(factor * plain, rel=1e-3)
    logits = network_outputs(three_classes.map, three_classes.validation_features, three_classes.layers)
    targets = three_classes.validation_targets

    def loss(temperature: float) -> float:
        return -log_softmax(logits / temperature, axis=1)[np.arange(len(targets)), targets].sum()

    best = optimize.minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-6})
    assert plain == pytest.approx(best.x, rel=1e-3)
    problem, draw = at_temperature(changed, fit_temperature(changed))
    assert score(problem, draw, "validation").nll == pytest.approx(best.fun / len(targets), rel=1e-4)


def test_the_temperature_of_a_regression_is_the_spread_of_its_residuals(regression):
    problem, _ = regression
    residuals = problem.validation_targets - problem.validation_features @ problem.map
    changed, draw = at_temperature(problem, fit_temperature(problem))
    assert changed.noise_sd == pytest.approx(np.sqrt(np.mean(residuals**2)), rel=1e-5)
    expected = -stats.norm.logpdf(residuals, scale=changed.noise_sd).mean()
    assert score(changed, draw, "validation").nll == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def choice(three_classes):
    return choose_batch_size(three_classes, [3, 300], settings=SHORT)


def test_the_least_validation_loss_is_chosen(choice):
    """With three points' weight the posterior is nearly the prior, and predicts far worse than with all 300."""
    assert choice.batch_size == 300
    losses = {(one.name, one.weight): one.validation.nll for one in choice.candidates}
    assert losses["PBNN, Crank–Nicolson", 300] + 0.1 < losses["PBNN, Crank–Nicolson", 3]
    assert set(losses) == {
        ("last layer", None),
        *((choice.candidates[1].name, None),),
        *(("Laplace", n) for n in (3, 300)),
        *(("PBNN, Crank–Nicolson", n) for n in (3, 300)),
    }


def test_by_calibration_another_may_be_chosen(three_classes):
    eces = choose_batch_size(three_classes, [3, 300], criterion="ece", settings=SHORT)
    chains = [one for one in eces.candidates if one.is_chain and not one.fault]
    assert eces.best is min(chains, key=lambda one: one.validation.ece)


def test_what_chains_gain_is_judged_pair_by_pair_on_the_test_points(choice):
    """Here the posterior is close to Gaussian, and nothing is gained."""
    other = choice.without_chain
    differences = choice.best.test.log_density - other.test.log_density
    gain = choice.gain()
    assert (gain.mean, gain.error) == pytest.approx((differences.mean(), stats.sem(differences, ddof=0)))
    assert not gain.is_clear
    test = choice.best.test
    for shift, expected in ((0.0, "does as well"), (1.0, "its chains gain"), (-1.0, "does better without a chain")):
        moved = replace(choice.best, test=replace(test, log_density=test.log_density + shift))
        assert expected in replace(choice, best=moved).verdict()[1]
    table = choice.table()
    assert sum(line.startswith("chosen") for line in table.splitlines()) == 1
    assert all(one.label in table for one in choice.candidates) and "all the data (n = 300) are chosen" in table


def test_n_that_the_validation_points_cannot_tell_apart_are_named(choice):
    """The others lose a known amount at every point, or one that changes its sign."""

    def with_loss(loss):
        validation = replace(choice.best.validation, log_density=choice.best.validation.log_density - loss)
        return replace(choice.best, validation=validation)

    signs = np.resize([1.0, -1.0], len(choice.best.validation.log_density))
    others = {10: 0.1, 30: signs, 100: 0.01, 200: signs, 250: 0.0}
    chains = [replace(with_loss(loss), weight=weight) for weight, loss in others.items()]
    changed = replace(choice, candidates=(*choice.candidates[:2], *chains, choice.best))
    # 30 would do as well, but 100, which lies between, does not.
    assert changed.alike() == [200, 250, 300]
    assert "any n from 200 to 300 does as well" in changed.verdict()[0]
    assert replace(changed, criterion="ece").alike() == [300]


def test_tensors_that_want_a_gradient_half_precision_and_columns_of_targets_are_taken(three_classes):
    features, targets = classes_data()
    tensor = torch.tensor(features[:300], dtype=torch.float64, requires_grad=True)
    found = Problem.from_features(tensor, targets[:300, None])
    np.testing.assert_array_equal(found.features, three_classes.features)
    half = Problem.from_features(tensor.to(torch.bfloat16), targets[:300].astype(object))
    np.testing.assert_allclose(half.features[:, 1:3], three_classes.features[:, 1:3], atol=0.1)
    with pytest.raises(SettingError, match="the new features have 4 columns, the training features 3"):
        found.features_of(np.ones((2, 4)))
    with pytest.raises(SettingError, match=r"prior_scale = 0 .*"):
        Problem.from_features(features[:300], targets[:300], prior_scale=0)


def test_a_difference_is_written_to_two_digits_of_its_error():
    assert str(Difference(0.01234, 0.00167)) == "0.0123 ± 0.0033"
    assert str(Difference(-0.00001, 0.0016)) == "0.0000 ± 0.0032"
    assert str(Difference(-12.3, 10.0)) == "−12 ± 20"


def test_the_method_of_the_paper_has_its_batches_tempered_to_n(three_classes):
    found = choose_batch_size(three_classes, [100, 300], method="pbnn", settings={**SHORT, "num_steps": 6000})
    assert found.batch_size == 100
    # 300 points cannot be two disjoint mini-batches of 300.
    assert [one.weight for one in found.candidates if one.is_chain] == [100]


def test_chains_that_have_not_converged_cannot_be_chosen(three_classes):
    tiny = {"num_steps": 400, "num_warmup": 0, "step_size": 1e-6}
    with pytest.raises(SettingError, match=r"no chains of pbnn_cn have converged .*raise num_steps"):
        choose_batch_size(three_classes, [300], settings=tiny)


def test_without_validation_points_nothing_can_be_chosen():
    problem = Problem.from_features(*classes_data(num_points=100))
    with pytest.raises(SettingError, match="no validation points to choose n by"):
        choose_batch_size(problem)
    with pytest.raises(SettingError, match="has no test points"):
        score(problem, problem.map[None, None])


def test_many_features_get_a_limit_and_the_way_out():
    generator = np.random.default_rng(0)
    with pytest.raises(SettingError, match=r"make 3003 parameters; .* at most 2500: give 832 columns or fewer"):
        Problem.from_features(generator.normal(size=(50, 1000)), np.arange(50) % 3)


def test_counts_are_predicted_by_their_rate_and_vary_as_much():
    generator = np.random.default_rng(9)
    features = generator.normal(size=(400, 2)) * [1.0, 30.0]
    counts = generator.poisson(np.exp(0.5 + features @ [0.5, 0.01])).astype(float)
    problem = Problem.from_features(features, counts, likelihood="poisson", prior_scale=100.0)
    # With nearly no prior the mode is the maximum of the likelihood, found here by another search.
    inputs = np.column_stack([np.ones(400), features])

    def loss(weights):
        return -stats.poisson(np.exp(inputs @ weights)).logpmf(counts).sum()

    fit = optimize.minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}).x
    found = problem.predict(problem.map[None, None], features[:5])
    np.testing.assert_allclose(found.mean, np.exp(inputs[:5] @ fit), rtol=1e-3)
    np.testing.assert_allclose(found.sd, np.sqrt(found.mean), rtol=1e-6)
    # A sentence names the network once, though there is no temperature to tell it from.
    whole = Problem.from_features(features, counts, validation=(features, counts), likelihood="poisson")
    choice = choose_batch_size(whole, [400], settings=SHORT)
    assert choice.candidates[0].in_words == "the last layer alone"
    assert "alone alone" not in " ".join([choice.headline(), *choice.verdict()])
    with pytest.raises(
        SettingError, match="the training targets are not whole numbers, which a poisson likelihood has"
    ):
        Problem.from_features(features, counts + 0.5, likelihood="poisson")
    with pytest.raises(SettingError, match=r"from -1 to .*: expected counts, whole numbers from 0"):
        Problem.from_features(features, counts - 1, likelihood="poisson")
