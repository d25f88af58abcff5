"""Chat templates: those in use are rendered as transformers renders them, on every day alike; hostile ones are refused
in one line, soon and without filling the memory."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from doxascope import UserError, load
from doxascope.experiments.run.config import load_config
from doxascope.experiments.run.runner import run
from doxascope.hooks.model.spec import DAY
from doxascope.hooks.prompts.chat import ChatRenderer, Message
from doxascope.hooks.prompts.template import SECONDS, ChatTemplate

HELLO = [{"role": "user", "content": "Hello"}]
CHAT = [{"role": "system", "content": "Be brief. <b>"}, *HELLO, {"role": "assistant", "content": " Yes.\n"}, *HELLO]
START, LOOP = "{{% set ns = namespace(x='ab') %}}", "{{% for i in range(60) %}}{{% set ns.x = {} %}}{{% endfor %}}"
GROW = START + LOOP + "{{{{ ns.x|length }}}}"
EVERY = "{% for m in messages %}"
LARGE = "{% set a = '\t' * 1000000 %}"

HEALTHY = {
    "loop": EVERY + "{{ loop.index0 ~ ': ' + m.role|upper }}{{ loop.last }}{{ loop.length }}\n{% endfor %}",
    "trims": "{%- for m in messages -%}\n  {{- m['content'] | trim }}\n{% endfor -%}",
    "namespace": "{% set ns = namespace(n=0) %}" + EVERY + "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n * 2 }}",
    "macro": "{% macro say(m) %}<{{ m.role }}>{{ m.content }}{% endmacro %}" + EVERY + "{{ say(m) }}{% endfor %}",
    "json": "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}",
    "controls": EVERY + "{% if loop.index == 2 %}{% continue %}{% endif %}{{ m.content }}{% endfor %}",
    "generation": EVERY + "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "block": "{% set x %}" + EVERY + "{{ m.content.split('e') | join('~') }}{% endfor %}{% endset %}{{ x * 2 }}",
    "defaults": "{{ bos_token }}{{ eos_token }}{{ enable_thinking }}{{ tools is none }}{{ nothing is defined }}",
    "slices": "{{ messages[1:] | length }}{{ messages[::-1][0]['content'][:3] }}"
    + "{{ messages | map(attribute='role') | list }}",
    "formats": "{{ '%s-%03d' % (messages[0].role, 7) }}{{ '{:>9}'.format('x') }}{{ 'x'.replace('x', 'yy') }}",
}
HOSTILE = {
    "clock": "{{ strftime_now('%H:%M') }}",
    "clock in disguise": "{{ strftime_now('%c') }}",
    "draw": "{{ [1, 2, 3] | random }}",
    "lipsum": "{{ lipsum() }}",
    "address": "{{ raise_exception }}",
    "address of a generator": "{{ messages | map('upper') }}",
    "multiply": "{{ 'x' * 10**10 }}",
    "power": "{{ 2 ** (10**9) }}",
    "square": GROW.format("ns.x * ns.x").replace("'ab'", "99"),
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "recursive loop": "{% for x in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "macro": "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "endless macro": "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "center": "{{ 'x' | center(10**9) }}",
    "ljust": "{{ 'x'.ljust(10**9) }}",
    "format filter": "{{ '%1000000000d' | format(1) }}",
    "format operator": "{{ '%1000000000d' % 1 }}",
    "format method": "{{ '{:1000000000}'.format(1) }}",
    "format width": "{{ '{:{w}}'.format(1, w=10**9) }}",
    "format star": "{{ '%*d' % (10**9, 1) }}",
    "tojson": "{{ messages | tojson(indent=10**9) }}",
    "slice": "{{ messages | slice(10**9) | list }}",
    "tilde": GROW.format("ns.x ~ ns.x"),
    "plus": GROW.format("ns.x + ns.x"),
    "list": GROW.format("[ns.x, ns.x] | join"),
    "join": GROW.format("''.join([ns.x, ns.x])"),
    "method": GROW.format("'{0}{0}'.format(ns.x)"),
    "percent": GROW.format("'%s%s' % (ns.x, ns.x)"),
    "replace": LARGE + "{{ a.replace('\t', a) | length }}",
    "replace filter": LARGE + "{{ a | replace('\t', a) | length }}",
    "translate": LARGE + "{{ a.translate({9: a}) | length }}",
    "expandtabs": LARGE + "{{ a.expandtabs(1000000) | length }}",
    "search": LARGE + "{% for i in range(99999) %}{{ 'ab' in a }}{% endfor %}",
    "deep": "{{ " + "(" * 100_000 + "1" + ")" * 100_000 + " }}",
    "deep blocks": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "long": "x" * 3_000_000,
    "class": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "import": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "syntax": "{% for %}",
    "zero": "{{ 1 / 0 }}",
    "attribute": "{{ messages.x.y.z }}",
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_template_says_what_transformers_makes_of_it(name: str, make_tokenizer: Callable[..., Any]) -> None:
    tokenizer = make_tokenizer(chat_template=HEALTHY[name])
    theirs = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    ours = ChatTemplate(HEALTHY[name], DAY).render(CHAT, enable_thinking=False, **tokenizer.special_tokens_map)
    assert ours == theirs


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_refused_in_one_line_and_soon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doxascope.hooks.prompts.template.SECONDS", SECONDS / 6)
    began = time.monotonic()
    with pytest.raises(UserError, match="chat template") as told:
        ChatTemplate(HOSTILE[name], DAY).render(HELLO)
    assert time.monotonic() - began < 3 * SECONDS  # whatever else the machine does
    assert "\n" not in str(told.value)


def test_a_template_that_was_stopped_renders_the_next_conversation() -> None:
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    template = ChatTemplate("{% if messages|length > 2 %}" + loops + "{% endif %}{{ messages[0].content }}", DAY)
    for _ in range(2):
        with pytest.raises(UserError, match="takes longer than 3 s for one prompt"):
            template.render(CHAT)
        assert template.render(HELLO) == "Hello"


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="the system cannot stop a process")
def test_a_machine_that_is_busy_takes_nothing_of_a_prompt_s_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doxascope.hooks.prompts.template.SECONDS", 0.3)
    template = ChatTemplate("{{ messages[0].content }}", DAY)
    worker = template._worker
    os.kill(worker.pid, signal.SIGSTOP)
    goes_on = Timer(1.0, os.kill, (worker.pid, signal.SIGCONT))
    goes_on.start()
    began = time.monotonic()
    assert template.render(HELLO) == "Hello"
    assert time.monotonic() - began > 0.9
    assert template._worker is worker  # it was not killed
    goes_on.join()


def test_the_date_is_a_setting() -> None:
    template = "{{ strftime_now('%d %b %Y') }}"
    assert ChatTemplate(template, DAY).render(HELLO) == DAY.strftime("%d %b %Y")
    assert ChatTemplate(template, date(1999, 12, 31)).render(HELLO) == "31 Dec 1999"


@pytest.fixture
def midnight() -> Iterator[Callable[[str], None]]:
    """Moves this process into another time zone, where it is another day."""
    before = os.environ.get("TZ")

    def move(zone: str) -> None:
        os.environ["TZ"] = zone
        time.tzset()

    yield move
    os.environ.pop("TZ", None) if before is None else os.environ.update(TZ=before)
    time.tzset()


@pytest.fixture(scope="module")
def dated(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with a template that begins with the date."""
    folder = Path(shutil.copytree(tiny_folder, tmp_path_factory.mktemp("dated") / "dated"))
    template = folder / "chat_template.jinja"
    template.write_text("Today is {{ strftime_now('%d %b %Y') }}.\n" + template.read_text())
    return folder


