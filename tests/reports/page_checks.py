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
    # What is said and asked from here on is this page's.
    browser.console_errors(), browser.requests()
    for width in (PHONE, DESKTOP):
        browser.resize(width, 900)
        browser.open(page)
        # What is folded is as legible as the rest.
        unfold_all = "for (const part of document.querySelectorAll('details:not(.runs)')) part.open = true"
        browser.driver.execute_script(unfold_all)
        overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.driver.execute_script(overflow) == 0, f"at {width} pixels the page is wider than the window"
        assert not (flaws := picture_flaws(browser)), f"at {width} pixels: {flaws}"
    widths = browser.driver.execute_script("return [...document.images].map((image) => image.naturalWidth)")
    assert all(widths), f"pictures that did not load: {widths}"
    assert browser.driver.execute_script("return window.hacked") is None
    assert set(browser.requests()) == {page.resolve().as_uri()}
    assert not (errors := browser.console_errors()), f"errors of the console: {errors}"


#: Share of a line's height that no letter reaches, above and below it, and pixels by which two lines may touch.
LEADING, TOUCH = 0.2, 1
#: Letters lower than this are not read.
MIN_HEIGHT = 7


def picture_flaws(browser: Browser) -> list[str]:
    """What of the drawings that are seen is cut, too small, or written over something else, as the browser sets it."""
    script = """
        const [leading, touch, least] = arguments;
        const found = [];
        const say = (text) => JSON.stringify(text.textContent.replace(/\\s+/g, " ").trim());
        const upright = (text) => !/rotate\\(-?[1-9]/.test(text.getAttribute("transform"));
        for (const svg of document.querySelectorAll("figure svg")) {
            const page = svg.getBoundingClientRect();
            if (!page.width) continue;
            const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
            const sizes = [];
            const boxes = texts.map((text) => {
                const { left, right, top, bottom, width, height } = text.getBoundingClientRect();
                sizes.push(upright(text) ? height : width);
                const [x, y] = upright(text) ? [0, leading * height] : [leading * width, 0];
                return { left: left + x, right: right - x, top: top + y, bottom: bottom - y };
            });
            const over = (one, other) => Math.min(
                Math.min(one.right, other.right) - Math.max(one.left, other.left),
                Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top));
            boxes.forEach((box, place) => {
                const words = say(texts[place]);
                const outside = Math.max(
                    page.left - box.left, box.right - page.right, page.top - box.top, box.bottom - page.bottom);
                if (outside > touch) found.push(`${words} is cut`);
                if (sizes[place] < least) found.push(`${words} is ${sizes[place].toFixed(1)} pixels high`);
                boxes.slice(place + 1).forEach((other, after) => {
                    if (over(box, other) <= touch) return;
                    found.push(`${words} overlaps ${say(texts[place + 1 + after])}`);
                });
            });
        }
        return found;
    """
    found: list[str] = browser.driver.execute_script(script, LEADING, TOUCH, MIN_HEIGHT)
    return found


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


def unfold(browser: Browser, name: str) -> None:
    """Follow a link to a place that is folded away."""
    browser.driver.execute_script("location.hash = arguments[0]", name)


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
