"""The table of methods, its settings and their errors."""

import dataclasses

import numpy as np
import pytest

from implementations.infrastructure.errors import SettingError
from implementations.kernels.estimates import degrees_of_freedom
from implementations.methods import METHODS, resolve
from implementations.methods.paper import ROWS
from implementations.sampling import sample
from implementations.settings import SETTINGS, Settings, Size


def settings_of(method: str, **given) -> Settings:
    return resolve(method, given, Size("regression", num_points=2000, num_parameters=21))


def test_the_nine_methods_of_the_paper_are_there():
    assert {card.name for card in ROWS} == {
        "full_mh", "tempered", "naive", "pbnn", "pbnn_corrected", "sgld", "ula", "mala", "pbnn_mala"
    }  # fmt: skip


def test_every_setting_has_a_field_and_help():
    assert {*SETTINGS, "own"} == {field.name for field in dataclasses.fields(Settings)}
    assert all(setting.help for setting in SETTINGS.values())


@pytest.mark.parametrize("name", METHODS)
def test_defaults_are_complete_and_only_what_the_method_has(name):
    assert list(settings_of(name).as_dict()) == list(METHODS[name].settings)


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("pbn", {}, "no method 'pbn'; did you mean 'pbnn'?"),
        ("pbnn", {"step_sise": 1}, "pbnn: no setting 'step_sise'; did you mean 'step_size'?"),
        ("full_mh", {"num_batches": 3}, "full_mh: no setting 'num_batches'"),
        ("pbnn", {"step_size": -0.1}, "pbnn: step_size = -0.1 must be positive"),
        ("pbnn", {"step_size": "fast"}, "pbnn: step_size = 'fast' is not 'auto', 'ladder' or a number"),
        ("pbnn", {"step_size": "nan"}, "pbnn: step_size = 'nan' is not 'auto', 'ladder' or a number"),
        ("pbnn", {"batch_size": 2.5}, "pbnn: batch_size = 2.5 is not a whole number"),
        ("pbnn", {"batch_size": True}, "pbnn: batch_size = True is not a whole number"),
        ("pbnn", {"batch_size": 0}, "pbnn: batch_size = 0 must be at least 1"),
        ("pbnn", {"variance": "batch"}, "pbnn: no variance 'batch'; did you mean 'batches'?"),
        ("pbnn", {"weight": "dta"}, "pbnn: weight = 'dta' is not 'data', 'batch' or a number"),
        ("pbnn", {"weight": 0}, "pbnn: weight = 0 must be positive"),
        ("sgld", {"decay": 2}, "sgld: decay = 2 must be at most 1"),
        ("pbnn", {"batch_size": 500}, "num_batches × batch_size = 2500 exceeds the 2000 training points"),
        ("sgld", {"batch_size": 2001}, "sgld: batch_size = 2001 exceeds the 2000 training points"),
        ("pbnn", {"num_batches": 1}, "variance = 'batches' needs num_batches of 2 or more; use 'points' for one batch"),
        ("full_mh", {"weight": "batch"}, "full_mh: weight = 'batch' needs a batch_size"),
        ("full_mh", {"num_steps": 5, "thin": 10}, "num_steps = 5 with thin = 10 keeps no draw"),
    ],
)  # fmt: skip
def test_a_bad_setting_is_named_with_the_way_out(method, given, message):
    with pytest.raises(SettingError) as caught:
        settings_of(method, **given)
    assert message in str(caught.value)


def test_degrees_of_freedom_follow_the_estimator():
    given = {"batch_size": 5, "num_batches": 4}
    assert degrees_of_freedom(settings_of("pbnn", **given).shapes) == 3
    assert degrees_of_freedom(settings_of("pbnn", variance="single", **given).shapes) == 3
    assert degrees_of_freedom(settings_of("pbnn", variance="points", **given).shapes) == 19
    assert degrees_of_freedom(settings_of("pbnn", variance="oracle", **given).shapes) == float("inf")


def test_a_card_out_of_a_file_keeps_its_audits(problem, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from implementations.methods.paper import ROWS\n"
        "MINE = replace(next(card for card in ROWS if card.name == 'pbnn'), name='mine')\n"
    )
    given = {"num_steps": 20, "num_warmup": 0, "chains": 2}
    own, of_file = (sample(problem("linear"), name, given).audit for name in ("pbnn", f"{file}:MINE"))
    assert "balance_there" in own
    assert own.keys() == of_file.keys()
    for name, array in own.items():
        np.testing.assert_array_equal(array, of_file[name])
