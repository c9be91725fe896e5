"""What `make bench` times can be run: it is imported by nothing else, and breaks unseen."""

import pytest

from benchmarks.work import bare_work, synthetic


@pytest.mark.parametrize("backend", ["jax-cpu", pytest.param("torch-cpu", marks=pytest.mark.slow)])
def test_the_bare_work_of_a_step_runs_for_every_chain(backend):
    work = bare_work(backend, synthetic("regression", 200), "pbnn", chains=2)
    work.call()
    assert work.units % 2 == 0
