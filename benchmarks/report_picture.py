"""Make the picture in the README: the demo's report, as a browser shows it.

python benchmarks/report_picture.py [--chromium /usr/bin/chromium]
"""

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from rightreasons.cli.demo import demo

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "report.png"
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        demo(folder, progress=False)
        browser = driver.chromium.launch(executable_path=options.chromium, args=QUIET)
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.goto((Path(folder) / "report.html").as_uri())
        gallery = page.locator("h2", has_text="Where the models look").bounding_box()
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        clip = {"x": 0, "y": gallery["y"] - 16, "width": 1000, "height": 600}
        page.screenshot(path=PICTURE, full_page=True, clip=clip)
        browser.close()


if __name__ == "__main__":
    main()
