"""A headless Chromium: what a test does there as a person does it, and what the browser noted.

In: an address. Out: a `Browser`. Each question is one script in the page, because the page changes
while it is looked at.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.stock import eventually

AXE = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
_SERIOUS = ("serious", "critical")
_FOCUS_MAX = 300


def missing() -> str:
    """Why there is no browser here; "": there is one."""
    needed = ("chromium", "chromedriver")
    absent = [name for name in needed if shutil.which(name) is None]
    if not absent:
        return ""
    return f"needs {' and '.join(absent)}: apt-get install chromium chromium-driver"


class Browser:
    """One window."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    # ---- what a person does ----

    def open(self, address: str) -> None:
        """Go to an address."""
        self.driver.get(address)

    def click(self, selector: str) -> None:
        """Click on an element, once it is there; it may be made anew in the same moment."""
        self.see(selector)
        self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        self.see(selector)
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(text)

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, selector: str) -> None:
        """Press Tab until this element has the focus."""
        for _ in range(_FOCUS_MAX):
            if self.js("return document.activeElement.matches(arguments[0])", selector):
                return
            self.press(Keys.TAB)
        raise AssertionError(f"Tab does not lead to {selector}")

    def resize(self, width: int, height: int = 900) -> None:
        """Look from a screen so wide: a window cannot be as narrow as a telephone."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def hide_scrollbars(self) -> None:
        """Show none from now on: a picture of a whole page has nothing to scroll."""
        self.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark pages."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def without_scripts(self, *, off: bool) -> None:
        """Switch JavaScript off in pages, or on; what a test asks for runs nevertheless."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": off})

    # ---- what a person sees ----

    def js(self, script: str, *arguments: object) -> Any:
        """The result of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def see(self, selector: str) -> None:
        """Wait until such an element is there, and is not hidden."""
        eventually(lambda: self.shows(selector))

    def miss(self, selector: str) -> None:
        """Wait until there is no such element, or it is hidden."""
        eventually(lambda: not self.shows(selector))

    def shows(self, selector: str) -> bool:
        """Whether such an element is visible."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].some((it) => it.checkVisibility())"
        )
        return bool(self.js(script, selector))

    def texts(self, selector: str) -> list[str]:
        """The texts of all such elements."""
        script = "return [...document.querySelectorAll(arguments[0])].map((it) => it.textContent)"
        found: list[str] = self.js(script, selector)
        return found

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        script = "const it = document.documentElement; return it.scrollWidth - it.clientWidth"
        found: int = self.js(script)
        return found

    # ---- what the browser has noted ----

    @property
    def weight(self) -> int:
        """The bytes of the page that was opened last, its files included."""
        script = (
            "return [...performance.getEntriesByType('navigation'), "
            "...performance.getEntriesByType('resource')]"
            ".filter((it) => it.initiatorType !== 'eventsource')"
            ".reduce((sum, it) => sum + it.decodedBodySize, 0)"
        )
        found: int = self.js(script)
        return found

    @property
    def paint_ms(self) -> float | None:
        """From the request for that page to the first paint of its contents; None: none yet."""
        script = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        found: float | None = self.js(script)
        return found

    def errors(self) -> list[str]:
        """Messages of the console since the last call, from warnings up."""
        found = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [it["message"] for it in found if it["level"] in {"SEVERE", "WARNING"}]

    def fetched(self) -> set[str]:
        """The addresses that were asked for since the last call."""
        found = set()
        for line in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.add(message["params"]["request"]["url"])
        return found

    def violations(self) -> list[str]:
        """What axe finds serious in the page."""
        self.js(AXE)
        found = self.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
        return [
            f"{it['id']}: {it['help']}: {[node['html'][:200] for node in it['nodes'][:5]]}"
            for it in found["violations"]
            if it["impact"] in _SERIOUS
        ]


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser for the length of a block."""
    options = ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    # Else Chromium asks its maker for updates and the like.
    for word in ("--disable-background-networking", "--disable-component-update", "--no-first-run"):
        options.add_argument(word)
    options.add_argument("--window-size=1440,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, ChromeService(shutil.which("chromedriver")))
    driver.set_page_load_timeout(60)
    driver.set_script_timeout(60)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
