"""The documentation: built strictly, with links that lead somewhere, and a picture whose numbers are the samplers'."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from docs._build.hooks import PAGES, PARTS, fetched_from_elsewhere
from implementations.methods import METHODS
from implementations.tasks import at_mode
from implementations.tasks.problem import Problem
from pbnn_bench.cli import COMMANDS
from reports.publish import PUBLISHED
from tests.browser import Browser, opened_browser
from tests.implementations.chains import sample

ROOT = Path(__file__).parents[2]


# Built from all pages and published reports, as `make docs` does: with --quiet, strict mode would see no warnings.
@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed: make setup")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_every_page_and_the_published_report_are_there(site):
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 15
    for page in [*pages, *(Path(path).with_suffix(".html") for path in PAGES), "published/paper/report.html"]:
        assert (site / page).is_file(), page


def test_links_into_published_reports_lead_to_a_place_in_them():
    """MkDocs checks anchors of its own pages only."""
    written = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    links = set(re.findall(r"published/(\w+/report\.html)#([\w-]+)", written))
    assert len(links) > 5
    pages = {name: (PUBLISHED / name).read_text(encoding="utf-8") for name, _ in links}
    assert [link for link in links if f'id="{link[1]}"' not in pages[link[0]]] == []


@pytest.mark.slow
def test_no_place_for_a_part_is_left_empty(site):
    assert [page.name for page in site.rglob("*.html") if "<p>{{ " in page.read_text(encoding="utf-8")] == []
    written = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [name for name in PARTS if f"\n{{{{ {name} }}}}\n" not in written] == []


@pytest.mark.slow
def test_the_reference_names_every_command_method_and_claim(site):
    pages = {name: (site / f"reference/{name}.html").read_text(encoding="utf-8") for name in ("commands", "methods")}
    assert [name for name in COMMANDS if f"usage: pbnn-bench {name}" not in pages["commands"]] == []
    assert [name for name in METHODS if f'<h2 id="{name}">' not in pages["methods"]] == []


@pytest.mark.parametrize(
    ("html", "fetched"),
    [
        ('<script src="https://example.org/x.js"></script>', ["https://example.org/x.js"]),
        ('<link rel="stylesheet" href="//example.org/x.css">', ["//example.org/x.css"]),
        ('<source media="print" srcset=https://example.org/x.png>', ["https://example.org/x.png"]),
        ('<a href="https://example.org"><img src="x.png"><img src="data:image/png;base64,">', []),
        ('<link rel="canonical" href="https://example.org/"><link href="x.css" rel="stylesheet">', []),
    ],
)
def test_what_a_page_fetches_from_elsewhere_is_found(html, fetched):
    assert fetched_from_elsewhere(html) == fetched


# The picture of the penalty


@pytest.fixture(scope="module")
def page(site) -> Iterator[Browser]:
    """The page of the picture, from a server of our own."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            """A test's output is not the place."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with opened_browser() as browser:
            browser.address = f"http://127.0.0.1:{server.server_port}/understand/penalty.html"
            browser.open(browser.address)
            browser.wait_for_text("Without the penalty the chain is")
            yield browser
    finally:
        server.shutdown()
        server.server_close()


#: A move of 0.6 posterior sd; mini-batches of 2 whose noise is far from small.
STEP_SIZE, BATCH_SIZE = 2e-3, 2


