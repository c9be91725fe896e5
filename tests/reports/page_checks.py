"""What every report must do in a browser.

    python -m tests.reports.page_checks results/smoke/report.html

looks at one.
"""

import sys
from pathlib import Path

from tests.browser import Browser, opened_browser

PHONE, DESKTOP = 390, 1300


def assert_page_works(browser: Browser, page: Path) -> None:
    """It loads without errors, shows its pictures, asks for nothing but itself, and fits a phone."""
    for width in (PHONE, DESKTOP):
        browser.resize(width, 900)
        browser.open(page)
        overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.driver.execute_script(overflow) == 0, f"at {width} pixels the page is wider than the window"
    widths = browser.driver.execute_script("return [...document.images].map((image) => image.naturalWidth)")
    assert all(widths), f"pictures that did not load: {widths}"
    assert browser.driver.execute_script("return window.hacked") is None
    assert set(browser.requests()) == {page.resolve().as_uri()}
    assert browser.console_errors() == []


def column(browser: Browser, table: str, number: int) -> list[str]:
    """The cells of a table's column that are shown, without their second lines."""
    script = """
        const rows = [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].filter((row) => !row.hidden);
        return rows.map((row) => row.cells[arguments[1]].firstChild.textContent.trim());
    """
    return browser.driver.execute_script(script, table, number)


def shown(browser: Browser, selector: str) -> list[str]:
    """The classes of the elements that a reader sees."""
    script = """
        const found = [...document.querySelectorAll(arguments[0])].filter((one) => one.getClientRects().length);
        return found.map((one) => one.getAttribute("class") ?? "");
    """
    return browser.driver.execute_script(script, selector)


def headings(browser: Browser, table: str) -> list[str]:
    """The columns of a table that are shown."""
    script = """
        const headings = [...document.querySelectorAll(`#${arguments[0]} tr.headings th`)];
        return headings.filter((heading) => !heading.hidden).map((heading) => heading.textContent.trim());
    """
    return browser.driver.execute_script(script, table)


def pick(browser: Browser, table: str, text: str) -> None:
    """Show a column of a table, or hide it again."""
    bar = f"//*[@id='{table}']/preceding-sibling::div[1]"
    browser.driver.execute_script(
        "document.querySelector(arguments[0]).previousElementSibling.querySelector('.picker').open = true", f"#{table}"
    )
    browser.click(f"{bar}//label[normalize-space()='{text}']/input")


def heading(table: str, text: str) -> str:
    """The sort button of a column, as XPath."""
    return f"//*[@id='{table}']//tr[@class='headings']/th/button[normalize-space()='{text}']"


if __name__ == "__main__":
    (page,) = map(Path, sys.argv[1:])
    with opened_browser() as browser:
        assert_page_works(browser, page)
        up, down = [(browser.click(heading("runs", "run")), column(browser, "runs", 0))[1] for _ in range(2)]
        assert up == down[::-1] != down, f"{page}: its table of runs does not sort"
    print(f"{page} works in a browser: {len(up)} runs")
