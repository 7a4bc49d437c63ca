"""From a reference to files: a local folder, a Hub id or a packaged name; what its config says it is.

The config and the tokenizer are fetched first, so that a model's kind is known before its weights load.
"""

import hashlib
import json
import mmap
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from evenhand.data.fetch import hub_errors
from evenhand.errors import InputError, ModelError
from evenhand.models import LoadOptions
from evenhand.models.packaged import PACKAGED, packaged, quiet

SMALL = ["*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja"]
SAFE, PICKLED = (
    ["*.safetensors", "*.safetensors.index.json"],
    ["pytorch_model*.bin", "pytorch_model*.bin.index.json"],
)
HEADS = {"ForMaskedLM": "masked", "ForCausalLM": "causal", "LMHeadModel": "causal", "WithLMHeadModel": "causal",
         "ForConditionalGeneration": "seq2seq", "ForPreTraining": "masked"}  # fmt: skip
NEXT_SENTENCE = ("bert", "mobilebert", "megatron-bert", "fnet")
AUTO = {"causal": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM", "seq2seq": "AutoModelForSeq2SeqLM",
        "next-sentence": "AutoModelForNextSentencePrediction", "encoder": "AutoModel"}  # fmt: skip
SAID = {
    "masked": "a masked language model",
    "causal": "a causal language model",
    "seq2seq": "an encoder-decoder model",
    "next-sentence": "a model with a next-sentence head",
    "encoder": "an encoder",
}


@dataclass(frozen=True, slots=True)
class Located:
    """A checkpoint's folder and config; `repo` where its weights may still have to be fetched from the Hub."""

    ref: str
    folder: Path
    config: dict[str, Any]
    revision: str | None
    repo: str | None

    @property
    def architecture(self) -> str:
        """The class that the config names, or an empty string."""
        names = self.config.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""


def locate(ref: str, options: LoadOptions) -> Located:
    """The folder with the reference's config and tokenizer.

    Raises:
        InputError: there is no such folder and no such model on the Hub, or the folder has no readable config.json.
    """
    if options.found is not None and options.found.ref == ref:
        return options.found
    if ref in PACKAGED:
        return _read(ref, packaged(ref, options), revision=PACKAGED[ref].revision, repo=None)
    path = Path(ref).expanduser()
    if path.is_dir():
        return _read(ref, path, revision=None, repo=None)
    if path.exists():
        raise InputError(f"{ref} is a file; a model is a folder with a config.json, or scripted:{ref}")
    repo, revision = _parted(ref)
    folder = _snapshot(repo, SMALL, options, revision)
    return _read(ref, folder, revision=folder.name, repo=repo)


def _parted(ref: str) -> tuple[str, str | None]:
    """A Hub id and the revision that is asked for, of `ID@REVISION` or of an id alone."""
    folder = ref.rpartition("@")[0]
    if folder and Path(folder).expanduser().is_dir():
        raise InputError(f"{ref}: {folder} is a local folder, which has no revisions; leave out the @ and what follows")
    repo, at, revision = ref.partition("@")
    if repo in PACKAGED:
        raise InputError(f"{ref}: {repo} has one revision; leave out the @ and what follows")
    if at and not revision:
        raise InputError(f"{ref}: no revision after the @; write {repo}@REVISION, or {repo} for the newest")
    return repo, revision or None


def _snapshot(ref: str, patterns: list[str], options: LoadOptions, revision: str | None = None) -> Path:
    from huggingface_hub import snapshot_download

    with hub_errors(f"model {ref!r} is not a folder here, and", offline=options.offline, revision=revision):
        found = snapshot_download(ref, revision=revision, allow_patterns=patterns, local_files_only=options.offline)
    return Path(found)


def _read(ref: str, folder: Path, *, revision: str | None, repo: str | None) -> Located:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{ref}: no config.json there, so it is not a model's folder")
    try:
        config = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{ref}: config.json is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise InputError(f"{ref}: config.json is not a JSON object")
    return Located(ref, folder, config, revision, repo)


def kind_of(ref: str, options: LoadOptions) -> str:
    """masked, causal or seq2seq, by the head that the config names; encoder for a packaged one."""
    found = locate(ref, options)
    if ref in PACKAGED and PACKAGED[ref].kind:
        return PACKAGED[ref].kind
    for ending, kind in HEADS.items():
        if found.architecture.endswith(ending):
            return kind
    named = found.architecture or "none"
    raise InputError(
        f"{ref}: its config names no language-modelling head (architectures: {named}); "
        "if it has one, say which: masked:, causal: or seq2seq: in front; for vectors alone, encoder:"
    )