@pytest.fixture(scope="module")
def points() -> Problem:
    """The picture's problem: 100 points with mean 0 and variance 1, y ~ N(theta, 1), prior N(0, 1)."""
    targets = norm.ppf((np.arange(100) + 0.5) / 100)
    return at_mode(Problem.of(np.ones((100, 1), np.float32), (targets / targets.std(ddof=1)).astype(np.float32)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "method", "given"),
    [
        ("exact", "full_mh", {}),
        ("naive", "naive", {"num_batches": 1}),
        ("known", "pbnn", {"num_batches": 1, "variance": "oracle"}),
        ("estimated", "pbnn", {"num_batches": 3, "variance": "batches_finite"}),
    ],
)
def test_the_numbers_of_the_picture_are_those_of_the_samplers(page, points, rule, method, given):
    num_batches = given.get("num_batches", 1)
    call = f"return window.penaltyPicture.answer({BATCH_SIZE}, {num_batches}, {STEP_SIZE}).{rule}"
    shown = page.driver.execute_script(call)
    size = {} if method == "full_mh" else {"batch_size": BATCH_SIZE}
    shared = {"step_size": STEP_SIZE, "weight": "data", "preconditioner": "none"}
    shared |= {"chains": 400, "num_steps": 2000, "num_warmup": 500, "thin": 10}
    draws, acceptance = sample(points, method, "jax-cpu", **shared, **size, **given)
    # Chains are independent, so their spread is the Monte Carlo error; 1 / 101 is the posterior's variance.
    squares = (draws[..., 0] ** 2).mean(axis=1) * 101
    error = squares.std(ddof=1) / np.sqrt(len(squares))
    # One in a hundred beside it: the noise of 2 of 100 points is not quite Gaussian.
    assert shown["sd"] ** 2 == pytest.approx(squares.mean(), abs=4 * error + 0.01 * squares.mean())
    assert shown["acceptance"] == pytest.approx(acceptance, abs=0.01)
    if rule in ("exact", "known"):
        assert shown["sd"] == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_with_all_points_there_is_no_noise(page):
    shown = page.driver.execute_script("return window.penaltyPicture.answer(50, 2, 0.001)")
    assert shown["sigma"] == pytest.approx(0, abs=1e-6)
    for rule in ("naive", "known", "estimated"):
        assert shown[rule]["sd"] == pytest.approx(1, abs=1e-3)
        assert shown[rule]["acceptance"] == pytest.approx(shown["exact"]["acceptance"], abs=1e-3)


@pytest.mark.slow
def test_sliders_answer_to_keys_and_the_sentence_follows(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page.open(page.address)
    page.wait_for_text("A step reads 4 of 100 points")
    sliders = {name: page.driver.find_element(By.NAME, name) for name in ("n", "M", "eta", "estimated")}
    sliders["n"].send_keys(Keys.ARROW_RIGHT)
    page.wait_for_text("A step reads 6 of 100 points")
    assert sliders["n"].get_attribute("aria-valuetext") == "3"
    sliders["M"].send_keys(Keys.HOME)
    page.wait_for_text("A step reads 3 of 100 points")
    assert not sliders["estimated"].is_enabled()
    sliders["M"].send_keys(Keys.END)
    sliders["n"].send_keys(Keys.END)
    page.wait_for_text("A step reads 100 of 100 points", "Without the penalty the chain is 1.00 times")
    sliders["M"].send_keys(Keys.ARROW_LEFT)
    sliders["estimated"].send_keys(Keys.SPACE)
    page.wait_for_text("the variance being estimated from 9 mini-batches")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_in_both_schemes_and_asks_nobody_else(page, scheme):
    page.requests()
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    page.resize(390, 844)
    page.open(page.address)
    # A page remembers the scheme it was last seen in, and keeps it.
    page.driver.execute_script("localStorage.clear()")
    page.open(page.address)
    page.wait_for_text("A step reads 4 of 100 points")
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    from selenium.webdriver.support.ui import WebDriverWait

    shown = {"light": "default", "dark": "slate"}[scheme]
    # The page's script sets it when it has looked at the browser's preference.
    WebDriverWait(page.driver, 20).until(
        lambda driver: driver.execute_script("return document.body.getAttribute('data-md-color-scheme')") == shown
    )
    # One panel above the other.
    tops = page.driver.execute_script(
        "return [...document.querySelectorAll('.penalty-picture figure')].map(one => one.getBoundingClientRect().top)"
    )
    assert len(set(tops)) == 3
    assert page.console_errors() == []
    asked = page.requests()
    assert page.address in asked
    assert [address for address in asked if "127.0.0.1" not in address] == []
