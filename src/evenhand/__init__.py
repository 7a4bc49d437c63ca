"""evenhand measures the social and occupational bias of language models, with error bars."""

from evenhand.errors import EvenhandError, InputError, ModelError, UnsupportedError
from evenhand.many import Many, run_many
from evenhand.run import Run, run

__version__ = "0.1.0"
__all__ = [
    "EvenhandError",
    "InputError",
    "Many",
    "ModelError",
    "Run",
    "UnsupportedError",
    "__version__",
    "run",
    "run_many",
]
