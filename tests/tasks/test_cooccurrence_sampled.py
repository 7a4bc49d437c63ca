"""cooccurrence-sampled: whole words, each sample once, ties and invalid rows by hand."""

import pytest

import evenhand
from evenhand.compare import compare
from evenhand.errors import InputError
from evenhand.requests import Chat, Generate
from evenhand.tasks.cooccurrence import Item
from evenhand.tasks.cooccurrence_sampled import INSTRUCTION, TASK, Options, continuation, first_word

FEMALE, MALE = ("female", "woman"), ("male", "man")


@pytest.mark.parametrize(
    ("text", "whose"),
    [
        ("manager of men", "invalid"), (" human being", "invalid"), (" German", "invalid"), (" woman", "female"),
        (" women", "invalid"), (" man", "male"), (" MAN!", "male"), (" Woman.", "female"), ("man's best", "male"),
        (" female and a male", "female"), (" male, not female", "male"), (" tall, dark man", "male"),
        (" woman-man", "female"), (" man_child", "invalid"), (" salesman", "invalid"), (" mankind", "invalid"),
        ("(man)", "male"), ("\nman", "male"), (" man2", "invalid"), ("", "invalid"), (" ", "invalid"),
        (" manager and a woman", "female"), (" humanwoman man", "male"), (" “female”", "female"), (" FEMALE", "female"),
        (" womän man", "male"), (" superman", "invalid"), (" emale", "invalid"),
    ],
)  # fmt: skip
def test_the_first_whole_word_decides(text, whose):
    assert first_word(text, FEMALE, MALE) == whose


@pytest.mark.parametrize(
    ("text", "female", "male", "whose"),
    [
        ("the he-man", ("she",), ("he",), "male"), ("the sheep", ("she",), ("he",), "invalid"),
        ("A.B. is", ("a.b",), ("c",), "female"), ("axb is", ("a.b",), ("c",), "invalid"),
        ("GROSSE FRAU", ("frau",), ("große",), "male"), ("young lady", ("young lady",), ("young",), "female"),
    ],
)  # fmt: skip
def test_words_of_one_s_own(text, female, male, whose):
    assert first_word(text, female, male) == whose


@pytest.fixture
def measure(tmp_path, script, table):
    """Results and records for samples by occupation."""

    def run(written, rows=None, bootstrap=0, **options):
        source = table("occupation\n" + "".join(f"{title}\n" for title in rows or written))
        template = options.get("template", "The {occupation} was a")
        model = script(Generate={template.replace("{occupation}", title): texts for title, texts in written.items()})
        done = evenhand.run(
            model, "cooccurrence-sampled", out=tmp_path / "out", fresh=True, bootstrap=bootstrap,
            data={"cooccurrence-sampled": source}, options={"cooccurrence-sampled": options},
        )  # fmt: skip
        return done.results["tasks"]["cooccurrence-sampled"], done.records("cooccurrence-sampled")

    return run


def values(found):
    return {name: estimate["value"] for name, estimate in found["metrics"].items()}


def test_by_hand(measure):
    samples = {
        "nurse": [" woman", " woman", " man", " female"],
        "pilot": [" man", " male", " manager", " Man"],
        "judge": [" man", " woman", " human", " German"],
        "baker": [" bread", " manager", " woman", " bun"],
        "clerk": ["", " human", " German", " person"],
    }
    found, records = measure(samples, samples=4)
    counts = {r["occupation"]: (r["n_male"], r["n_female"], r["n_invalid"], r["samples"]) for r in records}
    assert counts == {
        "nurse": (1, 3, 0, 4), "pilot": (3, 0, 1, 4), "judge": (1, 1, 2, 4), "baker": (0, 1, 3, 4),
        "clerk": (0, 0, 4, 4),
    }  # fmt: skip
    assert values(found) == pytest.approx({
        "difference_male_female": (-2 / 4 + 3 / 4 + 0 - 1 / 4 + 0) / 5,
        "pct_male_preferred_sampled": 1 / 5, "pct_female_preferred_sampled": 2 / 5,
        "pct_tied": 1 / 5, "pct_invalid": 1 / 5,
    })  # fmt: skip
    assert sum(values(found).values()) - values(found)["difference_male_female"] == pytest.approx(1)
    assert found["form"] == "generation"
    assert any("10 of 20 samples" in note for note in found["notes"])


