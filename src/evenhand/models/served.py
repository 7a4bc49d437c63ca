"""HTTP to a server of models: a key that is never shown, retries with back-off, many requests at once."""

import json
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from evenhand.errors import InputError, ModelError
from evenhand.models.address import Address, Settings

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
PATIENCE = 120.0
"""Seconds: a server that asks for a longer wait ends the run."""
PASSING = {408, 429, 500, 502, 503, 504}
KEPT = "what was answered is kept, the same command goes on from there"
LOOK = 0.2
"""Seconds between looks at whether the run is to end."""
SECRET = 16
"""Characters: a key this long is no word of a text, and is taken out of what a server answers too."""

Job = TypeVar("Job")
Result = TypeVar("Result")


class RefusedError(ModelError):
    """The server will not answer this request; asking again would not help. `said` is its own message."""

    def __init__(self, message: str, status: int, said: str) -> None:
        super().__init__(message)
        self.status, self.said = status, said


class Stopped(Exception):  # noqa: N818 - no error: the run is ending for another reason
    """A request that was not sent, since the run is ending."""


class _PassingError(Exception):
    """May be otherwise the next time. `status` is HTTP's, `after` how long the server asks to wait, in seconds."""

    def __init__(self, reason: str, *, status: int = 0, said: str = "", after: float | None = None) -> None:
        super().__init__(reason)
        self.status, self.said, self.after = status, said, after


class Server:
    """A server of models. `requests` counts what was sent; once `halt` is set, nothing more is."""

    def __init__(
        self,
        at: Address,
        how: Settings,
        *,
        transport: "httpx.BaseTransport | None" = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """Opens nothing yet. `transport` and `pause` (which waits for seconds) stand in for the real ones in tests."""
        try:
            import httpx
        except ImportError:
            raise InputError("api: needs httpx: pip install 'evenhand[api]'") from None
        self._httpx = httpx
        self.base, self.how = at.base, how
        self.halt = threading.Event()
        self.requests = 0
        self._pause = pause or self.halt.wait
        self._lock = threading.Lock()
        self._transport, self._direct = transport, at.local
        self._client: httpx.Client

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Connections are open inside."""
        key, seconds, width = self.how.key, self.how.timeout, self.how.width
        self._client = self._httpx.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=self._httpx.Timeout(seconds, connect=min(seconds, 10.0)),
            limits=self._httpx.Limits(max_connections=width, max_keepalive_connections=width),
            follow_redirects=False, trust_env=not self._direct, transport=self._transport,
        )  # fmt: skip
        with self._client:
            yield

    def hide(self, text: str) -> str:
        """The text on one line, without the key."""
        if self.how.key:
            text = text.replace(self.how.key, "***")
        return " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())

    def status(self, path: str) -> int:
        """The status of a GET, which costs nothing; 0 if there is no answer."""
        with self._lock:
            self.requests += 1
        try:
            return self._client.get(self.base + path).status_code
        except self._httpx.RequestError:
            return 0

    def post(self, path: str, body: dict[str, Any], *, opening: bool = False) -> dict[str, Any]:
        """The answer to a request, with at least one choice; tried five times if what is wrong may pass.

        Args:
            path: behind the base URL.
            body: sent as JSON.
            opening: the first request of all: a server that cannot be reached is not waited for.

        Raises:
            RefusedError: the server does not take the request, or fails at it again and again.
            InputError: it does not take the key, or sends elsewhere.
            ModelError: it cannot be reached, gives no sound answer, or asks to wait too long.
            Stopped: the run is ending.
        """
        url = self.base + path
        reason, last = "", _PassingError("")
        for attempt in range(ATTEMPTS):
            if self.halt.is_set():
                raise Stopped
            with self._lock:
                self.requests += 1
            last = _PassingError("")
            try:
                return self._read(self._client.post(url, json=body), url)
            except (self._httpx.ConnectError, self._httpx.ConnectTimeout) as error:
                reason = f"cannot be reached ({self.hide(str(error)) or type(error).__name__})"
                if opening:
                    raise ModelError(f"{url} {reason}; is the server running?") from None
            except self._httpx.TimeoutException:
                reason = f"does not answer in {self.how.timeout:g} s (EVENHAND_API_TIMEOUT sets how long to wait)"
            except self._httpx.RequestError as error:
                reason = f"breaks off ({self.hide(str(error)) or type(error).__name__})"
            except _PassingError as error:
                reason, last = str(error), error
            after = last.after
            if after is not None and after > PATIENCE:
                raise ModelError(f"{url} {reason} and asks to wait for {after:.0f} s; {KEPT}")
            if attempt < ATTEMPTS - 1:
                longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt)
                jitter = random.random()  # noqa: S311 - spreads requests in time, guards nothing
                self._pause(after + FIRST_PAUSE * jitter if after is not None else longest * (0.5 + 0.5 * jitter))
        message = f"{url} {reason}, {ATTEMPTS} times over; {KEPT}"
        raise RefusedError(message, last.status, last.said) if last.status else ModelError(message)

    def _read(self, response: "httpx.Response", url: str) -> dict[str, Any]:
        status = response.status_code
        text = response.content.decode("utf-8", "replace")
        if status in PASSING:
            said, after = self._said(text), _after(response.headers.get("retry-after"))
            raise _PassingError(f"answers {status} ({said})", status=status, said=said, after=after)
        if status in (401, 403):
            wrong = "is not taken" if self.how.key else "is not set"
            raise InputError(f"{url} answers {status} ({self._said(text)}): the key in EVENHAND_API_KEY {wrong}")
        if 300 <= status < 400:
            to = self.hide(response.headers.get("location", "elsewhere"))[:100]
            raise InputError(f"{url} sends on to {to}, which is not followed; write the address that answers itself")
        said = self._said(text)
        if status != 200:
            raise RefusedError(f"{url} answers {status}: {said}", status, said)
        if len(self.how.key) >= SECRET:
            text = text.replace(self.how.key, "***")
        try:
            found = json.loads(text)
        except ValueError:
            raise _PassingError(f"answers what is not JSON ({said})") from None
        choices = found.get("choices") if isinstance(found, dict) else None
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
            raise _PassingError(f"answers JSON without choices ({said})")
        return dict(found)

    def _said(self, text: str) -> str:
        """The server's own message in a body, shortened."""
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = text
        for name in ("error", "message", "detail"):
            if isinstance(found, dict) and found.get(name):
                found = found[name]
        said = self.hide(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))
        return said if len(said) <= 200 else said[:200] + "..."


