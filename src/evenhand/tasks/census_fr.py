"""census-fr: census over the pack fr."""

from evenhand.tasks.census import Census, card

TASK = Census(
    card(
        "census-fr",
        "France",
        ("fr",),
        "DARES, FAP225, 2017-2019",
        "figures DARES open data; titles and templates Apache-2.0",
    ),
    own="fr",
)
