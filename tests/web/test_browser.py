"""The page and the report in a real browser; `make test` installs one where it may."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from records import ADVICE, append, event, line, make_run
from test_tuning_page import make_tuning, unit

from batchwright.web.folder import Folder
from batchwright.web.report import write_report
from batchwright.web.server import Server, Watcher

pytestmark = pytest.mark.browser

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MARKUP = "<img src=x onerror=window.pwned=1><b>bold</b>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield found
        found.close()


class Visit:
    """A page on a server over a folder of runs; what goes wrong in the page is kept."""

    def __init__(self, browser: Any, runs: Path) -> None:
        self.runs = runs
        self.browser = browser
        self.errors: list[str] = []
        self.server = Server(("127.0.0.1", 0), Watcher(Folder(runs)))
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.page = self.new_page()

    def new_page(self, width: int = 1200, scheme: str = "light") -> Any:
        page = self.browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(60_000)  # a machine that trains beside it is slow
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        return page

    def open(self, path: str = "#/") -> Any:
        self.page.goto(f"{self.server.link}{path}")
        return self.page

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Visit]:
    runs = tmp_path / "runs"
    for seed in range(3):
        make_run(runs / f"run-{seed}", 20, seed=seed)
    found = Visit(browser, runs)
    yield found
    found.page.close()
    found.close()


def has_text(page: Any, selector: str, text: str) -> None:
    page.wait_for_function(
        "([s, t]) => [...document.querySelectorAll(s)].some((n) => n.textContent.includes(t))", arg=[selector, text]
    )


def lines_of(page: Any, title: str) -> int:
    """How many curves a figure has, by its title."""
    return int(
        page.evaluate(
            """(title) => { const f = [...document.querySelectorAll('figure.chart')]
                 .find((n) => n.querySelector('.title').textContent === title);
                 return f ? f.querySelectorAll('g > path.line').length : -1; }""",
            title,
        )
    )


def test_a_training_is_followed_from_its_start_to_its_end(visit: Visit) -> None:
    run = visit.runs / "live"
    words = ["train", "CartPole-v1", "--total-steps", "40000", "--engine", "jax", "--quiet", "--run-dir"]
    training = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "batchwright.cli", *words, str(run)])
    page = visit.open()
    has_text(page, "td.name a", "live")
    page.click("text=live >> nth=-1")
    has_text(page, ".chip", "running")
    has_text(page, ".head", "CartPole-v1")
    page.wait_for_function("() => document.querySelectorAll('figure.chart').length > 5")
    assert training.wait(timeout=120) == 0
    has_text(page, ".chip", "finished")
    # 40,000 steps in iterations of 8 x 32.
    has_text(page, ".tile", "157")
    assert lines_of(page, "Return") >= 1
    assert (run / "report.html").is_file()
    assert visit.errors == []


def test_a_run_is_shown_whole(visit: Visit) -> None:
    events = [event("evaluation", 9, returns=[1.0, 2.0]), event("evaluation", 19, returns=[3.0, 5.0])]
    run = make_run(visit.runs / "whole", 20, events=events)
    (run / "episode.gif").write_bytes(b"GIF89a" + bytes(20))
    page = visit.open("#/run/whole")
    has_text(page, "td.reason", "why minibatch_transitions")
    has_text(page, "svg.picture text", "4 minibatches of 64")
    assert page.locator("svg .eval-median").count() == 2
    assert page.locator("img[src*='episode.gif']").count() == 1
    (run / "later.gif").write_bytes(b"GIF89a" + bytes(20))
    page.wait_for_selector("img[src*='later.gif']")
    has_text(page, "figure.chart .title", "Where the time goes")
    assert visit.errors == []


def test_advice_appears_on_an_open_page(visit: Visit) -> None:
    page = visit.open("#/run/run-0")
    has_text(page, "figure.chart .title", "Return")
    assert page.locator(".advice li").count() == 0
    append(visit.runs / "run-0" / "events.jsonl", ADVICE)
    has_text(page, ".advice h3", "the policy is collapsing")
    has_text(page, ".advice code", "--entropy-start 0.01")
    page.wait_for_selector("line.mark.advised", state="attached")


def test_runs_are_laid_over_each_other_by_choice_and_by_link(visit: Visit) -> None:
    page = visit.open()
    for name in ("run-0", "run-2"):
        page.check(f"input[aria-label='choose {name}']")
    page.click("a.button")
    has_text(page, "h1", "2 runs")
    assert page.url.endswith("#/compare/run-0,run-2")
    has_text(page, "p.note", "1 setting: the median over seeds")  # they differ in the seed alone
    page.uncheck("text=group seeds")
    page.wait_for_function("() => document.querySelectorAll('figure.hero g > path.line').length === 2")
    page.uncheck("input[aria-label='show run-0']")
    page.wait_for_timeout(300)
    assert lines_of(page, "Return") == 1
    visit.open("#/compare/run-0,run-1,run-2")
    has_text(page, "h1", "3 runs")
    has_text(page, "p.note", "1 setting: the median over seeds")
    page.uncheck("text=group seeds")
    page.wait_for_function("() => document.querySelectorAll('figure.hero g > path.line').length === 3")
    assert visit.errors == []


def test_figures_are_read_and_turned_by_keyboard(visit: Visit) -> None:
    page = visit.open("#/run/run-0")
    page.wait_for_selector("figure.chart path.line")
    plot = page.locator("figure.chart svg.plot").first
    plot.focus()
    page.keyboard.press("End")
    # The last of 20 iterations has 20 x 256 steps and the return 190.
    has_text(page, ".tip", "5,120 steps")
    has_text(page, ".tip", "190")
    page.keyboard.press("ArrowLeft")
    has_text(page, ".tip", "4,864 steps")
    page.keyboard.press("+")
    page.wait_for_selector("text=show all")
    page.keyboard.press("0")
    page.wait_for_selector("text=show all", state="detached")
    page.keyboard.press("l")
    assert page.locator("figure.chart .toggle[aria-pressed]").first.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    assert page.locator(".tip:visible").count() == 0
    page.goto(f"{visit.server.link}#/")
    page.wait_for_selector("td.name a")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "run-1":
            break
    page.keyboard.press("Enter")
    has_text(page, "h1", "run-1")
    assert visit.errors == []


@pytest.mark.parametrize("path", ["#/", "#/run/run-0", "#/compare/run-0,run-1"])
def test_a_narrow_screen_needs_no_sideways_scrolling(visit: Visit, path: str) -> None:
    visit.page.close()
    visit.page = visit.new_page(width=390)
    page = visit.open(path)
    page.wait_for_selector("td.name" if path == "#/" else "figure.chart path.line")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_text_can_be_read_in_light_and_in_dark(visit: Visit) -> None:
    backs = set()
    for scheme in ("light", "dark"):
        visit.page.close()
        visit.page = visit.new_page(scheme=scheme)
        page = visit.open("#/run/run-0")
        page.wait_for_selector("figure.chart path.line")
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        backs.add(back)
        for selector in ("h1", ".tile small", ".chart .note", ".chip", "td.reason"):
            ink = page.evaluate("(s) => getComputedStyle(document.querySelector(s)).color", selector)
            # WCAG 2.1 asks for 4.5 to 1.
            assert contrast(ink, back) >= 4.5, (scheme, selector, ink, back)
    assert len(backs) == 2


def contrast(one: str, other: str) -> float:
    """The ratio of two colours by WCAG 2.1."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_markup_in_names_stays_text(visit: Visit, tmp_path: Path) -> None:
    name = MARKUP.replace("/", "_")
    advice = {**ADVICE, "message": MARKUP, "flags": [MARKUP], "severity": MARKUP}
    run = make_run(
        visit.runs / name,
        [line(i, **{MARKUP: float(i)}) for i in range(5)],
        env=MARKUP,
        events=[advice, event("resume", 1, MARKUP)],
    )
    record = json.loads((run / "plan.json").read_text())
    record["quantities"][MARKUP] = {"value": MARKUP, "unit": MARKUP, "reason": MARKUP, "source": MARKUP}
    (run / "plan.json").write_text(json.dumps(record))
    page = visit.open()
    has_text(page, "td.name a", name)
    page.click("td.name a >> text=onerror")
    has_text(page, "figure.chart .title", MARKUP)
    has_text(page, ".advice h3", MARKUP)
    has_text(page, "td.reason", MARKUP)
    check_harmless(page)
    page.goto(write_report([run], tmp_path / "report.html").as_uri())
    has_text(page, "figure.chart .title", MARKUP)
    check_harmless(page)
    assert visit.errors == []


