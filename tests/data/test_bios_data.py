"""Biographies and predictions from files and from the Hub's set: formats, columns, faults with their place."""

import csv
import io
import json
import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenhand.data import bios, bios_predictions
from evenhand.data.bios import HUB, HUB_FILES, Biography, Columns
from evenhand.data.bios_figures import FIGURES, HUB_SPLITS, OCCUPATIONS
from evenhand.data.tables import read, shown
from evenhand.errors import InputError
from hub_server import hub, point

SECRET = "Quibbleworth was born in a lighthouse and now practises dentistry"
ROWS = [
    {"hard_text": f"{SECRET}, row {i}", "profession": label, "gender": gender, "split": split}
    for i, (label, gender, split) in enumerate(
        [("nurse", "female", "train"), ("surgeon", "male", "test"), ("dj", "male", "dev"), ("nurse", "male", "test")]
    )
]


def write(path, rows):
    """Rows as a file of the kind its name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        text = io.StringIO()
        table = csv.DictWriter(text, rows[0], delimiter="\t" if path.suffix == ".tsv" else ",")
        table.writeheader()
        table.writerows(rows)
        path.write_text(text.getvalue(), encoding="utf-8")
    return path


def load(path, **columns):
    return bios.load(str(path), Columns(**columns), offline=True)


def refused(path, load=load):
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "Quibbleworth" not in message and "lighthouse" not in message
    return message


# --- files


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("numbers", [False, True])
def test_every_format_gives_the_same_rows_by_names_and_by_numbers(tmp_path, ending, numbers):
    rows = ROWS
    if numbers:
        rows = [
            row | {"profession": OCCUPATIONS.index(row["profession"]), "gender": int(row["gender"] == "female")}
            for row in ROWS
        ]
    data = load(write(tmp_path / f"own.{ending}", rows))
    assert sorted(data.rows, key=lambda row: row.id) == [
        Biography(str(i + 1), row["hard_text"], row["profession"], row["gender"], row["split"])
        for i, row in enumerate(ROWS)
    ]
    assert data.source == f"own.{ending}" and len(data.sha256) == 64 and not data.notes


def test_columns_are_named_by_options_and_genders_in_several_ways(tmp_path):
    rows = [
        {"bio": f"text {i}", "job": "astronaut", "sex": sex, "who": f"p{i}"}
        for i, sex in enumerate(["F", "m", "Female", "MALE", "woman", "man", "1", "0"])
    ]
    data = load(write(tmp_path / "own.csv", rows), text="bio", label="job", gender="sex", id="who")
    by_id = {row.id: row for row in data.rows}
    assert [by_id[f"p{i}"].gender for i in range(8)] == ["female", "male"] * 4
    assert {row.label for row in data.rows} == {"astronaut"}


def test_without_a_split_column_the_texts_hash_decides(tmp_path):
    rows = [{"hard_text": f"text {i % 400}", "profession": "dj", "gender": "m"} for i in range(800)]
    data = load(write(tmp_path / "own.jsonl", rows))
    by_text = {}
    for row in data.rows:
        by_text.setdefault(row.text, set()).add(row.split)
    assert all(len(splits) == 1 for splits in by_text.values())
    assert 130 < sum(row.split == "test" for row in data.rows) < 270
    assert "no column 'split'" in data.notes[0]


def test_a_quoted_text_of_several_lines(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text('hard_text,profession,gender\n"two\nlines",dj,m\nnext,dj,x\n')
    assert "row 2 (line 4), column 'gender'" in refused(path)


def test_a_beginning_of_the_rows_has_the_whole_s_splits():
    rows = [Biography(str(i), "", "dj", "male", split) for i, split in enumerate(["train"] * 650 + ["test"] * 250)]
    mixed = bios.mixed(rows)
    assert sorted(row.id for row in mixed) == sorted(row.id for row in rows)
    for n in (9, 90, 360):
        assert abs(sum(row.split == "test" for row in mixed[:n]) - n * 250 / 900) <= 1


def test_a_text_in_a_message_is_counted_and_not_shown():
    assert shown("nurse") == "'nurse'"
    assert shown(SECRET) == f"a text of {len(SECRET)} characters"
    assert shown({"a": 1}) == "a dict" and shown(None) == "None" and shown(2.5) == "2.5"


HEAD = "hard_text,profession,gender,split,id\n"
GOOD = f"{SECRET},nurse,female,train,a\n"
BROKEN = {
    "a gender": (HEAD + GOOD + f"{SECRET},nurse,unknown,test,b\n", "row 2 (line 3), column 'gender': 'unknown' where"),
    "a number": (HEAD + f"{SECRET},28,female,train,a\n", "row 1 (line 2), column 'profession': '28' is no number from"),
    "a negative number": (HEAD + f"{SECRET},-1,f,train,a\n", "row 1 (line 2), column 'profession': '-1' is no number"),
    "an empty text": (HEAD + GOOD + " ,nurse,male,test,b\n", "row 2 (line 3), column 'hard_text': is empty"),
    "an empty label": (HEAD + GOOD + f"{SECRET},,male,test,b\n", "row 2 (line 3), column 'profession': is empty"),
    "a split": (HEAD + GOOD + f"{SECRET},dj,m,later,b\n", "row 2 (line 3), column 'split': 'later' where"),
    "an id twice": (HEAD + GOOD + GOOD, "row 2 (line 3), column 'id': the id 'a' stands in row 1 too"),
    "too few columns": (HEAD + GOOD + f"{SECRET},dj\n", "row 2 (line 3): 2 columns where the first line has 5"),
    "a text as gender": (HEAD + f"nurse,dj,{SECRET},train,a\n", "column 'gender': a text of"),
    "a quote": (HEAD + GOOD + f'"{SECRET},dj\n', "row 2 (line 3): not a row"),
    "a missing column": ("hard_text,profesion,gender\nx,y,z\n", "no column 'profession'; did you mean 'profesion'?"),
    "no rows": (HEAD, "has no rows"),
    "nothing": ("", "no column 'hard_text'"),
}


LINE = b'{"hard_text": "a", "profession": "dj", "gender": "m"}\n'


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=BROKEN)
def test_broken_files_name_the_file_the_row_and_the_column(table, text, said):
    message = refused(table(text, "own.csv"))
    assert said in message and "own.csv" in message


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("own.csv", HEAD.encode() + b"\xff\xfe,dj,m,test,a\n", "own.csv, line 2: not UTF-8"),
        ("own.jsonl", LINE + b'{"hard_text"\n', "row 2 (line 2): not JSON"),
        ("own.jsonl", LINE + b"[1]\n", "row 2 (line 2): a list where"),
        ("own.jsonl", LINE + b'{"hard_text": "b"}\n',
         "row 2 (line 2), column 'profession': the row has no such key"),
        ("own.jsonl", b'{"hard_text": null, "profession": "dj", "gender": "m"}\n', "column 'hard_text': nothing where"),
        ("own.jsonl", b'{"hard_text": "a", "profession": ["dj"], "gender": "m"}\n', "'profession': a list where"),
        ("own.jsonl", b'{"hard_text": "a", "profession": true, "gender": "m"}\n', "column 'profession': True where"),
        ("own.parquet", b"PAR1 nonsense", "not a Parquet file"),
        ("own.xls", b"", "should end in .csv, .tsv, .jsonl or .parquet"),
    ],
)  # fmt: skip
def test_broken_files_of_other_kinds(table, name, raw, said):
    assert said in refused(table(raw, name))


def test_a_fault_in_parquet_names_the_row(tmp_path):
    path = write(tmp_path / "own.parquet", [{"hard_text": "a", "profession": "dj", "gender": g} for g in (0, 1, 2)])
    assert refused(path).startswith("own.parquet, row 3, column 'gender': '2' where")


def test_a_file_that_is_not_there(tmp_path):
    assert "cannot read" in refused(tmp_path / "own.csv")


# --- the Hub's set


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The Hub's set in small, served; returns its rows by split."""
    chance = random.Random(0)
    parts = {
        split: [
            {"hard_text": f"{split} {i}", "profession": chance.randrange(28), "gender": chance.randrange(2)}
            for i in range(n)
        ]
        for split, n in (("train", 60), ("dev", 10), ("test", 25))
    }
    (tmp_path / "set" / "data").mkdir(parents=True)
    for split, rows in parts.items():
        write(tmp_path / "set" / HUB_FILES[split], rows)
    with hub(datasets={HUB: tmp_path / "set"}) as (address, asked):
        point(monkeypatch, tmp_path / "cache", address)
        yield parts, asked


