"""The page in a real browser: Debian's chromium, driven by playwright. Skipped where they are absent, except in CI."""

import itertools
import os
import shutil
from pathlib import Path

import pytest
from pages import HOSTILE, checkpoints, cooccurrence, folder

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DRAWN = "html[data-charts=drawn]"


def absent(what):
    reason = f"needs {what}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    if not Path(CHROMIUM).exists():
        absent("chromium (apt-get install chromium)")
    try:
        import altair  # noqa: F401
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        absent(f"{error.name} (pip install 'evenhand[dev]')")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(browser, tmp_path_factory):
    from evenhand.report import html

    path = tmp_path_factory.mktemp("browser")
    one = folder(path / "one", ref="model-a")
    two = folder(path / "two", {"cooccurrence": cooccurrence(seed=1)}, ref="model-b")
    steps = checkpoints(path / "steps", [f"org/name@step{n}" for n in (1000, 200, 0, 3000)])
    words = checkpoints(path / "words", [f"org/name@{name}" for name in ("warm", "cool", "hot-as-it-can-be")])
    bad = folder(path / "bad", {"cooccurrence": cooccurrence(60, names=(HOSTILE,))}, ref=HOSTILE)
    return {
        "one": html.write([one], path / "one.html"),
        "two": html.write([one, two], path / "two.html"),
        "steps": html.write(steps, path / "steps.html"),
        "words": html.write(words, path / "words.html"),
        "bad": html.write([bad], path / "bad.html"),
    }


@pytest.fixture
def visit(browser, report):
    """Opens a page; returns it, what it said on the console, and what it asked of any network."""
    opened = []

    def go(name="one", **context):
        context = browser.new_context(**{"viewport": {"width": 1180, "height": 900}} | context)
        opened.append(context)
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(report[name].as_uri())
        page.wait_for_selector(DRAWN, timeout=30_000)
        return page, said, asked

    yield go
    for context in opened:
        context.close()


@pytest.mark.parametrize(("name", "charts"), [("one", 8), ("two", 8), ("steps", 3), ("words", 3), ("bad", 1)])
def test_it_draws_every_chart_and_asks_no_network(visit, report, name, charts):
    page, said, asked = visit(name)
    assert said == []
    assert asked == [report[name].as_uri()]
    assert page.locator(".chart svg").count() == charts
    for chart in page.locator(".chart svg").all():
        assert chart.locator("path").count() > 3


def test_hostile_names_run_nothing_and_stand_as_text(visit):
    page, said, _ = visit("bad")
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    assert said == [] and page.locator("img").count() == 0
    page.locator("#task-cooccurrence-occupations ~ details summary").click()
    cell = page.locator("#task-cooccurrence-occupations-table th", has_text="onerror")
    assert cell.inner_text() == HOSTILE.replace("\u2028", " ") or "<img src=x" in cell.inner_text()
    cell.scroll_into_view_if_needed()
    assert dialogs == []


def hover(page, chart, mark):
    """Puts the pointer on a chart's mark; returns the tooltip's text."""
    target = page.locator(f"#{chart} svg {mark}").first
    target.evaluate("""element => new Promise(done => {
        element.scrollIntoView({block: 'center', behavior: 'instant'});
        requestAnimationFrame(() => requestAnimationFrame(done));
    })""")
    box = target.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#tip:not([hidden])", timeout=5000)
    return page.locator("#tip").inner_text()


@pytest.mark.parametrize(
    ("chart", "mark", "words"),
    [
        ("task-cooccurrence-occupations", ".mark-symbol.role-mark path", ("worker", "likelihood_diff")),
        ("task-census-us-forms", ".mark-symbol.role-mark path", ("worker", "census: women")),
        ("task-stereoset-terms", ".mark-symbol.role-mark path", ("term", "ss")),
        ("task-bios-trainings", ".mark-symbol.role-mark path", ("balanced_accuracy", "gap_rms")),
    ],
)
def test_hover_names_what_is_under_the_pointer(visit, chart, mark, words):
    page, _, _ = visit()
    text = hover(page, chart, mark)
    assert all(word in text for word in words)
    page.mouse.move(2, 2)
    page.wait_for_selector("#tip", state="hidden", timeout=5000)


