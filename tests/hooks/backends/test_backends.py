"""Every back end gives the same numbers as plain transformers, on every layout, and edits what it is told to alone."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from doxascope import UserError, load
from doxascope.benchmarks.tiny_families import GPT, MIXED, SHAPE
from doxascope.hooks.backends.backend import Backend, Capture
from doxascope.hooks.backends.captures import CapturePlan
from doxascope.hooks.backends.libraries import MakeBackend, TransformersBackend, make_backend
from doxascope.hooks.checks.certificate import TOLERANCE
from doxascope.hooks.edits import changes
from doxascope.hooks.edits.changes import Change, Edit
from doxascope.hooks.exact.option_beliefs import ExactReading, largest_difference, read_packed
from doxascope.hooks.exact.queries import Query
from doxascope.hooks.lm import LanguageModel
from doxascope.hooks.model.blocks import Point, Site, blocks, head_widths
from doxascope.hooks.prompts.chat import Boundary, Prompt
from doxascope.hooks.prompts.options import OptionPaths
from doxascope.hooks.prompts.places import ResolvedPosition
from doxascope.hooks.tree.layouts import LAYOUTS, Packed
from doxascope.hooks.tree.token_tree import Pack, TokenTree, cut_into_packs

BACKENDS = ("transformers", "transformer_lens", "nnsight")
TINY = {
    "llama": SHAPE,
    "gemma3_text": {**SHAPE, **MIXED, "head_dim": 16},
    "qwen3": SHAPE,
    "gpt2": {**GPT, "initializer_range": 0.3},  # names of other families' settings mislead TransformerLens
}
REAL = {"smollm2-135m": "smollm", "gemma3-270m": "gemma"}
BOTH: tuple[Site, Site] = ("resid_pre", "resid_post")


class Reference(NamedTuple):
    """What plain transformers make of the queries."""

    readings: list[ExactReading]
    states: list[torch.Tensor]
    """Of each prompt, [layers + 1, T, d_model]."""


class Subject(NamedTuple):
    """A model, and a back end for it."""

    lm: LanguageModel
    make: MakeBackend


@pytest.fixture(scope="module", params=[*TINY, *REAL])
def lm(request: pytest.FixtureRequest, save_architecture: Callable[..., Path]) -> Iterator[LanguageModel]:
    if request.param in REAL:
        yield request.getfixturevalue(REAL[request.param])
        return
    with load(str(save_architecture(request.param, TINY[request.param]))) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def reference(lm: LanguageModel) -> Reference:
    with torch.inference_mode():
        prompts = [torch.tensor([query.prompt.ids], device=lm.model.device) for query in queries(lm)]
        states = [lm.model(ids, output_hidden_states=True, use_cache=False).hidden_states for ids in prompts]
        return Reference(
            [lm.read_plain(query) for query in queries(lm)],
            [torch.cat([state.cpu() for state in one]) for one in states],
        )


@pytest.fixture(scope="module", params=BACKENDS)
def subject(request: pytest.FixtureRequest, lm: LanguageModel) -> Subject:
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    spec = lm.spec.model_copy(update={"backend": request.param})
    return Subject(lm, make_backend(spec, lm.model, lm.tokenizer))


def words(lm: Any, n: int) -> list[int]:
    return torch.randint(3, min(300, len(lm.tokenizer)), (n,), generator=torch.Generator().manual_seed(1)).tolist()


def queries(lm: Any) -> list[Query]:
    """Read-outs that share a trunk, with paths beyond the tiny models' windows."""
    ids = words(lm, 60)
    paths = OptionPaths((), ((tuple(ids[30:33]), tuple(ids[33:34])), (tuple(ids[40:42]),)))
    prompts = (ids[:4], ids[:12], ids[:12] + ids[50:53])
    return [
        Query(
            str(i),
            Prompt(tuple(prompt), Boundary(None, "")),
            paths,
            lm.reader.terminators,
            (
                ResolvedPosition("last", len(prompt) - 1, 1),
                ResolvedPosition("second", 1, 1),
                ResolvedPosition("mean", 3, 3),
            ),
        )
        for i, prompt in enumerate(prompts)
    ]


