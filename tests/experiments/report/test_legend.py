"""What a page says of the names and marks that stand on it."""

from doxascope.experiments.report.document import Cell, Prose, Report, Top, grid
from doxascope.experiments.report.html import to_html
from doxascope.experiments.report.legend import legend
from doxascope.experiments.report.terminal import to_text
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.terms import asked_as
from doxascope.experiments.suite.martingale import page as martingale
from doxascope.experiments.suite.rationality import page as rationality
from doxascope.metrics.number import STATUSES

TERMS = [("reject", "a word is ruled out"), ("narrow", "two words are kept")]


def _report(*cells: Cell, caption: str = "") -> Report:
    table = grid("Scores", ["method", "c2"], [["free", cell] for cell in cells], caption, short=True)
    return Report("a", "b", Top(said="", verdict=Prose(text="with reject")), [table], terms=TERMS)


def test_only_what_stands_on_a_page_is_explained() -> None:
    page = _report(Cell("1", status="few_clusters, no_controls"), Cell("2†"))
    found = dict(legend(page.terms, page.top, page.blocks))
    assert list(found) == ["reject", "few clusters", "no controls", "†"]
    assert found["few clusters"] == STATUSES["few_clusters"][1]
    assert "cluster" in dict(legend((), page.top, _report(Cell("1"), caption="over clusters").blocks))


def test_verdicts_mean_the_conditions_that_the_page_asks() -> None:
    said = Prose(text="not shown to be readable, response not tested")
    gate = grid("", ["condition"], [["enough coverage"], ["easy questions"]])
    found = dict(legend([], Top(said="", verdict=said, gate=gate), []))
    assert found["readable"] == "the options have enough of the answer's probability"
    assert found["responds"] == "easy questions are answered right more often than by guessing"
    assert dict(legend([], Top(said="", verdict=said), []))["readable"] == "what is read is an answer to the question"


def test_a_warning_stands_apart_from_what_a_number_is_read_against() -> None:
    cell = Cell("0.667", ["(chance: 0.667)"], status="few_clusters")
    assert "0.667 (chance: 0.667) (few clusters)" in to_text(_report(cell))


def test_what_is_not_parsed_is_not_called_what_an_unreadable_method_is_called() -> None:
    """† says that no belief is measured: this column counts other read-outs."""
    for column in (*martingale.COLUMNS, *rationality.READINGS):
        assert column.title != "no belief"
        assert column.title == "unparsed" or column.metric != "unparsed"


def test_a_name_within_another_is_not_explained() -> None:
    top = Top(said="", verdict=Prose(text="rejected, and narrow-minded"))
    assert legend(TERMS, top, []) == []


def test_what_an_experiment_declares_comes_before_what_a_name_means_elsewhere() -> None:
    top = Top(said="", verdict=Prose(text="of lines, by of 10 numbers"))
    declared, asked = ("lines", "the decision in two lines"), list(asked_as({}, ["lines", "of 10 numbers"]))
    assert [name for name, _ in asked] == ["of 10 numbers"]
    assert legend([declared, ("lines", "elsewhere"), *asked], top, []) == [declared, *asked]


def test_page_and_terminal_have_the_same_legend() -> None:
    page = _report(Cell("1†", status="one_cluster"))
    html, text = to_html(page), to_text(page)
    for name, means in legend(page.terms, page.top, page.blocks):
        assert f"<dt>{name}</dt><dd>{means}</dd>" in html
        assert f"{name}: {means}" in " ".join(text.split())


def test_methods_are_told_by_how_they_ask() -> None:
    plans = {
        "words": {"ask": ["Is it so?", "Right?"]},
        "letters": {"ask": "A or B?", "labels": ["A", "B"]},
        "free": {"prefill": "It is"},
    }
    names = ["words", "letters", "free", "words sampled", "words beyond letters"]
    assert dict(asked_as({"methods": plans, "wording": {"reveal": "Which?"}}, names)) == {
        "words": "asks “Is it so?” and in 1 more wording",
        "letters": "asks “A or B?” and reads A and B as the answer",
        "free": "asks “Which?” and begins the answer with “It is”",
        "words sampled": "asks “Is it so?” and in 1 more wording; its answers are drawn one by one, and counted",
        "beyond": "what the method before this word knows of the action, or the truth, that the one after it does not",
    }


def test_templates_are_told_in_the_words_of_the_settings() -> None:
    experiment, config = load_config("consistency")
    told = dict(experiment.terms(config))
    assert told["reject"] == "a word is ruled out by “Is it {x}?” “No.”"
    assert "I would rather not say yet." in told["hedge"]