def check_harmless(page: Any) -> None:
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0
    assert page.locator("main b >> text=bold").count() == 0


def test_a_deleted_run_is_reported_and_what_was_read_stays(visit: Visit) -> None:
    page = visit.open("#/run/run-0")
    page.wait_for_selector("figure.chart path.line")
    shutil.rmtree(visit.runs / "run-0")
    has_text(page, ".banner", "This run was removed")
    assert lines_of(page, "Return") == 1
    shutil.rmtree(visit.runs)
    page.goto(f"{visit.server.link}#/")
    has_text(page, ".empty-state", "There is no run")


def test_the_command_prints_its_link_and_ends_cleanly_at_ctrl_c(browser: Any, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "first", 5)
    words = [sys.executable, "-m", "batchwright.cli", "watch", str(tmp_path / "runs"), "--port", "0"]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert command.stdout
    link = command.stdout.readline().split()[-1]
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.goto(link)
    has_text(page, "td.name a", "first")
    assert "token" not in page.url
    command.send_signal(signal.SIGINT)
    assert command.wait(timeout=30) == 0
    assert "Traceback" not in command.stdout.read()
    has_text(page, "#link", "no connection")
    page.close()


def test_a_report_opens_without_a_connection_and_prints(browser: Any, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"s{seed}", 20, seed=seed) for seed in range(3)]
    context = browser.new_context(offline=True)
    page = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    for report in (write_report(runs[:1]), write_report(runs, tmp_path / "all.html")):
        page.goto(report.as_uri())
        page.wait_for_selector("figure.chart path.line")
        assert page.pdf(format="A4").startswith(b"%PDF")
        # Printing draws all figures, also those that were never scrolled to.
        empty = "() => [...document.querySelectorAll('figure.chart svg.plot')].filter((n) => !n.children.length).length"
        assert page.evaluate(empty) == 0
    has_text(page, "h1", "3 runs of one setting")
    has_text(page, "th", "95% interval of the IQM")
    assert all(url.startswith(("file:", "data:")) for url in asked)
    assert errors == []
    context.close()


