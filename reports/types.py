"""What a report is made of: figures as drawn, the claims it judges, and the reason where there is neither."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from records.study import StudyResults
from reports.benchmarks import Benchmarks
from reports.claim_file import Claim
from reports.drawing import Drawing

#: Of a caption: what is longer is not read.
MAX_WORDS = 40

#: What a figure is drawn from: the results of a study, or the suite's benchmarks.
Source = TypeVar("Source")


class NothingToShow(Exception):
    """There are no runs, or benchmarks, for this; the message says which are missing."""


class NotAsked(NothingToShow):
    """The study's file has no such runs, whatever became of those it has."""


@dataclass(frozen=True)
class FigureSpec(Generic[Source]):
    """One figure of the report."""

    #: Its file's name, without a suffix.
    name: str
    title: str
    #: Figures of one section follow each other.
    section: str
    draw: Callable[[Source], Drawing]
    #: What the paper reports in this place, in our words; None where the paper has no such figure.
    paper: str | None = None
    #: Ids of the claims that it is about.
    claims: tuple[int, ...] = ()


@dataclass(frozen=True)
class Contents:
    """What the report of a study is made of."""

    claims: Sequence[Claim]
    figures: Sequence[FigureSpec[StudyResults]]
    #: Over the claims, and what one of them is called.
    heading: str = "The paper's claims"
    noun: str = "claim"
    #: What outcomes are called, where not by their names.
    words: Mapping[str, str] = field(default_factory=dict)
    #: Does every method of the suite stand on a leaderboard of each target?
    has_leaderboard: bool = False


@dataclass(frozen=True)
class FigureResult:
    """A figure of the report: drawn, without anything to show, or failed."""

    spec: FigureSpec[Any]
    drawing: Drawing | None = None
    #: As a file of its own.
    svg: str = ""
    #: Why there is nothing to show.
    absent: str | None = None
    #: The error, where drawing it was one.
    failure: str | None = None

    @property
    def title(self) -> str:
        """Its message, where the numbers have one."""
        return (self.drawing and self.drawing.title) or self.spec.title


@dataclass(frozen=True)
class Speed:
    """What the suite's benchmarks say of the samplers' speed, or why there are none."""

    benchmarks: Benchmarks | None = None
    figures: Sequence[FigureResult] = ()
    absent: str = ""
