"""`api:BASE_URL#MODEL`: a model behind an OpenAI-compatible server.

Log-probabilities of given text come by `echo` + `logprobs`, or by `prompt_logprobs`; one request when the model is
loaded finds out which, and whether a text's first token is read. A server without them writes texts, or only replies.
Environment: EVENHAND_API_KEY, EVENHAND_API_TIMEOUT (seconds), EVENHAND_API_CONCURRENCY (requests at a time).
"""

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evenhand.errors import EvenhandError, InputError, ModelError
from evenhand.models import Batch, Identity, LoadOptions, Work
from evenhand.models.address import address, settings
from evenhand.models.align import shown
from evenhand.models.echo import Prompt, Spelled, alone, joined, spelled
from evenhand.models.probing import ASKING, Way, probe
from evenhand.models.served import RefusedError, Server, gathered
from evenhand.requests import Answer, Chat, Continuation, Generate, Request, Scores, Sentence, Texts, key

if TYPE_CHECKING:
    import httpx

READING = 1
"""Raised when the same answers are read in another way."""
WHOLE = {"min_p": 0, "repeat_penalty": 1, "repetition_penalty": 1}
DRAWING: tuple[dict[str, Any], ...] = ({"top_k": 0, **WHOLE}, {"top_k": -1, **WHOLE}, {})
"""What turns off a server's own cut-offs, so that it draws from the whole distribution; some refuse such fields."""


@dataclass(frozen=True, slots=True)
class Draw:
    """`n` of a request's texts, from number `first` on."""

    request: Generate | Chat
    first: int
    n: int