@pytest.mark.parametrize("how", ["single", "packed", "forked", "padded"])
def test_options_and_residuals_are_those_of_plain_transformers(
    subject: Subject, reference: Reference, how: str, noise: Callable[[Any], float]
) -> None:
    lm, asked = subject.lm, queries(subject.lm)
    backend = subject.make(LAYOUTS.get(how, Packed))
    together = [[number] for number in range(len(asked))] if how == "single" else [range(len(asked))]
    for group in together:
        some = [asked[number] for number in group]
        readings, cost, captured = read_packed(some, backend, lm.head, budget=500, capture=CapturePlan(sites=BOTH))
        assert cost.packs == 1
        assert captured is not None
        rows = iter(captured.rows.index)
        for number, reading in zip(group, readings, strict=True):
            assert largest_difference(reading, reference.readings[number]) < noise(reading.logp)
            for place in asked[number].places:
                row, states = next(rows), reference.states[number]
                expected = states[:, place.token - place.length + 1 : place.token + 1].mean(dim=1)
                before, after = (captured.residuals[site][row] for site in BOTH)
                assert near(before, expected[:-1])
                assert near(after[:-1], expected[1:-1])  # the last hidden state is after the final norm


def near(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether rows agree in relative norm, layer by layer."""
    return bool(((one - other).norm(dim=-1) <= TOLERANCE * other.norm(dim=-1)).all())


INSIDE: tuple[Site, ...] = ("head_out", "attn_out", "mlp_out")


def parts_by_hand(lm: LanguageModel, ids: list[int]) -> dict[Site, torch.Tensor]:
    """Site -> [layers, T, width] by hooks on the modules of each architecture, named here one by one."""
    taken: dict[Site, list[torch.Tensor]] = {site: [] for site in INSIDE}
    gpt2 = hasattr(blocks(lm.model)[0], "ln_1")
    handles = []

    def keep(site: Site, seen: Any) -> None:
        taken[site].append(seen[0] if isinstance(seen, tuple) else seen)

    for block in blocks(lm.model):
        attention: Any = block.attn if gpt2 else block.self_attn
        projection = attention.c_proj if gpt2 else attention.o_proj
        handles.append(projection.register_forward_pre_hook(lambda m, args: keep("head_out", args[0])))
        handles.append(attention.register_forward_hook(lambda m, args, output: keep("attn_out", output)))
        mlp: Any = block.mlp
        handles.append(mlp.register_forward_hook(lambda m, args, output: keep("mlp_out", output)))
    try:
        with torch.inference_mode():
            lm.model(torch.tensor([ids], device=lm.model.device), use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return {site: torch.cat(values).cpu() for site, values in taken.items()}


@pytest.fixture(scope="module")
def parts(lm: LanguageModel) -> list[dict[Site, torch.Tensor]]:
    """Of each prompt."""
    return [parts_by_hand(lm, list(query.prompt.ids)) for query in queries(lm)]


@pytest.mark.parametrize("how", ["packed", "forked", "padded"])
def test_what_heads_attention_and_mlp_give_is_that_of_plain_transformers(
    subject: Subject, parts: list[dict[Site, torch.Tensor]], how: str
) -> None:
    lm, asked = subject.lm, queries(subject.lm)
    every = ("resid_pre", *INSIDE, "resid_post")
    layers = (0, len(blocks(lm.model)) - 1)
    plan = CapturePlan(sites=every, layers=layers)
    _, cost, captured = read_packed(asked, subject.make(LAYOUTS[how]), lm.head, budget=500, capture=plan)
    assert cost.packs == 1
    assert captured is not None
    rows = iter(captured.rows.index)
    for query, by_hand in zip(asked, parts, strict=True):
        for place in query.places:
            row = next(rows)
            for site in INSIDE:
                expected = by_hand[site][list(layers), place.token - place.length + 1 : place.token + 1].mean(dim=1)
                assert near(captured.residuals[site][row], expected), site
    heads, width = head_widths(lm.model)
    assert captured.residuals["head_out"].shape[-1] == width
    assert width % heads == 0


def test_the_parts_of_a_block_add_up_to_what_it_does(tiny: Any) -> None:
    """In a Llama a block adds what its attention and its MLP give, and the first is the heads' outputs, projected."""
    plan = CapturePlan(sites=("resid_pre", *INSIDE, "resid_post"))
    _, _, captured = tiny.read(queries(tiny), capture=plan)
    taken = captured.residuals
    added = taken["resid_pre"] + taken["attn_out"] + taken["mlp_out"]
    torch.testing.assert_close(added, taken["resid_post"], rtol=1e-4, atol=1e-4)
    for layer, block in enumerate(blocks(tiny.model)):
        attention: Any = block.self_attn
        projected = attention.o_proj(taken["head_out"][:, layer].to(tiny.model.device)).cpu()
        torch.testing.assert_close(projected, taken["attn_out"][:, layer], rtol=1e-4, atol=1e-4)


class Branches(NamedTuple):
    """A pack of two branches."""

    pack: Pack
    trunk: list[int]
    tokens: dict[str, list[int]]
    nodes: dict[str, list[int]]


@pytest.fixture
def branches(subject: Subject) -> Branches:
    ids = words(subject.lm, 30)
    tree = TokenTree()
    trunk = tree.add(ids[:10])
    tokens = {"changed": ids[10:16], "other": ids[20:25]}
    nodes = {name: tree.add(branch, below=trunk[-1]) for name, branch in tokens.items()}
    (one,) = cut_into_packs(tree, [*trunk, *nodes["changed"], *nodes["other"]], 500)
    return Branches(one, ids[:10], tokens, nodes)


class Case(NamedTuple):
    """A change of two rows at a site, and the same written out."""

    site: Site
    change: Change
    plain: Callable[[torch.Tensor], torch.Tensor]


def cases(lm: LanguageModel) -> list[Case]:
    """All of them for a tiny model, one for a real one."""
    size = (2, lm.model.config.get_text_config().hidden_size)
    values = torch.randn(size, generator=torch.Generator().manual_seed(2)) * 3
    unit = values[0] / values[0].norm()
    made = [
        Case(site, *how)
        for site in BOTH
        for how in (
            (changes.add_vector(values[0]), lambda rows: rows + values[0]),
            (changes.replace_rows(values), lambda rows: values),
            (changes.project_out(values[0]), lambda rows: rows - torch.outer(rows @ unit, unit)),
        )
    ]
    return made[:1] if lm.spec.name in REAL else made


@contextmanager
def steered(block: Any, site: Site, change: Callable[[torch.Tensor], torch.Tensor], rows: slice) -> Iterator[None]:
    """Change rows of what goes into, or comes out of, a block, in place."""

    def change_rows(hidden: torch.Tensor) -> None:
        hidden[0, rows] = change(hidden[0, rows].cpu()).to(hidden)

    def before(_: Any, args: Any, kwargs: Any) -> None:
        change_rows(args[0] if args else kwargs["hidden_states"])

    def after(_: Any, args: Any, output: Any) -> None:
        change_rows(output[0] if isinstance(output, tuple) else output)

    pre = site == "resid_pre"
    handle = block.register_forward_pre_hook(before, with_kwargs=True) if pre else block.register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("layout", ["packed", "forked", "padded"])
def test_an_edit_is_plain_steering_of_its_branch_alone(
    subject: Subject, branches: Branches, layout: str, noise: Callable[[Any], float]
) -> None:
    lm, backend = subject.lm, subject.make(LAYOUTS[layout])
    layer, rows = len(blocks(lm.model)) // 2, slice(11, 13)
    at = {int(node): row for row, node in enumerate(branches.pack.nodes)}
    changed = [at[node] for node in branches.nodes["changed"][1:]]
    others = [row for row in at.values() if row not in changed]
    ids = torch.tensor([branches.trunk + branches.tokens["changed"]], device=lm.model.device)
    free = lm.head.log_probs(backend.run(branches.pack).hidden)
    for case in cases(lm):
        edit = Edit(Point(layer, case.site), tuple(branches.nodes["changed"][1:3]), case.change)
        edited = lm.head.log_probs(backend.run(branches.pack, edits=[edit]).hidden)
        with torch.inference_mode(), steered(blocks(lm.model)[layer], case.site, case.plain, rows):
            plain = lm.model(ids, use_cache=False).logits[0, 11:].log_softmax(-1)
        likely = plain > -20
        assert (edited[changed] - plain)[likely].abs().max() < noise(plain[likely])
        assert (edited[changed] - free[changed]).abs().max() > 0.01
        assert torch.equal(edited[others], free[others])


def test_an_edit_inside_a_block_is_the_same_on_every_back_end(subject: Subject, branches: Branches) -> None:
    """Taking away what the attention gives at a layer is what plain transformers do without it."""
    lm = subject.lm
    if lm.spec.name in REAL:
        pytest.skip("shown on tiny models")
    change = changes.replace_rows(torch.zeros(2, lm.model.config.get_text_config().hidden_size))
    edit = Edit(Point(1, "attn_out"), tuple(branches.nodes["changed"][1:3]), change)
    edited = subject.make(LAYOUTS["packed"]).run(branches.pack, edits=[edit])
    plain = TransformersBackend(lm.model).run(branches.pack, edits=[edit])
    torch.testing.assert_close(edited.hidden, plain.hidden, rtol=1e-4, atol=1e-4)
    assert (edited.hidden - subject.make(LAYOUTS["packed"]).run(branches.pack).hidden).abs().max() > 1e-3


def test_a_replacement_follows_the_order_of_its_nodes(subject: Subject, branches: Branches) -> None:
    size = subject.lm.model.config.get_text_config().hidden_size
    values = torch.stack([torch.full((size,), float(i)) for i in (1, 2, 3)])
    nodes = [branches.nodes["other"][0], branches.nodes["changed"][0], branches.nodes["changed"][1]]
    edit = Edit(Point(0, "resid_post"), tuple(nodes), changes.replace_rows(values))
    at = {int(node): i for i, node in enumerate(branches.pack.members)}
    rows = np.array([at[node] for node in nodes])
    for layout in (LAYOUTS[name] for name in ("packed", "forked", "padded")):
        capture = Capture(("resid_post",), (0,), rows, np.ones(3, dtype=np.int64))
        output = subject.make(layout).run(branches.pack, capture=capture, edits=[edit])
        torch.testing.assert_close(output.fetch()["resid_post"][:, 0], values, rtol=0, atol=0)


def hooks(backend: Backend) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in backend.model.modules())


