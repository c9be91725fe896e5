"""The page in a real browser."""

import pytest

from reports.drawing import Mark
from reports.figures import SPEED_FIGURES
from reports.publish import PUBLISHED
from reports.render import render
from tests.browser import Browser, opened_browser
from tests.reports.page_checks import (
    DESKTOP,
    PHONE,
    assert_page_works,
    column,
    heading,
    headings,
    pick,
    shown,
    unfold,
)
from tests.reports.studies import EVERY_KIND, benchmarks_in, claim, every_outcome, figure, study_of
from tests.reports.test_render import hostile_report
from tests.reports.test_run_page import made_up_run
from tests.screenshots import set_theme

pytestmark = pytest.mark.slow

#: As readers know them, without their seeds.
PBNN, MALA = "linear · PBNN n=2, M=5, η=0.0072, w=N · jax-cpu", "linear · MALA η=0.072 · jax-cpu"


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    run = "linear/mala/jax-cpu/seed2"
    figures = [figure("first", (run,), claims=(1,)), figure("crowded", num_points=9000)]
    figures += [figure("marked", marks=[Mark("PBNN at n = 2", run)])]
    study = study_of(every_outcome(), out / "made_up")
    (one,) = [row for row in every_outcome() if row["run"] == run]
    made_up_run(study.folder, one)
    render(study, out, figures, [claim(1, method="mala")], benchmarks_in(out, EVERY_KIND))
    return out / "report.html"


def test_a_report_works_in_a_browser(browser, page):
    assert_page_works(browser, page)
    # The first is at the top too.
    assert len(shown(browser, ".figure-panels")) == 4 + len(SPEED_FIGURES)


@pytest.mark.parametrize("study", sorted(path.parent.name for path in PUBLISHED.glob("*/report.html")))
def test_a_published_report_works_in_a_browser(browser, study):
    assert_page_works(browser, PUBLISHED / study / "report.html")


def test_no_text_of_a_study_runs_as_code(browser, tmp_path):
    assert_page_works(browser, hostile_report(tmp_path))


def test_a_table_sorts_by_number_both_ways_with_empty_cells_last(browser: Browser, page):
    browser.open(page)
    # It is not among those that are shown at first.
    pick(browser, "runs", "ESS per second")
    before = column(browser, "runs", 11)
    numbers = sorted(float(text) for text in before if text != "–")
    assert before.count("–") == 3
    for direction in (1, -1):
        browser.click(heading("runs", "ESS per second"))
        found = column(browser, "runs", 11)
        assert found != before
        assert [float(text) for text in found[:-3]] == numbers[::direction]
        assert found[-3:] == ["–"] * 3


def test_a_table_shows_eight_columns_and_those_that_a_reader_picks(browser: Browser, page):
    browser.open(page)
    unfold(browser, "comparison-linear")
    shown = headings(browser, "comparison-linear")
    assert shown[0] == "method" and len(shown) == 8
    assert "NLL" not in shown
    pick(browser, "comparison-linear", "NLL")
    pick(browser, "comparison-linear", "sd ratio")
    assert set(headings(browser, "comparison-linear")) == {*shown, "NLL"} - {"sd ratio"}
    # Headings above the headings are as wide as what is below them, and go when nothing is.
    widths = """
        const cells = document.querySelectorAll("#comparison-linear tr.groups th");
        return [...cells].filter((cell) => !cell.hidden).reduce((sum, cell) => sum + cell.colSpan, 0);
    """
    assert browser.driver.execute_script(widths) == 8


def test_rows_of_which_all_was_skipped_are_folded_and_a_link_to_one_unfolds_it(browser: Browser, page):
    browser.open(page)
    assert "jax-gpu" not in " ".join(column(browser, "runs", 0))
    is_open = "return document.querySelector('#runs-folded').closest('details').open"
    assert browser.driver.execute_script(is_open) is False
    (skipped,) = column(browser, "runs-folded", 0)
    anchor = browser.driver.execute_script("return document.querySelector('#runs-folded tbody tr').id")
    browser.driver.execute_script("location.hash = arguments[0]", anchor)
    assert browser.driver.execute_script(is_open) is True
    assert "jax-gpu" in skipped


