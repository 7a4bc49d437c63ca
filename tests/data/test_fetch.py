"""Fetched bytes: members of wheels are the pinned ones or an error; nothing is executed and nothing is left behind."""

import hashlib
import os
import socket
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import pytest

import hub_server
from evenhand.data import fetch
from evenhand.data.fetch import CHUNK, Member, cache_folder, hub_errors, hub_file, members
from evenhand.errors import InputError, ModelError

BYTES = {"toy_words/data/one.txt": b"one\r\n", "toy_words/data/big.bin": bytes(range(256)) * 8192 + b"end",
         "toy_words/data/empty": b""}  # fmt: skip


def sha(content):
    return hashlib.sha256(content).hexdigest()


def wheel(folder, name="toy-words", version="1.0.0", files=BYTES):
    """A wheel that pip takes; importing or installing it would leave a mark."""
    stem = f"{name.replace('-', '_')}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-py3-none-any.whl"
    about = f"{stem}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
        archive.writestr("toy_words/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return path


def member(path="toy_words/data/one.txt", *, name="toy-words", version="1.0.0", sha256=None):
    return Member(name, version, path, sha256 or sha(BYTES.get(path, b"")))


def read(wanted, *, offline=False):
    return [(found.path, b"".join(chunks)) for found, chunks in members(wanted, offline=offline)]


@pytest.fixture
def room(tmp_path, monkeypatch):
    """The folder that temporary files go to, so that what is left of them can be seen."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def index(tmp_path, monkeypatch, room):
    """A folder of wheels in place of pip; yields the names that were downloaded."""
    shelf, asked = tmp_path / "shelf", []

    def download(name, folder, *, offline):
        asked.append(name)
        return wheel(folder, *name.split("=="))

    shelf.mkdir()
    monkeypatch.setattr(fetch, "_download", download)
    return asked


@pytest.fixture
def pip(tmp_path, monkeypatch, room):
    """The real pip, with a folder of wheels as its only index."""
    shelf = tmp_path / "shelf"
    wheel(shelf)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (
        ("NO_INDEX", "1"),
        ("FIND_LINKS", str(shelf)),
        ("CONFIG_FILE", os.devnull),
        ("NO_CACHE_DIR", "1"),
    ):
        monkeypatch.setenv(f"PIP_{name}", value)
    return shelf


def test_members_come_in_the_order_asked_and_each_wheel_is_downloaded_once(index, room):
    wanted = [member("toy_words/data/big.bin"), member(), member(name="other-words"), member("toy_words/data/empty")]
    assert read(wanted) == [(one.path, BYTES[one.path]) for one in wanted]
    assert index == ["toy-words==1.0.0", "other-words==1.0.0"]
    assert list(room.iterdir()) == []
    assert "toy_words" not in sys.modules


def test_bytes_come_in_chunks(index):
    ((_, chunks),) = ((m, list(c)) for m, c in members([member("toy_words/data/big.bin")], offline=False))
    assert [len(chunk) for chunk in chunks] == [CHUNK, CHUNK, 3]


def test_other_bytes_than_the_pinned_ones_are_an_error_and_nothing_is_left(index, room):
    with pytest.raises(
        ModelError, match=r"one\.txt in toy_words-1\.0\.0-py3-none-any\.whl is not the file that was pinned"
    ):
        read([member(sha256="0" * 64)])
    assert list(room.iterdir()) == []


def test_a_hash_of_the_text_with_other_line_ends_does_not_do(index):
    with pytest.raises(ModelError, match="not the file that was pinned"):
        read([member(sha256=sha(b"one\n"))])


def test_a_missing_member_is_named_and_nothing_is_left(index, room):
    with pytest.raises(ModelError, match=r"toy_words-1\.0\.0-py3-none-any\.whl has no toy_words/data/none$"):
        read([member("toy_words/data/none")])
    assert list(room.iterdir()) == []


def test_what_is_not_read_to_its_end_leaves_nothing_either(index, room):
    found = members([member("toy_words/data/big.bin"), member()], offline=False)
    _, chunks = next(found)
    next(chunks)
    assert list(room.iterdir()) != []
    chunks.close()
    found.close()
    assert list(room.iterdir()) == []


def test_a_damaged_wheel_is_an_error_that_names_it(monkeypatch, room):
    def download(name, folder, *, offline):
        path = wheel(folder)
        path.write_bytes(path.read_bytes()[:500])
        return path

    monkeypatch.setattr(fetch, "_download", download)
    with pytest.raises(ModelError, match=r"toy_words-1\.0\.0-py3-none-any\.whl"):
        read([member()])
    assert list(room.iterdir()) == []


def test_a_member_that_fails_its_checksum_is_an_error_that_names_it(monkeypatch, room):
    def download(name, folder, *, offline):
        path = wheel(folder)
        path.write_bytes(path.read_bytes().replace(b"one\r\n", b"two\r\n"))
        return path

    monkeypatch.setattr(fetch, "_download", download)
    with pytest.raises(ModelError, match=r"one\.txt in toy_words-1\.0\.0-py3-none-any\.whl"):
        read([member()])


def test_offline_nothing_is_downloaded(pip):
    with pytest.raises(InputError, match=r"toy-words==1\.0\.0 has not been fetched yet; run once without --offline"):
        read([member()], offline=True)


def test_no_members_are_nothing(index):
    assert read([]) == []
    assert index == []


def test_the_users_own_pip_downloads_and_its_word_is_given_where_it_fails(pip, room):
    wanted = [member(), member(version="2.0.0")]
    found = members(wanted, offline=False)
    one, chunks = next(found)
    assert (one, b"".join(chunks)) == (wanted[0], b"one\r\n")
    with pytest.raises(
        InputError, match=r"pip cannot download toy-words==2\.0\.0: No matching distribution found"
    ) as caught:
        next(found)
    assert "\n" not in str(caught.value)
    assert list(room.iterdir()) == []


def stand_in(monkeypatch, tmp_path, code):
    """An interpreter that answers `-m pip download` with that shell code."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{code}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("echo '/usr/bin/python: No module named pip' >&2; exit 1", "No module named pip"),
        ("exit 3", "exit code 3"),
        ("exit 0", "exit code 0"),
        ("echo 'WARNING: x' >&2; echo 'ERROR: first' >&2; echo 'ERROR: last' >&2; exit 1", ": last"),
    ],
)
def test_pip_that_fails_is_an_input_error(monkeypatch, tmp_path, room, code, said):
    stand_in(monkeypatch, tmp_path, code)
    with pytest.raises(InputError) as caught:
        read([member()])
    assert str(caught.value).startswith("pip cannot download toy-words==1.0.0: ")
    assert str(caught.value).endswith(said)
    assert list(room.iterdir()) == []


