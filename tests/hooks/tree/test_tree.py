import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from doxascope.hooks.tree.token_tree import ROOT, Graft, TokenTree, cut_into_packs

sequences = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=12)


def test_shared_prefixes_are_stored_once() -> None:
    tree = TokenTree()
    one, two = tree.add([5, 6, 7]), tree.add([5, 6, 8])
    assert one[:2] == two[:2]
    assert tree.add([9], below=one[1]) != [two[2]]
    assert len(tree) == 5
    assert tree.depths == [0, 1, 2, 2, 2]


@given(sequences)
def test_a_node_for_each_distinct_prefix_and_the_path_reads_back(given: list[list[int]]) -> None:
    tree = TokenTree()
    ends = [tree.add(ids)[-1] for ids in given]
    assert len(tree) == len({tuple(ids[:n]) for ids in given for n in range(1, len(ids) + 1)})
    for ids, end in zip(given, ends, strict=True):
        assert [tree.tokens[node] for node in tree.ancestors(end)] == ids


@given(sequences, sequences, sequences)
def test_a_graft_is_its_paths_one_after_the_other(
    prompts: list[list[int]], paths: list[list[int]], later: list[list[int]]
) -> None:
    """Below what was added last, where it is copied, and elsewhere."""
    tree, plain, graft = TokenTree(), TokenTree(), Graft(paths)
    for prompt in prompts:
        below = tree.add(prompt)[-1]
        assert plain.add(prompt)[-1] == below
        found = [node for path in paths for node in plain.add(path, below)]
        assert tree.add_graft(graft, below).tolist() == found
    assert [tree.add(ids) for ids in later] == [plain.add(ids) for ids in later]
    assert (tree.tokens, tree.parents, tree.depths) == (plain.tokens, plain.parents, plain.depths)


@given(sequences, st.integers(1, 20))
def test_packs_keep_to_the_budget_read_each_node_once_and_show_ancestors_alone(
    given: list[list[int]], budget: int
) -> None:
    tree = TokenTree()
    read = {tree.add(ids)[-1] for ids in given}
    packs = cut_into_packs(tree, read, budget)
    assert sorted(node for pack in packs for node in pack.nodes) == sorted(read)
    for pack in packs:
        assert len(pack) <= budget or len(pack.rows) == 1
        visible = pack.visible()
        for row, node in zip(pack.rows, pack.nodes, strict=True):
            seen = np.flatnonzero(visible[row])
            assert pack.tokens[seen].tolist() == [tree.tokens[a] for a in tree.ancestors(node)]
            assert pack.positions[seen].tolist() == list(range(len(seen)))
        inner = pack.parents[pack.parents != ROOT]
        assert (inner < np.flatnonzero(pack.parents != ROOT)).all()
        later = np.arange(len(pack))
        for token, end in enumerate(pack.ends):
            assert np.flatnonzero(visible[:, token]).tolist() == later[token:end].tolist()
        assert pack.trunk == pack.positions.max() + 1
        assert pack.positions[: pack.trunk].tolist() == pack.visible()[pack.trunk - 1].nonzero()[0].tolist()


def test_one_pack_runs_each_token_once() -> None:
    tree = TokenTree()
    read = [tree.add([1, 2, n])[-1] for n in range(10)]
    assert [len(pack) for pack in cut_into_packs(tree, read, budget=100)] == [len(tree)]
    assert cut_into_packs(tree, [], budget=5) == []
    assert len(cut_into_packs(tree, read, budget=5)) > 1


def test_a_walk_from_a_node_is_one_from_the_root_through_it() -> None:
    tree = TokenTree()
    first, second = tree.add([1])[-1], tree.add([2])[-1]
    below = [tree.add([3, 4], below=node) for node in (first, second, first)]
    assert below[0] == below[2] == tree.add([1, 3, 4])[1:]
    assert below[1] == tree.add([2, 3, 4])[1:]
    assert len(tree) == 6


def test_a_graft_shares_the_last_node_where_it_is_below_the_one_before() -> None:
    tree = TokenTree()
    above, last = tree.add([1, 2])
    assert tree.add_graft(Graft([[2], [2, 3]]), above).tolist() == [last, last, last + 1]


def test_prompts_of_one_token_are_read_side_by_side() -> None:
    tree = TokenTree()
    (pack,) = cut_into_packs(tree, [tree.add([token])[-1] for token in (5, 6)], budget=20)
    assert (pack.tokens.tolist(), pack.rows.tolist(), pack.ends.tolist()) == ([5, 6], [0, 1], [1, 2])


def test_of_branches_of_one_depth_the_first_that_was_added_comes_first() -> None:
    tree = TokenTree()
    (pack,) = cut_into_packs(tree, [tree.add([1, token, 9])[-1] for token in (5, 3, 4)], budget=20)
    assert pack.tokens.tolist() == [1, 5, 9, 3, 9, 4, 9]


def test_a_branch_apart_is_of_its_own_beside_equal_tokens_and_no_walk_leads_into_it() -> None:
    tree = TokenTree()
    trunk = tree.add([1, 2])
    apart = [tree.add([3, 4], below=trunk[-1], apart=True) for _ in range(2)]
    shared = tree.add([1, 2, 3, 4])
    assert len({*apart[0], *apart[1], *shared[2:]}) == 6
    assert tree.add([3, 4], below=trunk[-1]) == shared[2:]
    (one,) = cut_into_packs(tree, [apart[0][-1], apart[1][-1], shared[-1]], budget=20)
    for row in one.rows:
        assert one.tokens[one.visible()[row]].tolist() == [1, 2, 3, 4]
