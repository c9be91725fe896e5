"""What is on file about the runs of a study: the layer that workflows write through and reports read through.

The name is that of its content, one record per run. ``results`` is taken: it is the folder of the files themselves.
Where they lie is in ``layout``, what a row of the summary holds in ``columns``, what stands in the place of a result
that could not be made in ``failures``.
"""