def test_the_cache_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "evenhand"
    for value in ("", None):
        if value is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == Path.home() / ".cache" / "evenhand"


# --- the Hub


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """A Hub on this machine with one data set; yields its requests so far."""
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "test.csv").write_bytes(b"a,b\r\n1,2\r\n")
    with hub_server.hub(datasets={"tiny/rows": folder}) as (address, asked):
        hub_server.point(monkeypatch, tmp_path / "cache", address)
        yield asked


def test_a_file_of_a_data_set_is_fetched_once_and_is_there_offline(dataset):
    path = hub_file("tiny/rows", "test.csv", offline=False)
    assert path.read_bytes() == b"a,b\r\n1,2\r\n"
    assert any(line.startswith("GET /datasets/tiny/rows/resolve/") for line in dataset)
    before = len(dataset)
    assert hub_file("tiny/rows", "test.csv", offline=True) == path
    assert len(dataset) == before


def test_a_pinned_revision_is_asked_for(dataset):
    hub_file("tiny/rows", "test.csv", offline=False, revision=hub_server.COMMIT)
    assert all(f"/{hub_server.COMMIT}/" in line for line in dataset if "resolve" in line)


def test_a_file_or_data_set_that_is_not_there_is_refused(dataset):
    with pytest.raises(InputError, match=r"data set 'tiny/rows': no file none\.csv in it"):
        hub_file("tiny/rows", "none.csv", offline=False)
    with pytest.raises(InputError, match="data set 'tiny/none': the Hub has none of that name"):
        hub_file("tiny/none", "test.csv", offline=False)


def test_offline_a_file_that_was_never_fetched_is_refused(dataset):
    with pytest.raises(InputError, match="data set 'tiny/rows': it is not in the Hub cache"):
        hub_file("tiny/rows", "test.csv", offline=True)
    assert dataset == []


def test_the_environments_offline_counts_too(dataset, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="it is not in the Hub cache"):
        hub_file("tiny/rows", "test.csv", offline=False)
    assert dataset == []


def test_a_hub_that_is_down_is_an_input_error(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # huggingface_hub tries again for 23 seconds
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hub_server.point(monkeypatch, tmp_path / "cache", f"http://127.0.0.1:{closed.getsockname()[1]}")
        with pytest.raises(InputError, match="data set 'tiny/rows': the Hub cannot be reached"):
            hub_file("tiny/rows", "test.csv", offline=False)


def test_other_errors_pass_through():
    with pytest.raises(ZeroDivisionError), hub_errors("x", offline=False):
        raise ZeroDivisionError
    with pytest.raises(InputError, match=r"x the Hub cannot be reached \(OSError\)"), hub_errors("x", offline=False):
        raise OSError