@pytest.mark.parametrize(
    ("name", "ticks"), [("steps", ["0", "200", "1,000", "3,000"]), ("words", ["warm", "cool", "hot-as-it-can-be"])]
)
def test_a_curve_has_a_dot_and_an_interval_per_run_in_their_order(visit, name, ticks):
    page, said, _ = visit(name)
    for chart in ("task-cooccurrence-curve-1", "task-cooccurrence-curve-2"):
        svg = page.locator(f"#{chart} svg")
        dots = svg.locator(".mark-symbol.role-mark path")
        assert dots.count() == len(ticks)
        across = [dot.bounding_box()["x"] for dot in dots.all()]
        assert across == sorted(across) and len(set(across)) == len(ticks)
        assert svg.locator(".mark-line.role-mark path").count() == 1
        assert svg.locator(".mark-rule.role-mark line").count() == len(ticks) + 1  # and the neutral value's
        labels = svg.locator(".role-axis-label").first.locator("text").all()
        assert [label.inner_html() for label in labels] == ticks
        boxes = [label.bounding_box() for label in labels]
        assert all(a["x"] + a["width"] < b["x"] for a, b in itertools.pairwise(boxes))
    assert said == []
    hovered = hover(page, "task-cooccurrence-curve-1", ".mark-symbol.role-mark path")
    assert ("step0" if name == "steps" else "warm") in hovered and "likelihood_diff" in hovered


def values(page, table, column):
    cells = page.locator(f"#{table} tbody tr").evaluate_all(
        "(rows, at) => rows.map(row => row.cells[at].dataset.sort ?? row.cells[at].textContent.trim())", column
    )
    return [cell for cell in cells if cell not in ("", "\N{EN DASH}")]


def test_tables_sort_by_click(visit):
    page, _, _ = visit()
    page.locator("#task-cooccurrence-occupations ~ details summary").click()
    table = "task-cooccurrence-occupations-table"
    head = page.locator(f"#{table} thead th").nth(2)
    for direction, reverse in (("ascending", False), ("descending", True), ("ascending", False)):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == direction
        found = [float(value) for value in values(page, table, 2)]
        assert found == sorted(found, reverse=reverse) and len(found) == 60
    page.locator(f"#{table} thead th").nth(0).locator("button").click()
    assert head.get_attribute("aria-sort") is None
    names = values(page, table, 0)
    assert names == sorted(names)


def test_tables_sort_by_keyboard_and_everything_is_reached_by_it(visit):
    page, _, _ = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("() => location.hash") == "#main"
    button = page.locator("#task-cooccurrence-metrics thead button").nth(1)
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator("#task-cooccurrence-metrics thead th").nth(1).get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert page.locator("#task-cooccurrence-metrics thead th").nth(1).get_attribute("aria-sort") == "descending"
    summary = page.locator("#task-cooccurrence-occupations ~ details summary")
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("#task-cooccurrence-occupations-table").is_visible()


LUMINANCE = """element => {
  const channels = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = colour => { const [r, g, b] = channels(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  let under = element;
  while (getComputedStyle(under).backgroundColor === 'rgba(0, 0, 0, 0)') under = under.parentElement;
  const style = getComputedStyle(element);
  const drawn = element.namespaceURI.endsWith('svg') ? style.fill : style.color;
  const [high, low] = [light(drawn), light(getComputedStyle(under).backgroundColor)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_light_and_dark(visit, scheme):
    page, _, _ = visit(color_scheme=scheme)
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) > 400) == (scheme == "light")
    wanted = "p, h1, h2, h3, summary, thead button, tbody td, tbody th, small, dt, dd, .bar a, .who, li"
    for place in (wanted, ".chart svg text"):
        found = page.locator(place).evaluate_all(
            f"es => es.filter(e => e.textContent.trim() && e.getClientRects().length).map({LUMINANCE})"
        )
        assert len(found) > 20 and min(found) >= 4.5


@pytest.mark.parametrize("name", ["one", "two", "bad"])
def test_a_phone_scrolls_in_one_direction(visit, name):
    page, said, _ = visit(name, viewport={"width": 360, "height": 740}, device_scale_factor=2, is_mobile=True)
    assert said == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    for chart in page.locator(".chart svg").all():
        assert chart.bounding_box()["width"] <= 360


def test_paper_has_the_charts_and_no_controls(visit):
    page, _, _ = visit(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible() and not page.locator("summary").first.is_visible()
    assert page.locator(".chart svg").first.is_visible() and page.locator("#task-bios-metrics").is_visible()
    assert len(page.pdf(format="A4")) > 20_000


def test_without_scripts_the_numbers_are_there(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report["one"].as_uri())
    assert "The charts need JavaScript" in page.locator("body").inner_text()
    assert page.locator("#task-cooccurrence-occupations-table tbody tr").count() == 60
    context.close()
