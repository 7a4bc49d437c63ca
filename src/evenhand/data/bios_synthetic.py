"""bios-synthetic: made-up biographies with the real counts per occupation and gender, and a known gendered wording.

At `strength` 0 no text has a gendered word, so that gender cannot be told from it; at `strength` s a share s of the
texts, drawn by chance, has pronouns and a title (he, him, his, Mr. or she, her, Ms.) wherever the others repeat the
surname. Occupations are not equally gendered, so the wording tells of the occupation too: a classifier that listens to
it has gaps, and answers otherwise where it is swapped. A share of the texts has no sentence that tells its occupation
from its field's.
"""

import hashlib
import random
from collections.abc import Iterator

from evenhand.data import Dataset
from evenhand.data.bios import Biography
from evenhand.data.bios_figures import FIGURES, LARGEST, SMALLEST
from evenhand.data.bios_templates import CLOSINGS, FIELDS, OPENINGS, OWN, PLACES, SURNAMES

TRAIN_SHARE = 0.6
TELLING = 0.6
"""The share of texts with a sentence that tells the occupation."""
WORDS = {
    "male": {"S": "He", "s": "he", "P": "His", "p": "his", "o": "him"},
    "female": {"S": "She", "s": "she", "P": "Her", "p": "her", "o": "her"},
}
TITLES = {"male": "Mr.", "female": "Ms."}
LETTERS = "ABCDEFGHIJKLMNOPRSTUVW"


def load(size: int, strength: float, seed: int) -> Dataset[Biography]:
    """Made-up biographies.

    Args:
        size: rows, `SMALLEST` (100 per occupation) to `LARGEST` (the real counts).
        strength: the share of texts with gendered wording, 0 to 1.
        seed: same seed, same rows.
    """
    rows = tuple(_made(size, strength, seed))
    whole = hashlib.sha256()
    for row in rows:
        whole.update(f"{row.label}\t{row.gender}\t{row.split}\t{row.text}\n".encode())
    return Dataset(
        rows=rows,
        source=f"bios-synthetic size={size} strength={strength:g} seed={seed}",
        sha256=whole.hexdigest(),
        notes=(
            f"made-up texts from evenhand's own sentences, real shares of women; {strength:.0%} have gendered wording, "
            f"{TELLING:.0%} a sentence that tells the occupation from its field's",
        ),
    )


def counts(size: int) -> dict[str, dict[str, int]]:
    """Rows per occupation and gender: 100 for every occupation and a part of what is real above that.

    Shares of women are the real ones, to the nearest row; at `LARGEST` the counts are the real ones.
    """
    part = (size - SMALLEST) / (LARGEST - SMALLEST)
    exact = {name: 100 + part * (row.women + row.men - 100) for name, row in FIGURES.items()}
    rows = {name: int(value) for name, value in exact.items()}
    by_rest = sorted(exact, key=lambda name: rows[name] - exact[name])
    for name in by_rest[: size - sum(rows.values())]:
        rows[name] += 1
    found = {}
    for name, n in rows.items():
        women = round(n * FIGURES[name].women / (FIGURES[name].women + FIGURES[name].men))
        found[name] = {"female": women, "male": n - women}
    return found


def _made(size: int, strength: float, seed: int) -> Iterator[Biography]:
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    cells = []
    for label, by_gender in counts(size).items():
        for gender, n in by_gender.items():
            train = round(n * TRAIN_SHARE)
            cells += [(label, gender, "train")] * train + [(label, gender, "test")] * (n - train)
    chance.shuffle(cells)
    for number, (label, gender, split) in enumerate(cells):
        text = _text(label, gender, chance, gendered=chance.random() < strength)
        yield Biography(str(number), text, label, gender, split)


def _text(label: str, gender: str, chance: random.Random, *, gendered: bool) -> str:
    def pick(choices: tuple[str, ...]) -> str:
        return choices[int(chance.random() * len(choices))]

    field, own = OWN[label]
    surname, letter = pick(SURNAMES), LETTERS[int(chance.random() * len(LETTERS))]
    sentences = [pick(FIELDS[field]), pick(FIELDS[field])]
    if sentences[0] == sentences[1]:
        sentences.pop()
    if chance.random() < TELLING:
        sentences.insert(int(chance.random() * (len(sentences) + 1)), pick(own))
    sentences = [pick(OPENINGS), *sentences, pick(CLOSINGS)]
    words = WORDS[gender] if gendered else dict.fromkeys("Sso", surname) | dict.fromkeys("Pp", f"{surname}'s")
    name = f"{TITLES[gender]} {surname}" if gendered else f"{letter}. {surname}"
    return " ".join(sentences).format_map({**words, "N": name, "c": pick(PLACES)})
