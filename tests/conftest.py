"""What several test files need: the shared data folder, scripted models, the installed command, a run that stalls."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
EVENHAND = Path(sys.executable).with_name("evenhand")

# A scripted model that answers ten requests at a time, writes down each, and sleeps before the Nth.
STALLING = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may come ignored, from a shell's background job
from evenhand.models import scripted
log, stop = pathlib.Path(sys.argv.pop(1)), int(sys.argv.pop(1))
scripted.BATCH = 10
one = scripted.Scripted._one
seen = []
def watched(self, request):
    if len(seen) == stop:
        log.with_suffix(".stalled").touch()
        time.sleep(600)
    seen.append(request)
    with log.open("a", encoding="utf-8") as file:
        file.write(getattr(request, "context", "") + "\\n")
    return one(self, request)
scripted.Scripted._one = watched
from evenhand import cli
cli.main()
"""


class Done(NamedTuple):
    """A finished command."""

    rc: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def shared():
    """The folder with data of others, which is no part of the project."""
    path = (ROOT / os.environ.get("EVENHAND_SHARED", "../shared")).resolve()
    if not path.is_dir():
        reason = f"needs EVENHAND_SHARED: {path} is absent"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture
def script(tmp_path):
    """Writes a scripted model; returns what `evenhand run` takes for it."""

    def write(file="model.json", /, **sections):
        path = tmp_path / file
        path.write_text(json.dumps(sections), encoding="utf-8")
        return f"scripted:{path}"

    return write


@pytest.fixture
def table(tmp_path):
    """Writes a CSV file; returns its path."""

    def write(text, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def cli(tmp_path):
    """Runs the installed `evenhand` in a folder of the test's own."""

    def run(*args, timeout=120, **env):
        done = subprocess.run(
            [EVENHAND, *map(str, args)],
            capture_output=True, encoding="utf-8", cwd=tmp_path, env=os.environ | env, timeout=timeout, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def stalling(tmp_path):
    """Starts `evenhand ARGS` on a model that stalls before request number `stop`; returns the process, once it does."""
    started = []

    def start(*args, stop, log):
        command = [sys.executable, "-c", STALLING, str(log), str(stop), *map(str, args)]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        started.append(process)
        until = time.monotonic() + 60
        while not log.with_suffix(".stalled").exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
