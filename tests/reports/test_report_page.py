"""The page in a real browser."""

import base64

import pytest

from reports.figures import SPEED_FIGURES
from reports.render import render
from tests.browser import Browser, opened_browser
from tests.reports.page_checks import assert_page_works, column, heading
from tests.reports.studies import EVERY_KIND, benchmarks_in, claim, every_outcome, figure, study_of
from tests.reports.test_render import hostile_report


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    run = "linear/mala/jax-cpu/seed2"
    figures = [figure("first", (run,)), figure("crowded", num_points=3000)]
    render(study_of(every_outcome()), out, figures, [claim(1, (run,))], benchmarks_in(out, EVERY_KIND))
    return out / "report.html"


def test_a_report_works_in_a_browser(browser, page):
    assert_page_works(browser, page)
    assert len(browser.driver.execute_script("return [...document.images]")) == 2 + len(SPEED_FIGURES)


def test_no_text_of_a_study_runs_as_code(browser, tmp_path):
    assert_page_works(browser, hostile_report(tmp_path))


def test_a_table_sorts_by_number_both_ways_with_empty_cells_last(browser: Browser, page):
    browser.open(page)
    before = column(browser, "runs", 11)
    numbers = sorted(float(text) for text in before if text != "–")
    assert before.count("–") == 4
    for direction in (1, -1):
        browser.click(heading("runs", "ESS per second"))
        found = column(browser, "runs", 11)
        assert found != before
        assert [float(text) for text in found[:-4]] == numbers[::direction]
        assert found[-4:] == ["–"] * 4


def test_a_table_sorts_by_text_from_the_keyboard(browser, page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.open(page)
    button = browser.driver.find_element(By.XPATH, heading("coverage", "method"))
    button.send_keys(Keys.ENTER)
    methods = column(browser, "coverage", 1)
    assert methods == sorted(methods, key=str.casefold)
    th = browser.driver.find_element(By.XPATH, heading("coverage", "method") + "/..")
    assert th.get_attribute("aria-sort") == "ascending"


def test_a_filter_leaves_the_rows_that_have_all_its_words(browser, page):
    from selenium.webdriver.common.by import By

    browser.open(page)
    bar = browser.driver.find_element(By.XPATH, "//*[@id='runs']/preceding-sibling::p[1]")
    bar.find_element(By.TAG_NAME, "input").send_keys("PBNN jax-cpu")
    assert column(browser, "runs", 0) == [f"linear/pbnn+batch_size=2/jax-cpu/seed{seed}" for seed in range(3)]
    assert "3 of 14 rows" in bar.text
    # A link to a row that is filtered out shows it.
    browser.driver.execute_script("document.querySelector('#claim-1 details.runs').open = true")
    browser.click("//*[@id='claim-1']//a[.='linear/mala/jax-cpu/seed2']")
    assert "linear/mala/jax-cpu/seed2" in column(browser, "runs", 0)


def test_the_dark_theme_is_dark_and_so_are_its_pictures(browser, page):
    def colour(selector: str) -> str:
        script = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
        return browser.driver.execute_script(script, selector)

    def filter_of(selector: str) -> str:
        script = "return getComputedStyle(document.querySelector(arguments[0])).filter"
        return browser.driver.execute_script(script, selector)

    found = {}
    for theme in ("light", "dark"):
        features = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
        browser.open(page)
        found[theme] = colour("body"), colour(".picture"), filter_of(".picture img") != "none"
    assert found == {
        "light": ("rgb(253, 252, 250)", "rgb(255, 255, 255)", False),
        "dark": ("rgb(23, 24, 26)", "rgb(23, 24, 26)", True),
    }


def test_the_page_prints(browser, page):
    browser.open(page)
    printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
