"""Find the exact or gold-standard answer of a problem at a weight."""

from pathlib import Path

from implementations.backends import use_one_thread
from implementations.infrastructure.artefact import Record, read_record, write_arrays
from records.artefacts import load_problem, reason_of
from records.layout import problem_path, reference_path
from records.reference import reference
from records.usage import metered
from workflows.cache import provide
from workflows.locks import held


def main(results: Path, variant: str, weight: str, seed: str) -> None:
    """Write the reference; where that fails, the reason in its place."""
    out = reference_path(results, variant, float(weight), int(seed))
    with metered(results, "reference", str(out.parent)), held(out.parent):
        # The workflow gives it one core; and small matrices handed from thread to thread have stopped for ever.
        use_one_thread("jax-cpu")
        identity = {"variant": variant, "weight": float(weight), "seed": int(seed)}
        made_from = {"problem": read_record(problem_path(results, variant, int(seed)), "problem")["sha256"]}
        try:
            problem = load_problem(results, variant, int(seed))

            def make(path: Path, whole: Record) -> None:
                reference(problem, float(weight), seed=int(seed)).save(path, whole, made_from)

            provide(out, results, "reference", identity, made_from, make)
        except Exception as error:
            write_arrays(out, "reference", {}, identity, made_from=made_from, failure=reason_of(error))