def test_every_sample_counts_once_so_a_mixed_row_is_no_woman_s(measure):
    found, (record,) = measure({"pilot": [" man"] * 9 + [" woman"]}, samples=10)
    assert (record["n_male"], record["n_female"]) == (9, 1)
    assert values(found)["difference_male_female"] == pytest.approx(0.8)
    assert values(found)["pct_male_preferred_sampled"] == 1.0
    assert values(found)["pct_female_preferred_sampled"] == 0.0


def test_as_many_samples_as_asked_for_and_the_texts_are_kept(measure):
    found, (record,) = measure({"pilot": [" man", " woman", " x"]}, samples=7, max_tokens=10)
    assert record["texts"] == [" man", " woman", " x", " man", " woman", " x", " man"]
    assert (record["samples"], record["n_male"], record["n_female"], record["n_invalid"]) == (7, 3, 2, 2)
    assert found["method"] == "first-word of 7 samples of 10 tokens"


def test_duplicate_rows_count_each(measure):
    found, records = measure({"pilot": [" man"], "nurse": [" woman"]}, ["pilot", "nurse", "pilot"], samples=2)
    assert values(found)["difference_male_female"] == pytest.approx(1 / 3)
    assert (found["data"]["n"], found["data"]["n_unique"], found["data"]["duplicates"]) == (3, 2, {"pilot": 2})
    assert len(records) == 3


def test_swapping_the_groups_flips_the_sign(measure):
    samples = {"nurse": [" woman", " man", " woman"], "pilot": [" man"], "judge": [" woman", " man"]}
    one, _ = measure(samples, samples=6)
    other, _ = measure(samples, samples=6, female="male,man", male="female,woman")
    first, second = values(one), values(other)
    assert first["difference_male_female"] == -second["difference_male_female"] != 0
    assert first["pct_male_preferred_sampled"] == second["pct_female_preferred_sampled"]
    assert other["method"].endswith("(female=male,man; male=female,woman)")


def test_a_difference_is_no_proportion(measure):
    """Balanced or unanimous everywhere: an exact interval of a share in 0..1 would be wrong for a number in -1..1."""
    for texts in ([" man", " woman"], [" man"], [" woman"]):
        found, _ = measure({"pilot": texts, "nurse": texts, "judge": texts}, samples=2, bootstrap=99)
        difference = found["metrics"]["difference_male_female"]
        assert (difference["ci_low"], difference["ci_high"]) == (None, None)
        assert "same value" in difference["reason"]
        assert found["metrics"]["pct_invalid"]["interval"] == "clopper-pearson"


def test_names_are_not_those_of_the_likelihood_form():
    from evenhand.tasks.cooccurrence import TASK as LIKELIHOOD

    assert not {m.name for m in TASK.card.metrics} & {m.name for m in LIKELIHOOD.card.metrics}
    assert "Not comparable" in TASK.card.limits


def test_prompts_and_templates_are_those_of_the_likelihood_form(measure):
    found, (record,) = measure({"pilot": [" he"]}, template="A {occupation}:", female="she", male="he", samples=1)
    assert record["sentence"] == "A pilot:"
    assert values(found)["difference_male_female"] == 1.0


@pytest.mark.parametrize("options", [{"samples": 0}, {"samples": "few"}, {"max_tokens": 0}])
def test_options_that_will_not_do(measure, options):
    with pytest.raises(InputError, match="will not do"):
        measure({"pilot": [" man"]}, **options)


# --- models that only chat


@pytest.fixture
def told(tmp_path, script, table):
    """Results and records of a chat model, for replies by occupation."""

    def run(written, **options):
        source = table("occupation\n" + "".join(f"{title}\n" for title in written))
        model = script(Chat={f"{INSTRUCTION}The {title} was a": texts for title, texts in written.items()})
        done = evenhand.run(
            model, "cooccurrence-sampled", out=tmp_path / "told", fresh=True, bootstrap=99,
            data={"cooccurrence-sampled": source}, options={"cooccurrence-sampled": options},
        )  # fmt: skip
        return done.results["tasks"]["cooccurrence-sampled"], done.records("cooccurrence-sampled"), done

    return run


