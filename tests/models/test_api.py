"""Served models, without a network: how a server is found out, read, drawn from, and what its faults come to."""

import json
import logging
import signal
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import asking
import httpx
import pytest
import torch

from api_server import STYLES, Toy
from evenhand.errors import InputError, ModelError
from evenhand.models import LoadOptions, kinds, served
from evenhand.models import load as load_any
from evenhand.models.address import settings
from evenhand.models.api import load
from evenhand.models.echo import Prompt
from evenhand.models.encode import Encoder
from evenhand.requests import Chat, Continuation, Generate, Scores, Sentence, Texts

REF = "http://localhost:8000/v1#toy"
KEY = "sk-0123456789abcdef-secret"
LISTENING = [name for name, style in STYLES.items() if name not in ("texts", "deaf", "chat")]
STARTED = ["vllm", "prompt_logprobs", "strict"]
SCRIPT = {
    "Continuation": {
        "The doctor was a": {" woman": [-1.5, -0.25, -0.125], " man": -1.0},
        "The guard was a": {" woman": -2.5, " man": [-0.75, -3.5]},
    },
    "Sentence": {"It is late.": [-1.0, -2.0, -4.0], "She came. It is late.": [-1.0] * 21},
    "Generate": {"The nurse": [" was late.", " was a man.", " left.", " sang."]},
    "Chat": {"Who?": ["Anyone.", "A nurse.", "No one."]},
}
DOCTOR = Continuation("The doctor was a", (" woman", " man"))


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("KEY", "TIMEOUT", "CONCURRENCY"):
        monkeypatch.delenv(f"EVENHAND_API_{name}", raising=False)


class Wire:
    """A transport that hands a body to `reply` and keeps what was sent; `reply` gives (status, JSON) or a response."""

    def __init__(self, reply):
        self.reply = reply
        self.sent, self.pauses, self.told = [], [], []

    def __call__(self, request):
        body = json.loads(request.content) if request.content else None
        self.sent.append((request, body))
        answer = self.reply(request.url.path, body)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(answer[0], json=answer[1])

    @property
    def bodies(self):
        return [body for _, body in self.sent]

    def load(self, ref=REF, **options):
        options = LoadOptions(tell=self.told.append, **options)
        return load(ref, options, transport=httpx.MockTransport(self), pause=self.pauses.append)


def wired(style="vllm", *after, script=SCRIPT):
    """A wire to a toy server; the requests behind the probe get the replies `after` first, where they are not None."""
    toy, left = Toy(script, style), [None, *after]

    def reply(path, body):
        planned = left.pop(0) if left else None
        if callable(planned):
            return planned(*toy(path, body))
        return planned if planned is not None else toy(path, body)

    return Wire(reply)


def ask(model, *requests, answered=None):
    return dict(pair for batch in model.answer(requests, answered or {}) for pair in batch)


# --- references and the environment


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("http://localhost/v1", "write api:http://HOST:PORT/v1#MODEL"), ("http://localhost/v1#", "is no address"),
        ("localhost:8000/v1#m", "is no address"), ("ftp://localhost/v1#m", "is no address"),
        ("#m", "is no address"), ("http://#m", "is no address"), ("http://localhost:port/v1#m", "base URL is none"),
        ("http://[::1/v1#m", "base URL is none"), ("http://localhost/v1# m", "is no address"),
        ("http://me:hush@localhost/v1#m", "EVENHAND_API_KEY"), ("http://hush@localhost/v1#m", "EVENHAND_API_KEY"),
        ("http://localhost/v1?api_key=hush#m", "EVENHAND_API_KEY"),
    ],
)  # fmt: skip
def test_a_reference_that_is_none_is_refused_and_no_password_is_repeated(ref, message):
    with pytest.raises(InputError, match=message) as error:
        wired().load(ref)
    assert "hush" not in str(error.value) and "\n" not in str(error.value)


