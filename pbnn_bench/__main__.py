"""``python -m pbnn_bench`` is ``pbnn-bench``."""

import sys

from pbnn_bench.cli import main

sys.exit(main())
