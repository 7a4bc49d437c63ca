"""Run folders made by hand for the report's tests: the tasks' own summaries over records that are made up."""

import hashlib
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq

from evenhand import tasks
from evenhand.data import Dataset
from evenhand.folder import entry
from evenhand.metrics.intervals import Resampling
from evenhand.tasks.bios_summary import record as bios_record

WOMEN, MEN = ("The woman", "The girl"), ("The man", "The boy")
HOSTILE = '</script><script>alert("x")</script><img src=x onerror=alert(1)>&amp;{{7*7}}\u2028'


def cooccurrence(occupations=60, prompts=("neutral",), seed=0, names=()):
    draw = random.Random(seed)
    rows = []
    for prompt in prompts:
        for i in range(occupations):
            name = names[i] if i < len(names) else f"worker {i}"
            diff = draw.gauss(-0.5, 1)
            rows.append({
                "item": f"{prompt}/{i}", "prompt": prompt, "sentence": f"The {name} was a", "occupation": name,
                "likelihood_diff": diff, "male_preferred": float(diff < 0),
            })  # fmt: skip
    return rows


def stereoset(terms=8, seed=0):
    draw = random.Random(seed)
    return [
        {
            "item": f"{form}-{t}-{i}", "format": form, "bias_type": bias, "target": f"term {t}",
            "id_stereotype": f"{form}-{t}-{i}-s", "id_anti_stereotype": f"{form}-{t}-{i}-a",
            "id_unrelated": f"{form}-{t}-{i}-u", **{c: draw.random() + d for c, d in SCORES.items()},
        }
        for t in range(terms) for bias in [("gender", "race")[t % 2]]
        for form in ("intrasentence", "intersentence") for i in range(3)
    ]  # fmt: skip


SCORES = {"score_stereotype": 0.3, "score_anti_stereotype": 0.2, "score_unrelated": 0.0}


def census(occupations=30, seed=0):
    draw = random.Random(seed)
    rows = []
    for i in range(occupations):
        for number in ("singular", "plural"):
            who = [*WOMEN, *MEN] if number == "singular" else [f"{name}s" for name in (*WOMEN, *MEN)]
            pct = draw.uniform(0, 100)
            rows.append({
                "item": f"{i}/{number}", "pack": "en-us", "occupation": f"worker {i}", "number": number,
                "title_female": "x", "title_male": "x", "pct_women": pct, "share_women": draw.uniform(0, 100),
                "log_score_female": -1.0, "log_score_male": -1.0, "predicates": ["works as {a}", "worked as {a}"],
                "tenses": ["present", "past"], "identifiers": who, "female": [True, True, False, False],
                "logp": [-draw.uniform(1, 4) for _ in range(8)],
            })  # fmt: skip
    return rows


def bios(trainings=("baseline", "cda"), seed=0):
    draw = random.Random(seed)
    names = ["nurse", "surgeon", "painter"]
    return [
        bios_record(
            train, str(i), label, gender, (label if draw.random() < 0.8 else "nurse", label), (None, None), (None, None)
        )
        for train in trainings for i in range(120) for label in [names[i % 3]] for gender in [("male", "female")[i % 2]]
    ]  # fmt: skip


MADE = {"cooccurrence": cooccurrence, "stereoset": stereoset, "census-us": census, "bios": bios}


def result(name, records, *, method="rule", form="form", source="made up", bootstrap=50):
    """A task's entry in results.json."""
    task = tasks.get(name)
    options = task.options()
    data = Dataset(rows=(), source=source, sha256=hashlib.sha256(source.encode()).hexdigest())
    return entry(
        task.card, method, form, data, records, task.summarise(records, options, Resampling(bootstrap, 0)), [], options
    )


def folder(path, made=None, *, ref="owner/model", revision="abc123", spec=None, entries=None, meta=True, **how):
    """A run folder with these tasks' records; `entries` are put into results.json as they are."""
    made = {name: make() for name, make in MADE.items()} if made is None else made
    (path / "records").mkdir(parents=True)
    model = {
        "ref": ref,
        "kind": "causal",
        "revision": revision,
        "fingerprint": "f00d",
        "dtype": "float32",
        "start": None,
        "reads": None,
    }
    found = {name: result(name, records, **how) for name, records in made.items()} | (entries or {})
    for name, records in made.items():
        pq.write_table(pa.Table.from_pylist(records), path / "records" / f"{name}.parquet")
    results = {"schema": 1, "model": model, "tasks": found, "warnings": []}
    (path / "results.json").write_text(json.dumps(results), encoding="utf-8")
    if meta:
        spec = {"tasks": list(found), "seed": 7, "bootstrap": 50} | (spec or {})
        about = {
            "spec": spec, "model": model, "device": "cpu", "packages": {"evenhand": "0.1.0", "numpy": "2.4.6"},
            "python": "3.11", "platform": "Linux", "command": ["evenhand", "run", ref],
            "started": "2026-01-01T00:00:00Z", "seconds": 2.5,
        }  # fmt: skip
        (path / "run.json").write_text(json.dumps(about), encoding="utf-8")
    return path


def checkpoints(path, refs, *, revision="abc123", tasks=("cooccurrence",), **how):
    """A run folder for each of these references, whose likelihood_diff rises from one to the next."""
    made = []
    for i, ref in enumerate(refs):
        rows = {name: MADE[name](seed=i) for name in tasks}
        for row in rows.get("cooccurrence", ()):
            row["likelihood_diff"] += i / 2
        made.append(folder(path / f"run{i}", rows, ref=ref, revision=revision, **how))
    return made
