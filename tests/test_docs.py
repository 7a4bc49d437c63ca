"""What the documents name is in the code, and what the code has is in the documents."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from evenhand import cli, tasks

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TASKS = tasks.known()
METRICS = {metric.name for task in TASKS.values() for metric in task.card.metrics}
COMMANDS = typer.main.get_command(cli.app).commands
COLUMNS = {"task": set(TASKS), "tasks": set(TASKS), "benchmark": set(TASKS), "metric": METRICS, "metrics": METRICS}


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def tables(text):
    """The tables of a Markdown text: header cells, and rows of cells."""
    lines = text.splitlines()
    for i in range(len(lines) - 1):
        if "|" in lines[i] and re.fullmatch(r"\s*\|?(\s*:?-+:?\s*\|?)+", lines[i + 1]):
            rows = []
            for line in lines[i + 2 :]:
                if "|" not in line:
                    break
                rows.append(cells(line))
            yield cells(lines[i]), rows


def ticked(text):
    return re.findall(r"`([^`\n]+)`", text)


def commands(text):
    """Every `evenhand ...` in a fenced block or in backticks, as words, up to a #, | or >."""
    fenced = [
        line.strip().removeprefix("$ ")
        for block in re.findall(r"```.*?\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    for line in [*fenced, *ticked(re.sub(r"```.*?```", "", text, flags=re.DOTALL))]:
        if re.match(r"evenhand [a-z-]", line):
            yield shlex.split(re.split(r"\s[#|>]", line)[0])


def checked(words):
    """What is wrong with a command of the documents, or nothing. Words in capitals stand for something."""
    name, *rest = words[1:]
    if name.startswith("-"):
        return None if name in ("--version", "--help", "-h", "--debug") else f"no option {name}"
    if name not in COMMANDS:
        return f"no command {name}"
    command = COMMANDS[name]
    if rest and rest[0] in getattr(command, "commands", ()):
        command = command.commands[rest.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h", "--debug"}
    for word, value in zip(rest, [*rest, ""][1:], strict=True):
        if word.startswith("-") and word.split("=")[0] not in options:
            return f"evenhand {name} has no option {word}"
        asked = value.split(",") if word == "--tasks" else []
        if word in ("--data", "--option"):
            asked = [re.split(r"[.=]", value)[0]]
        if unknown := [task for task in asked if task not in TASKS and not task.isupper()]:
            return f"no task {unknown[0]}"
        if word == "--option" and not value.isupper() and "KEY" not in value:
            task, _, option = value.partition("=")[0].rpartition(".")
            if option not in TASKS[task].options.model_fields:
                return f"{task} has no option {option}"
    if name == "tasks" and rest and rest[0] not in TASKS and not rest[0].isupper():
        return f"no task {rest[0]}"
    return None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_tables_name_tasks_and_metrics_that_are_there(path):
    wrong = []
    for header, rows in tables(path.read_text(encoding="utf-8")):
        for i, title in enumerate(header):
            known = COLUMNS.get(title.lower().strip("`*"))
            if known is not None:
                wrong += [name for row in rows for name in ticked(row[i]) if name not in known]
    assert not wrong


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_are_commands(path):
    found = [(shlex.join(words), checked(words)) for words in commands(path.read_text(encoding="utf-8"))]
    assert not [(command, fault) for command, fault in found if fault]


def headed(text):
    """Each part of the text under a heading, by the heading."""
    parts = re.split(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return dict(zip([title.strip().strip("`") for title in parts[1::2]], parts[2::2], strict=True))


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_and_its_metrics_are_in_the_documents(name):
    parts = {
        title: part
        for path in (ROOT / "docs").glob("*.md")
        for title, part in headed(path.read_text(encoding="utf-8")).items()
    }
    assert name in parts or any(name in ticked(title) or name in re.split(r"[, ]+", title) for title in parts)
    named = {word for part in parts.values() for word in ticked(part)}
    missing = [metric.name for metric in TASKS[name].card.metrics if metric.name not in named]
    assert not missing


def test_the_check_finds_faults():
    text = (
        "```\n$ evenhand rum demo\n```\n`evenhand run demo --tasks zebra`, "
        "`evenhand run X --option cooccurrence.x=1`, `evenhand run X --warp 9`"
    )
    faults = [checked(words) for words in commands(text)]
    assert faults == [
        "no command rum",
        "no task zebra",
        "cooccurrence has no option x",
        "evenhand run has no option --warp",
    ]
    assert list(tables("a\n| x | y |\n|---|:-:|\n| 1 | `2` |\nb")) == [(["x", "y"], [["1", "`2`"]])]
