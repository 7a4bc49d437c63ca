"""DESIGN's rooms: what each part of the package never does, read off the source."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evenhand
from evenhand import tasks

PACKAGE = Path(evenhand.__file__).parent
MODULES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
HEAVY = {"torch", "transformers", "sklearn", "altair", "ray"}
BENCHMARKS = re.compile(r"stereoset|cooccurrence|census|\bbios\b|simple_cooccurrence", re.IGNORECASE)
MODELS = re.compile(
    r"\b(demo|gemma\w*|smollm\w*|minilm|bert|gpt\d?|llama|scripted|masked|causal|seq2seq)\b", re.IGNORECASE
)
GENDERS = re.compile(r"(?<![a-z])(fe)?males?(?![a-z])|(?<![a-z])(wo)?m[ae]n(?![a-z])|gender", re.IGNORECASE)


def room(*names):
    """Modules of a folder, or single ones."""
    return [name for name in MODULES if name in names or name.split("/")[0] in names]


def tree(name):
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def dotted(node, name):
    """The modules that an import statement names, absolute."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parents = ["evenhand", *Path(name).parts[:-1]]
        base = ".".join(parents[: len(parents) - node.level + 1] + ([base] if base else []))
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def imports(name):
    """Every module that a module imports, at any depth of its code."""
    nodes = [node for node in ast.walk(tree(name)) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {found for node in nodes for found in dotted(node, name)}


def at_import(nodes):
    """The import statements that run when the module is imported."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_import(ast.iter_child_nodes(node))


def words(name):
    """Identifiers and strings of a module's code; docstrings are no code."""
    whole = tree(name)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    said = set()
    for node in ast.walk(whole):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            said.add(node.body[0].value)
    for node in ast.walk(whole):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in said:
            yield node.value
        for field in ("id", "attr", "arg", "name", "module"):
            if isinstance(value := getattr(node, field, None), str):
                yield value


def calls(name):
    """Names of everything that is called."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Call):
            yield node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def roots(found):
    return {name.split(".")[0] for name in found}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_stays_under_about_300_lines(name):
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) <= 300


@pytest.mark.parametrize("name", MODULES)
def test_heavy_packages_are_imported_where_they_are_used(name):
    found = roots(module for node in at_import(tree(name).body) for module in dotted(node, name))
    allowed = {"torch"} if name == "models/forward.py" else set()
    assert not found & HEAVY - allowed


@pytest.mark.parametrize("name", ["spec.py", "requests.py", "records.py", "errors.py"])
def test_the_contract_knows_no_torch(name):
    assert not roots(imports(name)) & {*HEAVY, "tokenizers", "safetensors", "numpy"}


@pytest.mark.parametrize("name", ["run.py", "many.py", "prepare.py", "forecast.py", *room("scale")])
def test_the_loop_names_no_benchmark_and_no_model(name):
    said = [word for word in words(name) if BENCHMARKS.search(word) or MODELS.search(word)]
    named = [word for word in words(name) if word in tasks.known()]
    assert not said + named
    one = r"evenhand\.(tasks|models)\.(?!steps)\w+\.|torch"
    assert not [module for module in imports(name) if re.match(one, module)]
    assert "print" not in calls(name) and not roots(imports(name)) & {"rich", "typer"}


@pytest.mark.parametrize("name", room("tasks"))
def test_a_task_reads_no_file_and_prints_nothing(name):
    banned = {*HEAVY, "tokenizers", "safetensors", "pathlib", "os", "io", "shutil", "tempfile", "sys", "rich", "typer"}
    assert not roots(imports(name)) & banned
    assert not {"print", "open", "input", "read_text", "read_bytes", "write_text", "write_bytes"} & set(calls(name))
    assert not [module for module in imports(name) if module.startswith(("evenhand.models", "evenhand.report"))]


@pytest.mark.parametrize("name", room("data"))
def test_data_knows_no_prompts_and_no_scores(name):
    found = imports(name)
    assert not [m for m in found if re.match(r"evenhand\.(tasks|models|metrics|requests|records|report)", m)]


@pytest.mark.parametrize("name", room("models"))
def test_a_backend_knows_no_benchmark_and_no_gender(name):
    said = [word for word in words(name) if BENCHMARKS.search(word) or GENDERS.search(word)]
    assert not said
    assert not [m for m in imports(name) if re.match(r"evenhand\.(tasks|metrics|records|report|run)", m)]


@pytest.mark.parametrize("name", room("scale"))
def test_what_scales_a_run_plugs_into_an_engine_and_schedules_nothing_itself(name):
    found = roots(imports(name))
    assert not found & {"multiprocessing", "concurrent", "asyncio", "subprocess", "queue", "torch"}
    assert not {"Thread", "Timer"} & set(calls(name))  # it may wait for the engine's threads, and starts none
    assert not [m for m in imports(name) if re.match(r"evenhand\.(tasks|metrics|records|report|run|folder)", m)]


@pytest.mark.parametrize("name", room("metrics"))
def test_a_metric_is_numbers_in_and_numbers_out(name):
    found = imports(name)
    assert not roots(found) & {*HEAVY, "pathlib", "os", "io", "json", "csv", "pyarrow", "rich", "typer", "sys"}
    assert not [m for m in found if re.match(r"evenhand\.(requests|tasks|models|data|report|run|folder)", m)]
    assert not {"print", "open", "input"} & set(calls(name))


@pytest.mark.parametrize("name", room("report"))
def test_a_report_computes_nothing(name):
    found = imports(name)
    assert not roots(found) & {"numpy", "scipy", "torch", "sklearn", "statistics"}
    assert not [m for m in found if re.match(r"evenhand\.(metrics|models)", m)]


@pytest.mark.parametrize("name", ["compare.py", "gate.py"])
def test_what_reads_runs_prints_nothing_and_loads_no_model(name):
    found = imports(name)
    assert not roots(found) & {*HEAVY, "rich", "typer", "sys"}
    assert not [m for m in found if re.match(r"evenhand\.(models|report|run)", m)]
    assert "print" not in calls(name)


@pytest.mark.parametrize("name", room("selfcheck"))
def test_what_is_expected_is_worked_out_apart_from_the_metrics(name):
    found = imports(name)
    assert not roots(found) & {*HEAVY, "numpy", "scipy"}
    assert not [m for m in found if m.startswith(("evenhand.metrics", "evenhand.report"))]


def test_the_rules_see_what_they_forbid():
    source = "import a\nif TYPE_CHECKING:\n    import b\nclass C:\n    import c\ndef f():\n    import d\n"
    found = [alias.name for node in at_import(ast.parse(source).body) for alias in node.names]
    assert found == ["a", "c"]
    assert GENDERS.search("n_female") and GENDERS.search("Men") and GENDERS.search("woman")
    assert not GENDERS.search("mention") and not GENDERS.search("human")
    assert roots(imports("models/forward.py")) >= {"torch"}


@pytest.mark.parametrize("what", ["import evenhand, evenhand.cli", "import evenhand.tasks as t; t.known()"])
def test_starting_up_loads_nothing_heavy(what):
    heavy = [*HEAVY, "scipy.stats", "pyarrow", "safetensors", "tokenizers"]
    code = f"import sys\n{what}\nprint([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