def test_the_address_and_the_model_are_taken_apart_at_the_first_hash():
    wire = wired()
    model = wire.load("http://127.0.0.1:9/v1/#org/model#2")
    assert str(wire.sent[0][0].url) == "http://127.0.0.1:9/v1/completions"
    assert wire.bodies[0]["model"] == "org/model#2"
    assert model.identity().ref == "api:http://127.0.0.1:9/v1#org/model#2"


@pytest.mark.parametrize("ref", ["http://localhost/v1#m", "http://127.0.0.9:1/v1#m", "http://[::1]:1/v1#m"])
def test_offline_asks_this_machine_only(ref):
    assert wired().load(ref, offline=True).identity().kind == "api"
    with pytest.raises(InputError, match="--offline"):
        wired().load("https://models.example.org/v1#m", offline=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("TIMEOUT", "soon"), ("TIMEOUT", "0"), ("TIMEOUT", "-1"), ("TIMEOUT", ""), ("CONCURRENCY", "0"),
     ("CONCURRENCY", "2.5"), ("CONCURRENCY", "many"), ("KEY", "two words"), ("KEY", "a\nb"), ("KEY", "schlüssel")],
)  # fmt: skip
def test_the_environment_is_checked(monkeypatch, name, value):
    monkeypatch.setenv(f"EVENHAND_API_{name}", value)
    with pytest.raises(InputError, match=f"EVENHAND_API_{name}") as error:
        settings()
    assert name != "KEY" or value not in str(error.value)


def test_without_httpx_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(InputError, match=r"pip install 'evenhand\[api\]'"):
        load_any(f"api:{REF}", LoadOptions())


def test_api_is_a_kind_of_model_and_its_inner_modules_are_none():
    assert kinds()["api"] == "evenhand.models.api"
    assert not {"served", "echo", "align", "address", "probing"} & set(kinds())


# --- finding a server out


@pytest.mark.parametrize(
    ("style", "requests", "reads", "start"),
    [
        ("vllm", 1, "echo + logprobs; a text's first token is read given the start token", "bos"),
        ("vllm-no-bos", 1, "echo + logprobs; a text's first token is not read", None),
        ("llama.cpp", 1, "echo + logprobs; a text's first token is not read", None),
        ("prompt_logprobs", 1, "prompt_logprobs; a text's first token is read given the start token", "bos"),
        ("prompt_logprobs-no-bos", 1, "prompt_logprobs; a text's first token is not read", None),
        ("strict", 2, "echo + logprobs; a text's first token is read given the start token", "bos"),
        ("texts", 3, "no log-probabilities of given text", None),
        ("deaf", 1, "no log-probabilities of given text", None),
        ("chat", 2, "chat only", None),
    ],
)
def test_one_request_finds_out_how_a_server_is_read(style, requests, reads, start):
    wire = wired(style)
    if style == "chat":
        toy = wire.reply
        wire.reply = lambda path, body: (405, {}) if path.endswith("/chat/completions") else toy(path, body)
    model = wire.load()
    assert len(wire.sent) == model.work.passes == requests
    assert (model.identity().reads, model.identity().start) == (reads, start)
    expected = {"chat": {Chat}, "texts": {Chat, Generate}, "deaf": {Chat, Generate}}
    assert model.supports == expected.get(style, {Continuation, Sentence, Chat, Generate})
    assert all(body is None or body["max_tokens"] == 1 for body in wire.bodies)  # 0 is no limit for some


