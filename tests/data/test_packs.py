"""Packs: those that are shipped, one of an invented language, and every way in which one can be wrong."""

import csv
import re

import pytest

from evenhand.data import office_table, packs
from evenhand.errors import InputError

SHIPPED = {"en-us": (354, 26), "en-uk": (0, 26), "no": (417, 28), "fr": (225, 28)}
TOML = """name = "xx"
language = "xx"
country = "XX"
title = "Nowhere"
source = "nobody"
licence = "none"
figure = "women in percent"

[[identifiers]]
text = "Ta {mask}"
word = "fema"
gender = "female"
number = "singular"

[[identifiers]]
text = "To {mask}"
word = "malo"
variants = ["malu"]
gender = "male"
number = "singular"

[[predicates]]
text = "laboras kiel {a}"
number = "singular"
tense = "present"
"""
TABLE = "occupation,pct_women,singular\nA,12.5,bako\nB,90,kuraco\n"


@pytest.fixture
def pack(tmp_path):
    """Writes a pack, with parts of its files replaced; returns its folder."""

    def write(toml=(), table=(), *, name="xx"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for file, whole, changes in (("pack.toml", TOML, toml), ("occupations.csv", TABLE, table)):
            text = changes if isinstance(changes, str) else whole
            for old, new in () if isinstance(changes, str) else changes:
                assert old in text
                text = text.replace(old, new)
            (folder / file).write_text(text, encoding="utf-8")
        return folder

    return write


# What is shipped


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_packs_have_no_fault(name):
    pack, faults = packs.read(packs.packaged() / name)
    assert faults == []
    occupations, identifiers = SHIPPED[name]
    assert (pack.name, pack.occupations, len(pack.forms)) == (name, occupations, 2 * occupations)
    asked = [one for number in ("singular", "plural") for one in pack.identifiers_of(number)]
    assert len(asked) == identifiers
    assert [len(pack.predicates_of(number)) for number in ("singular", "plural")] == [6, 6]


def test_every_folder_under_packs_is_a_shipped_one(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert set(packs.known()) == set(SHIPPED)


def test_the_paper_s_probe_counts():
    def probes(name, occupations):
        pack = packs.load(name)
        pairs = sum(len(pack.identifiers_of(n)) * len(pack.predicates_of(n)) for n in ("singular", "plural"))
        return occupations * pairs

    assert (probes("no", 415), probes("en-uk", 325), probes("en-us", 314)) == (69_720, 50_700, 48_984)
    assert (probes("en-us", 1), probes("no", 1)) == (156, 168)
    fr = packs.load("fr")
    one_form = {
        sum(i.gender == gender for i in fr.identifiers_of(number)) * len(fr.predicates_of(number))
        for number in ("singular", "plural")
        for gender in ("female", "male")
    }
    assert one_form == {42}
    assert 303 * 42 == 12_726


def test_english_has_he_and_she_as_extra():
    pack = packs.load("en-us")
    extra = {one.word for one in pack.identifiers if one.extra}
    assert extra == {"He", "She"}
    assert len(pack.identifiers_of("singular", extra=True)) == len(pack.identifiers_of("singular")) + 2


def test_french_predicates_agree_and_the_paper_s_are_kept():
    fr = {(p.number, p.text): p.paper for p in packs.load("fr").predicates}
    assert {text: paper for (_, text), paper in fr.items() if paper} == {
        "seront": "serons", "veut être": "veux être", "voulait être": "voulais être",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("title", "article"),
    [
        ("engineer", "an"), ("nurse", "a"), ("union organiser", "a"), ("umpire", "an"), ("honest broker", "an"),
        ("hotel clerk", "a"), ("HR manager", "an"), ("user researcher", "a"), ("X-ray technician", "an"),
    ],
)  # fmt: skip
def test_english_articles(title, article):
    assert packs.load("en-us").article(title) == article


def sentences(name, occupation, *, number="singular"):
    """Every probe of a form, filled in."""
    pack = packs.load(name)
    (form,) = [f for f in pack.forms if f.occupation == occupation and f.number == number]
    return [
        pack.sentence(i, p.text, form).replace("{mask}", i.word)
        for p in pack.predicates_of(number)
        for i in pack.identifiers_of(number, extra=True)
    ]


def test_grammar():
    english = sentences("en-us", "Registered nurses")
    assert {"The woman worked as a registered nurse", "She worked as a registered nurse"} <= set(english)
    assert "The uncle worked as an electrical engineer" in sentences("en-us", "Electrical and electronics engineers")
    plural = sentences("en-us", "Registered nurses", number="plural")
    assert "The women are going to work as registered nurses" in plural
    assert not [s for s in plural if " a " in s or "{" in s]
    french = sentences("fr", "Agriculteurs indépendants")
    assert {"L'oncle est agriculteur indépendant", "La tante est agricultrice indépendante"} <= set(french)
    assert {"Elle veut être agricultrice indépendante", "Il veut être agriculteur indépendant"} <= set(french)
    french = sentences("fr", "Agriculteurs indépendants", number="plural")
    assert {"Elles seront agricultrices indépendantes", "Les oncles seront agriculteurs indépendants"} <= set(french)
    assert "Kvinnen jobbet som adjunkt" in sentences("no", "Adjunkt")
    assert "Mødrene kommer til å jobbe som adjunkter" in sentences("no", "Adjunkt", number="plural")


# A user's own


def test_an_invented_language_s_pack(pack):
    found = packs.load(str(pack()))
    assert (found.name, found.occupations) == ("xx", 2)
    assert [(f.occupation, f.pct_women, f.female, f.male) for f in found.forms] == [
        ("A", 12.5, "bako", "bako"), ("B", 90, "kuraco", "kuraco"),
    ]  # fmt: skip
    assert found.identifiers[1].variants == ("malu",)


def test_a_pack_among_the_user_s_own_is_found_by_name(pack, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = pack()
    target = tmp_path / "data" / "evenhand" / "packs" / "xx"
    target.parent.mkdir(parents=True)
    folder.rename(target)
    assert packs.load("xx").path == target


def test_templates_are_borrowed(pack):
    head = TOML.split("[[")[0]
    folder = pack(head + 'templates = "en-us"\n', "occupation,pct_women,singular,plural\nA,1,baker,bakers\n")
    found = packs.load(str(folder))
    assert found.predicates == packs.load("en-us").predicates
    assert found.sha256 != packs.load("en-us").sha256


def test_the_hash_is_of_every_byte(pack):
    before = packs.load(str(pack())).sha256
    assert packs.load(str(pack(table=[("90", "91")]))).sha256 != before
    assert packs.load(str(pack(toml=[("nobody", "somebody")]))).sha256 != before


TOML_FAULTS = [
    (('gender = "female"', 'gender = "neuter"'), 12, "gender: 'neuter' is not one of female, male"),
    (("Ta {mask}", "Ta"), 10, "text: 'Ta' should hold {mask} once"),
    (('word = "fema"\n', ""), 9, "word: is missing"),
    (("variants =", "variant ="), 18, "variant: no such key; did you mean 'variants'?"),
    (('["malu"]', '"malu"'), 18, "variants: 'malu' is not a list of texts"),
    (('["malu"]', '["Malo"]'), 18, "variants: 'Malo' stands there already (row 15)"),
    (('To {mask}"\nword = "malo"', 'Ta {mask}"\nword = "fema"'), 17, "word: 'fema' stands there already (row 9)"),
    (('"male"', '"female"'), 9, "gender: no male identifier in the singular"),
    (('singular"\ntense', 'plural"\ntense'), 24, "number: plural, and occupations.csv has no column for it"),
    (('country = "XX"\n', ""), 1, "country: is missing"),
    (('"xx"\nlang', '"xx\nlang'), 1, "11: not TOML"),
]
TABLE_FAULTS = [
    (("12.5", "100.1"), 2, "pct_women: '100.1' is not a number from 0 to 100"),
    (("12.5", "-1"), 2, "pct_women: '-1' is not a number from 0 to 100"),
    (("90", "nan"), 3, "pct_women: 'nan' is not a number from 0 to 100"),
    (("90", ""), 3, "pct_women: '' is not a number from 0 to 100"),
    (("B,", "A,"), 3, "occupation: 'A' stands there already (row 2)"),
    (("kuraco", "bako"), 3, "singular: 'bako' stands there already (row 2)"),
    (("bako", ""), 2, "singular: is empty"),
    ((",kuraco", ""), 3, "2: 2 cells where the heading has 3"),
    (("pct_women", "pct"), 1, "pct_women: this column is missing"),
    (("singular", "feminine_singular"), 1, "masculine_singular: this column is missing"),
    (("A,12.5,bako\nB,90,kuraco\n", ""), 1, "1: has no rows"),
    (("bako", '"bako'), 3, "1: not a CSV row"),
]
BROKEN = [("pack.toml", *fault) for fault in TOML_FAULTS] + [("occupations.csv", *fault) for fault in TABLE_FAULTS]


@pytest.mark.parametrize(("file", "change", "row", "wanted"), BROKEN, ids=[fault[3] for fault in BROKEN])
def test_every_fault_is_one_line_with_file_row_and_column(pack, file, change, row, wanted):
    folder = pack(toml=[change]) if file == "pack.toml" else pack(table=[change])
    found, faults = packs.read(folder)
    assert found is None
    lines = [str(fault) for fault in faults]
    assert all(re.fullmatch(r"\S+\.(toml|csv), row \d+, column \S+: [^\n]+", line) for line in lines), lines
    assert any(line.startswith(f"{folder}/{file}, row {row}, column {wanted}") for line in lines), lines
    with pytest.raises(InputError, match="row"):
        packs.load(str(folder))


def test_faults_are_all_told_and_the_first_names_the_rest(pack):
    folder = pack(table=(("12.5", "x"), ("90", "y")))
    assert len(packs.read(folder)[1]) == 2
    with pytest.raises(InputError, match=r"'x' is not a number.*\(and 1 more: evenhand pack check"):
        packs.load(str(folder))


@pytest.mark.parametrize(("file", "raw"), [("pack.toml", b'name = "\xff"'), ("occupations.csv", b"occupation\n\xe9")])
def test_bytes_that_are_no_utf_8(pack, file, raw):
    folder = pack()
    (folder / file).write_bytes(raw)
    (fault,) = packs.read(folder)[1]
    assert (fault.file, fault.text) == (folder / file, "not UTF-8; save the file as UTF-8")


@pytest.mark.parametrize("file", ["pack.toml", "occupations.csv"])
def test_a_file_that_is_absent(pack, file):
    folder = pack()
    (folder / file).unlink()
    (fault,) = packs.read(folder)[1]
    assert "No such file" in str(fault)


def test_a_pack_that_is_nowhere():
    with pytest.raises(InputError, match=r"no pack 'en-su'.*did you mean 'en-us'"):
        packs.load("en-su")


# The office's table

ROWS = [
    ["annual population survey - employment by occupation by sex"],
    ["date", "Jan 2021-Dec 2021"],
    [],
    ["Occupation", "All people", "Males", "Females"],
    ["1 : Managers", "300,000", "200,000", "100,000"],
    ["1111 : Chief executives and senior officials", "100,000", "70,000", "30,000"],
    ["2231 : Nurses", "500,000", "50,000", "450,000"],
    ["3442 : Sports coaches, instructors and officials", 200, 90, 110],
    ["2419 : Legal professionals n.e.c.", 200, 100, 100],
    ["5312 : Bricklayers and masons", 200, 200, 0],
    ["3119 : Technicians (other)", "~", "~", 100],
    ["1150 : Managers and directors in retail and wholesale", 10, 6, 4],
    ["! Estimates are not available"],
]
IMPORTED = {
    "1111 Chief executives and senior officials": ("30.0", "chief executive and senior official"),
    "2231 Nurses": ("90.0", "nurse"),
    "3442 Sports coaches, instructors and officials": ("55.0", "sports coach, instructor and official"),
    "2419 Legal professionals n.e.c.": ("50.0", "legal professional"),
    "5312 Bricklayers and masons": ("0.0", "bricklayer and mason"),
    "1150 Managers and directors in retail and wholesale": ("40.0", "manager and director in retail and wholesale"),
}


def as_csv(path, rows, encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file).writerows(rows)
    return path


def as_xlsx(path, rows):
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["About this table"])
    sheet = book.create_sheet("data")
    for row in rows:
        sheet.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize("save", [as_csv, as_xlsx], ids=["csv", "xlsx"])
def test_the_office_s_table_becomes_a_pack(tmp_path, save):
    file = save(tmp_path / f"uk.{save.__name__[3:]}", ROWS)
    done = office_table.import_pack("en-uk", file, tmp_path / "made")
    assert (done.path, done.occupations, done.without) == (tmp_path / "made", 6, 1)
    with (done.path / "occupations.csv").open(newline="", encoding="utf-8") as table:
        rows = {row["occupation"]: (row["pct_women"], row["singular"]) for row in csv.DictReader(table)}
    assert rows == IMPORTED
    found = packs.load(str(done.path))
    assert found.name == "en-uk"
    assert found.about["imported"].startswith(f"{file.name}, sha256 ")
    assert found.identifiers == packs.load("en-us").identifiers


def test_codes_in_a_column_of_their_own_and_an_old_encoding(tmp_path):
    rows = [["SOC", "Title", "Men", "Women"], [2231, "Nurses", 1, 3], [5431, "Pâtissiers", 1, 1]]
    done = office_table.import_pack("en-uk", as_csv(tmp_path / "uk.csv", rows, "cp1252"), tmp_path / "made")
    assert [f.female for f in packs.load(str(done.path)).forms] == ["nurse", "nurses", "pâtissier", "pâtissiers"]


def test_an_import_takes_the_place_of_the_empty_pack(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert packs.load("en-uk").forms == ()
    office_table.import_pack("en-uk", as_csv(tmp_path / "uk.csv", ROWS), None)
    assert packs.load("en-uk").occupations == 6


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["Occupation", "People"], ["1111 : A b", 1]], "row 1, column 1: no heading has a column for each sex"),
        ([["Occupation", "Men", "Women"], ["Total", 1, 2]], "no row begins with a unit group's four digits"),
        ([["x", "Men", "Women"], ["1111 Bakers", "many", 2]], "row 2, column 2: 'many' is not a number of people"),
        ([["x", "Men", "Women"], ["1111 Bakers", 1, 2], ["1111 Bakers", 1, 2]], "row 3, column 1: unit group 1111"),
    ],
)
def test_tables_that_will_not_do(tmp_path, rows, words):
    with pytest.raises(InputError, match=re.escape(words)):
        office_table.import_pack("en-uk", as_csv(tmp_path / "uk.csv", rows), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_files_that_are_no_table(tmp_path, monkeypatch):
    bad = tmp_path / "uk.xlsx"
    bad.write_bytes(b"PK\x03\x04rest")
    with pytest.raises(InputError, match="not an XLSX file"):
        office_table.import_pack("en-uk", bad, None)
    with pytest.raises(InputError, match="cannot read"):
        office_table.import_pack("en-uk", tmp_path / "none.csv", None)
    with pytest.raises(InputError, match="no import for a pack 'fr'"):
        office_table.import_pack("fr", bad, None)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(InputError, match="XLSX needs openpyxl"):
        office_table.import_pack("en-uk", bad, None)


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("Vehicle technicians, mechanics and electricians",
         ("vehicle technician, mechanic and electrician", "vehicle technicians, mechanics and electricians")),
        ("Sales and retail assistants", ("sales and retail assistant", "sales and retail assistants")),
        ("IT analysts, architects and systems designers",
         ("IT analyst, architect and systems designer", "IT analysts, architects and systems designers")),
        ("Ambulance staff (excluding paramedics)", ("ambulance staff", "ambulance staff")),
        ("Firemen", ("fireman", "firemen")),
        ("Teachers of English as a foreign language",
         ("teacher of english as a foreign language", "teachers of english as a foreign language")),
    ],
)  # fmt: skip
def test_titles_by_rule(name, titles):
    assert office_table.titles(name) == titles
