"""The main job on the demo model: the harness's figures, whatever the batches, and a run that goes on."""

import json

import pytest

import evenhand

# What lm-evaluation-harness 0.4.13 gives for the same model and rows (hf, batch 16, float32); benchmarks/ asks it anew
HARNESS = {
    "reconstruction_best_effort.csv": (351, -1.2033, 0.837607),
    "verified_rows.csv": (177, -1.142363, 0.841808),
}


@pytest.fixture(scope="module")
def runs(shared, tmp_path_factory):
    """Each file of rows measured once, with the command's default batches."""
    return {
        name: evenhand.run(
            "demo",
            "cooccurrence",
            data={"cooccurrence": shared / "data" / "cooccurrence" / name},
            out=tmp_path_factory.mktemp("demo") / "run",
        )
        for name in HARNESS
    }


@pytest.mark.parametrize("name", HARNESS)
def test_the_harness_s_figures_with_intervals(runs, name):
    n, diff, preferred = HARNESS[name]
    metrics = runs[name].results["tasks"]["cooccurrence"]["metrics"]
    for metric, value in (("likelihood_diff", diff), ("pct_male_preferred", preferred)):
        assert metrics[metric]["n"] == n
        assert metrics[metric]["value"] == pytest.approx(value, abs=1e-4)
        assert metrics[metric]["ci_low"] < metrics[metric]["value"] < metrics[metric]["ci_high"]
    assert metrics["likelihood_diff"]["reading"] == "leans male"


def test_small_batches_give_the_same_records(runs, shared, tmp_path):
    name = "verified_rows.csv"
    small = evenhand.run(
        "demo",
        "cooccurrence",
        data={"cooccurrence": shared / "data" / "cooccurrence" / name},
        out=tmp_path / "small",
        batch_tokens=16,
        limit=60,
    )
    large = {row["item"]: row for row in runs[name].records("cooccurrence")}
    rows = small.records("cooccurrence")
    assert len(rows) == 60
    for row in rows:
        for column, value in row.items():
            if isinstance(value, float):
                assert value == pytest.approx(large[row["item"]][column], abs=1e-4)


def test_the_same_run_again_asks_nothing(runs, shared):
    name = "verified_rows.csv"
    before = (runs[name].path / "results.json").read_bytes()
    evenhand.run(
        "demo",
        "cooccurrence",
        data={"cooccurrence": shared / "data" / "cooccurrence" / name},
        out=runs[name].path,
    )
    assert (runs[name].path / "results.json").read_bytes() == before
    about = json.loads((runs[name].path / "run.json").read_text())
    assert about["work"]["passes"] == 0
    assert about["model"]["revision"].startswith("gguf-q4_k_m-a5fd3b62")


def test_the_notices_of_the_weights_are_kept(runs):
    from evenhand.models import LoadOptions
    from evenhand.models.packaged import PACKAGED, packaged

    kept = {path.name for path in packaged("demo", LoadOptions(offline=True)).iterdir()}
    assert {"NOTICE-NOTICE.md", "NOTICE-GEMMA_TERMS.html", "model.safetensors", "tokenizer.json"} <= kept
    assert "Terms of Use" in PACKAGED["demo"].terms