def test_the_fingerprint_is_of_the_address_and_the_reading():
    seen = {
        wired(style).load(ref).identity().fingerprint
        for style in ("vllm", "vllm-no-bos", "prompt_logprobs")
        for ref in (REF, REF + "2", REF.replace("8000", "8001"))
    }
    assert len(seen) == 9
    assert wired().load().identity() == wired().load().identity()


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        ((401, {"detail": "Invalid API key"}), InputError, "401 .Invalid API key.: the key in EVENHAND_API_KEY is not"),
        ((403, {"error": {"message": "no"}}), InputError, "EVENHAND_API_KEY"),
        (httpx.ConnectError("refused"), ModelError, "localhost:8000/v1/completions cannot be reached"),
        (httpx.Response(307, headers={"Location": "https://b.example/v1"}), InputError, "sends on to https://b.exam"),
        ((404, {"detail": "Not Found"}), InputError, "usually ends in /v1"),
        ((404, {"error": {"message": "The model `toy` does not exist."}}), InputError, "is 'toy' the name"),
        ((400, {"error": {"message": "no such thing\nat all"}}), ModelError, "answers 400: no such thing at all"),
        ((422, {"detail": [{"loc": ["body"], "msg": "bad"}]}), ModelError, "answers 422: .*bad"),
    ],
)
def test_a_server_that_cannot_be_used_is_said_in_one_line(reply, error, message):
    wire = Wire(lambda path, body: reply if body else (404, {}))
    with pytest.raises(error, match=message) as raised:
        wire.load()
    assert type(raised.value).exit_code == (2 if error is InputError else 3)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 400 and not wire.pauses


def test_a_server_that_fails_at_echo_is_asked_without():
    """llama.cpp's own server answers 500 to `echo`."""
    toy = Toy(SCRIPT, "deaf")
    wire = Wire(lambda path, body: (500, {"error": {"message": "no echo"}}) if "echo" in body else toy(path, body))
    assert wire.load().supports == {Generate, Chat}
    assert wire.told == ["api: no log-probabilities of given text from this server: it says 'no echo'"]


def test_a_busy_server_is_not_taken_for_one_without_log_probabilities():
    toy = Toy(SCRIPT, "deaf")
    wire = Wire(lambda path, body: (429, {}) if "echo" in body else toy(path, body))
    with pytest.raises(ModelError, match="answers 429"):
        wire.load()
    assert len(wire.sent) == 5


# What llama-cpp-python 0.3.36 says of SmolLM2, which has no start token, so that every value stands one place off
SHIFTED = {
    "text": "one two three four five six seven eight",
    "logprobs": {
        "text_offset": [0, 3, 7, 13, 18, 23, 27],
        "token_logprobs": [None, -10.6, -8.92, -10.29, -4.83, -2.87, -2.8],
        "tokens": ["one", " two", " three", " four", " five", " six", " seven"],
        "top_logprobs": [None, {"-": -1.1}, {" years": -2.9}, {"-": -0.2}, {"-": -0.3}, {"-": -1.5}, {" eight": -1.7}],
    },
}  # fmt: skip


def test_log_probabilities_beside_the_wrong_tokens_are_found_out():
    with pytest.raises(ModelError, match="wrong tokens: at temperature 0 it writes ' eight' and gives it none"):
        Wire(lambda path, body: (200, {"choices": [SHIFTED]})).load()
    worse = json.loads(json.dumps(SHIFTED))
    for name, value in {"text_offset": 33, "token_logprobs": -9.5, "tokens": " eight"}.items():
        worse["logprobs"][name].append(value)
    worse["logprobs"]["top_logprobs"].append({" nine": -0.5, " eight": -9.5})
    with pytest.raises(ModelError, match="writes ' eight' and gives ' nine' a higher one"):
        Wire(lambda path, body: (200, {"choices": [worse]})).load()


# --- reading


@pytest.mark.parametrize("style", LISTENING)
def test_a_continuation_gets_exactly_what_the_server_says(style):
    model = wired(style).load()
    guard = Continuation("The guard was a", (" woman", " man"))
    found = ask(model, DOCTOR, guard)
    assert found[DOCTOR] == Scores(((-1.5, -0.25, -0.125), (-1.0,)))
    assert found[guard] == Scores(((-2.5,), (-0.75, -3.5)))