class Served:
    """The served model. Every text is sent once; what came back is kept text by text.

    `work` counts HTTP requests as passes, texts as rows, and tokens as the server does.
    """

    device = "served"

    def __init__(self, ref: str, model: str, server: Server, way: Way, tell: Callable[[str], None]) -> None:
        self.supports: frozenset[type[Request]] = frozenset(
            {Chat} | ({Generate} if way.mode != "chat" else set())
            | ({Continuation, Sentence} if way.mode in ASKING else set())
        )  # fmt: skip
        self.way = way
        self._ref, self._model, self._server, self._tell = ref, model, server, tell
        self._known: dict[Prompt, Spelled] = {}
        self.work = Work(passes=server.requests)
        self._lock = threading.Lock()
        self._drawing = self._told = 0
        self._one_at_a_time = False

    def identity(self) -> Identity:
        """The address and how it is read make the fingerprint; the weights behind it are not known."""
        way = self.way
        about = [self._ref, way.mode, way.in_front, way.first, READING]
        fingerprint = hashlib.sha256(json.dumps(about).encode()).hexdigest()
        start = "bos" if way.in_front else None
        return Identity(
            ref=self._ref, kind="api", revision=None, fingerprint=fingerprint, start=start, reads=way.said()
        )

    def parts(self, request: Request) -> tuple[Request, ...]:
        """The texts whose log-probabilities a request needs, or its samples one by one."""
        match request:
            case Continuation(context, choices):
                return tuple(dict.fromkeys(Prompt(context + choice) for choice in choices))
            case Sentence(text, context):
                return (Prompt(f"{context} {text}" if context else text),)
            case Generate() | Chat() if request.samples > 1:
                return tuple(_piece(request, i) for i in range(request.samples))
        return ()

    def answer(self, requests: Sequence[Request], answered: Mapping[Request, Answer]) -> Iterator[Batch]:
        """Answers as they come, with what they were made from; nothing is sent that `answered` makes needless."""
        unanswered = [request for request in requests if request not in answered]
        drawn = {r: _pieces(r, answered) for r in unanswered if isinstance(r, Generate | Chat)}
        waiting = self._missing(unanswered, answered)
        jobs: deque[Prompt | Draw] = deque(waiting)
        for request, pieces in drawn.items():
            jobs.extend(self._draws(request, pieces, range(request.samples)))
        errors: list[BaseException] = []
        if batch := self._read(unanswered, drawn, errors):
            yield batch
        for done in gathered(jobs, self._do, self._server, errors):
            self.work.passes = self._server.requests
            made: Batch = []
            for job, result in done:
                if isinstance(job, Draw):
                    made += self._taken(job, result, drawn[job.request], jobs)
                    made += self._read([job.request], drawn, errors)
                else:
                    self._known[job] = result
                    made.append((job, result.kept()))
                    made += self._read(waiting[job], drawn, errors)
            yield made
            if self._told < self._drawing:
                self._told = self._drawing
                if not DRAWING[self._told]:
                    self._tell("api: this server takes no top_k and min_p; samples are cut off as it is set up to")

    def _missing(self, requests: Sequence[Request], answered: Mapping[Request, Answer]) -> dict[Prompt, list[Request]]:
        """The texts that are still to be sent, and who waits for them."""
        waiting: dict[Prompt, list[Request]] = {}
        for request in requests:
            for prompt in self._prompts(request):
                if not prompt.text:
                    raise InputError("a text without a character has no log-probability")
                kept = answered.get(prompt)
                if isinstance(kept, Texts):
                    self._known.setdefault(prompt, Spelled.of(kept))
                if prompt not in self._known:
                    waiting.setdefault(prompt, []).append(request)
        return waiting

    def _prompts(self, request: Request) -> tuple[Prompt, ...]:
        return tuple(part for part in self.parts(request) if isinstance(part, Prompt))

    def _taken(self, job: Draw, texts: Sequence[str], pieces: dict[int, str], jobs: deque[Prompt | Draw]) -> Batch:
        """Takes drawn texts, and asks for more where there are too few; they are kept one by one if not all came."""
        texts = texts[: job.n]
        pieces.update(enumerate(texts, job.first))
        if len(texts) < job.n:
            self._one_at_a_time |= len(texts) == 1
            jobs.extend(self._draws(job.request, pieces, range(job.first, job.first + job.n)))
        if len(texts) == job.request.samples:
            return []
        return [(_piece(job.request, i), Texts((text,))) for i, text in enumerate(texts, job.first)]

    def _read(
        self, requests: Sequence[Request], drawn: Mapping[Generate | Chat, dict[int, str]], errors: list[BaseException]
    ) -> Batch:
        """Answers to the requests of which everything is known; what is wrong with one ends the run."""
        made: Batch = []
        for request in requests:
            try:
                if isinstance(request, Generate | Chat):
                    texts = drawn[request]
                    if len(texts) == request.samples:
                        made.append((request, Texts(tuple(texts[i] for i in range(request.samples)))))
                elif all(prompt in self._known for prompt in self._prompts(request)):
                    made.append((request, Scores(self._scores(request))))
            except EvenhandError as error:
                errors.append(error)
        return made

    def _scores(self, request: Request) -> tuple[tuple[float, ...], ...]:
        match request:
            case Continuation(context, choices):
                return joined(context, choices, [self._known[Prompt(context + choice)] for choice in choices])
            case Sentence(text, ""):
                return (alone(text, self._known[Prompt(text)]),)
            case Sentence(text, context):
                return joined(context, [f" {text}"], [self._known[Prompt(f"{context} {text}")]])
        raise ModelError(f"a served model is not asked for {type(request).__name__}")

    def _draws(self, request: Generate | Chat, pieces: Mapping[int, str], within: range) -> Iterator[Draw]:
        """What is still to be drawn, as few requests as the server allows."""
        missing = [i for i in within if i not in pieces]
        while missing:
            first, n = missing[0], 1
            while not self._one_at_a_time and n < len(missing) and missing[n] == first + n:
                n += 1
            yield Draw(request, first, n)
            missing = missing[n:]

    def _do(self, job: Prompt | Draw) -> Any:
        if isinstance(job, Prompt):
            return self._score(job.text)
        request = job.request
        body: dict[str, Any] = {"n": job.n, "max_tokens": request.max_tokens, "seed": _seed(request, job.first)}
        if isinstance(request, Generate):
            found = self._generate(body | {"prompt": request.prompt, "temperature": 1, "top_p": 1})
            texts = [choice.get("text") for choice in found["choices"]]
        else:
            message = {"role": "user", "content": request.message}
            found = self._reply(body | {"messages": [message], "temperature": request.temperature})
            texts = [_content(choice) for choice in found["choices"]]
        if not all(isinstance(text, str) for text in texts):
            raise ModelError(f"{self._server.base} answers with choices that hold no text")
        self._count(found, len(texts))
        return texts

    def _score(self, text: str) -> Spelled:
        body = {"model": self._model, "prompt": text, "max_tokens": 1, "temperature": 0, **ASKING[self.way.mode]}
        answer = self._server.post("/completions", body)
        found = spelled(text, answer["choices"][0], self.way.mode)
        if found is None:
            raise ModelError(f"{self._server.base} gives no log-probabilities of {shown(text)}")
        if (found.in_front, found.first_is_read) != (self.way.in_front, self.way.first):
            raise ModelError(
                f"{self._server.base} reads {shown(text)} from another place than it did at first "
                f"({found.in_front} special tokens in front, first token {'' if found.first_is_read else 'not '}read)"
            )
        self._count(answer, 1)
        return found

    def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        """Asks with fields that turn cut-offs off, as many of them as the server takes."""
        at = self._drawing
        while True:
            try:
                return self._server.post("/completions", {"model": self._model, **body, **DRAWING[at]})
            except RefusedError as refused:
                if refused.status not in (400, 422) or at == len(DRAWING) - 1:
                    raise
            at += 1
            self._drawing = max(self._drawing, at)

    def _reply(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._server.post("/chat/completions", {"model": self._model, **body})
        except RefusedError as refused:
            if "max_completion_tokens" not in refused.said:
                raise
        body["max_completion_tokens"] = body.pop("max_tokens")
        return self._server.post("/chat/completions", {"model": self._model, **body})

    def _count(self, answer: Mapping[str, Any], rows: int) -> None:
        """What was answered; tokens by the server's own count."""
        usage = answer.get("usage")
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
        with self._lock:
            self.work.rows += rows
            self.work.tokens += tokens if isinstance(tokens, int) else 0


def _seed(request: Generate | Chat, i: int) -> int:
    """The seed of a request's sample number `i`."""
    return int(hashlib.sha256(f"{key(request)}/{i}".encode()).hexdigest()[:7], 16)


def _piece(request: Generate | Chat, i: int) -> Generate | Chat:
    """Sample number `i` as a request of its own, the name under which it is kept."""
    return replace(request, samples=1, seed=_seed(request, i))


def _pieces(request: Generate | Chat, answered: Mapping[Request, Answer]) -> dict[int, str]:
    found = {i: answered.get(_piece(request, i)) for i in range(request.samples)} if request.samples > 1 else {}
    return {i: kept.texts[0] for i, kept in found.items() if isinstance(kept, Texts)}


def _content(choice: Mapping[str, Any]) -> Any:
    message = choice.get("message")
    if not isinstance(message, dict):
        return None
    said = message.get("content")
    return message.get("refusal") or "" if said is None else said


def load(
    ref: str,
    options: LoadOptions,
    *,
    transport: "httpx.BaseTransport | None" = None,
    pause: Callable[[float], object] | None = None,
) -> Served:
    """The model at BASE_URL#MODEL, once it has answered one request.

    Raises:
        InputError: the reference, the environment or the key is wrong, or it is not on this machine and `offline` is.
        ModelError: the server cannot be reached, or what it says cannot be read.
    """
    at = address(ref)
    if options.offline and not at.local:
        raise InputError(f"api:{ref} is not on this machine, and --offline is given")
    server = Server(at, settings(), transport=transport, pause=pause)
    with server.connected():
        way = probe(server, at.model)
    if way.mode not in ASKING:
        options.tell(f"api: {way.said()} from this server" + (f": it says {way.why!r}" if way.why else ""))
    return Served(f"api:{at.base}#{at.model}", at.model, server, way, options.tell)