def test_hooks_are_removed_when_the_pass_fails(subject: Subject, branches: Branches) -> None:
    backend = subject.make(LAYOUTS["packed"])
    before, number = backend.run(branches.pack).hidden, hooks(backend)

    def fail(rows: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("in mid-pass")

    edit = Edit(Point(1, "resid_post"), tuple(branches.nodes["changed"]), fail)
    with pytest.raises(ZeroDivisionError, match="in mid-pass"):
        backend.run(branches.pack, edits=[edit])
    assert hooks(backend) == number
    torch.testing.assert_close(backend.run(branches.pack).hidden, before, rtol=0, atol=0)


def test_a_layer_that_is_not_there_is_refused(subject: Subject, branches: Branches) -> None:
    edit = Edit(Point(99, "resid_post"), tuple(branches.nodes["changed"]), changes.add_vector(torch.ones(1)))
    with pytest.raises(UserError, match=r"layers 99 to 99: the model has layers 0 to \d+"):
        subject.make(LAYOUTS["packed"]).run(branches.pack, edits=[edit])


def test_a_capture_changes_nothing_that_is_read(tiny: Any) -> None:
    asked = queries(tiny)
    plain = tiny.read(asked, budget=20)
    readings, cost, _ = tiny.read(asked, budget=20, capture=CapturePlan(sites=BOTH))
    assert cost == plain[1]
    for one, other in zip(readings, plain[0], strict=True):
        np.testing.assert_array_equal(one.logp, other.logp)


def test_a_tap_that_stays_silent_is_an_error(tiny: Any) -> None:
    class Deaf(TransformersBackend):
        """Forgets its taps, as a hook on a name that never fires would."""

        def forward(self, inputs: Mapping[str, Any], taps: Mapping[Any, Any]) -> torch.Tensor:
            return super().forward(inputs, {point: tap for point, tap in taps.items() if point.layer != 1})

    with pytest.raises(UserError, match="resid_post of layer 1: the forward pass never comes by it"):
        read_packed(queries(tiny), Deaf(tiny.model), tiny.head, budget=500, capture=CapturePlan())


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_missing_library_says_how_to_get_it(tiny_folder: Path, backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, backend, None)
    package = backend.replace("_", "-")
    with pytest.raises(UserError, match=rf'back end {backend}: .*; pip install "doxascope\[{package}\]"'):
        load(str(tiny_folder), backend=backend)


def test_a_model_that_a_back_end_cannot_serve_is_refused(save_architecture: Callable[..., Path]) -> None:
    pytest.importorskip("transformer_lens")
    lm = load(str(save_architecture("helium", SHAPE)), backend="transformer_lens")
    with pytest.raises(UserError, match=r"cannot serve HeliumForCausalLM \(.*\); try `--backend transformers`"):
        _ = lm.backend


def test_an_unknown_back_end_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match=r"backend: Input should be 'transformers', .* given 'jax'"):
        load(str(tiny_folder), backend="jax")  # type: ignore


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_face_of_the_library_is_the_same_on_every_back_end(
    tiny_folder: Path, tiny: Any, backend: Any, noise: Callable[[Any], float]
) -> None:
    if find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    with load(str(tiny_folder), backend=backend) as lm:
        one, other = (each.beliefs("Is it?", ["yes", "no"], capture="last") for each in (lm, tiny))
        assert lm.identity.backend.startswith(backend)
        assert lm.identity.weights == tiny.identity.weights
    np.testing.assert_allclose(one.beliefs["logp"], other.beliefs["logp"], atol=noise(other.beliefs["logp"]))
    assert one.residuals is not None
    assert other.residuals is not None
    np.testing.assert_allclose(one.residuals, other.residuals, atol=noise(other.residuals))
