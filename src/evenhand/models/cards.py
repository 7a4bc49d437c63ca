"""Models larger than one card: whether one is, and how accelerate lays it over what there is."""

from typing import Any

from evenhand.errors import InputError
from evenhand.models import LoadOptions
from evenhand.models.hub import Located, weights

FULL = 0.85
"""The share of a card's free memory that weights may take: passes need the rest."""


def size(found: Located, options: LoadOptions, dtype: Any) -> int:
    """Bytes of the weights, in the dtype that they are loaded in."""
    import torch

    stored = str(found.config.get("dtype") or found.config.get("torch_dtype") or "float32").removeprefix("torch.")
    files = sum(path.stat().st_size for path in weights(found, options))
    return int(files * dtype.itemsize // getattr(torch, stored, torch.float32).itemsize)


def too_large(found: Located, options: LoadOptions, dtype: Any, device: Any) -> bool:
    """Whether the weights do not fit on the card, where the user did not say which card it must be."""
    import torch

    if device.type != "cuda" or device.index is not None:
        return False
    return size(found, options, dtype) > FULL * torch.cuda.mem_get_info(device)[0]


def layout(found: Located) -> str:
    """What transformers is to do with a model that is too large: `auto`, by accelerate.

    Raises:
        InputError: accelerate is not installed.
    """
    try:
        import accelerate  # noqa: F401
    except ImportError:
        raise InputError(
            f"{found.ref} is larger than one card; accelerate lays it over several: pip install accelerate"
        ) from None
    return "auto"
