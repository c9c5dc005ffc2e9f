"""Pages in Debian's chromium: `make browser` installs it. Nothing here is ever skipped."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from fake_api import FakeApi, fake_api

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for each module: its event loop must not outlive the tests that need it."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed: make browser"
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", "--no-first-run", "--mute-audio"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=quiet)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens addresses; afterwards no script has failed and no other host was asked."""
    contexts, complaints = [], []

    def note(message: str) -> None:
        if not message.startswith("Failed to load resource"):  # errors that a test provokes
            complaints.append(message)

    def opened(address: str, width: int = 1280, scheme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
            accept_downloads=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        own = address.split("#")[0]
        page.on("console", lambda message: note(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: note(str(error)))
        page.on("dialog", lambda dialog: (note(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: _check_origin(request.url, own, complaints))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def _check_origin(asked: str, own: str, complaints: list[str]) -> None:
    if not asked.startswith((own, "data:", "blob:")):
        complaints.append(f"the page asked for {asked}")


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with canned answers."""
    with fake_api() as api:
        yield api


@pytest.fixture
def live(open_page: OpenPage, api: FakeApi) -> Page:
    """The live page of that server."""
    page = open_page(api.address)
    page.wait_for_selector("#model option", state="attached")
    return page


@pytest.fixture
def accessible() -> Callable[[Page], None]:
    """Asserts that axe-core finds nothing."""

    def check(page: Page) -> None:
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()

    return check