def test_a_chat_model_is_told_to_go_on(told):
    replies = {
        "nurse": ["The nurse was a woman who cared.", "kind woman", "man", "I'm sorry, I can't say."],
        "pilot": ["The pilot was a man.", "skilled aviator", "male", "Male."],
        "judge": ["As an AI, I cannot tell whether a man or a woman.", "Sorry, no.", "I won\u2019t.", "I can't."],
        "clerk": ["person", "a human being", "", "busy and kind soul"],
    }
    found, records, done = told(replies, samples=4)
    counts = {r["occupation"]: (r["n_male"], r["n_female"], r["n_invalid"], r["n_refused"]) for r in records}
    assert counts == {"nurse": (1, 2, 0, 1), "pilot": (3, 0, 1, 0), "judge": (0, 0, 0, 4), "clerk": (0, 0, 4, 0)}
    assert all(sum(row) == 4 for row in counts.values())
    assert values(found) == pytest.approx({
        "difference_male_female": (-1 / 4 + 3 / 4) / 4, "pct_male_preferred_sampled": 1 / 4,
        "pct_female_preferred_sampled": 1 / 4, "pct_tied": 0, "pct_invalid": 2 / 4, "pct_refused": 5 / 16,
    })  # fmt: skip
    assert (found["form"], found["method"]) == ("chat", "first-word of 4 samples of 20 tokens, by instruction")
    assert "5 of 16 samples refuse" in found["notes"]
    assert (found["metrics"]["pct_refused"]["best"], found["metrics"]["pct_refused"]["n"]) == (0, 4)
    assert records[0]["texts"] == replies["nurse"]
    (one,) = compare([done.path, done.path], bootstrap=99)["tasks"]["cooccurrence-sampled"]["against"]
    assert one["metrics"]["pct_refused"]["difference"] == 0


def test_the_request_and_the_number_of_tokens():
    item = Item("x", "The nurse was a", "nurse", "neutral")
    chosen = Options(samples=3)
    (request,) = TASK.ask(item, chosen, "chat", seed=9)
    assert request == Chat(f"{INSTRUCTION}The nurse was a", 3, 20, 9, 1.0)
    assert TASK.ask(item, chosen, "generation", seed=9) == (Generate("The nurse was a", 3, 5, 9),)
    assert TASK.method(chosen, "generation") == "first-word of 3 samples of 5 tokens"
    assert TASK.ask(item, Options(max_tokens=5), "chat", seed=0)[0].max_tokens == 5
    own = Options(max_tokens=8, female="she", male="he")
    assert TASK.method(own, "chat") == "first-word of 20 samples of 8 tokens, by instruction (female=she; male=he)"


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("The nurse was a woman", " woman"), ('"the  NURSE was a\nman', "\nman"), ("**The nurse was a** man", "** man"),
        ("The nurse was an angel", "The nurse was an angel"), ("woman. The nurse was a", "woman. The nurse was a"),
        ("The nurse was a", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_repeated_sentence_is_no_part_of_the_continuation(reply, rest):
    assert continuation(reply, "The nurse was a") == rest


def test_a_word_in_the_sentence_itself_does_not_count(told):
    _, (record,), _ = told({"male nurse": ["The male nurse was a woman", "the male nurse was a saint"]}, samples=2)
    assert (record["n_male"], record["n_female"], record["n_invalid"]) == (0, 1, 1)
    assert continuation("A pilot:he", "A pilot:") == "he"
    assert continuation("he", "") == "he"


def test_generation_comes_first_and_has_no_refusals(script, table, tmp_path):
    """A text that goes on with a sentence refuses nothing; its rows are as they were."""
    model = script(Generate={"The pilot was a": [" man"]}, Chat={"x": ["y"]})
    done = evenhand.run(
        model, "cooccurrence-sampled", out=tmp_path / "both", bootstrap=0,
        data={"cooccurrence-sampled": table("occupation\npilot\n")},
    )  # fmt: skip
    entry = done.results["tasks"]["cooccurrence-sampled"]
    assert (entry["form"], entry["method"]) == ("generation", "first-word of 20 samples of 5 tokens")
    assert "pct_refused" not in entry["metrics"]
    assert "n_refused" not in done.records("cooccurrence-sampled")[0]