def test_a_figure_stands_beside_its_claim_on_a_desk_and_above_it_on_a_phone(browser: Browser, page):
    boxes = """
        const box = (selector) => document.querySelector(selector).getBoundingClientRect();
        const [claim, figure] = [box("#claim-1"), box(".argument figure")];
        return [figure.left >= claim.right, figure.bottom <= claim.top];
    """
    found = {}
    for width in (PHONE, DESKTOP):
        browser.resize(width, 900)
        browser.open(page)
        found[width] = browser.driver.execute_script(boxes)
    assert found == {PHONE: [False, True], DESKTOP: [True, False]}


def test_a_filter_leaves_the_rows_that_have_all_its_words(browser, page):
    from selenium.webdriver.common.by import By

    browser.open(page)
    bar = browser.driver.find_element(By.XPATH, "//*[@id='runs']/preceding-sibling::div[1]")
    bar.find_element(By.TAG_NAME, "input").send_keys("PBNN jax-cpu")
    assert column(browser, "runs", 0) == [f"{PBNN} · seed {seed}" for seed in range(3)]
    assert "3 of 13 rows" in bar.text
    # A link to a row that is filtered out shows it.
    # Not below the navigation, which stays at the top.
    script = """
        const runs = document.querySelector("#claim-1 details.runs");
        runs.open = true;
        runs.scrollIntoView({ block: "center" });
    """
    browser.driver.execute_script(script)
    browser.click("//*[@id='claim-1']//details[@class='runs']//a[.='2']")
    browser.wait_for_text(f"{MALA} · seed 2")
    assert f"{MALA} · seed 2" in column(browser, "runs", 0)


def test_a_mark_says_its_setting_when_pointed_at_and_leads_to_its_run(browser: Browser, page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    browser.open(page)
    mark = browser.driver.find_element(By.CSS_SELECTOR, "#figure-marked .mark")
    assert "PBNN at n = 2" not in browser.text()
    ActionChains(browser.driver).scroll_to_element(mark).move_to_element(mark).perform()
    browser.wait_for_text("PBNN at n = 2")
    mark.click()
    target = "return document.querySelector(':target').cells[0].textContent.trim()"
    assert browser.driver.execute_script(target) == f"{MALA} · seed 2"


def test_a_run_has_a_page_that_works_and_leads_back_to_its_row(browser: Browser, page):
    browser.open(page)
    links = "return [...document.querySelectorAll('a.run-page')].map((link) => [link.textContent, link.href])"
    ((run, address),) = browser.driver.execute_script(links)
    assert run == f"{MALA} · seed 2"
    assert_page_works(browser, page.parent / "pages" / address.rpartition("/")[2])
    # Four charts, each with lines in it.
    lines = "svg.querySelectorAll('path[fill=none]').length"
    drawn = f"return [...document.querySelectorAll('.figure-panels > svg')].map((svg) => {lines})"
    assert browser.driver.execute_script(drawn) == [4, 2, 4, 2]
    browser.click("//header//a")
    browser.wait_for_text("Every run")
    target = "return document.querySelector(':target').cells[0].textContent.trim()"
    assert browser.driver.execute_script(target) == run


def test_the_dark_theme_is_dark_and_so_are_its_pictures(browser, page):
    def style(selector: str, name: str) -> str:
        script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        return browser.driver.execute_script(script, selector, name)

    found = {}
    for theme in ("light", "dark"):
        set_theme(browser, theme)
        browser.open(page)
        found[theme] = style("body", "backgroundColor"), style(".picture text", "fill"), style(".mark circle", "fill")
    set_theme(browser, "light")
    light, dark = found["light"], found["dark"]
    assert light[0] == "rgb(253, 252, 250)" and dark[0] == "rgb(23, 24, 26)"
    assert light[1] == "rgb(103, 99, 92)" and dark[1] == "rgb(165, 161, 154)"
    assert light[2] == dark[2] == "rgb(213, 94, 0)", "a colour that can be seen on both stays"