@pytest.mark.parametrize("style", LISTENING)
def test_a_sentence_is_read_from_its_first_token_or_its_second(style):
    model = wired(style).load()
    alone, behind = Sentence("It is late."), Sentence("It is late.", "She came.")
    found = ask(model, alone, behind)
    first = style in STARTED
    assert model.way.first == first
    assert found[alone] == Scores(((-1.0, -2.0, -4.0),)) if first else Scores(((-2.0, -4.0),))
    assert len(found[behind].logprobs[0]) > 3  # what stands behind the context


@pytest.mark.parametrize("style", LISTENING)
def test_a_text_with_nothing_to_read_is_named(style):
    model = wired(style).load()
    if style in STARTED:
        assert ask(model, Sentence("Late"))[Sentence("Late")] == Scores(((-2.0,),))
        assert ask(model, Continuation("", ("Late",))) is not None
        return
    with pytest.raises(InputError, match="first token, and 'Late' has no other"):
        ask(model, Sentence("Late"))
    with pytest.raises(InputError, match="first token, so 'Late' cannot be read"):
        ask(model, Continuation("", ("Late",)))


def test_a_choice_that_adds_no_token_is_named():
    with pytest.raises(InputError, match="continuation '' of 'The doctor was a' adds no token"):
        ask(wired().load(), Continuation("The doctor was a", ("",)))


def edited(**fields):
    """Changes fields of a choice's log-probabilities."""

    def edit(status, answer):
        said = answer["choices"][0]["logprobs"]
        for name, change in fields.items():
            said[name] = change(said[name])
        return status, answer

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (edited(token_logprobs=lambda v: v[:-2]), "gives 6 log-probabilities for the 8 tokens of 'The guard was"),
        (edited(token_logprobs=lambda v: None), "gives 0 log-probabilities for the 8"),
        (edited(token_logprobs=lambda v: [*v[:3], None, *v[4:]]), "gives None as the log-probability of ' was'"),
        (edited(token_logprobs=lambda v: [*v[:3], True, *v[4:]]), "gives True as"),
        (edited(token_logprobs=lambda v: [*v[:3], "-1", *v[4:]]), "gives -1 as"),
        (edited(token_logprobs=lambda v: [None, None, *v[2:]]), "gives None as the log-probability of 'The'"),
        (edited(text_offset=lambda v: v[:-1]), "gives 7 offsets for the 8"),
        (edited(text_offset=lambda v: [*v[:3], v[3] + 1, *v[4:]]), "do not fit the text 'The guard was a man'"),
        (edited(text_offset=lambda v: [float(x) for x in v]), "no whole numbers"),
        (edited(tokens=lambda v: [*v[:3], " is", *v[4:]]), "do not fit the text 'The guard was a man': see ' is'"),
        (edited(tokens=lambda v: [1, *v[1:]]), "no strings"),
        (lambda status, answer: (200, {"choices": [{"text": "?"}]}), "no log-probabilities of 'The guard was a man'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_stops_the_run_and_is_not_kept(edit, message):
    request = Continuation("The guard was a", (" man",))
    model = wired("vllm", edit).load()
    kept = []
    with pytest.raises(ModelError, match=message):
        kept.extend(model.answer([request], {}))
    assert not kept
    assert ask(model, request)[request] == Scores(((-0.75, -3.5),))


def test_a_server_that_changes_its_reading_stops_the_run():
    other = Toy(SCRIPT, "vllm-no-bos")
    body = {"prompt": "The guard was a man", "max_tokens": 1, "temperature": 0, "echo": True}
    model = wired("vllm", other("/v1/completions", body)).load()
    with pytest.raises(ModelError, match="reads 'The guard was a man' from another place"):
        ask(model, Continuation("The guard was a", (" man",)))


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "0.5"])
def test_a_number_that_is_none_stops_the_run(value):
    wire = wired("vllm", lambda status, answer: httpx.Response(200, text=json.dumps(answer).replace("-0.75", value)))
    with pytest.raises(ModelError, match="as the log-probability of ' ma'"):
        ask(wire.load(), Continuation("The guard was a", (" man",)))


