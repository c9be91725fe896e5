"""How far a run is: a bar on a terminal, a line now and then elsewhere."""

import io
import time
from typing import Self, TextIO

import numpy as np
from tqdm import tqdm

Stream = TextIO | io.TextIOBase

#: A log file gets a line at every tenth of the run, and in slow runs at least this often.
SECONDS_BETWEEN_LINES = 30.0


class Reporter:
    """Called with the steps done so far and the acceptance of the last ones."""

    def __init__(self, name: str, num_steps: int, stream: Stream) -> None:
        self.name, self.num_steps, self.stream = name, num_steps, stream
        self.started_at = self.told_at = time.monotonic()
        self.told_tenth = 0
        self.bar = tqdm(total=num_steps, desc=name, file=stream, unit="step", disable=not stream.isatty())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def __call__(self, num_steps: int, acceptance: np.ndarray) -> None:
        # A chunk shorter than a stride has no draw to tell of.
        text = f"acceptance {acceptance.mean():.3f}" if acceptance.size else "no draw yet"
        if self.stream.isatty():
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(num_steps - self.bar.n)
            return
        now, tenth = time.monotonic(), 10 * num_steps // self.num_steps
        if tenth > self.told_tenth or now - self.told_at > SECONDS_BETWEEN_LINES:
            self.told_at, self.told_tenth = now, tenth
            share = f"{num_steps} of {self.num_steps} steps ({num_steps / self.num_steps:.0%})"
            print(f"{self.name}: {share}, {text}, {now - self.started_at:.0f} s", file=self.stream, flush=True)
