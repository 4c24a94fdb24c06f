"""One group, its page and one browser for all tests of a module: their start takes the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.chrome import Browser, browsing, missing
from tests.browser.stage import GROUP, Stage, staged


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if absent := missing():
        pytest.skip(absent)
    with staged(tmp_path_factory.mktemp("stage")) as it:
        yield it


@pytest.fixture(scope="module")
def signed_in(stage: Stage) -> Iterator[Browser]:
    """A browser whose user has signed in."""
    with browsing() as browser:
        browser.open(f"{stage.page}/group/{GROUP}")
        browser.type("#token", stage.token)
        browser.click("#login button")
        browser.see("#members tr[data-member]")
        browser.errors()  # "401" is one: it was the page to sign in
        browser.fetched()
        yield browser


@pytest.fixture
def browser(stage: Stage, signed_in: Browser) -> Iterator[Browser]:
    """The group's page, as it is now; the console stays empty, and all comes from this server."""
    signed_in.open(f"{stage.page}/group/{GROUP}")
    yield signed_in
    assert signed_in.errors() == []
    elsewhere = {it for it in signed_in.fetched() if not it.startswith((stage.page, "data:"))}
    assert elsewhere == set()