def served_tiny(folder, style):
    """A tiny model as vLLM shows it, by full logits of one text after the other: an oracle for what is read."""
    local = asking.opened(folder)
    tokenizer = local.tokenizer

    def reply(path, body):
        ids = tokenizer(body["prompt"])["input_ids"]
        if tokenizer.eos_token_id is not None and ids[-1:] == [tokenizer.eos_token_id] != ids[:1]:
            ids = ids[:-1]
        logits = asking._logprobs(local.forward.model, ids)
        ids = [*ids, int(logits[-1].argmax())]
        values = [None, *(float(logits[i - 1, token]) for i, token in enumerate(ids) if i)]
        tokens = [tokenizer.decode([token]) for token in ids]
        sums = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
        rows = list(zip(ids, values, tokens, strict=True))
        listed = [
            None,
            *({str(t): {"logprob": v, "decoded_token": s}} for t, v, s in rows[1:-1]),
        ]
        echoed = {"tokens": tokens, "token_logprobs": values, "text_offset": sums}
        choice = {"text": "", "logprobs": echoed} if style == "echo" else {"text": "", "prompt_logprobs": listed}
        return 200, {"choices": [choice]}

    return local, Wire(reply)


@pytest.mark.parametrize("style", ["echo", "prompt_logprobs"])
@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "LlamaForCausalLM", "Gemma3ForCausalLM"])
def test_a_served_model_says_what_the_same_model_says_here(checkpoint, architecture, style):
    local, wire = served_tiny(checkpoint(architecture), style)
    requests = [
        Continuation("The doctor was a", (" woman", " man", " female engineer")),
        Continuation("The professor said that", (" he was late.", " she", " it")),
        Continuation("Who was a ", ("woman", "man?")),
        Continuation("A male teac", ("her", "her met the plumber")),
        Sentence("The baker and the lawyer.", "She was late;", start="tokenizer"),
    ]
    if architecture == "GPT2LMHeadModel":  # the others have <unk> for these characters
        requests += [
            Continuation("The nurse", (" was a man — naïve “quote” 😀 end",)),
            Continuation("Was — 😀", (" a man", "!")),
        ]
    mine, here = ask(wire.load(), *requests), asking.ask(local, requests)
    assert asking.apart(here, {request: mine[request] for request in requests}) < 1e-4
    assert len(wire.sent) == 1 + len({part for request in requests for part in wire.load().parts(request)})

    if Encoder(local.tokenizer).prefix:
        sentence = Sentence("who was a woman.")
        assert asking.apart(asking.ask(local, [sentence]), {sentence: ask(wire.load(), sentence)[sentence]}) < 1e-4


# --- what is sent


def test_equal_texts_are_sent_once_within_and_between_calls():
    wire = wired()
    model = wire.load()
    again = Continuation("The doctor was a", (" man", " woman"))
    found = ask(model, DOCTOR, again, Sentence("The doctor was a man"))
    assert found[again].logprobs == found[DOCTOR].logprobs[::-1]
    assert ask(model, Continuation("The doctor was", (" a man",)))
    assert [body["prompt"] for body in wire.bodies[1:]] == ["The doctor was a woman", "The doctor was a man"]
    assert (model.work.passes, model.work.rows) == (3, 2)
    assert model.work.tokens > 10


def test_what_is_kept_is_not_asked_again():
    wire = wired()
    found = ask(wire.load(), DOCTOR)
    assert set(found) == {DOCTOR, *wire.load().parts(DOCTOR)}
    wire = wired()
    model = wire.load()
    kept = {part: found[part] for part in model.parts(DOCTOR)}
    assert ask(model, DOCTOR, answered=kept) == {DOCTOR: found[DOCTOR]}
    half = {Prompt("The doctor was a man"): found[Prompt("The doctor was a man")]}
    assert ask(wired().load(), DOCTOR, answered=half)[DOCTOR] == found[DOCTOR]
    assert ask(model, DOCTOR, answered={DOCTOR: found[DOCTOR]}) == {}
    assert len(wire.sent) == 1