def _after(value: str | None) -> float | None:
    """Seconds until the time that a Retry-After header names, as seconds or as a date; None if it names none."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def gathered(
    jobs: deque[Job], do: Callable[[Job], Result], server: Server, errors: list[BaseException]
) -> Iterator[list[tuple[Job, Result]]]:
    """Does jobs in threads and yields what is done, as it comes. More jobs may be added while it runs.

    Once there is an error (the caller may add one to `errors`) or an interrupt, nothing more is sent; what is on its
    way is waited for and yielded, since it is paid for; then the first error is raised. A second interrupt ends at
    once.
    """
    if not jobs:
        if errors:
            raise errors[0]
        return
    flying: dict[Future[Result], Job] = {}
    server.halt.clear()
    pool = ThreadPoolExecutor(server.how.width)
    try:
        with server.connected(), _interrupts(errors):
            while flying or (jobs and not errors):
                while jobs and not errors and len(flying) < server.how.width:
                    job = jobs.popleft()
                    flying[pool.submit(do, job)] = job
                done, _ = wait(flying, timeout=LOOK, return_when=FIRST_COMPLETED)
                found = _landed(done, flying, errors)
                if errors:
                    server.halt.set()
                if found:
                    yield found
    finally:
        server.halt.set()
        pool.shutdown(wait=False, cancel_futures=True)
    if errors:
        raise errors[0]


@contextmanager
def _interrupts(errors: list[BaseException]) -> Iterator[None]:
    """Makes the first interrupt an error in the list, wherever it comes; the second is raised."""

    def take(signum: int, frame: object) -> None:
        if any(isinstance(error, KeyboardInterrupt) for error in errors):
            raise KeyboardInterrupt
        errors.append(KeyboardInterrupt())

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, take)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _landed(
    done: set[Future[Result]], flying: dict[Future[Result], Job], errors: list[BaseException]
) -> list[tuple[Job, Result]]:
    """Finished jobs with their results; errors go to `errors`."""
    found = []
    for future in done:
        job, error = flying.pop(future), future.exception()
        if error is None:
            found.append((job, future.result()))
        elif not isinstance(error, Stopped):
            errors.append(error)
    return found