def test_the_public_set_from_a_hub(served):
    parts, asked = served
    data = bios.load(None, Columns(), offline=False)
    assert Counter(row.split for row in data.rows) == {"train": 60, "dev": 10, "test": 25}
    by_id = {row.id: row for row in data.rows}
    for split, rows in parts.items():
        for i, row in enumerate(rows):
            found = by_id[f"{split}/{i}"]
            assert (found.text, found.label) == (row["hard_text"], OCCUPATIONS[row["profession"]])
            assert found.gender == ("male", "female")[row["gender"]]
    assert data.source == f"hub:{HUB}"
    assert all(note.startswith("warning: the public set differs") for note in data.notes) and len(data.notes) == 5
    assert sorted(file.name for file in bios.fetch(offline=True).iterdir()) == sorted(
        name.removeprefix("data/") for name in HUB_FILES.values()
    )
    n = len(asked)
    assert bios.load(None, Columns(), offline=True) == data
    assert len(asked) == n


def test_the_public_set_without_a_network(tmp_path, monkeypatch):
    point(monkeypatch, tmp_path / "cache", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="not in the Hub cache"):
        bios.load(None, Columns(), offline=True)


def test_known_counts_give_no_note():
    rows = []
    splits = iter([split for split, n in HUB_SPLITS.items() for _ in range(n)])
    for name, known in FIGURES.items():
        women = round(known.hub_total * known.hub_share_women)
        for i in range(known.hub_total):
            rows.append(Biography("", "", name, "female" if i < women else "male", next(splits)))
    assert list(bios.differences(rows)) == []
    said = list(bios.differences(rows[1:]))
    assert "257,477 train rows, not 257,478" in said[0] and "accountant 5,632 not 5,633" in said[1]


