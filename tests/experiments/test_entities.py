from pathlib import Path

import pytest

from doxascope import UserError
from doxascope.experiments.entities import EntityConfig, entities, triples


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
    file.write_text("Apple\napple\n\nriver \nstone\nx\n")
    assert entities(EntityConfig(file=str(file))) == ["Apple", "river", "stone"]
    file.write_text("apple\nriver\nab\n")
    with pytest.raises(UserError, match=r"words\.txt has 2 of 3 to 10 letters; at least three"):
        entities(EntityConfig(file=str(file)))
    with pytest.raises(UserError, match="cannot be read"):
        entities(EntityConfig(file=str(tmp_path / "none.txt")))


def test_too_few_triples_is_said_not_looped_over() -> None:
    with pytest.raises(UserError, match="3 words gave 1 different triples of 2"):
        triples(["apple", "river", "stone"], 2, seed=0)
