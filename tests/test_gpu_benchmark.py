"""benchmarks/gpu.py, tiny on a processor; on a GPU as it is meant, with few texts."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from evenhand import tasks

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"
DTYPES = ("float32", "bfloat16")
SPEED_CELLS, CHANGE_CELLS = 13, 7


def started(*arguments, timeout):
    command = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=timeout, check=False)


def table(text, cells):
    """The rows of the table with so many columns, without its head."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    head, rule, *found = [row for row in rows if len(row) == cells]
    assert head[0] == "model" and set(rule) == {"---"}
    return found


def checked(text, size, *, cuda):
    names = [f"{name}-{size}" for name in ("GPT-2", "BERT")]
    speed = table(text, SPEED_CELLS)
    assert [tuple(row[:3]) for row in speed] == [
        (name, task, dtype) for name in names for dtype in DTYPES for task in ("cooccurrence", "stereoset-mini")
    ]
    for row in speed:
        *numbers, peak = row[3:]
        values = [float(part.rstrip("%")) for cell in numbers for part in cell.split(" of ")]
        assert all(math.isfinite(value) and value >= 0 for value in values) and values[0] > 0
        assert float(peak) > 0 if cuda else peak == "-"
    changes = table(text, CHANGE_CELLS)
    for name in names:
        for task in ("cooccurrence", "stereoset-mini", "census-us"):
            own = [row for row in changes if row[:2] == [name, task]]
            assert {metric.name for metric in tasks.get(task).card.metrics} >= {row[2] for row in own}
            assert len(own) >= 5 and {row[3] for row in own} == {"bfloat16"}
            for before, after, change in (row[4:] for row in own):
                if "-" in (before, after, change):  # a few forms do not define every metric of the census
                    assert task == "census-us"
                    continue
                assert float(change) == pytest.approx(float(after) - float(before), abs=2e-4)
        assert f"dtype float32 in {name}-float32, bfloat16 in {name}-bfloat16: a part of the difference may" in text
    assert "multiply rate" in text and "float32 precision highest" in text


def test_the_whole_runs_tiny_on_a_processor(tmp_path):
    out = tmp_path / "table.md"
    done = started(
        "--device", "cpu", "--size", "tiny", "--dtypes", "float32,bfloat16", "--texts", 60, "--limit", 2, "--out", out,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert out.read_text() == done.stdout
    checked(done.stdout, "tiny", cuda=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_how_to_try_it():
    done = started(timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no CUDA device" in done.stderr and "--device cpu --size tiny" in done.stderr


@pytest.mark.gpu
def test_the_whole_runs_on_a_gpu():
    done = started("--texts", 900, "--limit", 10, timeout=600)
    assert done.returncode == 0, done.stderr
    checked(done.stdout, "large", cuda=True)
