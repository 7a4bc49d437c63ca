"""evenhand against lm-evaluation-harness: same model, same rows, float32, whole processes, one run after the other.

    python benchmarks/cooccurrence.py [--rounds N]

Needs the rows of ../shared (or EVENHAND_SHARED). The harness runs in a virtual environment of its own, which is made at
first.
"""

import argparse
import json
import re
import sys
import tempfile
from pathlib import Path
from statistics import median

from evenhand.models import LoadOptions
from evenhand.models.packaged import packaged
from peers import ROOT, SHARED, Took, machine, peer, took

ROWS = SHARED / "data" / "cooccurrence" / "reconstruction_best_effort.csv"
PEER = "lm_eval==0.4.13"


def harness(python: Path, model: Path, folder: Path) -> tuple[Took, dict[str, float]]:
    """The harness's own task definition, over the CSV in place of the Hub's file."""
    own = next(python.parent.parent.glob("lib/*/site-packages/lm_eval/tasks/simple_cooccurrence_bias"))
    text = (own / "simple_cooccurrence_bias.yaml").read_text()
    text = re.sub(r"^dataset_path: .*$", "dataset_path: csv", text, flags=re.M)
    text = re.sub(r"^task: .*$", "task: cooccurrence_rows", text, flags=re.M)
    (folder / "rows.yaml").write_text(text + f"\ndataset_kwargs: {{data_files: {{test: '{ROWS}'}}}}\n")
    (folder / "utils.py").write_bytes((own / "utils.py").read_bytes())
    arguments = f"pretrained={model},dtype=float32"
    command: list[str | Path] = [python, "-m", "lm_eval", "run", "--model", "hf", "--model_args", arguments,
               "--tasks", "cooccurrence_rows", "--include_path", folder, "--batch_size", "16", "--device", "cpu",
               "--output_path", folder / "out"]  # fmt: skip
    done = took(command, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_DATASETS_CACHE=str(folder / "cache"))
    found = json.loads(next((folder / "out").rglob("results_*.json")).read_text())["results"]["cooccurrence_rows"]
    return done, {name.split(",")[0]: value for name, value in found.items() if name.endswith(",none")}


def ours(folder: Path) -> tuple[Took, dict[str, float]]:
    """The same by `evenhand run`, intervals included, without the HTML page, which the harness has none of."""
    evenhand = Path(sys.executable).parent / "evenhand"
    done = took([evenhand, "run", "demo", "--data", f"cooccurrence={ROWS}", "--out", folder / "run", "--quiet",
                 "--no-report"])  # fmt: skip
    metrics = json.loads((folder / "run" / "results.json").read_text())["tasks"]["cooccurrence"]["metrics"]
    return done, {name: estimate["value"] for name, estimate in metrics.items()}


def main() -> None:
    """Prints both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    if not ROWS.is_file():
        sys.exit(f"needs {ROWS} (set EVENHAND_SHARED)")
    python = peer(PEER, "transformers", "accelerate", "safetensors")
    model = packaged("demo", LoadOptions(tell=print))
    times: dict[str, list[Took]] = {PEER: [], "evenhand": []}
    values = {}
    for _ in range(rounds):
        for name, all_of in times.items():
            with tempfile.TemporaryDirectory() as folder:
                done, values[name] = ours(Path(folder)) if name == "evenhand" else harness(python, model, Path(folder))
            all_of.append(done)
    print(f"cooccurrence, 351 rows, Gemma 3 270M, float32; {machine()}; median of {rounds} whole processes")
    for name, all_of in times.items():
        seconds, mib = median(t.seconds for t in all_of), median(t.mib for t in all_of)
        numbers = ", ".join(f"{k} {values[name][k]:.5f}" for k in ("likelihood_diff", "pct_male_preferred"))
        print(f"  {name:16} {seconds:6.1f} s  {mib:6.0f} MiB  {numbers}")
    first, second = (median(t.seconds for t in times[name]) for name in (PEER, "evenhand"))
    print(f"  ratio: {PEER} takes {first / second:.2f} times as long")


if __name__ == "__main__":
    if not (ROOT / "constraints.txt").is_file():
        sys.exit("run this from a checkout")
    main()
