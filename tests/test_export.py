"""Exports: every number there, nothing escapes, and others' readers read it."""

import csv
import io
import json
import re

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.repocard_data import model_index_to_eval_results

from evenhand.report import exports

HOSTILE = r"50% of_A & B #1 {x} ~ ^ \cmd $ <b>|*`[z]"


def estimate(value, low=None, high=None, **more):
    base = {"value": value, "ci_low": low, "ci_high": high, "level": 0.95, "n": 40, "n_undefined": 0}
    interval = None if low is None else "bca cluster bootstrap"
    return base | {"interval": interval, "unit": "percent", "neutral": 50, "reason": None, "reading": "leans"} | more


@pytest.fixture
def results():
    first = {
        "version": 1, "method": HOSTILE, "form": "cloze", "data": {"source": HOSTILE, "sha256": "ab" * 32, "n": 40},
        "metrics": {
            "ss": estimate(52.123456789012345, 47.25, 57.5),
            "none": estimate(None, reason="no row, has\na value", reading=""),
        },
        "groups": [
            {"by": {"target": f"{HOSTILE} {i}"}, "n": i, "metrics": {"ss": estimate(50.0 + i)}} for i in range(20)
        ],
        "notes": [HOSTILE], "context": [],
    }  # fmt: skip
    gap = estimate(0.25, 0.1, 0.4, unit="share", best=0, neutral=None)
    second = first | {"metrics": {"gap": gap}, "groups": []}
    model = {"ref": "owner/name_x", "kind": "causal", "revision": "r1", "dtype": "float32", "fingerprint": "f"}
    return {"schema": 1, "model": model, "tasks": {"stereoset": first, "other": second}, "warnings": []}


def test_csv_has_every_metric_and_group_with_every_digit(results):
    rows = list(csv.DictReader(io.StringIO(exports.as_csv(results))))
    assert len(rows) == 2 + 20 + 1
    assert rows[0] == {
        "model": "owner/name_x", "revision": "r1", "dtype": "float32", "task": "stereoset", "version": "1",
        "method": HOSTILE, "form": "cloze", "data": HOSTILE, "sha256": "ab" * 32, "group": "", "metric": "ss",
        "value": repr(52.123456789012345), "ci_low": "47.25", "ci_high": "57.5", "level": "0.95",
        "interval": "bca cluster bootstrap", "n": "40", "n_undefined": "0", "neutral": "50", "best": "",
        "unit": "percent", "reading": "leans", "reason": "",
    }  # fmt: skip
    assert (rows[1]["value"], rows[1]["reason"]) == ("", "no row, has\na value")
    assert rows[5]["group"] == f"target={HOSTILE} 3"
    assert rows[-1]["task"] == "other" and rows[-1]["best"] == "0"


def test_latex_is_escaped_and_each_row_has_all_cells(results):
    text = exports.as_latex(results)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 3
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    plain = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum|textless|textgreater)\{\}|\\[&%$#_{}]", "", body)
    assert not re.search(r"[%$#_~^<>]", plain)
    assert plain.count("{") == plain.count("}")
    for line in plain.splitlines():
        if line.endswith(r" \\"):
            assert line.count(" & ") in (2, 5)
    assert r"50\% of\_A \& B \#1 \{x\}" in text
    assert "8 more groups" in text


def test_markdown_is_escaped_and_each_row_has_all_cells(results):
    text = exports.as_markdown(results)
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith("|")]
    widths = {len(re.split(r"(?<!\\)\|", row)) for row in rows}
    assert widths == {8, 5}
    assert "<b>" not in text.replace(r"\<b\>", "")
    assert "no row, has\\\\na value" in text
    assert "| ss | 52.12 | \\[47.2, 57.5\\] | neutral 50 | 40 | leans |" in text


def test_model_index_is_what_huggingface_hub_reads(results):
    text = exports.as_model_index(results)
    index = yaml.safe_load(text)["model-index"]
    name, found = model_index_to_eval_results(index)
    assert name == "owner/name_x"
    assert [(one.task_name, one.metric_type, one.metric_value) for one in found] == [
        ("stereoset", "ss", 52.123456789012345), ("other", "gap", 0.25),
    ]  # fmt: skip
    assert found[0].metric_args["ci_low"] == 47.25
    assert found[0].dataset_revision == "ab" * 32
    card = ModelCard(f"---\n{text}---\n# A model\n")
    assert card.data.eval_results == found
    assert ModelCardData(model_name=name, eval_results=found).to_yaml().strip() == text.strip()


def test_lm_eval_has_its_shape(results):
    found = json.loads(exports.as_lm_eval(results))
    assert found["results"]["stereoset"] == {
        "alias": "stereoset", "ss,none": 52.123456789012345, "ss_stderr,none": "N/A",
    }  # fmt: skip
    assert found["versions"] == {"stereoset": 1, "other": 1}
    assert found["n-samples"]["other"] == {"original": 40, "effective": 40}
    assert found["higher_is_better"] == {"stereoset": {"ss": None, "none": None}, "other": {"gap": False}}
    assert set(found["configs"]) == set(found["n-shot"]) == set(found["results"])
    assert found["evenhand"]["stereoset"]["metrics"]["ss"]["ci_high"] == 57.5


def test_no_tasks_is_nothing_but_heads(results):
    empty = results | {"tasks": {}}
    for write in exports.FORMATS.values():
        assert write(empty).endswith("\n")


def test_the_command(cli, results, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text(json.dumps(results))
    for name, write in exports.FORMATS.items():
        done = cli("export", "run", "--format", name)
        assert (done.rc, done.stderr, done.stdout) == (0, "", write(results))
        assert cli("export", "run", "--format", name, "--out", "out.txt")[:2] == (0, "")
        assert (tmp_path / "out.txt").read_text() == write(results)
    for args, words in (
        (["run", "--format", "word"], "--format"), (["run"], "--format"),
        (["absent", "--format", "csv"], "no run folder"),
        (["run", "--format", "csv", "--out", "absent/x.csv"], "cannot write absent/x.csv"),
    ):  # fmt: skip
        done = cli("export", *args)
        assert (done.rc, done.stdout) == (2, "")
        assert 1 <= done.stderr.count("\n") <= 2
        assert words in done.stderr
