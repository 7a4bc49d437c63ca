"""bios-synthetic: bios over made-up biographies with a known amount of gendered wording, with nothing fetched."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from evenhand.data import Dataset, bios_synthetic, swap
from evenhand.data.bios_figures import LARGEST, SMALLEST
from evenhand.errors import InputError
from evenhand.tasks import bios
from evenhand.tasks.bios_probe import Item


class Options(bios.Options):
    """Options of bios-synthetic; those that name a file's columns are not used."""

    size: Annotated[int, Field(ge=SMALLEST, le=LARGEST)] = Field(
        default=SMALLEST, description=f"rows, {SMALLEST} (100 per occupation) to {LARGEST} (the real counts)"
    )
    strength: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0, description="share of texts with gendered wording: at 0 gender cannot be told from a text"
    )
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="seed of the texts")


class BiosSynthetic(bios.Bios):
    """The same measure over made-up texts."""

    card = replace(
        bios.Bios.card,
        name="bios-synthetic",
        title="Is an occupation classifier fair, on made-up biographies with known gendered wording?",
        licence="Apache-2.0, written for evenhand; counts: De-Arteaga et al. 2019, public figures",
        limits="Made-up texts from some hundred sentences: they show that a measure works and which way it moves, not "
        "how fair a classifier is to people. " + bios.Bios.card.limits,
    )
    options = Options

    def load(self, options: bios.Options, source: str | None, *, offline: bool) -> Dataset[Item]:
        """The made-up rows with their twins."""
        assert isinstance(options, Options)  # noqa: S101 - checked against this class
        if source is not None:
            raise InputError("--data bios-synthetic: its texts are made up; your own file goes with --tasks bios")
        data = bios_synthetic.load(options.size, options.strength, options.seed)
        return bios.items(data, swap.load(options.swap), train=options.train)


TASK = BiosSynthetic()