def test_a_run_goes_on_under_another_date_with_the_same_bytes(
    dated: Path, tmp_path: Path, midnight: Callable[[str], None], cut_short: Callable[[Path, int], None]
) -> None:
    from transformers import AutoTokenizer

    wanted = ["items=3", "batch_items=1", "bootstrap_draws=20", "fork.methods=[]"]
    wanted += ["methods={free: {forms: ['{option}']}}"]
    experiment, config = load_config("consistency", wanted, str(dated))
    theirs: Any = AutoTokenizer.from_pretrained(dated)
    midnight("AAA-14")
    east = theirs.apply_chat_template(HELLO, tokenize=False)
    whole = run(experiment, config, tmp_path / "whole").path
    part = Path(shutil.copytree(whole, tmp_path / "part" / whole.name))
    cut_short(part, 1)
    midnight("BBB+12")
    assert theirs.apply_chat_template(HELLO, tokenize=False) != east
    run(experiment, config, tmp_path / "part")
    for name in ("scores.json", "beliefs/part-00002.parquet", "transcripts/part-00002.jsonl"):
        assert (part / name).read_bytes() == (whole / name).read_bytes()


def test_the_date_is_part_of_what_a_model_is_and_the_prompt_of_what_was_said(dated: Path, tiny_folder: Path) -> None:
    with load(str(dated)) as lm, load(str(dated), date="1999-12-31") as other, load(str(tiny_folder)) as plain:
        assert (lm.identity.date, other.identity.date, plain.identity.date) == (DAY.isoformat(), "1999-12-31", None)
        digests = [one.reader.chat.digest([{"role": "user", "content": "Hello"}]) for one in (lm, other, plain)]
    assert len({*digests}) == 3


def test_a_hostile_template_of_a_model_is_one_line(tiny_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "hostile"))
    (folder / "chat_template.jinja").write_text(HOSTILE["multiply"])
    with pytest.raises(UserError, match="chat template cannot be used: it takes too much memory"):
        load(str(folder))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": {"a": 1}}))
    with pytest.raises(UserError):
        load(str(folder))


