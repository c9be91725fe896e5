"""Pictures of a page as a reader sees it: wide and on a phone, light and dark.

    python -m tests.screenshots results/paper/report.html /tmp/pictures
    python -m tests.screenshots site/index.html docs/assets --name start --only 1400-light

writes report-1400-light.png, report-1400-dark.png, report-390-light.png and report-390-dark.png, or some of them. With
``--from 3000`` they begin so many pixels below the top.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.browser import Browser, opened_browser

#: Width and height of what is seen.
SCREENS = {1400: 900, 390: 844}
THEMES = ("light", "dark")


def set_theme(browser: Browser, theme: str) -> None:
    features = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description="Pictures of a page.")
    parser.add_argument("page", help="a file, or an address")
    parser.add_argument("out", type=Path, help="folder of the pictures")
    parser.add_argument("--name", help="how their names begin; that of the file by default")
    parser.add_argument("--only", nargs="+", default=[f"{width}-{theme}" for width in SCREENS for theme in THEMES])
    parser.add_argument("--from", dest="top", type=int, default=0, help="pixels from the top of the page")
    parser.add_argument("--height", type=int, help="pixels; those of a screen by default")
    arguments = parser.parse_args(argv)
    page = arguments.page if "://" in arguments.page else Path(arguments.page)
    name = arguments.name or Path(arguments.page).stem
    with opened_browser() as browser:
        for picture in arguments.only:
            width, theme = picture.split("-")
            browser.resize(int(width), arguments.height or SCREENS[int(width)])
            set_theme(browser, theme)
            browser.open(page)
            # Some pages remember the theme of an earlier visit.
            browser.driver.execute_script("localStorage.clear()")
            browser.open(page)
            browser.driver.execute_script("window.scrollTo(0, arguments[0])", arguments.top)
            # What moves or loads late has come to rest.
            time.sleep(0.5)
            browser.screenshot(arguments.out / f"{name}-{picture}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
