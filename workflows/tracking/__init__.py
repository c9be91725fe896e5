"""A study as MLflow shows it: its summary, projected into an experiment of the study's name.

Every row of the summary is a run, grouped under a parent that has the means over seeds. The result files stay the
truth: tracking again adds what is missing, replaces what has changed, and marks as stale what left the study.
"""
