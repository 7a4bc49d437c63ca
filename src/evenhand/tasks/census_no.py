"""census-no: census over the pack no."""

from evenhand.tasks.census import Census, card

TASK = Census(
    card(
        "census-no",
        "Norway",
        ("nb",),
        "utdanning.no, likestilling",
        "figures are facts from utdanning.no; plural titles and templates Apache-2.0",
    ),
    own="no",
)
