"""What the benchmarks share: a process's time and memory, the machine's matrix-multiply rate, a peer's environment."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("EVENHAND_SHARED", ROOT.parent / "shared"))


class Took(NamedTuple):
    """One process: seconds on the clock, peak resident memory in MiB, what it printed."""

    seconds: float
    mib: float
    output: str


def took(command: Sequence[str | Path], **environment: str) -> Took:
    """Runs a command to its end and measures it; a failing one stops the benchmark."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} failed:\n{output[-3000:]}")
    return Took(time.perf_counter() - began, usage.ru_maxrss / 1024, output)


def peer(*packages: str) -> Path:
    """The Python of .venv-bench, made at first with torch and these packages from the constraints file."""
    python = ROOT / ".venv-bench" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
    for wanted in (["torch"], list(packages)):
        subprocess.run([*install, *wanted], check=True)
    return python


def machine() -> str:
    """This machine's kind, in words."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, no GPU used"


def multiply_rate(size: int = 2048, seconds: float = 2.0) -> float:
    """This machine's float32 matrix-multiply rate in GFLOP/s, torch's default threads, the best in some seconds."""
    import torch

    a, b = torch.randn(size, size), torch.randn(size, size)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best / 1e9