# --- drawing


@pytest.mark.parametrize(
    ("request_", "texts"),
    [
        (Generate("The nurse", 3, 5, 0), (" was late.", " was a man.", " left.")),
        (Chat("Who?", 2, 5, 0), ("Anyone.", "A nurse.")),
    ],
    ids=["generate", "chat"],
)
def test_samples_come_by_one_request_where_the_server_counts(request_, texts):
    wire = wired()
    model = wire.load()
    assert ask(model, request_) == {request_: Texts(texts)}
    (body,) = wire.bodies[1:]
    assert (body["n"], body["max_tokens"], body["temperature"]) == (len(texts), 5, 1)
    other = ask(model, replace(request_, seed=1))
    assert len(other) == 1 and wire.bodies[2]["seed"] != body["seed"]


def test_a_sample_is_drawn_from_the_whole_distribution():
    wire = wired()
    ask(wire.load(), Generate("The nurse", 1, 5, 0))
    body = wire.bodies[1]
    assert {name: body[name] for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")} == {
        "temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1,
    }  # fmt: skip
    wire = wired("strict")
    model = wire.load()
    ask(model, Generate("The nurse", 1, 5, 0))
    ask(model, Generate("The nurse", 2, 5, 0))
    assert [body.get("top_k") for body in wire.bodies[2:]] == [0, -1, None, None]  # it is not asked anew
    assert len(wire.told) == 1 and "cut off" in wire.told[0]


def test_the_seed_differs_by_sample_where_a_server_gives_one_at_a_time():
    wire = wired("llama.cpp")
    model = wire.load()
    request = Generate("The nurse", 4, 5, 0)
    found = ask(model, request)
    assert found[request] == Texts((" was late.",) * 4)
    assert [body["n"] for body in wire.bodies[1:]] == [4, 1, 1, 1]
    assert len({body["seed"] for body in wire.bodies[1:]}) == 4
    # Each is kept by itself: three of four are there, one is missing.
    kept = dict([pair for pair in found.items() if pair[0] != request][:3])
    wire = wired("llama.cpp")
    assert set(model.parts(request)) == set(found) - {request}
    assert ask(wire.load(), request, answered=kept)[request] == found[request]
    assert len(wire.sent) == 2


def test_fewer_samples_than_asked_for_are_kept_and_made_up_for():
    def two(status, answer):
        return status, answer | {"choices": answer["choices"][:2]}

    wire = wired("vllm", two)
    request = Generate("The nurse", 4, 5, 0)
    found = ask(wire.load(), request)
    assert [body["n"] for body in wire.bodies[1:]] == [4, 2]
    assert found[request] == Texts((" was late.", " was a man.", " was late.", " was a man."))


@pytest.mark.parametrize(
    ("message", "said"),
    [({"content": "Hm."}, "Hm."), ({"content": None}, ""), ({}, ""), ({"content": None, "refusal": "No."}, "No.")],
)
def test_a_reply_without_content_is_empty(message, said):
    wire = wired("vllm", (200, {"choices": [{"message": message}]}))
    assert ask(wire.load(), Chat("Who?", 1, 5, 0, temperature=0.0)) == {
        Chat("Who?", 1, 5, 0, temperature=0.0): Texts((said,))
    }
    assert wire.bodies[1]["temperature"] == 0 and wire.bodies[1]["messages"] == [{"role": "user", "content": "Who?"}]


