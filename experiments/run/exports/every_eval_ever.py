"""A run as records of Every Eval Ever (schema 0.3): one of all numbers, and one of each answer whose truth is known.

The files lie as its datastore has them, `data/COLLECTION/DEVELOPER/MODEL/UUID.json` and `UUID_samples.jsonl`, under the
same names each time. An answer has all of its belief in its metadata, as JSON.
"""

import hashlib
import json
import math
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....base.files import OutputFolder, digest_of
from ....base.version import __version__
from ....metrics.claims import BEHAVIOUR
from ....metrics.number import of_share
from ...report.findings import Transcript
from .readouts import SINGLE, Exported

SCHEMA = "0.3.0"
LOSSES = ("log_loss", "brier", "calibration_error")
"""How the name of a number begins that is better the lower it is."""
RANGES = {
    r"accuracy|accuracy_(single|multi)|confidence|order_effect|auroc|c2|c3|yes_no_mass|p_(error|invalid)_\w+": (0, 1),
    r"(\w+_)?coverage(_(prior|posterior|single|multi))?": (0, 1),
    r"brier|brier_(prior|post)|calibration_error|rmse_truth": (0, 1),
    r"brier_multiclass": (0, 2),
    r"log_loss": (0, math.inf),
}
"""Names of numbers -> between what they lie (docs/metrics/definitions.md)."""
ROUNDING = 1e-6
"""By so much a number may lie beyond its range."""
NEITHER = "neither lower nor higher is better by itself: see the quantity, and `doxascope score --list`"


def write(exported: Exported, out: OutputFolder) -> list[str]:
    """Write the record of the numbers, and the answers beside it."""
    collection = f"doxascope-{exported.experiment}"
    name = _uuid4(exported.folder.path.name + json.dumps(exported.conditions, sort_keys=True))
    folder = f"data/{collection}/{exported.hub_name}"
    (out.path / folder).mkdir(parents=True, exist_ok=True)
    identity = f"{collection}/{exported.hub_name}/{exported.when[1]}"
    lines = [json.dumps(line, ensure_ascii=False) + "\n" for line in _answers(exported, identity)]
    record = _record(exported, collection, identity)
    report = [f"{out.path / folder / name}.json: {len(record['evaluation_results'])} numbers, {len(lines)} answers"]
    if lines:
        samples = f"{folder}/{name}_samples.jsonl"
        out.write(samples, "".join(lines))
        record["detailed_evaluation_results"] = {
            "format": "jsonl", "file_path": samples, "hash_algorithm": "sha256",
            "checksum": digest_of("".join(lines).encode()), "total_rows": len(lines),
        }  # fmt: skip
    else:
        report.append(
            "no read-out has a known truth, and an answer without one is none there: --to datasets has the beliefs"
        )
    out.write_json(f"{folder}/{name}.json", record)
    return report


def _uuid4(text: str) -> str:
    """An identifier in the form of a random one, always the same of one text."""
    return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))


def _record(exported: Exported, collection: str, identity: str) -> dict[str, Any]:
    began, ended = exported.when
    model = exported.conditions["model"]
    known = ("architecture", "n_parameters", "weights", "adapter", "revision", "dtype", "quantisation", "chat_template")
    return {
        "schema_version": SCHEMA,
        "evaluation_id": identity,
        "evaluation_timestamp": began,
        "retrieved_timestamp": ended,
        "source_metadata": {
            "source_name": exported.folder.path.name, "source_type": "evaluation_run",
            "source_organization_name": "not stated", "evaluator_relationship": "other",
            "additional_details": {"verdict": exported.verdict, "samples": SINGLE},
        },
        "eval_library": {"name": "doxascope", "version": __version__},
        "model_info": {
            "name": exported.model, "id": exported.hub_name, "developer": exported.hub_name.partition("/")[0],
            "inference_engine": {"name": str(model["backend"]).partition(" ")[0],
                                 "version": str(model["backend"]).partition(" ")[2]},
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "unknown" if exported.hub_name.startswith("local/") else "open_weights",
                **{key: str(model[key]) for key in known if model.get(key) is not None},
            },
        },
        "evaluation_results": [_result(exported, number, collection) for number in exported.numbers()],
    }  # fmt: skip


