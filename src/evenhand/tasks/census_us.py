"""census-us: census over the pack en-us."""

from evenhand.tasks.census import Census, card

TASK = Census(
    card(
        "census-us",
        "United States",
        ("en",),
        "BLS Current Population Survey 2021, Table 11",
        "figures public domain; titles and templates Apache-2.0",
    ),
    own="en-us",
)
