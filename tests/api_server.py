"""A small server of models on this machine: OpenAI's completions and chats, saying what a scripted model's file says.

`styles` are the ways in which real servers differ; `faults` are what goes wrong with them. Every request is counted.
"""

import json
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice

STYLES = {
    "vllm": {"bos": "<bos>", "sums": True},  # the start token is shown, offsets are sums of lengths
    "vllm-no-bos": {"sums": True},
    "llama.cpp": {"one": True, "bytes": "ignore"},  # the start token is not shown, the first value is missing
    "prompt_logprobs": {"bos": "<bos>", "echo": False, "listed": True},
    "prompt_logprobs-no-bos": {"echo": False, "listed": True},
    "strict": {"bos": "<bos>", "sums": True, "refuses": {"prompt_logprobs", "top_k", "min_p"}},
    "texts": {"echo": False, "refuses": {"echo", "prompt_logprobs"}},
    "deaf": {"echo": False},  # takes every field and does nothing about it
    "chat": {"chat": True},
}
CONTEXT = -2.0  # the log-probability of what the script does not say, in nats


def pieces(text, n):
    """A text in n pieces, the first the longest."""
    cut = len(text) - n + 1
    return [text[:cut], *text[cut:]] if n > 1 else [text]


class Toy:
    """The scripted model behind a server: what it says to a request's body."""

    def __init__(self, script, style="vllm"):
        self.script = script
        self.bos, self.sums, self.one, self.listed, self.chat = "", False, False, False, False
        self.echo, self.refuses, self.bytes = True, set(), "replace"
        for name, value in STYLES[style].items():
            setattr(self, name, value)

    def tokens(self, text):
        """Tokens as bytes, with log-probabilities; a continuation's pieces are as many as its numbers."""
        for context, choices in self.script.get("Continuation", {}).items():
            for choice, values in choices.items():
                if context + choice == text:
                    numbers = values if isinstance(values, list) else [values]
                    split = self.encoded(pieces(choice, len(numbers)))
                    return [*self.words(context), *zip(split, numbers, strict=True)]
        for said, values in self.script.get("Sentence", {}).items():
            if said == text:
                return list(zip(self.encoded(pieces(text, len(values))), values, strict=True))
        return self.words(text)

    def words(self, text):
        return [(token, CONTEXT) for token in self.encoded(re.findall(r"\s?\S+|\s", text))]

    def encoded(self, tokens):
        return [token.encode() for token in tokens]

    def completion(self, body):
        """Status and answer."""
        if self.chat:
            return 404, {"detail": "Not Found"}
        if refused := sorted(self.refuses & set(body)):
            return 400, {"error": {"message": f"unknown field {refused[0]}", "type": "invalid_request_error"}}
        if isinstance(body["prompt"], list):
            return 500, {"error": {"message": "assert len(body.prompt) <= 1"}}
        if self.one and not body["max_tokens"]:
            return 500, {"error": {"message": "unlimited"}}
        said = self.tokens(body["prompt"])
        generated = [(b" and", -0.5)] * min(1, body["max_tokens"])
        n = 1 if self.one else body.get("n", 1)
        if body["temperature"]:
            texts = list(islice(cycle(self.script["Generate"][body["prompt"]]), n))
            choices = [{"index": i, "text": text, "logprobs": None} for i, text in enumerate(texts)]
        else:
            choices = [self.given(body, said, generated)]
        return 200, {"choices": choices, "usage": {"total_tokens": len(said) + len(generated)}}

    def given(self, body, said, generated):
        choice = {"index": 0, "text": " and", "logprobs": None}
        if body.get("echo") and self.echo:
            choice["text"] = body["prompt"] + " and"
            choice["logprobs"] = self.echoed(said, generated)
        elif body.get("logprobs") is not None:
            choice["logprobs"] = {
                "tokens": [" and"],
                "token_logprobs": [-0.5],
                "text_offset": [0],
                "top_logprobs": [{}],
            }
        if "prompt_logprobs" in body and self.listed:
            rows = [(self.bos.encode(), None)] * bool(self.bos) + said
            choice["prompt_logprobs"] = [None] + [
                {str(i): {"logprob": value, "rank": 1, "decoded_token": token.decode("utf-8", self.bytes)}}
                for i, (token, value) in enumerate(rows[1:])
            ]
        return choice

    def echoed(self, said, generated):
        rows = [(self.bos.encode(), None)] * bool(self.bos) + said + generated
        tokens = [token.decode("utf-8", self.bytes) for token, _ in rows]
        whole = [b"".join(token for token, _ in rows[:i]) for i in range(len(rows))]
        places = [len(found.decode("utf-8", "ignore")) for found in whole]
        sums = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
        values = [None, *(value for _, value in rows[1:])]
        return {
            "tokens": tokens,
            "token_logprobs": values,
            "text_offset": sums if self.sums else places,
            "top_logprobs": [None if v is None else {t: v} for t, v in zip(tokens, values, strict=True)],
        }

    def replies(self, body):
        """Status and answer."""
        (message,) = body["messages"]
        n = 1 if self.one else body.get("n", 1)
        texts = list(islice(cycle(self.script["Chat"][message["content"]]), n))
        choices = [{"index": i, "message": {"role": "assistant", "content": text}} for i, text in enumerate(texts)]
        return 200, {"choices": choices, "usage": {"total_tokens": n}}

    def __call__(self, path, body):
        return self.replies(body) if path.endswith("/chat/completions") else self.completion(body)