def has_next_sentence_head(found: Located, options: LoadOptions) -> bool:
    """Whether the checkpoint holds a pre-trained next-sentence head, by its weights' names, not its config."""
    if found.config.get("model_type") not in NEXT_SENTENCE:
        return False
    files = [path for path in weights(found, options) if path.suffix == ".safetensors"]
    from safetensors import SafetensorError, safe_open

    for path in files:
        try:
            with safe_open(path, framework="numpy") as file:
                if any(name.endswith("seq_relationship.weight") for name in file.keys()):  # noqa: SIM118 - not a mapping
                    return True
        except SafetensorError as error:
            raise ModelError(f"{found.ref}: {path.name} cannot be read: {error}") from None
    return False


def expect(found: Located, kind: str) -> None:
    """Refuses a checkpoint whose config names a head of another kind."""
    for ending, own in HEADS.items():
        if found.architecture.endswith(ending) and own != kind:
            raise InputError(
                f"{found.ref} is {SAID[own]} ({found.architecture}), not {SAID[kind]}; leave out '{kind}:'"
            )


def weights(found: Located, options: LoadOptions) -> list[Path]:
    """The weight files, fetched if need be: safetensors, else pickles that torch reads in its weights-only mode."""
    for patterns in (SAFE, PICKLED):
        if found.repo is not None:
            _snapshot(found.repo, patterns, options, found.revision)
        files = sorted(path for path in found.folder.glob(patterns[0]) if path.is_file())
        if files:
            return files
    raise InputError(f"{found.ref}: no weights there (no *.safetensors, no pytorch_model*.bin)")


def fingerprint(found: Located, options: LoadOptions) -> "Future[str]":
    """The hash of what decides the answers: weights, config and tokenizer, by content. Made in a thread of its own."""
    files = [
        *weights(found, options),
        *(path for pattern in SMALL for path in sorted(found.folder.glob(pattern))),
    ]
    pool = ThreadPoolExecutor(1)
    future = pool.submit(_hashed, files)
    pool.shutdown(wait=False)
    return future


def _hashed(files: list[Path]) -> str:
    whole = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            size = path.stat().st_size
            # One call over the mapped file: read in pieces, it would wait for the interpreter's lock at every piece.
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            whole.update(f"{path.name} {hashlib.sha256(data).hexdigest()}\n".encode())
    return whole.hexdigest()


def model_class(found: Located, kind: str) -> Any:
    """The transformers class with the head of that kind, by the config's architecture name or its model type."""
    import transformers

    if kind == "encoder":
        return transformers.AutoModel
    stem = found.architecture
    for ending in HEADS:
        stem = stem.removesuffix(ending)
    endings = [ending for ending, own in HEADS.items() if own == kind and ending != "ForPreTraining"]
    names = [found.architecture] if any(found.architecture.endswith(ending) for ending in endings) else []
    names += [stem + ending for ending in endings or ["ForNextSentencePrediction"] if stem]
    for name in names:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    return getattr(transformers, AUTO[kind])


def load_weights(found: Located, kind: str, dtype: Any, device: Any, options: LoadOptions) -> Any:
    """The checkpoint's weights in a model of that kind, in evaluation mode.

    `device` is a torch device, or a layout over several (a device map), which accelerate follows.

    Raises:
        InputError: its code is not part of transformers and remote code is not trusted, or weights are missing: a
            head that was never trained would answer at random.
        ModelError: transformers cannot load it.
    """
    if "auto_map" in found.config and not options.trust_remote_code:
        import transformers

        if not hasattr(transformers, found.architecture):
            raise InputError(
                f"{found.ref} brings code of its own ({found.architecture}), which evenhand does not run; "
                "--trust-remote-code runs it with all your rights: read it first"
            )
    from safetensors import SafetensorError

    files = weights(found, options)
    mapped = {"device_map": device} if isinstance(device, str | dict) else {}
    unreadable = (OSError, ValueError, KeyError, RuntimeError, ImportError, EOFError, SafetensorError, UnpicklingError)
    try:
        with quiet():
            model, info = model_class(found, kind).from_pretrained(
                found.folder,
                dtype=dtype,
                output_loading_info=True,
                local_files_only=True,
                use_safetensors=files[0].suffix == ".safetensors",
                trust_remote_code=options.trust_remote_code,
                **mapped,
            )
        model = model if mapped else model.to(device)
    except unreadable as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"{found.ref}: transformers cannot load it: {reason}") from error
    unread = ("pooler",) if kind == "encoder" else ()  # a head over the vectors that are pooled here
    if missing := sorted(name for name in info["missing_keys"] if not name.startswith(unread)):
        raise InputError(
            f"{found.ref}: no weights for {missing[0]} ({len(missing)} missing in all); they would be random, "
            f"so it cannot be read as {SAID[kind]}"
        )
    return model.eval()


def tokenizer(found: Located, options: LoadOptions) -> Any:
    """The checkpoint's tokenizer.

    Raises:
        InputError: the folder has none that transformers can read.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            found.folder, local_files_only=True, trust_remote_code=options.trust_remote_code
        )
    except (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{found.ref}: no tokenizer that transformers can read: {reason}") from error
