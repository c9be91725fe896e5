"""Is the code as right and as fast as it was? Known problems, timings, other libraries, and the gate on them."""
