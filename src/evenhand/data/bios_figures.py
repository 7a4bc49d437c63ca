"""What is known of Bias in Bios (De-Arteaga et al. 2019): its occupations by number, and their counts.

Counts are facts of the two public versions: exact by gender for the 393,423 rows of Ravfogel et al. 2020 (INLP's
notebooks, MIT); totals and shares of women to two digits for the 396,189 rows of LabHC/bias_in_bios on the Hub.
"""

from typing import NamedTuple


class Figures(NamedTuple):
    """An occupation's rows: women and men of 393,423; all of 396,189, and the share of women there."""

    women: int
    men: int
    hub_total: int
    hub_share_women: float


FIGURES: dict[str, Figures] = {
    "accountant": Figures(2_081, 3_571, 5_633, 0.37),
    "architect": Figures(2_398, 7_715, 10_108, 0.24),
    "attorney": Figures(12_494, 20_113, 32_570, 0.38),
    "chiropractor": Figures(690, 1_908, 2_655, 0.26),
    "comedian": Figures(592, 2_207, 2_809, 0.21),
    "composer": Figures(918, 4_682, 5_599, 0.16),
    "dentist": Figures(5_153, 9_326, 14_585, 0.35),
    "dietitian": Figures(3_689, 289, 3_952, 0.93),
    "dj": Figures(211, 1_274, 1_486, 0.14),
    "filmmaker": Figures(2_310, 4_699, 6_996, 0.33),
    "interior_designer": Figures(1_183, 280, 1_461, 0.81),
    "journalist": Figures(9_873, 10_077, 19_941, 0.5),
    "model": Figures(6_214, 1_288, 7_491, 0.83),
    "nurse": Figures(17_236, 1_735, 18_950, 0.91),
    "painter": Figures(3_543, 4_193, 7_734, 0.46),
    "paralegal": Figures(1_499, 268, 1_765, 0.85),
    "pastor": Figures(609, 1_923, 2_523, 0.24),
    "personal_trainer": Figures(654, 778, 1_430, 0.46),
    "photographer": Figures(8_689, 15_635, 24_269, 0.36),
    "physician": Figures(19_579, 18_986, 40_998, 0.49),
    "poet": Figures(3_441, 3_570, 7_014, 0.49),
    "professor": Figures(53_290, 64_820, 118_076, 0.45),
    "psychologist": Figures(11_385, 6_910, 18_380, 0.62),
    "rapper": Figures(136, 1_271, 1_403, 0.1),
    "software_engineer": Figures(1_089, 5_817, 6_912, 0.16),
    "surgeon": Figures(1_972, 11_301, 13_587, 0.15),
    "teacher": Figures(9_768, 6_428, 16_203, 0.6),
    "yoga_teacher": Figures(1_406, 257, 1_659, 0.85),
}
OCCUPATIONS = tuple(FIGURES)
"""By number, 0 to 27."""
HUB_SPLITS = {"train": 257_478, "dev": 39_642, "test": 99_069}
SMALLEST, LARGEST = 2_800, 393_423
"""Rows of bios-synthetic: 100 for each occupation, and the real counts."""
