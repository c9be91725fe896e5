"""The samplers, the tasks they run on, and one run from the shell (``python -m implementations``)."""
