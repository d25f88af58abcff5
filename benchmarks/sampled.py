"""Exact against sampled on a real model: do sampled answers occur as often as the exact read-out says?

    python benchmarks/sampled.py [draws]

Prompts are contexts of the consistency experiment. The event is the exact read-out's: the answer begins with a surface
form and a terminator. Below, on the same answers, the paper's string match, and on the first hundred the first mention
anywhere in the answer with its Rao-Blackwell estimate.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import platform
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import torch
import transformers
from scipy import stats

import doxascope
from doxascope import load
from doxascope.experiments.run.config import load_config
from doxascope.hooks.generation.generated_texts import Request
from doxascope.hooks.generation.sampled_beliefs import match_options
from doxascope.hooks.generation.sampling import Sampling
from doxascope.hooks.prompts.options import OptionPaths, Terminators, make_options

CONTEXTS = (("prior", "free"), ("prior", "prefill"), ("posterior", "prefill"))
LAW = Sampling(max_new_tokens=16)
MENTIONED = 100
"""Answers along which the chances of a mention are summed: it takes ten times as long as drawing them."""
MENTION_FORMS = ("{option}", "{Option}", " {option}", " {Option}")


def opening_option(ids: Sequence[int], paths: OptionPaths, terminators: Terminators) -> int | None:
    """The option with which an answer's ids begin: the event whose probability the exact read-out gives."""
    for option, forms in enumerate(paths.paths):
        for path in forms:
            after = ids[len(path) : len(path) + 1]
            if tuple(ids[: len(path)]) == path and not terminators.id_set.isdisjoint(after):
                return option
    return None


def g_test(found: Sequence[int | None], mass: np.ndarray) -> tuple[np.ndarray, float]:
    """Counts of the options and of everything else, and the p-value of a multinomial G-test."""
    k, n = len(mass), len(found)
    counts = np.bincount([k if option is None else option for option in found], minlength=k + 1)
    expected = n * np.append(mass, 1 - mass.sum())
    return counts, float(stats.power_divergence(counts, expected, lambda_="log-likelihood").pvalue)


def shown(values: np.ndarray) -> str:
    """Probabilities, in a column each."""
    return " ".join(f"{value:8.4f}" for value in values)


def main(draws: int) -> None:
    """Sample, read, compare and print."""
    print(f"python benchmarks/sampled.py {draws}, {datetime.now(UTC):%Y-%m-%d}")
    experiment, config = load_config("consistency", ["items=1"])
    lm = load(config.model)
    print(
        f"doxascope {doxascope.__version__}, torch {torch.__version__}, transformers {transformers.__version__}, ",
        end="",
    )
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, {config.model.name}, {config.model.dtype}")
    questions = experiment.questions(config, experiment.items(config)[0])
    for scenario, method in CONTEXTS:
        question = next(q for q in questions if (q.scenario, q.method) == (scenario, method))
        query = lm.reader.query(question.readout_id, question.conversation, question.options, question.prefill)
        names = [option.name for option in question.options]
        (exact,), *_ = lm.read([query])
        began = time.perf_counter()
        samples = lm.sample([Request(query.readout_id, query.prompt, range(draws))], LAW, seed=config.seed)
        seconds = time.perf_counter() - began
        tokens = sum(len(sample.ids) for sample in samples)
        opened = [opening_option(sample.ids, query.paths, query.terminators) for sample in samples]
        mass = np.exp(exact.logp)
        counts, p = g_test(opened, mass)
        print(
            f"\n{query.readout_id}: {draws} answers, {tokens} tokens in {seconds:.0f} s\n  options {', '.join(names)}"
        )
        print(f"  begins with a form: exact         {shown(mass)}   coverage {exact.coverage:.4f}")
        print(f"                      sampled       {shown(counts[:-1] / draws)}   G-test p = {p:.3f}")
        top = max((form, i) for i, forms in enumerate(exact.form_logp) for form in forms)[1]
        fewer = mass.copy()
        fewer[top] -= np.exp(max(exact.form_logp[top]))
        refused = g_test(opened, fewer)[1]
        print(f"                      likeliest form taken away:                       G-test p = {refused:.1e}")
        matched = [match_options(sample, names) for sample in samples]
        shares = np.array([sum(one.option == i for one in matched) for i in range(len(names))]) / draws
        failed = Counter(one.status for one in matched if one.option is None)
        errors = ", ".join(f"{name} {n / draws:.3f}" for name, n in sorted(failed.items()))
        print(f"  paper's match:      sampled       {shown(shares)}   {errors}")
        began = time.perf_counter()
        mention_query = lm.reader.query(
            query.readout_id, question.conversation, make_options(names, MENTION_FORMS), question.prefill
        )
        found = lm.mentions(samples[:MENTIONED], mention_query, LAW)
        for name, estimate in (("sampled", found.sampled), ("Rao-Blackwell", found.rao_blackwell)):
            label = "first mention:" if name == "sampled" else ""
            print(f"  {label:<19} {name:<13} {shown(estimate.prob)}   se {shown(estimate.se)}")
        print(f"                      left out at most {found.left_out:.0e}; {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