def test_the_figures_are_the_shared_ones(shared):
    with (shared / "data" / "bios" / "bias_in_bios_counts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["profession"] for row in rows] == list(OCCUPATIONS)
    for row in rows:
        assert FIGURES[row["profession"]] == (
            int(row["inlp393423_female"]), int(row["inlp393423_male"]), int(row["labhc396189_total"]),
            float(row["labhc396189_female_share_2dp"]),
        )  # fmt: skip
    assert sum(HUB_SPLITS.values()) == sum(known.hub_total for known in FIGURES.values())


# --- predictions

PREDICTED = "id,label,gender,prediction,prediction_counterfactual,probabilities,probabilities_counterfactual\n"
P = '"{""nurse"": 0.75, ""dj"": 0.25}"'
Q = '"{""nurse"": 0.4, ""dj"": 0.6}"'


def test_predictions_with_everything(table):
    data = bios_predictions.load(table(PREDICTED + f"a,dj,f,nurse,dj,{P},{Q}\nb,8,1,13,13,{P},{P}\n", "p.csv"))
    first, second = data.rows
    assert (first.label, first.gender, first.prediction, first.twin) == ("dj", "female", "nurse", "dj")
    assert first.p_predicted == (0.75, 0.4) and first.p_true == (0.25, 0.6)
    assert (second.label, second.prediction, second.twin) == ("dj", "nurse", "nurse")


def test_the_hash_is_of_what_is_true_and_not_of_what_is_predicted(table):
    head, rows = "id,label,gender,prediction\n", ["a,dj,f,dj\n", "b,dj,m,poet\n"]
    texts = [head + "".join(rows), head + "".join(rows[::-1]).replace("poet", "dj"), head + rows[0] + "b,poet,m,dj\n"]
    first, same, other = (bios_predictions.load(table(text, f"{i}.csv")).sha256 for i, text in enumerate(texts))
    assert first == same != other


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_probabilities_as_objects(tmp_path, ending):
    p = {"nurse": 0.75, "dj": 0.25}
    row = {"id": 1, "label": "dj", "gender": 1, "prediction": "nurse", "probabilities": p}
    (found,) = bios_predictions.load(write(tmp_path / f"p.{ending}", [row])).rows
    assert found.p_predicted == (0.75, None) and found.p_true == (0.25, None) and found.twin is None


FAULTS = {
    "no id": ("label,gender,prediction\nx,m,y\n", "no column 'id'"),
    "no prediction": ("id,label,gender\na,x,m\n", "no column 'prediction'"),
    "an id twice": (PREDICTED + f"a,dj,f,dj,dj,{P},{P}\n" * 2, "row 2 (line 3), column 'id'"),
    "an empty prediction": (PREDICTED + f"a,dj,f,,dj,{P},{P}\n", "row 1 (line 2), column 'prediction': is empty"),
    "an empty twin": (PREDICTED + f"a,dj,f,dj,,{P},{P}\n", "row 1 (line 2), column 'prediction_counterfactual'"),
    "a gender": (PREDICTED + f"a,dj,x,dj,dj,{P},{P}\n", "row 1 (line 2), column 'gender': 'x' where"),
    "a class": (PREDICTED + f"a,dj,f,99,dj,{P},{P}\n", "row 1 (line 2), column 'prediction': '99' is no number"),
    "no JSON": (PREDICTED + f"a,dj,f,dj,dj,0.5,{P}\n".replace("0.5", "x"), "column 'probabilities': not JSON"),
    "a number": (PREDICTED + f"a,dj,f,dj,dj,0.5,{P}\n", "row 1 (line 2), column 'probabilities': 0.5 where an object"),
    "a class without": (PREDICTED + f"a,poet,f,dj,dj,{P},{P}\n", "no probability for the class 'poet'"),
    "more than 1": (PREDICTED + f'a,dj,f,dj,dj,{P},"{{""dj"": 1.5}}"\n',
                    "column 'probabilities_counterfactual': the class"),
    "not a number": (PREDICTED + f'a,dj,f,dj,dj,"{{""dj"": NaN}}",{P}\n',
                     "column 'probabilities': the class 'dj' has nan"),
    "a sum": (PREDICTED + f'a,dj,f,dj,dj,"{{""dj"": 0.4}}",{P}\n', "the probabilities add up to 0.4000, not 1"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), FAULTS.values(), ids=FAULTS)
def test_broken_predictions_name_the_row_and_the_column(table, text, said):
    message = refused(table(text, "p.csv"), bios_predictions.load)
    assert said in message and message.startswith("p.csv")


def test_a_table_knows_its_places(table):
    found = read(table("a,b\n1,2\n\n3,4\n"), ["a"], ["b", "c"])
    assert found.columns == {"a": ["1", "3"], "b": ["2", "4"]}
    assert found.place(1, "b") == "rows.csv, row 2 (line 4), column 'b'"
