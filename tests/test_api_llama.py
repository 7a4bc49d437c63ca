"""llama-cpp-python's real server: an F32 GGUF says what transformers says; a model without a start token is refused.

EVENHAND_LLAMA_PYTHON names a Python that has `llama-cpp-python[server]`, whose build takes 20 minutes on two cores. The
GGUF files come from the wheels of the packaged models.
"""

import os
import socket
import subprocess
import time
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

from evenhand.data.fetch import members
from evenhand.errors import ModelError
from evenhand.models import LoadOptions, load
from evenhand.models.packaged import PACKAGED
from evenhand.requests import Continuation, Sentence

PYTHON = os.environ.get("EVENHAND_LLAMA_PYTHON")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="EVENHAND_LLAMA_PYTHON names no Python with llama-cpp-python[server]"),
]
TITLES = ("nurse", "carpenter", "lawyer", "janitor", "librarian", "engineer", "barber", "economist")
ENDS = ("asked for more time to finish the work.", "said: “Zoë, walk home slowly!”", "could not find the old keys.")
CONTINUATIONS = [Continuation(f"The {title} was a", (" woman", " man")) for title in TITLES]
SENTENCES = [Sentence(f"The {title} {ENDS[i % 3]}") for i, title in enumerate(TITLES)]


def fetched(name, path):
    """A packaged model's GGUF file."""
    with path.open("wb") as file:
        for _, chunks in members(PACKAGED[name].parts, offline=False):
            file.writelines(chunks)
    return path


def dequantised(source, path):
    """The same model with every tensor in float32."""
    from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
    from gguf.quants import dequantize

    reader = GGUFReader(source)
    writer = GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    writer.add_file_type(LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values.reshape([int(n) for n in reversed(tensor.shape)]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@contextmanager
def served(gguf):
    """The reference of the model in a GGUF file, behind a server of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [PYTHON, "-m", "llama_cpp.server", "--model", gguf, "--n_ctx", "128", "--logits_all", "true"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            try:
                httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.5)
        yield f"api:http://127.0.0.1:{port}/v1#model"
    finally:
        process.terminate()
        process.wait(timeout=30)


def answers(model):
    return dict(pair for batch in model.answer([*CONTINUATIONS, *SENTENCES], {}) for pair in batch)


def test_an_f32_file_says_what_transformers_says(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENHAND_API_TIMEOUT", "300")
    here = answers(load("demo", LoadOptions(device="cpu")))
    with served(dequantised(fetched("demo", tmp_path / "q4.gguf"), tmp_path / "f32.gguf")) as ref:
        model = load(ref, LoadOptions())
        there = answers(model)
    assert model.identity().reads == "echo + logprobs; a text's first token is not read"
    worst = 0.0
    for request in (*CONTINUATIONS, *SENTENCES):
        skipped = 1 if isinstance(request, Sentence) else 0
        for mine, theirs in zip(here[request].logprobs, there[request].logprobs, strict=True):
            worst = max(worst, np.abs(np.subtract(mine[skipped:], theirs)).max())
    assert 0 < worst <= 0.01


def test_a_model_without_a_start_token_is_refused(tmp_path):
    with served(fetched("smollm2-135m", tmp_path / "q4.gguf")) as ref, pytest.raises(ModelError, match="wrong tokens"):
        load(ref, LoadOptions())
