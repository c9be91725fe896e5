"""The steps of a study: a function ``main(results, ...)`` each; rules call them by ``python -m workflows.steps``."""