def test_a_tuning_is_followed_unit_by_unit(visit: Visit) -> None:
    folder = make_tuning(visit.runs / "tuning", finished=False)
    page = visit.open()
    page.click("[aria-label='tunings'] a")
    has_text(page, "h2", "Not finished")
    has_text(page, ".phases li.now", "joint search")
    assert page.locator("[aria-label='settings as lines'] path.line").count() == 3
    has_text(page, ".notes li", "at the edge")
    with (folder / "ledger.jsonl").open("a") as file:
        file.write(json.dumps(unit(4, {"learning_rate": 0.02}, 11.0, "search")) + "\n")
    has_text(page, "section", "Best so far: --learning-rate 0.02, score 11")
    make_tuning(folder)
    has_text(page, "h2", "No winner")
    for width, scheme in ((390, "dark"), (1200, "light")):
        other = visit.new_page(width, scheme)
        other.goto(f"{visit.server.link}#/tuning/tuning")
        has_text(other, "h2", "No winner")
        assert other.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
        other.close()
    assert visit.errors == []


def test_seeds_are_grouped_and_runs_are_tagged_hidden_and_saved(visit: Visit) -> None:
    for seed in range(4):
        make_run(visit.runs / f"fast-{seed}", 20, seed=seed, learning_rate=7)
    make_run(visit.runs / "killed", 5, seed=9)
    page = visit.open()
    has_text(page, "td.status .why", "killed, or its machine stopped")
    page.click("text=group seeds")
    has_text(page, "tr.group", "learning_rate 7")
    page.click("summary:has-text('columns')")
    page.click(".menu label:has-text('learning_rate')")
    has_text(page, "td.plan-value", "7")
    page.click("summary:has-text('columns')")
    page.hover("tr:has(a:text-is('killed'))")
    page.click("tr:has(a:text-is('killed')) >> text=tag")
    page.keyboard.type("broken arm")
    page.keyboard.press("Enter")
    has_text(page, "button.tag", "broken arm")
    page.hover("tr:has(a:text-is('killed'))")
    page.click("tr:has(a:text-is('killed')) >> text=hide")
    page.wait_for_selector("text=show 1 hidden")
    with page.expect_download() as saved:
        page.click("span.tools >> text=CSV")
    rows = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("run,status,learning_rate,return")
    assert len(rows) == 1 + 7  # the hidden one is left out
    page.reload()
    has_text(page, "td.plan-value", "7")  # the browser keeps what was chosen
    page.wait_for_selector("text=show 1 hidden")
    page.check("thead input[type=checkbox]")
    page.click("a.button")
    has_text(page, "p.note", "2 settings: the median over seeds")
    page.wait_for_function("() => document.querySelectorAll('figure.hero path.band').length === 2")
    assert lines_of(page, "Return") == 2
    page.hover("figure.hero")
    with page.expect_download() as saved:
        page.click("figure.hero >> text=PNG")
    assert Path(saved.value.path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with page.expect_download() as saved:
        page.click("figure.hero >> text=CSV")
    table = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    assert table[0] == "series,env_steps,Return,low,high"
    page.uncheck("text=group seeds")
    page.wait_for_function("() => document.querySelectorAll('figure.hero g > path.line').length === 7")
    assert visit.errors == []
