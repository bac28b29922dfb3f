"""The page, looked at in a real browser."""

from pathlib import Path

import pytest

from rightreasons.report import write_report

CHROMIUM = Path("/usr/bin/chromium")
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
SIZES = "[...document.images].map(image => image.naturalWidth)"
WIDTH = "document.scrollingElement.scrollWidth"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
CHARTS = "[...document.querySelectorAll('svg[role=img]')].map(c => c.getBoundingClientRect().width)"


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}; install Debian's package chromium")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def report(make_run, tmp_path):
    """Two data sets, long names, several seeds."""
    long = "a_recipe_whose_name_is_longer_than_any_telephone_is_wide"
    runs = [make_run("erm", 0.5, seed=seed) for seed in range(2)]
    runs += [make_run(long, 0.8, settings={"weight": w}) for w in (1.0, 2.0)]
    runs += [make_run("erm", data_settings={"oracle": True}, log=None, kept=None)]
    return write_report(runs, tmp_path / "report.html").as_uri()


@pytest.fixture
def look(browser, report):
    """Open the page in a window of this width; anything but silence is noted."""
    pages = []

    def opened(width, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        pages.append(page)
        page.noise = []
        page.on("console", lambda message: page.noise.append(message.text))
        page.on("pageerror", lambda error: page.noise.append(str(error)))
        page.on("request", lambda request: page.noise.append(request.url))
        page.goto(report)
        return page

    yield opened
    for page in pages:
        page.close()


def test_it_loads_alone_and_in_silence(look, report):
    page = look(1200)
    noise = [entry for entry in page.noise if not entry.startswith("data:")]
    assert noise == [report]
    assert page.title() == "Right for the right reasons?"


def test_every_picture_and_chart_is_drawn(look):
    page = look(1200)
    sizes = page.evaluate(SIZES)
    assert len(sizes) == 3 * 4
    assert min(sizes) > 0
    assert min(page.evaluate(CHARTS)) > 200


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_the_page_never_scrolls_sideways(look, width):
    page = look(width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(WIDTH) <= width


def test_the_story_fits_a_phone(browser, repair, audit, tmp_path):
    address = write_report([repair], tmp_path / "story.html", audit=audit).as_uri()
    page = browser.new_page(viewport={"width": 400, "height": 800})
    page.goto(address)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(WIDTH) <= 400
    assert min(page.evaluate(SIZES)) > 0
    assert page.locator("h2", has_text="What the repair did").is_visible()
    assert page.locator(".warning").is_visible()
    page.close()


def test_on_a_phone_the_table_scrolls_in_its_own_box(look):
    box = look(360).locator(".scroll").first
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")


def test_dark_is_dark_and_light_is_light(look):
    def brightness(scheme):
        colour = look(800, scheme).evaluate(BACKGROUND)
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    assert brightness("dark") < 150 < 600 < brightness("light")
