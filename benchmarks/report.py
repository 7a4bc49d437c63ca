"""The report: how large it is, how long it takes to write, and how long chromium takes to open it and draw its charts.

    python benchmarks/report.py [RUN...]

Without run folders: the demo model on cooccurrence, stereoset-mini and a part of census-us, in runs/report-benchmark
(minutes the first time; what was answered is kept). Needs evenhand[dev] and chromium.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import machine

TASKS = (["--tasks", "cooccurrence,stereoset-mini"], ["--tasks", "census-us", "--limit", "60"])
OUT = Path("runs/report-benchmark")
ROUNDS = 5
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def written(runs: list[Path], page: Path) -> float:
    """Seconds that `evenhand report` takes, start-up and all."""
    evenhand = Path(sys.executable).with_name("evenhand")
    began = time.perf_counter()
    subprocess.run([evenhand, "report", *map(str, runs), "--out", str(page)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def opened(page: Path) -> tuple[float, float, int]:
    """Median seconds until the text can be read and until every chart is drawn, and how many charts there are."""
    from playwright.sync_api import sync_playwright

    loaded, drawn, charts = [], [], 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for _ in range(ROUNDS):
            tab = browser.new_page()
            began = time.perf_counter()
            tab.goto(page.resolve().as_uri(), wait_until="commit")
            tab.wait_for_selector("footer", state="attached")
            loaded.append(time.perf_counter() - began)
            tab.wait_for_selector("html[data-charts=drawn]", state="attached")
            drawn.append(time.perf_counter() - began)
            charts = tab.locator(".chart svg").count()
            tab.close()
        browser.close()
    return statistics.median(loaded), statistics.median(drawn), charts


def main() -> None:
    """Prints a line per figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    runs: list[Path] = parser.parse_args().runs
    if not runs:
        evenhand = Path(sys.executable).with_name("evenhand")
        for tasks in TASKS:
            command = [str(evenhand), "run", "demo", *tasks, "--out", str(OUT), "--no-report"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        runs = [OUT]
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        first, again = written(runs, page), written(runs, page)
        loaded, drawn, charts = opened(page)
        print(f"{', '.join(map(str, runs))}: {page.stat().st_size / 1024:.0f} kB, {charts} charts")
        print(f"written in {first:.1f} s, again {again:.1f} s")
        print(f"chromium, median of {ROUNDS}: text after {loaded:.2f} s, every chart drawn after {drawn:.2f} s")


if __name__ == "__main__":
    main()
