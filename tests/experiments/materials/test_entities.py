import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from doxascope import UserError, load
from doxascope.experiments.materials.entities import EntityConfig, entities, rank_words, triples
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.manifest import item_lines
from doxascope.experiments.run.runner import run
from doxascope.hooks.exact.option_beliefs import next_token_logp

TEXT = "which word did you choose"


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of words, and an empty cache."""
    monkeypatch.setenv("DOXASCOPE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "words.txt"
    file.write_text("stone\nriver\napple\nWord\nchoose\ncloud\nlamp\n")
    return str(file)


def test_more_triples_begin_with_the_same_ones() -> None:
    words = entities(EntityConfig())
    assert len(words) > 1000
    assert triples(words, 20, seed=1)[:5] == triples(words, 5, seed=1)
    assert triples(words, 5, seed=1) != triples(words, 5, seed=2)


def test_no_word_of_a_triple_is_part_of_another_and_no_triple_comes_twice() -> None:
    found = triples(["art", "party", "dog", "Hotdog", "sun"], 4, seed=0)
    for triple in found:
        lower = [word.lower() for word in triple]
        assert not any(a != b and a in b for a in lower for b in lower)
    assert len({frozenset(triple) for triple in found}) == 4


def test_a_file_of_entities(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("Apple\napple\n\nriver \nNew  York\nnew york\nx\n")
    assert entities(EntityConfig(file=str(file))) == ["Apple", "New York", "river"]
    file.write_text("apple\nriver\nab\n")
    with pytest.raises(UserError, match=r"words\.txt has 2 of 3 to 10 letters; at least three"):
        entities(EntityConfig(file=str(file)))
    with pytest.raises(UserError, match="cannot be read"):
        entities(EntityConfig(file=str(tmp_path / "none.txt")))
    file.write_bytes(b"caf\xe9\n")
    with pytest.raises(UserError, match=r"cannot be read.*give a file of UTF-8"):
        entities(EntityConfig(file=str(file)))


def test_too_few_triples_is_said_not_looped_over() -> None:
    with pytest.raises(UserError, match="3 words gave 1 different triples of 2"):
        triples(["apple", "river", "stone"], 2, seed=0)


def test_a_window_of_ranks_holds_the_words_that_the_reference_finds_likeliest(
    words: str, tiny_folder: Path, tmp_path: Path
) -> None:
    with load(str(tiny_folder), template="none") as lm:
        ends = torch.from_numpy(lm.reader.terminators.ids)

        def plain(word: str) -> float:
            before, ids = (lm.tokenizer(text)["input_ids"] for text in (TEXT, f"{TEXT} {word}"))
            logp = next_token_logp(lm.model, ids, first=len(before) - 1).double()
            return sum(float(logp[i, token]) for i, token in enumerate(ids[len(before) :])) + float(
                logp[-1, ends].logsumexp(0)
            )

        expected = sorted(Path(words).read_text().split(), key=plain, reverse=True)
    config = EntityConfig(file=words, reference=str(tiny_folder), ranking_text=TEXT)
    assert set(entities(config, (1, 3))) == set(expected[:3])
    assert set(entities(config, (3, 6))) == set(expected[2:6])
    assert set(entities(config)) == set(expected)
    (kept,) = (tmp_path / "cache/entities").glob("*.txt")
    assert kept.read_text().splitlines() == expected


def test_a_ranking_is_made_once_and_another_one_is_known_by_another_name(
    words: str, tiny_folder: Path, tmp_path: Path, save_speller: Any
) -> None:
    config = EntityConfig(file=words, reference=str(tiny_folder))
    first = entities(config)
    folder = tmp_path / "cache/entities"
    (kept,) = folder.glob("*.txt")
    made = kept.stat().st_mtime_ns
    assert entities(config) == first
    assert kept.stat().st_mtime_ns == made  # found again, not made again
    kept.write_text("one\ntwo\nthree\n")
    assert entities(config) == first
    other_model = str(save_speller("abcdefghijklmnopqrstuvwxyzWTM. "))
    changes = ({"ranking_text": "Well"}, {"reference": other_model}, {"max_length": 5})
    for n, change in enumerate(changes, 2):
        entities(config.model_copy(update=change))
        assert len([*folder.glob("*.txt")]) == n


def test_models_are_measured_on_the_same_triples(words: str, tiny_folder: Path) -> None:
    wanted = [f"entities={{file: {words}, reference: {tiny_folder}, ranks: [1, 5]}}", "items=4"]
    items = []
    for model in ("smollm2-135m", "gemma3-270m"):
        experiment, config = load_config("consistency", wanted, model)
        items.append(experiment.items(config))
    assert items[0] == items[1]


def test_items_that_are_asked_alike_are_of_one_content_whoever_ranks_words(words: str, tiny_folder: Path) -> None:
    wanted = [f"entities.file={words}", "items=4"]
    (experiment, config), (_, other) = (
        load_config("consistency", [*wanted, *more]) for more in ([], [f"entities.reference={tiny_folder}"])
    )
    lines = [item_lines(item.record for item in experiment.items(each)) for each in (config, other)]
    assert lines[0] == lines[1]


def test_a_file_without_a_reference_is_ranked_as_it_stands(words: str) -> None:
    assert entities(EntityConfig(file=words), (2, 4)) == ["apple", "river", "Word"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{ranks: [1, 100]}", "the words are not ranked; give a `reference` model"),
        ("{file: words.txt, ranks: [0, 10]}", "counted from 1"),
        ("{file: words.txt, ranks: [10, 2]}", "give the first and the last"),
        ("{file: words.txt, ranks: [[1, 10], [1, 10]]}", "a window is there twice"),
        ("{refrence: x}", r"unknown key 'entities\.refrence'; did you mean 'reference'"),
    ],
)
def test_a_wrong_window_is_one_clear_line(settings: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        load_config("consistency", [f"entities={settings}"])
    assert "\n" not in str(error.value)


def test_a_window_with_too_few_words_a_wrong_reference_and_a_cache_that_cannot_be_written(
    words: str, tiny_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"2 of the 7 of .*words\.txt have the ranks 6 to 9; at least three"):
        entities(EntityConfig(file=words), (6, 9))
    with pytest.raises(UserError, match="'smollm-135m': not a preset"):
        entities(EntityConfig(file=words, reference="smollm-135m"))
    (tmp_path / "cache").write_text("a file, no folder")
    with pytest.raises(UserError, match=r"cannot be written .*set DOXASCOPE_CACHE"):
        entities(EntityConfig(file=words, reference=str(tiny_folder)))


def test_the_ranking_that_a_model_gives_does_not_depend_on_the_order_of_the_file(words: str, tiny_folder: Path) -> None:
    config = EntityConfig(file=words, reference=str(tiny_folder))
    shuffled = Path(words).with_name("shuffled.txt")
    lines = Path(words).read_text().split()
    shuffled.write_text("\n".join(np.random.default_rng(0).permutation(lines)))
    assert entities(config.model_copy(update={"file": str(shuffled)})) == entities(config)


def test_windows_of_ranks_are_scored_apart_on_triples_of_their_own(tiny_folder: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("\n".join(["apple", "stone", "river", "cloud", "bread", "horse", "chair", "money"]))
    wanted = [
        f"entities={{file: {words}, ranks: [[1, 4], [5, 8]]}}",
        "items=2",
        "bootstrap_draws=50",
        "fork.methods=[]",
    ]
    experiment, config = load_config("consistency", wanted, str(tiny_folder))
    items = experiment.items(config)
    assert [item.id for item in items] == [f"ranks {w}:t000{i}-012" for w in ("1-4", "5-8") for i in range(2)]
    assert {word for item in items[:2] for word in item.content["words"]} <= {"apple", "stone", "river", "cloud"}
    folder = run(experiment, config, tmp_path / "runs")
    scores = json.loads((folder.path / "scores.json").read_text())["scores"]
    found = {s["subset"]: s for s in scores if s["metric"] == "c2" and s["method"] == "free"}
    parts = [found["ranks 1-4"], found["ranks 5-8"]]
    assert [one["n_clusters"] for one in parts] == [2, 2]
    assert np.mean([one["estimate"] for one in parts]) == pytest.approx(found["all"]["estimate"])
    published = pd.read_csv(folder.path / "published.csv")
    assert set(published.loc[published["table"] == "Table 4", "column"]) == {
        f"Entity Likelihood, {window}" for window in ("1-4", "5-8")
    }
    assert "By likelihood of the words" in (folder.path / "report.html").read_text()


def test_the_default_words_are_ranked_thousands_of_them(words: str, tiny_folder: Path) -> None:
    """More than are read at once; what is asked beside a word does not move it, so that a few keep their order."""
    ranked = entities(EntityConfig(reference=str(tiny_folder), ranking_text=TEXT))
    assert len(ranked) > 3 * 2000
    (list_of_all,) = (Path(words).parent / "cache" / "entities").glob("*.txt")
    few = list_of_all.read_text().splitlines()[::300]
    assert rank_words(sorted(few), str(tiny_folder), TEXT) == few
