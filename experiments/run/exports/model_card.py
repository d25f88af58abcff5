"""The numbers that a run was made for, as `model-index` metadata: the results that a model's card on the Hub shows."""

from ....base.errors import UserError
from ....base.files import OutputFolder
from .readouts import Exported, keep_foreign


def write(exported: Exported, out: OutputFolder) -> list[str]:
    """Write `model-index.md`, whose head goes into the head of the model's README.md.

    Raises UserError if the run has none of these numbers, and for a file of this name that is not of an export.
    """
    from huggingface_hub import EvalResult, ModelCardData

    if not exported.made_for:
        raise UserError(f"{exported.folder.path}: has no number that it was made for; a card shows results")
    results = [
        EvalResult(
            task_type="text-generation", dataset_type=f"doxascope-{exported.experiment}",
            dataset_name=f"doxascope {exported.experiment}", metric_type=number["metric"],
            metric_name=f"{number['quantity'] or number['metric']}, {number['method']}",
            metric_value=number["estimate"],
            metric_args={name: number[name] for name in ("ci_lo", "ci_hi", "n_rows", "n_clusters", "status")}
            | {"readable": exported.readable(number)},
        )
        for number in exported.made_for
    ]  # fmt: skip
    weights = str(exported.conditions["model"].get("quantisation") or "").partition(",")[0]
    named, quantised = exported.hub_name, f"Read with {weights}, not with the weights that are on the Hub. "
    data = ModelCardData(model_name=f"{named} ({weights})" if weights else named, eval_results=results)
    keep_foreign(lambda card: b"type: doxascope-" in card.read_bytes(), out.path / "model-index.md")
    out.write("model-index.md", f"---\n{data.to_yaml()}\n---\n{quantised if weights else ''}{exported.verdict}\n")
    return [f"{out.path / 'model-index.md'}: {len(results)} results; put its head into that of the model's README.md"]
