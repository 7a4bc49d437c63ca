"""The command line as installed: what is wrong is said in a line, with an exit code; what is right goes to stdout."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import evenhand
from evenhand import cli as commands
from evenhand import tasks
from evenhand.models.scripted import Scripted

EVENHAND = Path(sys.executable).with_name("evenhand")
COMMANDS = sorted(typer.main.get_command(commands.app).commands)
WORDS = (" female", " woman", " male", " man")


def named(value):
    """A command's words as the test's name."""
    return " ".join(value) if isinstance(value, list) else ""


@pytest.fixture
def model(script):
    """A model that finds all words alike."""
    return script(Continuation={}, default=-2)


@pytest.fixture
def nowhere(tmp_path):
    """An environment in which no Hub can be reached and nothing is cached."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return {
        "HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "0",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch, capfd):
    """The command line in this process, for the many variants of one fault; all else is run as installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")  # the command line sets it: it is taken back here

    def run(*args, **env):
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["evenhand", *map(str, args)])
        with pytest.raises(SystemExit) as left:
            commands.main()
        said = capfd.readouterr()
        return SimpleNamespace(rc=left.value.code, stdout=said.out, stderr=said.err)

    return run


def refused(done, *words, rc=2):
    """One or two lines on stderr that say these words, nothing on stdout, no traceback."""
    assert done.rc == rc, done
    assert done.stdout == ""
    assert 1 <= done.stderr.count("\n") <= 2, done.stderr
    assert done.stderr.startswith("evenhand: ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 500
    for word in words:
        assert word in done.stderr, done.stderr


# The list of the issue, as installed


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "folder"], "no config.json"),
        (["run", "MODEL", "--tasks", "cooccurence"], "did you mean 'cooccurrence'?"),
        (["run", "MODEL", "--data", "cooccurrence=other.csv"], "no column 'occupation'; its first line has: job"),
        (["run", "MODEL", "--data", "cooccurrence=empty.csv"], "empty.csv: no column 'occupation'"),
        (["run", "MODEL", "--data", "cooccurrence=header.csv"], "header.csv: has no rows"),
        (["run", "MODEL", "--data", "cooccurrence=binary.csv"], "binary.csv: not UTF-8"),
        (["run", "MODEL", "--data", "cooccurrence=absent.csv"], "cannot read absent.csv"),
        (["run", "MODEL", "--data", "cooccurrence"], "NAME=VALUE"),
        (["run", "MODEL", "--data", "zebra=header.csv"], "--data zebra"),
        (["run", "MODEL", "--option", "cooccurrence.colour=red"], "no such option"),
        (["run", "MODEL", "--limit", "0"], "--limit: 0"),
        (["run", "MODEL", "--out", "header.csv"], "cannot write to header.csv"),
        (["run", "MODEL", "--colour"], "--colour"),
        (["run", "MODEL", "--device", "gpu"], "--device: 'gpu'"),
        (["run", "MODEL", "--dtype", "int8"], "--dtype: 'int8'"),
        (["run"], "model"),
        (["measure"], "measure"),
    ],
    ids=named,
)
def test_bad_input(cli, model, table, tmp_path, args, words):
    (tmp_path / "folder").mkdir()
    for name, text in (
        ("other", "job\nnurse\n"),
        ("empty", ""),
        ("header", "occupation\n"),
        ("binary", b"\x89PNG\xff"),
    ):
        table(text, f"{name}.csv")
    refused(cli(*(model if arg == "MODEL" else arg for arg in args)), words)
    assert not (tmp_path / "runs").exists()


# What is wrong with the model


@pytest.mark.parametrize("ref", ["nobody/nothing", "nothing", "causal:nobody/nothing", "masked:nobody/nothing"])
def test_a_model_that_is_nowhere(cli, nowhere, ref):
    name = ref.split(":")[-1]
    refused(cli("run", ref, **nowhere), repr(name), "not a folder here", "the Hub cannot be reached")


@pytest.mark.parametrize("how", ["variable", "option"])
def test_a_model_that_is_not_on_this_machine(cli, nowhere, how):
    offline = ["--offline"] if how == "option" else []
    done = cli("run", "nobody/nothing", *offline, **nowhere | {"HF_HUB_OFFLINE": str(int(how == "variable"))})
    refused(done, "'nobody/nothing'", "not in the Hub cache")


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("demoo", "did you mean 'demo'"), ("./nowhere", "not a Hub id"), ("a/b/c", "not a Hub id"),
        ("casual:x/y", "did you mean 'causal'"), ("scripted:nowhere.json", "No such file"), ("", "--model"),
        ("two words", "not a Hub id"),
    ],
)  # fmt: skip
def test_a_model_s_name_that_is_wrong(cli, nowhere, ref, words):
    refused(cli("run", ref, **nowhere), words)


def test_data_that_is_not_on_this_machine(cli, model, nowhere):
    refused(cli("run", model, "--data", "cooccurrence=hub", "--offline", **nowhere), "not in the Hub cache")


def test_a_packaged_model_that_has_not_been_fetched(cli, nowhere):
    refused(cli("run", "demo", "--offline", "--quiet", **nowhere), "has not been fetched yet")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "no config.json"), ("{", "not JSON"), ("[1]", "not a JSON object"),
        ('{"architectures": ["ToyModel"]}', "no language-modelling head"), ("{}", "architectures: none"),
    ],
)  # fmt: skip
def test_a_folder_that_is_no_model(here, tmp_path, config, words):
    (tmp_path / "toy").mkdir()
    if config is not None:
        (tmp_path / "toy" / "config.json").write_text(config, encoding="utf-8")
    refused(here("run", "toy"), "toy", words)
    refused(here("run", tmp_path / "toy"), "toy", words)


@pytest.mark.parametrize(
    ("said", "head", "words"),
    [
        ("causal", "BertForMaskedLM", "is a masked language model (BertForMaskedLM), not a causal"),
        ("masked", "GPT2LMHeadModel", "is a causal language model (GPT2LMHeadModel), not a masked"),
    ],
)
def test_a_model_forced_to_be_what_it_is_not(here, tmp_path, said, head, words):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "config.json").write_text(json.dumps({"architectures": [head]}), encoding="utf-8")
    refused(here("run", f"{said}:toy"), words)


def test_a_file_is_no_model(here, table):
    refused(here("run", table("x")), "is a file")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"), ("[]", "a script is a JSON object"), ('{"Continuaton": {}}', "did you mean 'Continuation'"),
        ('{"supports": ["Telepathy"]}', "supports 'Telepathy'"), ("{}", "this model answers nothing"),
        (b"\x89PNG\x00", "not JSON"),
    ],
)  # fmt: skip
def test_a_script_that_is_wrong(here, table, text, words):
    refused(here("run", f"scripted:{table(text, 'bad.json')}"), words)


def test_a_script_with_a_gap_is_the_model_s_failure(here, script):
    refused(here("run", script(Continuation={"x": {"y": -1}})), "nothing written in Continuation", rc=3)


def test_a_script_with_words_for_numbers_is_the_model_s_failure(here, script):
    refused(here("run", script(Continuation={}, default="high")), "where log-probabilities belong", rc=3)


# What is wrong with the tasks, the data, the options


@pytest.mark.parametrize(
    ("name", "words"),
    [("cooccurence", "did you mean 'cooccurrence'?"), ("cooccurrence,zebra", "no task 'zebra'"), (",", "--tasks")],
)
def test_a_task_that_is_not_there(here, model, name, words):
    refused(here("run", model, "--tasks", name), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job\nnurse\n", "no column 'occupation'"), ("", "no column 'occupation'"), ("occupation\n", "has no rows"),
        ("occupation\n,\n", "line 2"), (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe", "not UTF-8"),
        (b"\x1f\x8b\x08\x00\xab" * 9, "not UTF-8"),
        (b"\x00\x01\x02" * 2000, "no column 'occupation'"), ("occupation\nnurse\n".encode("utf-16"), "not UTF-8"),
        ('"one\ntwo\n\nthree",x\n1,2\n', "no column 'occupation'"),
        ("x" * 200_000, "rows.csv"), ('occupation\n"nurse\n', "not a CSV row"),
        ("\n\n", "rows.csv"), ("\x1b[31mred\n", "no column 'occupation'"),
    ],
    ids=range(13),
)  # fmt: skip
def test_data_that_will_not_do(here, model, table, text, words, tmp_path):
    done = here("run", model, "--data", f"cooccurrence={table(text)}", "--out", "run")
    refused(done, "rows.csv", words)
    assert not {"\x1b", "\x00"} & set(done.stderr)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--data", "cooccurrence"], "NAME=VALUE"), (["--data", "=x"], "NAME=VALUE"),
        (["--data", "cooccurrence="], "NAME=VALUE"),
        (["--data", "zebra=x.csv"], "--data zebra"),
        (["--data", "cooccurrence=nowhere.csv"], "cannot read nowhere.csv"),
        (["--data", "cooccurrence=."], "cannot read ."),
        (["--option", "female=she"], "TASK.KEY=VALUE"), (["--option", "cooccurrence.female"], "NAME=VALUE"),
        (["--option", "cooccurrence.colour=red"], "no such option; there is: female, male, prompt, template"),
        (["--option", "cooccurrence.prompt=rude"], "'rude' will not do"), (["--option", "zebra.x=1"], "--option zebra"),
        (["--option", "cooccurrence.template=The x"], "{occupation} exactly once"),
        (["--option", "cooccurrence.female=man"], "--option cooccurrence: the female and male words must all differ"),
        (["--limit", "0"], "--limit: 0"), (["--limit", "-3"], "--limit: -3"), (["--limit", "many"], "--limit"),
        (["--seed", "-1"], "--seed"), (["--bootstrap", "-1"], "--bootstrap"), (["--batch-tokens", "0"], "--batch"),
        (["--device", "gpu"], "--device: 'gpu'"), (["--device", "cuda:x"], "--device: 'cuda:x'"),
        (["--dtype", "int8"], "--dtype: 'int8'"), (["--colour"], "--colour"), (["--out"], "--out"),
    ],
    ids=named,
)  # fmt: skip
def test_options_that_will_not_do(here, model, args, words, tmp_path):
    refused(here("run", model, *args), words)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["measure"], "measure"), (["run"], "model"), (["--colour"], "--colour"),
        (["tasks", "cooccurence"], "did you mean"),
        (["fetch"], "names"), (["fetch", "demoo"], "did you mean 'demo'"),
        (["fetch", "demo", "--offline"], "not been fetched"),
        (["tasks", "a", "b"], "b"),
    ],
    ids=named,
)  # fmt: skip
def test_commands_that_will_not_do(here, nowhere, args, words):
    done = here(*args, **nowhere)
    said = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith("fetching ")]
    done.stderr = "".join(said)
    refused(done, words)


@pytest.mark.parametrize("args", [["fetch", "cooccurrence"], ["run", "MODEL", "--data", "cooccurrence=hub"]])
def test_data_that_cannot_be_fetched(cli, model, nowhere, args):
    try:
        done = cli(*(model if arg == "MODEL" else arg for arg in args), timeout=4, **nowhere)
    except subprocess.TimeoutExpired:
        pytest.fail("still trying")
    refused(done, "the Hub cannot be reached")


# What is wrong with the output folder (one that is in use: test_run.py)


def test_a_folder_that_cannot_be(here, model, table):
    path = table("x", "file")
    refused(here("run", model, "--out", path), "cannot write to", "file")
    refused(here("run", model, "--out", path / "below"), "cannot write to", "below")
    assert path.read_text(encoding="utf-8") == "x"


def test_a_folder_with_other_things(here, model, table):
    refused(here("run", model, "--out", table("x", "thesis.txt").parent), "holds other things")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_folder_that_is_read_only(here, model, tmp_path):
    (tmp_path / "run").mkdir(mode=0o500)
    refused(here("run", model, "--out", "run"), "cannot write to run")
    refused(here("run", model, "--out", "run/below"), "cannot write to run/below")


def test_another_model_s_folder(here, model, script, tmp_path):
    assert here("run", model, "--out", "run", "--bootstrap", "0").rc == 0
    other = script("other.json", Continuation={}, default=-1)
    refused(here("run", other, "--out", "run", "--bootstrap", "0"), "another model", "--fresh")


def test_debug_shows_where(cli, model):
    done = cli("run", model, "--limit", "0", "--debug")
    assert done.rc != 0
    assert "Traceback" in done.stderr and "InputError" in done.stderr


def test_a_bug_is_a_line_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["evenhand", "tasks"])
    monkeypatch.setattr(tasks, "known", lambda: 1 / 0)
    with pytest.raises(SystemExit) as left:
        commands.main()
    said = capsys.readouterr()
    assert left.value.code == 3
    assert (said.out, said.err) == ("", "evenhand: ZeroDivisionError: division by zero (--debug shows where)\n")


# What is right


def test_the_table_and_where_it_is_kept(cli, script, tmp_path):
    leaning = script(Continuation={}, default=-2)
    done = cli("run", leaning, "--out", "run", "--bootstrap", "99", COLUMNS="200")
    assert (done.rc, done.stderr) == (0, "")
    task = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))["tasks"]["cooccurrence"]
    assert f"cooccurrence: {task['data']['n']} rows of census-us; continuation, sum-logprob" in done.stdout
    for name in task["metrics"]:
        assert re.search(rf"^ *{name} .*neutral 0", done.stdout, re.MULTILINE)
    assert "leans female" in done.stdout
    assert done.stdout.endswith("written to run/results.json\n")


def test_data_cannot_steer_the_terminal(here, model, table, tmp_path):
    path = table("occupation\n" + '"\x1b[31mred\r\u202e"\n' * 2 + "[bold]x[/bold]\n" * 2)
    done = here("run", model, "--data", f"cooccurrence={path}", "--out", "run", "--bootstrap", "0", COLUMNS="200")
    assert done.rc == 0
    assert not {"\x1b", "\r", "\u202e"} & set(done.stdout)
    assert r"\x1b[31mred" in done.stdout
    assert "[bold]x[/bold] 2" in done.stdout


def test_json_is_results_json_and_nothing_else(cli, model, tmp_path):
    done = cli("run", model, "--tasks", "cooccurrence", "--out", "run", "--bootstrap", "99", "--json")
    assert (done.rc, done.stderr) == (0, "")
    assert done.stdout == (tmp_path / "run" / "results.json").read_text(encoding="utf-8")
    json.loads(done.stdout)


@pytest.mark.parametrize("more", [[], ["other"], ["--dry-run"]])
def test_what_a_model_s_code_prints_is_not_among_the_results(here, model, script, monkeypatch, more):
    who = Scripted.identity

    def loud(self):
        print("so much to say")
        return who(self)

    monkeypatch.setattr(Scripted, "identity", loud)
    more = [script("other.json", Continuation={}, default=-1) if word == "other" else word for word in more]
    done = here("run", model, *more, "--bootstrap", "0", "--no-report", "--json")
    assert done.rc == 0 and "so much to say\n" in done.stderr
    json.loads(done.stdout)


def test_tasks_named_twice_run_once(here, model):
    done = here("run", model, "--tasks", "cooccurrence, cooccurrence,", "--bootstrap", "0")
    assert (done.rc, done.stdout.count("cooccurrence: ")) == (0, 1)


def test_the_options_arrive(cli, script, table, tmp_path):
    source = table("occupation\nnurse\npilot\n")
    model = script(Continuation={"A nurse said": {" she": -1, " he": -3}})
    done = cli(
        "run", model, "--data", f"cooccurrence={source}", "--option", "cooccurrence.template=A {occupation} said",
        "--option", "cooccurrence.female=she", "--option", "cooccurrence.male=he", "--limit", "1", "--seed", "4",
        "--bootstrap", "0", "--out", "run", "--batch-tokens", "7", "--dtype", "float32", "--device", "cpu", "--json",
    )  # fmt: skip
    assert json.loads(done.stdout)["tasks"]["cooccurrence"]["metrics"]["likelihood_diff"]["value"] == 2
    spec = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["spec"]
    wanted = {
        "limit": 1,
        "seed": 4,
        "bootstrap": 0,
        "batch_tokens": 7,
        "dtype": "float32",
        "device": "cpu",
        "out": "run",
    }
    assert wanted.items() <= spec.items()


def test_a_terminal_sees_a_bar_unless_quiet(script, tmp_path):
    import pty

    model = script(Continuation={}, default=-2)
    for quiet in (True, False):
        ours, theirs = pty.openpty()
        done = subprocess.run(
            [EVENHAND, "run", model, "--out", f"run{quiet}", "--bootstrap", "0", *(["--quiet"] if quiet else [])],
            stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path, check=True, env=os.environ | {"TERM": "xterm"},
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:  # Linux' way of saying that the other end is closed
            pass
        os.close(ours)
        assert b"results.json" in done.stdout
        assert (seen == b"") == quiet
        assert (b"cooccurrence" in seen) != quiet


def test_version(cli):
    assert cli("--version") == (0, f"evenhand {evenhand.__version__}\n", "")


def test_no_command_is_help(cli):
    done = cli()
    assert (done.rc, done.stderr) == (2, "")
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_each_command(here, name, flag):
    done = here(name, flag)
    assert (done.rc, done.stderr) == (0, "")
    command = typer.main.get_command(commands.app).commands[name]
    assert command.help.split(".")[0].split()[0] in done.stdout
    for parameter in command.params:
        assert (
            any(option in done.stdout for option in parameter.opts if len(option) > 2)
            or parameter.param_type_name == "argument"
        )


def test_tasks_lists_every_task(cli):
    done = cli("tasks", COLUMNS="200")
    assert (done.rc, done.stderr) == (0, "")
    assert all(name in done.stdout for name in tasks.known())


@pytest.mark.parametrize("name", sorted(tasks.known()))
def test_tasks_says_what_one_measures(here, name):
    done = here("tasks", name, COLUMNS="250")
    assert (done.rc, done.stderr) == (0, "")
    task = tasks.get(name)
    for word in (
        *(m.name for m in task.card.metrics),
        *(f"{name}.{o}" for o in task.options.model_fields),
        *task.card.sources,
    ):
        assert word in done.stdout


# Interrupted


def test_control_c_keeps_what_was_answered(tmp_path, script, stalling, cli):
    model = script(Continuation={}, default=-2)
    command = ("run", model, "--out", "run", "--bootstrap", "0")
    process = stalling(*command, stop=30, log=tmp_path / "asked")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    assert stderr == "evenhand: interrupted; what was answered is kept, the same command goes on from there\n"
    assert not (tmp_path / "run" / "results.json").exists()

    done = cli(*command, "--quiet")
    assert (done.rc, done.stderr) == (0, "")
    meta = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert meta["requests"]["cooccurrence"]["already_answered"] == 30
