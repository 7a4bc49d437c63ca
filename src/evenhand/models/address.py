"""Where a served model is, and what the environment says about how to ask it."""

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from evenhand.errors import InputError


@dataclass(frozen=True, slots=True)
class Address:
    """`BASE_URL#MODEL`, taken apart. `local`: the server is on this machine."""

    base: str
    model: str
    local: bool


def address(ref: str) -> Address:
    """The address in a reference.

    Raises:
        InputError: it is none, or it holds what has no place in a file that keeps it, such as a password.
    """
    base, _, model = ref.partition("#")
    try:
        url = urlsplit(base)
        host, _ = url.hostname, url.port
    except ValueError:
        raise InputError("api: the base URL is none; write api:http://HOST:PORT/v1#MODEL") from None
    if url.username is not None or url.password is not None or url.query:
        raise InputError(
            "api: a user, a password or a query has no place in a reference, which is kept in run.json; "
            "put the key into the environment variable EVENHAND_API_KEY"
        )
    if url.scheme not in ("http", "https") or not host or not model or model != model.strip():
        raise InputError(f"api:{ref} is no address of a model; write api:http://HOST:PORT/v1#MODEL")
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return Address(base.rstrip("/"), model, local)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says: the key, seconds to wait for an answer, requests at a time."""

    key: str
    timeout: float
    width: int


def settings() -> Settings:
    """EVENHAND_API_KEY, EVENHAND_API_TIMEOUT and EVENHAND_API_CONCURRENCY.

    Raises:
        InputError: one of them is not what it should be; the key is not shown.
    """
    key = os.environ.get("EVENHAND_API_KEY", "").strip()
    if not re.fullmatch(r"[!-~]*", key):
        raise InputError("EVENHAND_API_KEY has characters that a key cannot have, such as a space or a line's end")
    seconds, width = os.environ.get("EVENHAND_API_TIMEOUT", "60"), os.environ.get("EVENHAND_API_CONCURRENCY", "8")
    if not re.fullmatch(r"\d+(\.\d+)?", seconds) or float(seconds) <= 0:
        raise InputError(f"EVENHAND_API_TIMEOUT is {seconds!r}; it is a number of seconds above 0")
    if not re.fullmatch(r"\d{1,3}", width) or int(width) < 1:
        raise InputError(f"EVENHAND_API_CONCURRENCY is {width!r}; it is a whole number from 1 to 999")
    return Settings(key, float(seconds), int(width))