def _result(exported: Exported, number: Mapping[str, Any], collection: str) -> dict[str, Any]:
    named = {key: number[key] for key in ("metric", "method", "kind", "subset")}
    uncertainty: dict[str, Any] = {"num_samples": number["n_rows"]}
    if _finite(number["se"]) and not of_share(number["ci_method"]):
        uncertainty["standard_error"] = {"value": number["se"], "method": number["ci_method"]}
    if _finite(number["ci_lo"]) and _finite(number["ci_hi"]):
        ends = {"lower": number["ci_lo"], "upper": number["ci_hi"]}
        level = float(number["params"].get("level", 0.95))
        uncertainty["confidence_interval"] = {**ends, "confidence_level": level, "method": number["ci_method"]}
    slope = number["metric"].startswith("calibration") and not number["metric"].startswith(LOSSES)
    sided = number["metric"] in BEHAVIOUR and not slope
    direction = {} if sided else {"additional_details": {"direction": NEITHER}}
    low, high = _range(number)
    return {
        "evaluation_result_id": "/".join(named.values()),
        "evaluation_name": f"{exported.experiment}: {number['quantity'] or number['metric']}, {number['method']}",
        "source_data": {
            "dataset_name": collection, "source_type": "other",
            "additional_details": {"items": str(exported.conditions["dataset"])},
        },
        "metric_config": {
            "metric_id": f"doxascope.{number['metric']}", "metric_name": number["quantity"] or number["metric"],
            "metric_parameters": named, "lower_is_better": number["metric"].startswith(LOSSES),
            "score_type": "continuous", "min_score": low, "max_score": high, **direction,
        },
        "score_details": {
            "score": number["estimate"],
            "details": {key: str(number[key]) for key in ("status", "n_clusters", "n_dropped", "code")},
            "uncertainty": uncertainty,
        },
    }  # fmt: skip


def _range(number: Mapping[str, Any]) -> Sequence[float | str]:
    """Between what a number lies, as far as that is known; one that rounding puts beyond an end is the end."""
    share = (0, 1) if of_share(number["ci_method"]) else (-math.inf, math.inf)
    known = next((ends for name, ends in RANGES.items() if re.fullmatch(name, number["metric"])), share)
    (low, high), estimate = known, number["estimate"]
    ends = (
        estimate if low - ROUNDING <= estimate < low else low,
        estimate if high < estimate <= high + ROUNDING else high,
    )
    return [end if _finite(end) else "Infinity" if end > 0 else "-Infinity" for end in ends]


def _answers(exported: Exported, identity: str) -> Iterator[dict[str, Any]]:
    """Of each read-out with a belief and a known truth."""
    for readout in exported.readouts():
        if readout.truth is None or not readout.has_value or readout.transcript is None:
            continue
        shares = [float(option["prob"]) for option in readout.options]
        said = "" if readout.answer is None else readout.texts[readout.answer]
        yield {
            "schema_version": SCHEMA, "evaluation_id": identity, "model_id": exported.hub_name,
            "evaluation_name": f"{exported.experiment}, {readout.about['method']}", "sample_id": readout.item,
            **_spoken(readout.transcript, readout.reply, said),
            "input": {
                "raw": "\n\n".join(message["content"] for message in readout.transcript["messages"]),
                "reference": [readout.texts[readout.truth]], "choices": readout.texts,
            },
            "evaluation": {"score": shares[readout.truth], "is_correct": readout.answer == readout.truth},
            "metadata": {"readout_id": readout.readout_id, "rows": json.dumps(readout.rows, ensure_ascii=False)},
        }  # fmt: skip


def _spoken(transcript: Transcript, answer: str, said: str) -> dict[str, Any]:
    """The conversation, with the likeliest option as its answer, in the form that its number of turns has."""
    asked = [{"role": message["role"], "content": message["content"]} for message in transcript["messages"]]
    single = sum(message["role"] != "system" for message in asked) == 1
    turns = [{"turn_idx": i, **turn} for i, turn in enumerate([*asked, {"role": "assistant", "content": answer}])]
    source = "output.raw" if single else f"messages[{len(asked)}].content"
    attributed = {
        "turn_idx": 0 if single else len(asked), "source": source, "extracted_value": said,
        "extraction_method": "likeliest option, computed", "is_terminal": True,
    }  # fmt: skip
    form = {"interaction_type": "single_turn", "output": {"raw": [answer]}}
    return (form if single else {"interaction_type": "multi_turn", "messages": turns}) | {
        "answer_attribution": [attributed]
    }


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