def test_a_server_that_wants_max_completion_tokens_gets_it():
    refusal = (400, {"error": {"message": "'max_tokens' is not supported. Use 'max_completion_tokens' instead."}})
    wire = wired("vllm", refusal)
    ask(wire.load(), Chat("Who?", 1, 5, 0))
    assert wire.bodies[2]["max_completion_tokens"] == 5 and "max_tokens" not in wire.bodies[2]


def test_choices_without_texts_are_refused():
    with pytest.raises(ModelError, match="choices that hold no text"):
        ask(wired("vllm", (200, {"choices": [{"index": 0}]})).load(), Generate("The nurse", 1, 5, 0))


# --- faults


PASSING = {
    "429": (429, {"error": {"message": "slow down"}}), "500": (500, {}), "502": (502, {}), "503": (503, {}),
    "504": (504, {}), "connect": httpx.ConnectError("refused"), "late": httpx.ConnectTimeout(""),
    "read": httpx.ReadTimeout("timed out"),
    "cut": httpx.RemoteProtocolError("peer closed connection"), "html": httpx.Response(200, text="<html>"),
    "list": (200, []), "none": (200, {"choices": []}), "gateway": (200, {"error": {"message": "overloaded"}}),
}  # fmt: skip


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_asked_again_with_growing_pauses(fault):
    wire = wired("vllm", *[fault] * 4)
    request = Continuation("The doctor was a", (" man",))
    assert ask(wire.load(), request)[request] == Scores(((-1.0,),))
    assert len(wire.sent) == 1 + 5
    for pause, longest in zip(wire.pauses, (0.5, 1, 2, 4), strict=True):
        assert longest / 2 <= pause <= longest


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("429", r"answers 429 \(slow down\), 5 times"), ("read", "does not answer in 60 s .EVENHAND_API_TIMEOUT"),
        ("cut", r"breaks off \(peer closed connection\)"), ("connect", r"cannot be reached \(refused\)"),
        ("late", r"cannot be reached \(ConnectTimeout\)"),
        ("html", "what is not JSON .<html>"), ("gateway", "without choices .overloaded"),
    ],
)  # fmt: skip
def test_what_does_not_pass_stops_the_run_in_one_line(fault, message):
    wire = wired("vllm", *[PASSING[fault]] * 5)
    with pytest.raises(ModelError, match=message + ".*the same command goes on from there") as error:
        ask(wire.load(), Continuation("The doctor was a", (" man",)))
    assert len(wire.sent) == 1 + 5 and len(wire.pauses) == 4
    assert "\n" not in str(error.value)


def retrying(value):
    return httpx.Response(429, json={}, headers={"Retry-After": value})


def test_retry_after_is_honoured_in_seconds_and_as_a_date():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    wire = wired("vllm", *map(retrying, ("7", soon, "junk", "-3")))
    ask(wire.load(), Continuation("The doctor was a", (" man",)))
    seconds, date, junk, past = wire.pauses
    assert 7 <= seconds <= 7.5 and 55 <= date <= 60.5
    assert 1 <= junk <= 2 and 0 <= past <= 0.5


def test_a_server_that_asks_for_a_long_wait_ends_the_run():
    wire = wired("vllm", retrying("600"))
    with pytest.raises(ModelError, match="asks to wait for 600 s"):
        ask(wire.load(), Continuation("The doctor was a", (" man",)))
    assert not wire.pauses


def test_pauses_stop_growing_at_thirty_seconds(monkeypatch):
    monkeypatch.setattr(served, "ATTEMPTS", 12)
    wire = wired("vllm", *[(500, {})] * 11)
    ask(wire.load(), Continuation("The doctor was a", (" man",)))
    assert 15 <= wire.pauses[-1] <= 30


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_request_that_is_refused_is_not_repeated(status):
    refusal = (status, {"error": {"message": "maximum context length is 8 tokens, " + "x" * 500}})
    wire = wired("vllm", refusal)
    with pytest.raises(ModelError, match=f"answers {status}: maximum context length is 8 tokens") as error:
        ask(wire.load(), Continuation("The doctor was a", (" man",)))
    assert len(wire.sent) == 2 and len(str(error.value)) < 300


