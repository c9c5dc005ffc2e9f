"""The live page of a real `untold serve`, with models of a few seconds, in a browser."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

SENTENCE = "a dog sees a cat ."
PATIENCE = 60_000  # milliseconds
FILES = {
    "x.po": f'msgid "{SENTENCE}"\nmsgstr "A DOG ."\n',
    "x.xlf": (
        '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
        f'<trans-unit id="u"><source>{SENTENCE}</source><target>A DOG .</target></trans-unit>'
        "</body></file></xliff>"
    ),
    "x.tmx": (
        '<tmx version="1.4"><header srclang="en"/><body><tu tuid="u"><tuv xml:lang="en"><seg>'
        f'{SENTENCE}</seg></tuv><tuv xml:lang="de"><seg>A DOG .</seg></tuv></tu></body></tmx>'
    ),
    "x.tsv": f"{SENTENCE}\tA DOG .\n",
    "x.jsonl": f'{{"source": "{SENTENCE}", "target": "A DOG ."}}\n',
}
DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const drop = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
  return !document.querySelector("main").dispatchEvent(drop);
}"""


@contextmanager
def serving(*models: object) -> Iterator[str]:
    """Starts a server at a free port; yields its address."""
    line = [sys.executable, "-m", "untold", "serve", *map(str, models), "--port", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


@contextmanager
def opened(address: str, complaints: list[str]) -> Iterator[Page]:
    """Opens a page in Debian's chromium, and notes what its scripts complain about."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed: make browser"
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=quiet)
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda each: complaints.append(each.text) if each.type == "error" else 0)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        yield page
        browser.close()


def test_a_person_translates_steps_continues_and_checks(shared_workshop: Path) -> None:
    expect.set_options(timeout=PATIENCE)
    complaints: list[str] = []
    models = (f"toy={shared_workshop / 'run'}", f"plain={shared_workshop / 'plain'}")
    with serving(*models) as address, opened(address, complaints) as page:
        translate_and_step(page)
        continue_from_a_prefix(page)
        check_a_pair_and_a_file(page)
        page.click("#translate-tab")
        page.select_option("#model", "plain")
        expect(page.locator("#status")).to_contain_text("does not separate past and future")
    expect.set_options(timeout=5000)
    assert complaints == []


def translate_and_step(page: Page) -> None:
    page.type("#text", SENTENCE)
    expect(page.locator("#status")).to_contain_text("Translated")
    assert page.input_value("#translation").strip()
    assert page.locator("#stage .source .word").all_inner_texts() == SENTENCE.split()
    last = page.inner_text("#stage .stepper:not([hidden]) output").split(" / ")
    assert last[0] == last[1]
    page.click("#stage [aria-label='First step']")
    assert page.inner_text("#stage .stepper:not([hidden]) output") == f"1 / {last[1]}"


def continue_from_a_prefix(page: Page) -> None:
    page.fill("#translation", "A DOG")
    page.wait_for_selector("#release")
    expect(page.locator("#status")).to_contain_text("Translated")
    assert page.input_value("#translation").startswith("A DOG")
    assert page.locator("#stage .note").count() >= 1


def check_a_pair_and_a_file(page: Page) -> None:
    page.click("#check-tab")
    page.fill("#check-source", SENTENCE)
    page.fill("#check-target", "A DOG .")
    page.fill("#threshold", "0")
    page.click("#check-now")
    expect(page.locator("#check-status")).to_contain_text("1 segment checked")
    assert page.locator("mark").count() > 0
    page.click("text=Step through")
    expect(page.locator("#check-stepper output")).to_have_text("4 / 4")
    for name, text in FILES.items():
        assert page.evaluate(DROP, [name, text])
        expect(page.locator("#check-status")).to_contain_text("1 segment checked")
        expect(page.locator("#check-results")).to_contain_text(name)
        assert page.locator("#check-results mark").count() > 0
