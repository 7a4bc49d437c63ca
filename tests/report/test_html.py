"""The page as a text: what stands in it, what can never be in it, and what it says of what is missing."""

import base64
import hashlib
import itertools
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

pytest.importorskip("altair", reason="needs evenhand[report]")

from pages import HOSTILE, MADE, bios, census, checkpoints, cooccurrence, folder, result, stereoset

from evenhand import tasks
from evenhand.errors import InputError
from evenhand.report import charts, curve, html
from evenhand.report.page import embedded
from evenhand.report.source import View, called, views

VOID = {"meta", "br", "img", "link", "input", "hr"}
OPTIONAL = {"td", "th", "tr", "li"}


class Page(HTMLParser):
    """Elements with their attributes and the text directly in them; the scripts' text apart."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID and tag not in ("path",):
            self.open.append(element)

    def handle_endtag(self, tag):
        while self.open and self.open[-1]["tag"] in OPTIONAL - {tag}:
            self.open.pop()
        if self.open and self.open[-1]["tag"] == tag:
            self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            if element["tag"] not in ("html", "body"):
                element["text"] += data

    def all(self, tag, **wanted):
        return [e for e in self.elements if e["tag"] == tag and all(e.get(k) == v for k, v in wanted.items())]


def written(out, *runs):
    return html.write(runs, out / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    return written(path, folder(path / "run"))


def specs(text):
    return json.loads(Page(text).all("script", id="specs")[0]["text"])


# What stands in it


def test_every_task_has_its_sentence_card_charts_tables_and_limits(whole):
    page = Page(whole)
    said = " ".join(e["text"] for e in page.all("main"))
    for name in ("cooccurrence", "stereoset", "census-us", "bios"):
        card = tasks.get(name).card
        assert page.all("h2", id=f"task-{name}")
        assert card.limits in said
        assert card.licence in said
        there = result(name, MADE[name](), bootstrap=0)["metrics"]  # some metrics are one form's only
        assert there
        for metric in (metric for metric in card.metrics if metric.name in there):
            assert metric.name in said
            assert re.sub(r"\s+", " ", metric.text) in re.sub(r"\s+", " ", said)
    assert set(specs(whole)) == {
        "task-cooccurrence-occupations", "task-stereoset-plane", "task-stereoset-terms", "task-census-us-forms",
        "task-census-us-predicates", "task-census-us-identifiers", "task-bios-gaps", "task-bios-trainings",
    }  # fmt: skip


def test_the_summary_gives_value_interval_and_reading(tmp_path):
    rows = cooccurrence()
    found = result("cooccurrence", rows)["metrics"]["likelihood_diff"]
    page = Page(written(tmp_path, folder(tmp_path / "run", {"cooccurrence": rows})))
    tile = re.sub(r"\s+", " ", page.all("article")[0]["text"]).replace("\N{MINUS SIGN}", "-")
    assert f"{found['value']:.2f} nats" in tile
    assert f"95% interval {found['ci_low']:.2f} to {found['ci_high']:.2f}; neutral is 0" in tile
    assert "leans male." in tile


def test_provenance_names_model_data_versions_command_and_seed(whole):
    said = Page(whole).all("table", **{"class": "provenance"})[0]["text"]
    for text in ("abc123", "f00d", "float32", "numpy 2.4.6", "evenhand run owner/model", "seed", "7", "made up",
                 hashlib.sha256(b"made up").hexdigest()):  # fmt: skip
        assert text in said


def test_headings_are_in_order_and_landmarks_are_there_once(whole):
    page = Page(whole)
    levels = [int(e["tag"][1]) for e in page.elements if re.fullmatch("h[1-6]", e["tag"])]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert len(page.all("main")) == len(page.all("header")) == len(page.all("nav")) == 1
    assert page.all("html", lang="en") and page.all("a", href="#main")
    ids = [e["id"] for e in page.elements if "id" in e]
    assert len(ids) == len(set(ids))
    assert {e["href"][1:] for e in page.all("a")} <= set(ids)


def test_every_chart_has_words_and_a_table_with_the_same_rows(whole):
    page, drawn = Page(whole), specs(whole)
    for name, spec in drawn.items():
        (place,) = page.all("div", id=name)
        assert place["role"] == "img" and len(place["aria-label"]) > 40
        table = page.elements.index(page.all("table", id=f"{name}-table")[0])
        after = page.elements[table:]
        body = [e["tag"] for e in after[: next((i for i, e in enumerate(after) if e["tag"] == "figure"), None)]]
        end = next((i for i, tag in enumerate(body[1:], 1) if tag in ("table", "h3")), len(body))
        assert body[:end].count("tr") == len(spec["datasets"]["rows"]) + 1
    for head in page.all("th"):
        assert head.get("scope") in ("col", "row")
    for table in page.all("table", **{"class": "sortable metrics"}):
        assert table["text"].strip()


def test_vega_lite_takes_the_charts(whole):
    import altair as alt

    for spec in specs(whole).values():
        alt.LayerChart.from_dict(spec, validate=True)


# What can never be in it


def test_hostile_names_are_text(tmp_path):
    rows = cooccurrence(50, names=(HOSTILE, "nurse"))
    text = written(tmp_path, folder(tmp_path / "run", {"cooccurrence": rows}, ref=HOSTILE, source=HOSTILE))
    page = Page(text)
    assert "<img src=x" not in text and not page.all("img")
    assert len(page.all("script")) == 3
    assert HOSTILE in [e["text"] for e in page.all("strong")]
    assert HOSTILE in {row["occupation"] for row in specs(text)["task-cooccurrence-occupations"]["datasets"]["rows"]}
    assert "49\u2028" not in page.all("title")[0]["text"]


def test_a_hostile_task_name_and_metric_are_text(tmp_path):
    entry = result("cooccurrence", cooccurrence())
    entry["metrics"] = {HOSTILE: entry["metrics"]["likelihood_diff"] | {"reading": HOSTILE}}
    entry |= {"notes": [HOSTILE], "method": HOSTILE, "options": {HOSTILE: HOSTILE}}
    text = written(tmp_path, folder(tmp_path / "run", {}, entries={HOSTILE: entry}))
    assert not Page(text).all("img")
    assert len(Page(text).all("script")) == 2


def test_json_in_a_script_cannot_end_it():
    text = embedded({"a": HOSTILE})
    assert not set(text) & set("<>&\u2028") and json.loads(text) == {"a": HOSTILE}


def test_nothing_is_outside_and_only_its_own_scripts_run(whole):
    page = Page(whole)
    assert not [e for e in page.elements if "src" in e or e["tag"] in ("link", "iframe", "object", "base", "form")]
    assert all(e["href"].startswith("#") for e in page.elements if "href" in e)
    assert not re.search(r"@import|url\(", page.all("style")[0]["text"])
    (policy,) = (e["content"] for e in page.all("meta") if e.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe-eval" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", whole, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy


def test_all_tasks_at_the_benchmarks_sizes_stay_under_three_megabytes(tmp_path):
    made = {"cooccurrence": cooccurrence(349, ("neutral", "competent", "incompetent")), "stereoset": stereoset(79),
            "bios": bios()}  # fmt: skip
    made |= {f"census-{name}": census(occupations) for name, occupations in (("us", 354), ("no", 417), ("fr", 225))}
    path = html.write([folder(tmp_path / "run", made, bootstrap=0)], tmp_path / "page.html")
    assert path.stat().st_size < 3 * 1024 * 1024


# What is missing


def problems(text):
    section = Page(text).all("section", **{"class": "alerts"})
    return section[0]["text"] if section else ""


def test_missing_records_cost_their_charts_and_nothing_else(tmp_path):
    run = folder(tmp_path / "run", {"cooccurrence": cooccurrence(), "stereoset": stereoset()})
    (run / "records" / "cooccurrence.parquet").unlink()
    (run / "records" / "stereoset.parquet").write_bytes(b"no parquet")
    text = written(tmp_path, run)
    assert "cooccurrence: the records cannot be read" in problems(text)
    assert "stereoset: the records cannot be read" in problems(text)
    assert set(specs(text)) == {"task-stereoset-plane", "task-stereoset-terms"}  # drawn from results.json
    assert Page(text).all("table", id="task-cooccurrence-metrics")


def test_a_task_that_failed_is_named_and_the_rest_is_shown(tmp_path):
    run = folder(
        tmp_path / "run", {"bios": bios()}, spec={"tasks": ["bios", "census-us"]}, entries={"broken": {"metrics": 3}}
    )
    text = written(tmp_path, run)
    assert "census-us: asked for, but not in the results" in problems(text)
    assert "broken: its entry in results.json cannot be read" in problems(text)
    assert Page(text).all("h2", id="task-bios") and not Page(text).all("h2", id="task-broken")


@pytest.mark.parametrize("task", ["cooccurrence", "stereoset", "census-us", "bios"])
def test_rows_of_another_shape_draw_nothing(tmp_path, task):
    made = {"cooccurrence": cooccurrence, "stereoset": stereoset, "census-us": census, "bios": bios}[task]()
    run = folder(tmp_path / "run", {task: made})
    results = json.loads((run / "results.json").read_text())
    results["tasks"][task]["groups"] = [{"by": {"bias_type": "x", "format": "y", "class": "z"}, "n": 1, "metrics": {}}]
    (run / "results.json").write_text(json.dumps(results))
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([{"item": "a"}]), run / "records" / f"{task}.parquet")
    text = written(tmp_path, run)
    assert specs(text) == {}
    assert Page(text).all("table", id=f"task-{task}-metrics")


def test_without_run_json_the_page_says_so(tmp_path):
    text = written(tmp_path, folder(tmp_path / "run", {"bios": bios()}, meta=False))
    assert "run.json cannot be read" in problems(text)


def test_an_undefined_value_is_given_with_its_reason(tmp_path):
    entry = result("cooccurrence", cooccurrence())
    entry["metrics"]["likelihood_diff"] |= {
        "value": None,
        "ci_low": None,
        "ci_high": None,
        "reason": "nobody was asked",
    }
    text = written(tmp_path, folder(tmp_path / "run", {}, entries={"cooccurrence": entry}))
    assert re.search(r"undefined\s*\(nobody was asked\)", Page(text).all("article")[0]["text"])


def test_an_unknown_task_has_its_metrics_alone(tmp_path):
    entry = result("cooccurrence", cooccurrence())
    text = written(tmp_path, folder(tmp_path / "run", {}, entries={"elsewhere": entry}))
    page = Page(text)
    assert page.all("table", id="task-elsewhere-metrics") and specs(text) == {} and not page.all("figure")
    assert "not installed" in page.all("section")[1]["text"]
    assert problems(text) == ""
    assert len(text) < 100_000  # no library for charts that are not there


# Several runs


def test_runs_stand_side_by_side(tmp_path):
    one = folder(tmp_path / "one", ref="model-a")
    two = folder(
        tmp_path / "two", {"cooccurrence": cooccurrence(seed=1), "bios": bios(seed=1)}, ref="model-b", method="other"
    )
    text = written(tmp_path, one, two)
    page = Page(text)
    heads = [e["text"] for e in page.all("th", scope="col")]
    assert heads.count("model-a") >= 3 and heads.count("model-b") >= 3
    rows = specs(text)["task-cooccurrence-occupations"]["datasets"]["rows"]
    assert {row["run"] for row in rows} == {"model-a", "model-b"}
    said = [e["text"] for e in page.all("p", **{"class": "unlike"})]
    assert sum("the runs differ in method" in line for line in said) == 2
    assert sum("Not measured in model-b" in line for line in said) == 2


def test_runs_of_one_model_have_names_of_their_own(tmp_path):
    found = views([folder(tmp_path / name, {"bios": bios()}) for name in ("a", "b")])
    assert [view.label for view in found] == ["owner/model (a)", "owner/model (b)"]
    same = views([tmp_path / "a", tmp_path / "a"])
    assert len({view.label for view in same}) == 2
    assert isinstance(found[0], View)


@pytest.mark.parametrize(
    ("ref", "name"),
    [("owner/model", "owner/model"), ("demo", "demo"), ("../a/b/", "b"), ("/a/b", "b"), ("masked:./x/y", "y"),
     ("api:http://h:1#m", "api:http://h:1#m"), (None, "None")],
)  # fmt: skip
def test_a_path_is_called_by_its_last_part(ref, name):
    assert called(ref) == name


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="is no run folder"):
        html.write([tmp_path], tmp_path / "x.html")
    with pytest.raises(InputError, match="is a folder; name a file"):
        html.write([folder(tmp_path / "run", {"bios": bios()})], tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        html.write([tmp_path / "run"], tmp_path / "nowhere" / "x.html")


# Revisions of one model


def curves(text):
    """The curves' rows and first axis, by their ids without the task's."""
    found = {name: spec for name, spec in specs(text).items() if "curve" in name}
    return {
        name.partition("-curve-")[2]: (spec["datasets"]["rows"], spec["layer"][-1]["encoding"]["x"])
        for name, spec in found.items()
    }


def test_checkpoints_become_a_curve_of_each_leading_metric(tmp_path):
    import altair as alt

    runs = checkpoints(tmp_path, [f"org/name@step{n}" for n in (1000, 200, 3000)])
    text = written(tmp_path, *runs)
    page, found = Page(text), curves(text)
    titles = [e["text"] for e in page.all("h3") if "along the revisions" in e["text"]]
    assert titles == [f"{name} along the revisions of org/name" for name in ("likelihood_diff", "male_leaning_rate")]
    (rows, x), (rates, _) = found["1"], found["2"]
    assert [(row["revision"], row["step"]) for row in rows] == [
        ("step200", 200), ("step1000", 1000), ("step3000", 3000)
    ]  # fmt: skip
    assert (x["title"], x["type"], x["axis"]["values"]) == ("step", "quantitative", [200, 1000, 3000])
    for i, at in ((1, 0), (0, 1), (2, 2)):
        kept = json.loads((runs[i] / "results.json").read_bytes())["tasks"]["cooccurrence"]["metrics"]
        for metric, row in (("likelihood_diff", rows[at]), ("male_leaning_rate", rates[at])):
            ends = [row[key] for key in ("value", "low", "high")]
            assert ends == pytest.approx([kept[metric][key] for key in ("value", "ci_low", "ci_high")], abs=1e-6)
    (place,) = page.all("div", id="task-cooccurrence-curve-1")
    assert "from step200 at" in place["aria-label"] and "neutral value, 0." in place["aria-label"]
    assert page.all("table", id="task-cooccurrence-curve-1-table")[0]["text"].split()[:5] == [
        "likelihood_diff", "along", "the", "revisions", "of"
    ]  # fmt: skip
    alt.LayerChart.from_dict(specs(text)["task-cooccurrence-curve-1"], validate=True)


@pytest.mark.parametrize(
    ("refs", "revision", "axis", "order"),
    [
        ([f"/x/out/checkpoint-{n}" for n in (100, 20, 3)], None, "checkpoint", ["checkpoint-3", "checkpoint-20",
         "checkpoint-100"]),
        (["out/300", "out/20", "out/1000"], None, "number", ["20", "300", "1000"]),
        ([f"scripted:step{n}" for n in (2, 1, 3)], None, "step", ["step1", "step2", "step3"]),
        ([f"http://h:1/v1#m-{n}" for n in (2, 1, 3)], None, "number", ["m-1", "m-2", "m-3"]),
        ([f"a/b@step{n}-tokens{n}B" for n in (9, 10, 8)], "c", "step", ["step8-tokens8B", "step9-tokens9B",
         "step10-tokens10B"]),
        ([f"a/b@v2-{n}" for n in ("1.5", "1.25", "3")], "c", "number", None),
        (["a/b@zeta", "a/b", "a/b@1f00"], "c", "", ["zeta", "main", "1f00"]),
        (["a/b@step1", "a/b@step2"], "c", None, None),
        (["a/b@step1", "a/b@step2", "a/b@step2"], "c", None, None),
        (["a/b-1", "a/b-2", "a/b-3"], "c", None, None),
        (["a", "b", "c"], None, None, None),
        (["demo", "a/b@step1", "a/b@step2", "c/d@step3"], "c", None, None),
    ],
)  # fmt: skip
def test_which_runs_are_revisions_of_one_model(tmp_path, refs, revision, axis, order):
    found = curve.revisions(views(checkpoints(tmp_path, refs, revision=revision, bootstrap=0)))
    assert [model.axis for model in found] == ([] if axis is None else [axis])
    if order:
        assert [name for _, name, _ in found[0].steps] == order


def test_numbers_far_apart_stand_on_a_logarithmic_axis(tmp_path):
    runs = checkpoints(tmp_path, [f"a/b@step{n}" for n in (0, 1, 8, 512, 143000)], bootstrap=0)
    rows, x = curves(written(tmp_path, *runs))["1"]
    assert (x["title"], x["scale"]["type"], x["scale"]["constant"]) == ("step, logarithmic", "symlog", 1)
    assert {(row["low"], row["high"]) for row in rows if "low" in row} in (set(), {(None, None)})


def test_two_models_have_a_curve_each_and_hostile_revisions_are_text(tmp_path):
    refs = [f"{model}@{name}" for model in ("a/b", "c/d") for name in ("x", "y", HOSTILE)]
    text = written(tmp_path, *checkpoints(tmp_path, refs, bootstrap=0))
    assert list(curves(text)) == ["1", "2", "3", "4"]
    assert [row["revision"] for row in curves(text)["3"][0]] == ["x", "y", HOSTILE]
    assert "<img src=x" not in text and len(Page(text).all("script")) == 3


def test_a_revision_without_a_value_is_in_the_table_and_fewer_than_three_values_are_no_curve(tmp_path):
    runs = checkpoints(tmp_path, [f"a/b@step{n}" for n in (1, 2, 3, 4)])
    for run, lost in ((runs[1], ["likelihood_diff", "male_leaning_rate"]), (runs[2], ["male_leaning_rate"])):
        results = json.loads((run / "results.json").read_text())
        for name in lost:
            results["tasks"]["cooccurrence"]["metrics"][name] |= {
                "value": None, "ci_low": None, "ci_high": None, "reason": "nobody was asked"
            }  # fmt: skip
        (run / "results.json").write_text(json.dumps(results))
    text = written(tmp_path, *runs)
    assert list(curves(text)) == ["1"]
    assert "nobody was asked" in Page(text).all("table", id="task-cooccurrence-curve-1-table")[0]["text"]


def test_more_runs_than_colours_use_them_again(tmp_path):
    page = Page(written(tmp_path, *checkpoints(tmp_path, [f"m{i}" for i in range(8)], bootstrap=0)))
    used = {c for e in page.elements for c in e.get("class", "").split() if re.fullmatch(r"run\d+", c)}
    assert used == {f"run{i}" for i in range(1, 7)}


# The commands


def test_the_command_writes_one_file(cli, tmp_path):
    folder(tmp_path / "run", {"bios": bios()})
    done = cli("report", "run", "--out", "x.html")
    assert (done.rc, done.stdout, done.stderr) == (0, "written to x.html\n", "")
    assert (tmp_path / "x.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    done = cli("report", "nothing", "--out", "y.html")
    assert done.rc == 2 and done.stderr.count("\n") == 1


def without_extra(tmp_path, *args):
    code = "import sys; sys.modules['altair'] = None; from evenhand import cli; cli.main()"
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, cwd=tmp_path, check=False
    )


def test_without_the_extra_report_says_what_to_install_and_run_says_nothing(script, tmp_path):
    folder(tmp_path / "run", {"bios": bios()})
    done = without_extra(tmp_path, "report", "run", "--out", "x.html")
    assert (done.returncode, done.stderr) == (
        2,
        "evenhand: a report needs more packages: pip install 'evenhand[report]'\n",
    )
    model = script(Continuation={}, default=-2)
    done = without_extra(tmp_path, "run", model, "--out", "out", "--limit", "5", "--bootstrap", "0")
    assert (done.returncode, done.stderr) == (0, "") and "page" not in done.stdout
    assert not (tmp_path / "out" / "report.html").exists()


def test_run_writes_the_page_unless_told_not_to(cli, script, tmp_path):
    command = ("run", script(Continuation={}, default=-2), "--out", "out", "--limit", "5", "--bootstrap", "0")
    done = cli(*command)
    page = tmp_path / "out" / "report.html"
    assert done.rc == 0 and "out/report.html" in done.stdout and page.exists()
    done = cli(*command, "--no-report")
    assert done.rc == 0 and "report.html" not in done.stdout
    assert not page.exists()  # it would tell of an earlier state


def test_a_report_that_fails_does_not_fail_the_run(cli, script, tmp_path):
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    done = cli("run", script(Continuation={}, default=-2), "--out", "out", "--limit", "5", "--bootstrap", "0")
    assert done.rc == 0 and "warning: no report:" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "out" / "results.json").exists()


def test_families_are_found_by_file():
    assert charts.known() == {"bios", "census", "cooccurrence", "stereoset"}
    assert charts.family("census-us") == "census"
