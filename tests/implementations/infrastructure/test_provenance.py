"""Where a result comes from."""

import subprocess

from implementations.infrastructure.provenance import git_state


def test_the_commit_is_that_of_the_code_and_not_of_a_checkout_around_it(tmp_path):
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], [*name, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    inside = tmp_path / "environment" / "suite"
    inside.mkdir(parents=True)
    assert git_state(inside) == {"git_commit": None, "git_is_dirty": None}
    assert len(git_state(tmp_path)["git_commit"]) == 40
    assert git_state(tmp_path)["git_is_dirty"] is False
    (tmp_path / "new").touch()
    assert git_state(tmp_path)["git_is_dirty"] is True