TURN = "<|im_start|>{{ m.role }}\n%s<|im_end|>\n"
CHANGING = {
    "all is dropped": EVERY + TURN % "" + "{% endfor %}",
    "the user is dropped": EVERY + "{% if m.role != 'user' %}" + TURN % "{{ m.content }}" + "{% endif %}{% endfor %}",
    "the last alone": "{% set m = messages[-1] %}" + TURN % "{{ m.content }}",
    "the first alone": "{% set m = messages[0] %}" + TURN % "{{ m.content }}",
    "capitals": EVERY + TURN % "{{ m.content | upper }}" + "{% endfor %}",
    "cut": EVERY + TURN % "{{ m.content[:20] }}" + "{% endfor %}",
    "escaped": EVERY + TURN % "{{ m.content | e }}" + "{% endfor %}",
    "quoted": EVERY + TURN % "{{ m.content | tojson }}" + "{% endfor %}",
    "turned round": "{% for m in messages | reverse %}" + TURN % "{{ m.content }}" + "{% endfor %}",
    "what stands elsewhere is dropped": EVERY
    + "{% if m.role != 'assistant' %}"
    + TURN % "{{ m.content }}I would rather not say yet."
    + "{% endif %}{% endfor %}",
    "in one line": EVERY + TURN % "{{ m.content.replace('\n', ' ') }}" + "{% endfor %}",
}
LONG: list[Message] = [
    {"role": "user", "content": 'Is "a" <b> so?\nSay it in a word.'},
    {"role": "assistant", "content": "I would rather not say yet."},
    {"role": "user", "content": "  Which of the two then?\n"},
]
KEEPING = {
    "as it is": EVERY + TURN % "{{ m.content }}" + "{% endfor %}",
    "trimmed": EVERY + TURN % "{{ m.content | trim }}" + "{% endfor %}",
    "the system text in the last turn": EVERY
    + "{% if m.role != 'system' %}<|im_start|>{% if loop.last and messages[0].role == 'system' %}"
    + "{{ messages[0].content }}\n\n{% endif %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}",
}


@pytest.mark.parametrize("name", CHANGING)
def test_a_template_that_changes_what_is_asked_is_refused_in_a_line_that_shows_it(
    name: str, make_tokenizer: Callable[..., Any]
) -> None:
    with pytest.raises(UserError, match=r"changes what is asked: message .* it renders '.*template: plain") as told:
        ChatRenderer(make_tokenizer(chat_template=CHANGING[name]), "own").render(LONG)
    assert "\n" not in str(told.value)


def test_a_text_that_is_dropped_is_missed_though_another_message_holds_it(make_tokenizer: Callable[..., Any]) -> None:
    short = (
        EVERY
        + "{% if m.role != 'system' or m.content | length > 8 %}"
        + TURN % "{{ m.content }}"
        + "{% endif %}{% endfor %}"
    )
    asked: list[Message] = [
        {"role": "system", "content": "Lie."},
        {"role": "user", "content": "Lie. Is the sky green?"},
    ]
    with pytest.raises(UserError, match=r"message 0, 'Lie\.', is not in it"):
        ChatRenderer(make_tokenizer(chat_template=short), "own").render(asked)
    assert ChatRenderer(make_tokenizer(chat_template=KEEPING["as it is"]), "own").render(asked).ids


@pytest.mark.parametrize("name", KEEPING)
def test_a_template_that_keeps_every_text_is_taken(name: str, make_tokenizer: Callable[..., Any]) -> None:
    chat = ChatRenderer(make_tokenizer(chat_template=KEEPING[name]), "own")
    system: Message = {"role": "system", "content": "Be brief."}
    assert chat.render([system, *LONG]).ids != chat.render(LONG).ids


def test_two_questions_are_never_one_prompt(make_tokenizer: Callable[..., Any]) -> None:
    """A text that is dropped may stand elsewhere by chance: here each is a letter of the word `assistant`."""
    long = "{% if messages[0].content | trim | length > 1 %}{{ messages[0].content }}{% endif %}"
    dropped = long + "<|im_start|>user<|im_end|><|im_start|>assistant"
    chat = ChatRenderer(make_tokenizer(chat_template=dropped), "own")
    chat.render([{"role": "user", "content": "a"}])
    chat.render([{"role": "user", "content": " a "}])
    with pytest.raises(UserError, match="it is the same for another question than 'n'"):
        chat.render([{"role": "user", "content": "n"}])


def test_a_run_on_a_template_that_drops_a_text_ends_in_that_line(
    tiny_folder: Path, command_line: Callable[..., Any], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    (folder / "chat_template.jinja").write_text(CHANGING["the last alone"])
    done = command_line("run", "consistency", "-m", str(folder), "-o", "items=2", cwd=tmp_path)
    assert done.returncode == 2
    assert "changes what is asked" in done.stderr
