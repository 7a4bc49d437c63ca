"""Which way a server says log-probabilities of given text: one request, more only where it refuses that one."""

from dataclasses import dataclass
from typing import Any

from evenhand.errors import InputError, ModelError
from evenhand.models.echo import misplaced, spelled
from evenhand.models.served import RefusedError, Server

PROBE = "one two three four five six seven"
ASKING: dict[str, dict[str, Any]] = {"echo": {"echo": True, "logprobs": 1}, "prompt_logprobs": {"prompt_logprobs": 0}}
UNWANTED = (400, 422, 500, 501)
"""Statuses by which servers refuse a field; others say that they are busy or away."""
SAYS = {
    "echo": "echo + logprobs",
    "prompt_logprobs": "prompt_logprobs",
    "texts": "no log-probabilities of given text",
    "chat": "chat only",
}


@dataclass(frozen=True, slots=True)
class Way:
    """How the server is read: a key of `SAYS`, special tokens in front of a text, whether its first token is read.

    `why` is what a server says that gives no log-probabilities of given text.
    """

    mode: str
    in_front: int = 0
    first: bool = False
    why: str = ""

    def said(self) -> str:
        """For results.json."""
        if self.mode not in ASKING:
            return SAYS[self.mode]
        given = "read given the start token" if self.in_front else "read"
        return f"{SAYS[self.mode]}; a text's first token is {given if self.first else 'not read'}"


def probe(server: Server, model: str) -> Way:
    """How the server is to be read.

    Raises:
        InputError: there is no such model or address, or the key is wrong.
        ModelError: the server cannot be reached, or its log-probabilities cannot be read.
    """
    body = {"model": model, "prompt": PROBE, "max_tokens": 1, "temperature": 0}
    fields: tuple[dict[str, Any], ...] = ({**ASKING["echo"], **ASKING["prompt_logprobs"]}, ASKING["echo"], {})
    why = ""
    for more in fields:
        try:
            answer = server.post("/completions", body | more, opening=True)
        except RefusedError as refused:
            if refused.status in (404, 405):
                return _without(server, model, refused)
            if not more or refused.status not in UNWANTED:
                raise
            why = refused.said
            continue
        return _way(server, answer["choices"][0]) if more else Way("texts", why=why)
    raise AssertionError


def _way(server: Server, choice: dict[str, Any]) -> Way:
    wrong = None
    for mode in ASKING:
        try:
            found = spelled(PROBE, choice, mode)
        except ModelError as error:
            wrong = wrong or error
            continue
        if found is None:
            continue
        if mode == "echo" and (how := misplaced(choice, PROBE, found)):
            raise ModelError(
                f"{server.base} puts log-probabilities beside the wrong tokens: at temperature 0 {how}. "
                "llama-cpp-python's server does so for models without a start token; serve this one by another"
            )
        return Way(mode, found.in_front, found.first_is_read)
    if wrong:
        raise wrong
    return Way("texts")


def _without(server: Server, model: str, refused: RefusedError) -> Way:
    """A server without completions: one for chats, one without this model, or none at all."""
    said = refused.said.casefold()
    if "chat" not in said and "model" in said:
        raise InputError(f"{refused}; is {model!r} the name it is served by?")
    if "chat" in said or server.status("/chat/completions") not in (0, 404):
        return Way("chat", why=refused.said)
    raise InputError(f"nothing answers at {server.base}/completions; a base URL usually ends in /v1")
