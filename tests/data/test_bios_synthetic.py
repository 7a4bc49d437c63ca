"""Made-up biographies: counts, splits, seeds, and how much gender a text tells."""

from collections import Counter

import pytest

from evenhand.data import bios_synthetic, swap
from evenhand.data.bios_figures import FIGURES, LARGEST, OCCUPATIONS, SMALLEST
from evenhand.data.bios_templates import CLOSINGS, FIELDS, OPENINGS, OWN

SWAPPER = swap.load("nouns")


def test_the_largest_set_has_the_real_counts():
    for name, by_gender in bios_synthetic.counts(LARGEST).items():
        assert (by_gender["female"], by_gender["male"]) == FIGURES[name][:2]


@pytest.mark.parametrize("size", [SMALLEST, SMALLEST + 1, 10_000, 98_765, LARGEST - 1])
def test_any_size_has_its_rows_and_the_real_shares(size):
    found = bios_synthetic.counts(size)
    assert sum(sum(by_gender.values()) for by_gender in found.values()) == size
    for name, by_gender in found.items():
        n = sum(by_gender.values())
        real = FIGURES[name]
        assert n >= 100 and abs(by_gender["female"] - n * real.women / (real.women + real.men)) <= 0.5


def test_rows_are_as_counted_and_every_cell_is_tested_and_trained():
    data = bios_synthetic.load(SMALLEST, 1, 0)
    cells = Counter((row.label, row.gender) for row in data.rows)
    want = bios_synthetic.counts(SMALLEST)
    assert cells == {(name, gender): n for name, by in want.items() for gender, n in by.items()}
    assert len({(row.label, row.gender, row.split) for row in data.rows}) == 28 * 2 * 2
    assert abs(sum(row.split == "train" for row in data.rows) / SMALLEST - 0.6) < 0.01
    assert {row.label for row in data.rows[:400]} == set(OCCUPATIONS)


def test_the_same_seed_gives_the_same_rows_and_another_others():
    first, again, other = (bios_synthetic.load(3000, 0.5, seed) for seed in (1, 1, 2))
    assert first == again
    assert first.sha256 != other.sha256 and first.rows != other.rows
    assert bios_synthetic.load(3000, 0.6, 1).sha256 != first.sha256


def test_strength_is_the_share_of_texts_with_gendered_words():
    for strength in (0, 0.25, 0.5, 1):
        rows = bios_synthetic.load(5000, strength, 3).rows
        share = sum(SWAPPER.swap(row.text).words > 0 for row in rows) / len(rows)
        assert share == strength if strength in (0, 1) else abs(share - strength) < 0.03


def test_strengths_differ_in_wording_only():
    plain, full = (bios_synthetic.load(SMALLEST, strength, 5).rows for strength in (0, 1))
    for a, b in zip(plain, full, strict=True):
        assert (a.label, a.gender, a.split) == (b.label, b.gender, b.split)
        assert a.text.count(". ") == b.text.count(". ")


def test_the_words_are_of_the_row_s_gender():
    male, female = ({pair[i] for pair in swap.PRONOUNS} for i in (0, 1))
    for row in bios_synthetic.load(SMALLEST, 1, 0).rows:
        said = {word.strip(".,").lower() for word in row.text.split()}
        assert said & (male if row.gender == "male" else female)
        assert not said & (female if row.gender == "male" else male)


def test_swapping_twice_gives_every_text_back():
    for row in bios_synthetic.load(20_000, 1, 0).rows:
        once = SWAPPER.swap(row.text).text
        assert once != row.text and SWAPPER.swap(once).text == row.text


def test_there_are_hundreds_of_combinations_and_hardly_a_text_twice():
    assert set(OWN) == set(OCCUPATIONS) and all(field in FIELDS for field, _ in OWN.values())
    assert len(OPENINGS) * len(CLOSINGS) * sum(len(FIELDS[field]) * len(own) for field, own in OWN.values()) > 5000
    texts = [row.text for row in bios_synthetic.load(20_000, 1, 0).rows]
    assert len(set(texts)) > 0.95 * len(texts)
    assert not any("{" in text or "  " in text for text in texts)
