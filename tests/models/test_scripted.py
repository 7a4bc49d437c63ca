"""The written-down model: it says what its file says, and names what the file does not."""

import json

import pytest

from evenhand.errors import InputError, ModelError
from evenhand.models import LoadOptions, load
from evenhand.requests import (
    REQUEST_TYPES,
    Chat,
    Cloze,
    Continuation,
    Embed,
    Generate,
    MaskCloze,
    NextSentence,
    Scores,
    Sentence,
    Texts,
    Vector,
)

SCRIPT = {
    "name": "toy",
    "Continuation": {"The doctor was a": {" man": -1, " woman": [-1.5, -0.25]}, "": {"He": -2}},
    "Cloze": {"The [] was late.": {"man": -0.5, "carpenter": [-1, -2, -3]}},
    "Sentence": {"He was.": [-1, -2], "Before.": {"After.": [-3, -4]}},
    "NextSentence": {"Before.": {"After.": -0.125}},
    "Generate": {"The doctor": ["was late.", "was a man."]},
    "Chat": {"Who is a nurse?": ["Anyone."]},
    "Embed": {"man": [1, 2.5]},
}


@pytest.fixture
def opened(tmp_path):
    def opened(script, name="model.json"):
        path = tmp_path / name
        path.write_text(script if isinstance(script, str) else json.dumps(script))
        return load(f"scripted:{path}", LoadOptions())

    return opened


def ask(model, *requests, answered=()):
    return dict(pair for batch in model.answer(requests, answered) for pair in batch)


