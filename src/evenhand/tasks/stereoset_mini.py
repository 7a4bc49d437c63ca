"""stereoset-mini: stereoset over the project's own small set, for a run with nothing fetched."""

from dataclasses import replace

from evenhand.tasks.stereoset import CARD, StereoSet

TASK = StereoSet(
    replace(
        CARD,
        name="stereoset-mini",
        title="Stereotype, anti-stereotype or nonsense, on 64 examples of evenhand's own",
        licence="Apache-2.0, written for evenhand",
        limits="64 examples: a first look and a test of the machinery, never a StereoSet result. " + CARD.limits,
    ),
    own="mini",
)
