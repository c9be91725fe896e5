"""The files of a report: whole, the same every time, escaped, and there whatever became of the runs."""

import base64
import csv
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from reports.benchmarks import SECTION
from reports.drawing import Mark
from reports.figures import SPEED_FIGURES
from reports.page import TEMPLATES
from reports.render import render
from reports.types import NothingToShow
from tests.reports.studies import (
    EVERY_KIND,
    MEASUREMENT,
    NO_BENCHMARKS,
    benchmark,
    benchmarks_in,
    claim,
    every_outcome,
    failing_figure,
    figure,
    row,
    study_of,
)

SCRIPT = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("tables.js", "marks.js"))
VOID = {"meta", "img", "br", "input", "link", "hr"}


class Page(HTMLParser):
    """Elements, text and scripts of a page, as a browser would take it apart."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.open == [], "every element is closed"
        # Lines may be broken anywhere in a text.
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("td", "th", "dt", "dd"):
            self.text += " "
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "summary":
            self.text += " "

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        # The words of the navigation are those of the headings.
        elif not {"style", "nav"} & set(self.open):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


FULL_MH, PBNN = "linear/full_mh/jax-cpu/seed0", "linear/pbnn+batch_size=2/jax-cpu/seed1"
#: Claims that are reproduced, not reproduced, inconclusive (a chain that has not converged), and not asked.
HELD, REFUTED, OPEN, NOT_ASKED = {}, {"below": 0.5}, {"method": "tempered"}, {"method": "sghmc"}
#: A rule that is in no file.
BROKEN = {"entry": {"special": "nowhere"}}


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    """The report of a study with every outcome, one figure of each kind and claims of each verdict."""
    out = tmp_path_factory.mktemp("report")
    figures = [
        figure("first", (FULL_MH,), "The paper's figures", paper="What the paper shows."),
        figure("second", (FULL_MH, PBNN)),
        failing_figure("empty", NothingToShow("no run of mnist")),
        failing_figure("broken", ZeroDivisionError("by nought")),
    ]
    claims = [claim(number, **kind) for number, kind in enumerate((HELD, REFUTED, OPEN, BROKEN), start=1)]
    lines = render(study_of(every_outcome(), Path("made_up")), out, figures, claims, NO_BENCHMARKS)
    assert lines[0] == "figure broken: ZeroDivisionError: by nought"
    assert lines[1].startswith("claim 4: ") and len(lines) == 2
    return out


@pytest.fixture(scope="module")
def page(out) -> Page:
    return Page(out / "report.html")


def rendered(out: Path, figures=(), claims=(), rows=None) -> str:
    """The page of a study, of three converged seeds if not given, as text."""
    rows = rows or [row("full_mh", seed) for seed in range(3)]
    render(study_of(rows), out, figures, claims, NO_BENCHMARKS)
    return Page(out / "report.html").source


def test_a_report_is_a_page_with_pictures_tables_and_verdicts(out):
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    tables = {"winners", "missing", "coverage", "comparison_linear", "differences_linear"}
    pictures = {"figures/first.svg", "figures/second.svg"} | {f"figures/claim{number}.svg" for number in (1, 2)}
    others = {"report.html", "claims.json", "figures.json"}
    assert files - {"figures/claim3.svg"} == others | pictures | {f"tables/{name}.csv" for name in tables}


def test_the_files_for_programs_have_every_verdict_and_every_figure(out):
    content = json.loads((out / "claims.json").read_text())
    assert (content["study"], content["commit"]) == ("made_up", "0123456789ab")
    found = [claim["verdict"] for claim in content["claims"]]
    assert found == ["reproduced", "not reproduced", "inconclusive", "inconclusive"]
    first = content["claims"][0]
    assert (first["statement"], first["place"], first["rule"]) == ("Statement 1.", "Fig. 1", "a rule")
    (number,) = first["parts"][0]["evidence"]
    assert (number["mean"], number["margins"], number["side"]) == (pytest.approx(0.7), [1.0], "below")
    assert first["runs"] == [f"linear/full_mh/jax-cpu/seed{seed}" for seed in range(3)]
    captions = {entry["name"]: entry for entry in json.loads((out / "figures.json").read_text())["figures"]}
    assert captions["second"]["caption"] == "What to see in second."
    assert captions["empty"]["absent"] == "no run of mnist"
    assert captions["broken"]["failure"] == "ZeroDivisionError: by nought"


def test_the_page_says_what_held_who_won_what_is_missing_and_what_failed(page):
    surprises = "1 not reproduced 2 Statement 2: 3 seeds 2 inconclusive 3 Statement 3 4 Statement 4"
    assert f"{surprises} 1 reproduced 1 Statement 1: 3 seeds" in page.text
    assert "Of 14 runs, 10 finished, and 9 of those converged" in page.text
    assert "1 skipped, 1 diverged, 1 failed, 1 missing" in page.text
    for reason in ("no CUDA device", "chain 0 became non-finite", "MemoryError: no", "not run yet"):
        assert reason in page.text
    assert "Parts of this report failed." in page.text and "It could not be judged: " in page.text
    assert "Title of broken could not be drawn: ZeroDivisionError: by nought" in page.text
    assert "Title of empty is not shown: no run of mnist" in page.text
    assert "The paper: What the paper shows." in page.text
    assert "Some Processor, 2 processors, Linux x86_64" in page.text
    assert "2026-01-02 03:04 UTC" in page.text
    winners = page.text.partition("Who won")[2].partition("How the winner")[0]
    assert "PBNN jax-cpu, n=2, M=5, η=0.0072, w=N 301.0 [298.5, 303.5]" in winners
    assert "over MALA" in winners
    # A method that did not run at a target has not been beaten at it.
    assert "3 methods full-data MH 1 of 1; PBNN 1 of 1; MALA 1 of 1 4 methods tempered; naive; SGLD; ULA" in winners


def test_a_verdict_has_its_numbers_with_intervals_margins_and_settings(page):
    evidence = page.text.partition("Evidence of claim 1.")[2].partition("runs behind this")[0]
    assert "NLL full-data MH η=0.028 on linear" in evidence
    assert "0.700 [0.700, 0.700] below 1 yes 3" in evidence


def test_every_run_behind_a_figure_or_claim_is_a_row_of_the_page(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in page.all("a")]
    inner = {link.removeprefix("#") for link in links if link.startswith("#")}
    assert inner <= set(ids)
    runs = [name for name in ids if re.fullmatch(r"run-\d+", name)]
    assert len(runs) == 14
    # By the name that tables and figures use; the tooltip is its folder.
    assert '<li>linear · full-data MH η=0.028 · jax-cpu <a href="#run-1">0</a>' in page.source
    assert f'title="{FULL_MH}">linear · full-data MH η=0.028 · jax-cpu · seed 0</th>' in page.source


def test_files_that_the_page_links_to_are_there_but_for_the_summary(out, page):
    links = [attributes["href"] for attributes in page.all("a") if not attributes["href"].startswith("#")]
    assert {link for link in links if not (out / link).exists()} == {"summary.csv"}


def test_the_words_of_the_navigation_are_the_headings(page):
    navigation = page.source.partition("<nav")[2].partition("</nav>")[0]
    links = re.findall(r'<a href="#([^"]*)">([^<]*)</a>', navigation)
    assert links == re.findall(r'<h2 id="([^"]*)">([^<]*)</h2>', page.source)
    assert len(links) > 7


def test_claims_that_share_a_figure_are_next_to_it_and_the_first_figure_is_at_the_top(tmp_path):
    figures = [failing_figure("none", NothingToShow("no runs")), figure("first", claims=(1, 3))]
    figures += [figure("second", claims=(2,)), figure("third")]
    source = rendered(tmp_path, figures, [claim(number) for number in range(1, 5)])
    parts = source.partition('<h2 id="claims"')[2].partition('<h2 id="figures-section"')[0].split('class="argument')[1:]
    found = [(re.findall(r'id="claim-(\d)"', part), re.findall(r'id="figure-(\w+)"', part)) for part in parts]
    assert found == [(["1", "3"], ["first"]), (["2"], ["second"]), (["4"], ["claim4"])]
    others = source.partition('<h2 id="figures-section"')[2]
    assert re.findall(r'id="figure-(\w+)"', others) == ["none", "third"]
    summary = source[source.index('<h2 id="summary"') : source.index('<h2 id="claims"')]
    assert "Title of first" in summary and "Title of second" not in summary


def test_the_first_screen_has_every_verdict_with_surprises_first(tmp_path):
    claims = [claim(number) for number in range(1, 8)]
    claims += [claim(8, **REFUTED), claim(9, below=0.7, method=["full_mh", "mala"]), claim(10, **NOT_ASKED)]
    rows = [row(method, seed, nll=nll) for method, nll in (("full_mh", 0.6), ("mala", 0.8)) for seed in range(3)]
    source = rendered(tmp_path, [], claims, rows)
    screen = source[source.index('class="screen"') : source.index('class="tally"')]
    assert re.findall(r'<a href="#claim-(\d+)"', screen) == ["8", "9", *"1234567", "10"]
    assert "Statement 9: <strong>1 of 2 parts hold, 1 fail; 3 seeds</strong>" in screen
    # Of many claims the expected ones are below the figure.
    first, second = screen.split("</div>\n<div>")
    assert "#claim-9" in first and '#claim-1"' in second
    # Folded, and still linked to.
    fold = source.index("1 claim that this study does not ask about")
    assert source.index('id="claim-1"') < fold < source.index('id="claim-10"')


def test_a_verdict_that_one_seed_changes_is_fragile(tmp_path):
    rows = [row("full_mh", seed, nll=nll) for seed, nll in enumerate((0.5, 0.501, 0.502, 0.9))]
    source = rendered(tmp_path, [], [claim(1, below=0.8)], rows)
    assert "Statement 1: <strong>4 seeds; fragile</strong>" in source and "without seed 3: reproduced" in source


def test_the_page_asks_nobody_and_nothing_but_its_own_script_may_run(page):
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert page.scripts == [SCRIPT]
    digest = base64.b64encode(hashlib.sha256(page.scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert all(image["src"].startswith("data:image/") for image in page.all("img"))
    assert not page.all("link")
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]


def test_marks_of_a_drawing_name_their_setting_and_lead_to_their_run_without_a_style_of_their_own(tmp_path):
    figures = [figure(name, claims=(1,), marks=[Mark("PBNN & n < 5", FULL_MH)]) for name in ("one", "two")]
    render(study_of([row("full_mh")]), tmp_path, figures, [claim(1)], NO_BENCHMARKS)
    page = Page(tmp_path / "report.html")
    marks = [attributes for attributes in page.all("a") if attributes.get("class") == "mark"]
    # The first is at the top and next to its claim.
    assert [mark["href"] for mark in marks] == ["#run-1"] * 3
    assert page.text.count("PBNN & n < 5") >= 3
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    # The page's policy forbids both.
    assert not [name for _, attributes in page.elements for name in attributes if name == "style"]
    assert [tag for tag, _ in page.elements].count("style") == 1


def test_the_page_can_be_read_without_seeing_it(page):
    assert [tag for tag, _ in page.elements].count("h1") == 1
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all("aria-label" in svg for svg in page.all("svg") if "role" in svg)
    assert all(heading.get("scope") for heading in page.all("th"))
    regions = [attributes for tag, attributes in page.elements if attributes.get("role") == "region"]
    assert regions
    assert all(region.get("aria-labelledby") or region.get("aria-label") for region in regions)
    assert page.all("html")[0]["lang"] == "en"


def test_the_same_study_gives_the_same_bytes(out, tmp_path):
    benchmarks = benchmarks_in(tmp_path, [one for one in EVERY_KIND if one["kind"] == "peer"])
    figures = [figure("first", (FULL_MH,), "The paper's figures", paper="What the paper shows.")]
    for name in ("one", "other"):
        render(study_of(every_outcome()), tmp_path / name, figures, [claim(1)], benchmarks)
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("one", "other")
    )
    assert one == other


def test_what_an_earlier_rendering_drew_is_gone_when_it_is_no_longer_drawn(tmp_path):
    study = study_of([row("full_mh")])
    render(study, tmp_path, [figure("old")], [], NO_BENCHMARKS)
    render(study, tmp_path, [failing_figure("old", NothingToShow("no runs"))], [], NO_BENCHMARKS)
    assert list((tmp_path / "figures").iterdir()) == []


HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">&amp;\'{{ 7*7 }}'


def hostile_report(out: Path) -> Path:
    """The page of a study in which every text that can come from outside is an attack."""
    rows = [
        row(f"full_mh+{HOSTILE.replace('/', '')}", ece=0.1),
        row("pbnn", backend=HOSTILE.replace("/", "")),
        row("sgld", status="failed", reason=HOSTILE),
        row("mala", cpu=HOSTILE, git_commit=HOSTILE, version_python=HOSTILE, reference_reason=HOSTILE),
        row("ula", reference_usable=False, reference_reason=HOSTILE),
    ]
    study = study_of(rows, Path(HOSTILE.replace("/", "")), HOSTILE)
    texts = dict.fromkeys(("statement", "short", "place", "rule"), HOSTILE)
    figures = [
        figure("hostile", (HOSTILE,), HOSTILE, title=HOSTILE, caption=HOSTILE, paper=HOSTILE),
        figure("marked", marks=[Mark(HOSTILE, HOSTILE)]),
        failing_figure("empty", NothingToShow(HOSTILE)),
        failing_figure("broken", ValueError(HOSTILE)),
    ]
    target = benchmark("other", 2.0, what=HOSTILE, baseline=HOSTILE, target=1.0)
    benchmarks = benchmarks_in(out, [target], cpu=HOSTILE, git_commit=HOSTILE, versions={"jax": HOSTILE})
    claims = [claim(1, **texts), claim(2, entry={"special": HOSTILE})]
    render(study, out, figures, claims, benchmarks)
    return out / "report.html"


def test_html_in_names_labels_captions_and_errors_comes_out_as_text(tmp_path):
    page = Page(hostile_report(tmp_path))
    assert page.scripts == [SCRIPT]
    assert not page.all("img")
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    # Titles, captions, paper, section, statement, place, rule, reasons, errors, machine, …
    assert page.text.count(HOSTILE) >= 20
    assert "49" not in page.text.partition("Every run")[0], "no text is taken for a template"
    assert json.loads((tmp_path / "claims.json").read_text())["claims"][0]["statement"] == HOSTILE
    assert HOSTILE.replace('"', '""') in (tmp_path / "tables" / "missing.csv").read_text()


def test_a_study_of_which_nothing_ran_has_a_page_that_says_so(tmp_path):
    rows = [row("full_mh", seed, status="missing", reason="not run yet") for seed in range(2)]
    figures = [failing_figure("empty", NothingToShow("no runs"))]
    assert render(study_of(rows), tmp_path, figures, [], NO_BENCHMARKS) == []
    page = Page(tmp_path / "report.html")
    text = page.text
    assert "<h1>A made-up study</h1>" in page.source, "without a finding the title is what the study is about"
    assert "Of 2 runs, 0 finished, and 0 of those converged" in text
    assert "No winner is named: no two settings have the same target." in text and "Who won" not in text
    assert "commit unknown" in text


# The suite's benchmarks


def speed_of(out: Path, *benchmarks: Path) -> tuple[Page, str]:
    """The page of a study with these benchmarks, or those that are kept, and the text of their section."""
    assert render(study_of([row("full_mh")]), out, [], [], *benchmarks) == []
    page = Page(out / "report.html")
    return page, section_text(page)


def section_text(page: Page) -> str:
    return page.text.partition(f"{SECTION} ")[2].partition("Reproduce it")[0]


@pytest.fixture(scope="module")
def speed(tmp_path_factory) -> tuple[Path, Page, str]:
    out = tmp_path_factory.mktemp("speed")
    return out, *speed_of(out, benchmarks_in(out, EVERY_KIND))


def test_a_missed_performance_target_is_named_and_a_met_one_is_not(speed):
    _, page, text = speed
    assert (
        "1 of 4 performance targets is missed: PBNN, mnist, 4 chains, torch-cpu: 2.30 (2.07 to 2.53) times its bare"
        in text
    )
    assert "torch-cpu its bare likelihoods and gradients 115.0 2.30 (2.07 to 2.53) 1.8 no" in text
    assert "jax-cpu its bare likelihoods and gradients 65.0 1.30 (1.17 to 1.43) 1.4 yes" in text
    missed = [attributes for attributes in page.all("td") if attributes.get("class") == "missed"]
    assert len(missed) == 1


def test_every_kind_of_benchmark_has_its_figure_with_its_numbers_beside_it(speed):
    out, *_ = speed
    names = {spec.name for spec in SPEED_FIGURES}
    assert len(names) == len({one["kind"] for one in EVERY_KIND})
    assert {path.stem for path in (out / "figures").glob("*.svg")} == names
    entries = {entry["name"]: entry for entry in json.loads((out / "figures.json").read_text())["figures"]}
    assert entries.keys() == names
    assert {entry["section"] for entry in entries.values()} == {SECTION}
    with (out / "tables" / "benchmarks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(line["what"], float(line["ratio"])) for line in rows] == [
        (one["what"], one["ratio"]) for one in EVERY_KIND
    ]
    assert [line["is_met"] for line in rows if line["target"]] == ["True", "False", "True", "True"]


def test_without_benchmarks_the_page_says_so_in_a_line_and_has_the_rest(page):
    text = section_text(page)
    assert text.startswith("Not shown: no benchmarks are kept in benchmarks.json; make bench, then python -m")
    assert "tables/benchmarks.csv" not in page.source
    assert "Every run" in page.text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "JSONDecodeError"),
        ('{"rows": []}', "KeyError: 'versions'"),
        ({"rows": [benchmark("a", 1.0) | {"ratio": "1"}]}, "row 0: ratio is '1', not a number"),
    ],
)
def test_benchmarks_that_cannot_be_read_do_not_take_the_page_with_them(tmp_path, content, reason):
    path = benchmarks_in(tmp_path, EVERY_KIND)
    path.write_text(content if isinstance(content, str) else json.dumps({"rows": EVERY_KIND} | MEASUREMENT | content))
    _, text = speed_of(tmp_path, path)
    assert f"Not shown: the benchmarks in benchmarks.json cannot be read ({reason}" in text