def test_a_failure_ends_the_sending_and_keeps_what_was_on_its_way(monkeypatch):
    monkeypatch.setenv("EVENHAND_API_CONCURRENCY", "2")
    wire = wired("vllm", None, None, (400, {"error": {"message": "no"}}))
    requests = [Sentence(f"Text number {i} is this.") for i in range(50)]
    kept = {}
    with pytest.raises(ModelError, match="answers 400"):
        for batch in wire.load().answer(requests, {}):
            kept.update(batch)
    sent = len(wire.sent) - 1
    assert 3 <= sent <= 6
    assert len([request for request in kept if request in requests]) == sent - 1


@pytest.fixture
def interruptible():
    """As in a terminal: pytest may have been started with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_keeps_what_was_on_its_way_and_a_second_ends_at_once(monkeypatch, interruptible):
    monkeypatch.setenv("EVENHAND_API_CONCURRENCY", "3")
    wire, go = wired(), threading.Event()
    model = wire.load()
    toy = wire.reply
    wire.reply = lambda path, body: toy(path, body) if " 0 " in body["prompt"] or go.wait(30) else None
    requests = [Sentence(f"Text number {i} is this.") for i in range(20)]
    kept = {}
    with pytest.raises(KeyboardInterrupt):
        for batch in model.answer(requests, {}):
            kept.update(batch)
            if not go.is_set():
                signal.raise_signal(signal.SIGINT)
                go.set()
    sent = len(wire.sent) - 1
    assert sent == len([request for request in kept if request in requests]) == 3
    go.clear()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in model.answer([Sentence("Behind 0 and before."), *requests[5:]], {}):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
    assert time.monotonic() - started < 10
    go.set()
    found = ask(model, *requests)  # and the model still answers
    assert all(request in found for request in requests)


# --- the key


def test_the_key_is_sent_and_shown_nowhere(monkeypatch, caplog):
    monkeypatch.setenv("EVENHAND_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    wire = wired(
        "vllm", None, (500, {"error": {"message": f"bad {KEY}"}}), (400, {"error": {"message": f"Bearer {KEY}?"}})
    )
    model = wire.load()
    ask(model, Continuation("The doctor was a", (" man",)))
    with pytest.raises(ModelError, match=r"Bearer \*\*\*\?") as error:
        ask(model, Continuation("The guard was a", (" man",)))
    assert {request.headers["Authorization"] for request, _ in wire.sent} == {f"Bearer {KEY}"}
    seen = [str(error.value), repr(error.value), caplog.text, repr(model), repr(vars(model)), str(model.identity())]
    assert not any(KEY in text for text in seen)
    assert not any(KEY in json.dumps(body) for body in wire.bodies)


def test_a_key_in_an_answer_is_not_kept_and_a_short_one_is_a_word(monkeypatch):
    for key, kept in ((KEY, "***"), ("EMPTY", "EMPTY")):
        monkeypatch.setenv("EVENHAND_API_KEY", key)
        wire = wired("vllm", (200, {"choices": [{"text": f" is {key}."}]}))
        assert ask(wire.load(), Generate("The key", 1, 5, 0)) == {
            Generate("The key", 1, 5, 0): Texts((f" is {kept}.",))
        }


def test_a_redirect_takes_the_key_nowhere(monkeypatch):
    monkeypatch.setenv("EVENHAND_API_KEY", KEY)
    wire = wired("vllm", httpx.Response(308, headers={"Location": f"http://elsewhere.example/{KEY}"}))
    with pytest.raises(InputError, match=r"sends on to http://elsewhere.example/\*\*\*"):
        ask(wire.load(), Continuation("The doctor was a", (" man",)))
    assert {request.url.host for request, _ in wire.sent} == {"localhost"}


torch.set_num_threads(1)
