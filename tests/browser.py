"""A headless browser for tests of pages: Debian's Chromium, steered by Selenium.

with opened_browser() as browser:
    browser.open("http://127.0.0.1:5000")
    browser.wait_for_text("pbnn")
    assert browser.console_errors() == []
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# Without background traffic: the network requests are those of the page.
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


class Browser:
    """What tests ask of a page."""

    def __init__(self, driver) -> None:
        #: Selenium's own, for whatever is not here.
        self.driver = driver

    def open(self, url: str | Path) -> None:
        """Go to an address, or to a file."""
        self.driver.get(url.resolve().as_uri() if isinstance(url, Path) else url)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page's visible part."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def text(self) -> str:
        """The text of the page as a person sees it."""
        return self.driver.execute_script("return document.body ? document.body.innerText : ''")

    def wait_for_text(self, *texts: str | tuple[str, ...], seconds: float = 30.0) -> str:
        """The page's text when all of these stand in it, of a tuple at least one."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        def missing() -> list[str | tuple[str, ...]]:
            page = self.text()
            return [
                text for text in texts if not any(form in page for form in ([text] if isinstance(text, str) else text))
            ]

        try:
            WebDriverWait(self.driver, seconds).until(lambda _: not missing())
        except TimeoutException:
            raise AssertionError(f"not on the page after {seconds} s: {missing()}; it says:\n{self.text()}") from None
        return self.text()

    def click(self, xpath: str, seconds: float = 30.0) -> None:
        """Click the first element of this XPath when it can be clicked."""
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support import expected_conditions
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, seconds).until(
            expected_conditions.element_to_be_clickable((By.XPATH, xpath))
        ).click()

    def console_errors(self) -> list[str]:
        """Errors of the console, uncaught exceptions among them, since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """Addresses of the network and of files that pages asked for since the last call, in order."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
        addresses = [parameters["request"]["url"] for parameters in sent]
        # The browser's own pages, chrome://, and data: in the page itself ask nobody.
        return [address for address in addresses if address.startswith(("http:", "https:", "file:"))]

    def screenshot(self, path: Path) -> None:
        """A picture of the visible part, as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        assert self.driver.save_screenshot(str(path)), f"{path} could not be written"


def browser_program() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


def why_absent() -> str | None:
    """What is missing for a browser, if anything is."""
    for name, program in {"chromium": browser_program(), "chromedriver": shutil.which("chromedriver")}.items():
        if program is None:
            return f"{name} is not installed (on Debian: apt install chromium chromium-driver)"
    return None


@contextmanager
def opened_browser(width: int = 1400, height: int = 1000) -> Iterator[Browser]:
    """A new browser with an empty profile.

    Where there is none the test is skipped, but fails where PBNN_REQUIRE_BROWSER is set: there it was meant to be.
    """
    reason = why_absent()
    if reason and os.environ.get("PBNN_REQUIRE_BROWSER"):
        pytest.fail(f"PBNN_REQUIRE_BROWSER is set, but {reason}")
    if reason:
        pytest.skip(reason)
    from selenium import webdriver

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = str(browser_program())
        for option in (*OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # A proxy of the environment must not see loopback addresses.
        options.add_argument("--no-proxy-server")
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            browser = Browser(driver)
            browser.resize(width, height)
            yield browser
        finally:
            driver.quit()
