"""census-uk: census over the pack en-uk, whose figures come by import."""

from evenhand.tasks.census import Census, card

TASK = Census(
    card(
        "census-uk",
        "United Kingdom",
        ("en",),
        "Office for National Statistics, by import",
        "figures by import, Open Government Licence; templates Apache-2.0",
    ),
    own="en-uk",
)