class Serving:
    """A running server: its address, what it was asked, and what it answered in full."""

    def __init__(self, toy):
        self.toy = toy
        self.url = ""
        self.asked, self.paid, self.keys = [], [], set()
        self.faults = []  # one a request, in the order of arrival: None, or what `Handler.fail` knows
        self.fault = lambda body: None  # asked when the list is empty
        self.delay = 0.0
        self.busy, self.most = 0, 0
        self.lock = threading.Lock()

    def paid_twice(self):
        """What was answered in full more than once."""
        return [what for what, n in Counter(self.paid).items() if n > 1]

    def reset(self):
        """Forgets what was asked and what goes wrong."""
        self.asked, self.paid, self.faults, self.fault = [], [], [], lambda body: None


@contextmanager
def serving(script, style="vllm"):
    """Serves a scripted model; yields the `Serving`."""
    here = Serving(Toy(script, style))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def reply(self, status, body, **headers):
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def do_GET(self):
            self.reply(405 if self.path.endswith("/chat/completions") and here.toy.chat else 404, {"detail": "no"})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with here.lock:
                here.asked.append(body)
                here.keys.add(self.headers.get("Authorization"))
                here.busy += 1
                here.most = max(here.most, here.busy)
                fault = here.faults.pop(0) if here.faults else here.fault(body)
            status, answer = here.toy(self.path, body)
            time.sleep(here.delay)
            with here.lock:
                here.busy -= 1
                if status == 200 and fault is None:
                    here.paid.append(json.dumps(body, sort_keys=True))
            try:
                if fault is not None and status == 200:
                    self.fail(fault, answer)
                else:
                    self.reply(status, answer)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def fail(self, fault, answer):
            """Does what goes wrong."""
            name, _, value = str(fault).partition(" ")
            match name:
                case "429" | "500" | "503":
                    headers = {"Retry_After": value} if value else {}
                    self.reply(int(name), {"error": {"message": "try later"}}, **headers)
                case "400":
                    self.reply(400, {"error": {"message": value or "no"}})
                case "cut":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
                    self.close_connection = True
                case "slow":
                    time.sleep(float(value))
                    self.close_connection = True
                case "notjson":
                    self.reply(200, b"<html>busy</html>")
                case "short":
                    answer["choices"][0]["logprobs"]["token_logprobs"].pop()
                    self.reply(200, answer)
                case "echo-key":
                    self.reply(400, {"error": {"message": f"wrong: {self.headers['Authorization']}"}})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    here.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