def one(model, request):
    return ask(model, request)[request]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Continuation("The doctor was a", (" woman", " man")), Scores(((-1.5, -0.25), (-1.0,)))),
        (Continuation("", ("He",)), Scores(((-2.0,),))),
        (Cloze("The BLANK was late.", (4, 9), ("man", "carpenter")), Scores(((-0.5,), (-1.0, -2.0, -3.0)))),
        (Sentence("He was."), Scores(((-1.0, -2.0),))),
        (Sentence("After.", "Before."), Scores(((-3.0, -4.0),))),
        (NextSentence(first="Before.", second="After."), Scores(((-0.125,),))),
        (Generate("The doctor", 3, 5, 0), Texts(("was late.", "was a man.", "was late."))),
        (Generate("The doctor", 1, 5, 0), Texts(("was late.",))),
        (Chat("Who is a nurse?", 2, 5, 0), Texts(("Anyone.", "Anyone."))),
        (Embed("man"), Vector((1, 2.5))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_request_gets_what_is_written(opened, request_, answer):
    assert one(opened(SCRIPT), request_) == answer


def test_it_supports_what_it_has_sections_for_or_what_it_says(opened):
    assert opened(SCRIPT).supports == {*REQUEST_TYPES, MaskCloze}
    assert opened({"Cloze": {}}).supports == {Cloze, MaskCloze}
    assert opened({"supports": ["Sentence", "Embed"], "default": -1}).supports == {Sentence, Embed}
    assert opened({}).supports == frozenset()


def test_a_default_stands_in_for_log_probabilities_only(opened):
    model = opened({"supports": ["Continuation", "Cloze", "Sentence", "Generate", "Embed"], "default": -7})
    assert one(model, Continuation("x", (" a", " b"))).totals() == (-7.0, -7.0)
    assert one(model, Cloze("x y", (0, 1), ("a",))).totals() == (-7.0,)
    assert one(model, Sentence("x", "y")).totals() == (-7.0,)
    for request in (Generate("x", 1, 1, 0), Embed("x")):
        with pytest.raises(ModelError, match="nothing written"):
            one(model, request)


def test_what_is_written_wins_over_the_default(opened):
    model = opened(SCRIPT | {"default": -9})
    assert one(model, Continuation("The doctor was a", (" man", " guard"))).totals() == (-1.0, -9.0)


def test_zero_is_a_log_probability(opened):
    assert one(opened({"Sentence": {"x": 0}}), Sentence("x")).totals() == (0.0,)


@pytest.mark.parametrize(
    ("request_", "shown"),
    [
        (Continuation("The nurse was a", (" man",)), "in Continuation for 'The nurse was a' / ' man'"),
        (Continuation("The doctor was a", (" man", " cat")), "in Continuation for 'The doctor was a' / ' cat'"),
        (Cloze("A BLANK.", (2, 7), ("man",)), r"in Cloze for 'A \[\]\.' / 'man'"),
        (Sentence("Nothing."), "in Sentence for 'Nothing.'"),
        (Sentence("Nothing.", "Before."), "in Sentence for 'Before.' / 'Nothing.'"),
        (NextSentence(first="Before.", second="x"), "in NextSentence for 'Before.' / 'x'"),
        (Generate("x", 1, 1, 0), "in Generate for 'x'"),
        (Embed("x"), "in Embed for 'x'"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_is_not_written_is_named(opened, request_, shown):
    with pytest.raises(ModelError, match=f"model.json has nothing written {shown}, and no default"):
        one(opened(SCRIPT), request_)


def test_only_what_is_not_answered_comes_in_batches_of_64(opened):
    model = opened({"supports": ["Sentence"], "default": -1})
    requests = [Sentence(str(i)) for i in range(150)]
    assert [len(batch) for batch in model.answer(requests, ())] == [64, 64, 22]
    answered = set(requests[:70])
    assert list(ask(model, *requests, answered=answered)) == requests[70:]
    assert ask(model, *requests, answered=set(requests)) == {}
    assert model.work.passes == 3 + 2


def test_its_identity_is_its_content(opened):
    first, renamed, other = opened(SCRIPT), opened(SCRIPT, "b.json"), opened(SCRIPT | {"default": -1}, "c.json")
    assert first.identity() == renamed.identity()
    assert first.identity().ref == "scripted:toy"
    assert first.identity().kind == "scripted"
    assert first.identity().fingerprint != other.identity().fingerprint
    assert opened({}, "unnamed.json").identity().ref == "scripted:unnamed"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ("[1]", "a script is a JSON object, not a list"),
        ({"Continuations": {}}, "unknown section 'Continuations'; did you mean 'Continuation'?"),
        ({"supports": ["cloze"]}, "supports 'cloze'; did you mean 'Cloze'?"),
    ],
)
def test_a_bad_file_is_refused_with_its_name(opened, script, says):
    with pytest.raises(InputError) as caught:
        opened(script)
    assert says in str(caught.value)
    assert "model.json" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("supports", ["Cloze", 3, None, {"Cloze": 1}, [["Cloze"]]])
def test_supports_that_is_not_a_list_of_names_is_refused(opened, supports):
    with pytest.raises(InputError, match=r"model\.json: supports"):
        opened({"supports": supports})


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the script .*none\.json: No such file"):
        load(f"scripted:{tmp_path / 'none.json'}", LoadOptions())
    with pytest.raises(InputError, match="cannot read the script"):
        load(f"scripted:{tmp_path}", LoadOptions())
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not JSON"):
        load(f"scripted:{tmp_path / 'binary.json'}", LoadOptions())


@pytest.mark.parametrize("written", ["-1", [-1, "x"], {"a": 1}, [[-1]], True])
def test_what_is_no_log_probability_is_refused(opened, written):
    with pytest.raises(ModelError, match=r"Sentence 'x' has .* where log-probabilities belong"):
        one(opened({"Sentence": {"x": written}}), Sentence("x"))


@pytest.mark.parametrize(
    ("section", "request_"),
    [
        ({"Generate": {"x": "text"}}, Generate("x", 2, 3, 0)),
        ({"Generate": {"x": [1, 2]}}, Generate("x", 2, 3, 0)),
        ({"Embed": {"x": 3}}, Embed("x")),
        ({"Embed": {"x": ["a"]}}, Embed("x")),
        ({"Embed": {"x": "ab"}}, Embed("x")),
    ],
)
def test_what_is_no_list_of_texts_or_numbers_is_refused(opened, section, request_):
    with pytest.raises(ModelError, match=rf"{type(request_).__name__} 'x' has .* belong"):
        one(opened(section), request_)
