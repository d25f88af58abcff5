"""Adapters as PEFT writes them, merged into the weights of a model or attached to its layers.

An adapter must not be lost: transformers reads a folder that holds one without it where `peft` is missing, and `peft`
only warns of weights that it has no place for. Here both are errors.
"""

import hashlib
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...base.documents import read_json, user_path
from ...base.errors import UserError, in_one_line
from ...base.files import file_digest
from .checkpoint import weights_digest
from .spec import ADAPTER_CONFIG, IN_MEMORY, Adapter, ModelSpec

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ADAPTER_WEIGHTS, TOKENIZER = "adapter_model.safetensors", "tokenizer_config.json"
FILES = (ADAPTER_CONFIG, ADAPTER_WEIGHTS, "tokenizer*", "*.jinja", "special_tokens_map.json", "*.model", "*.txt")
"""What is fetched of an adapter on the hub."""
METHODS = {"ADALORA", "BEFT", "BOFT", "C3A", "DEFT", "DELORA", "FOURIERFT", "GLORA", "GRALORA"}
METHODS |= {"HIRA", "HRA", "IA3", "LILY", "LN_TUNING", "LOHA", "LOKR", "LORA", "MISS", "OFT", "OSF", "PEANUT"}
METHODS |= {"PVERA", "RANDLORA", "ROAD", "SHIRA", "SUPERTUNING", "TINYLORA", "TRAINABLE_TOKENS", "UNILORA"}
METHODS |= {"VERA", "WAVEFT"}
"""Those that change layers alone, by what lies in the adapter's own file. Others put something before the prompt, whose
tokens the tree would not know, choose by the task, or load what their settings name: models, adapters, code. ADAMSS,
FROD and PSOFT are left out: their weights refer to singular vectors of the base that are computed anew, and come out
otherwise on another device or kind of processor (logits .3 to 4 apart)."""
ELSEWHERE = {
    "megatron_config": "would import a module that it names",
    "alora_invocation_tokens": "makes the adapter begin at tokens that PEFT looks for in whole prompts",
    "arrow_config": "mixes adapters that lie elsewhere",
}
"""Keys of settings by which an adapter is more than what is attached to layers."""
FAULTS = ("gated_repo", "missing_entries", "connection_errors")
QUIETLY: Mapping[str, Any] = {f"_raise_exceptions_for_{what}": False for what in FAULTS}
"""By which a file of the hub that is not to be had is None."""
TRIED = """
import contextlib, json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
texts, names = json.load(sys.stdin)
for pattern in [form % text for text in texts for form in ("%s", r"(.*\\.)?(%s)$", r"(^|.*\\.)%s($|\\..*)")]:
    with contextlib.suppress(Exception):
        tried = [re.fullmatch(pattern, name) for name in names]
"""
"""In a process of its own, which 2 s of the processor end: every pattern, in PEFT's ways, on the names of modules."""


@dataclass(frozen=True)
class AdapterFiles:
    """An adapter that is here, and what its configuration says."""

    adapter: Adapter
    folder: Path
    settings: Mapping[str, Any]

    @property
    def method(self) -> str:
        """By which it was trained."""
        return "DoRA" if self.settings.get("use_dora") else str(self.settings["peft_type"])

    def __str__(self) -> str:
        """What is recorded of it: place, method, weight and the digest of its files."""
        digests = [file_digest(self.folder / name) for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS)]
        digest = hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
        weight = "" if self.adapter.weight == 1 else f" times {self.adapter.weight:g}"
        return f"{self.adapter.name} ({self.method} {digest}){weight}"


class Adapted(NamedTuple):
    """What was done to a model."""

    said: str
    base: str | None
    """Digest of the weights that it was done to."""


_DONE = "doxascope_adapted"


def adapted(model: "PreTrainedModel") -> Adapted | None:
    """What was noted; None for a model without adapters."""
    return getattr(model, _DONE, None)


def find_adapters(spec: ModelSpec, place: str, revision: str | None, *, from_cache: bool) -> list[AdapterFiles]:
    """Those that are asked for, after the one that lies with the weights at `place`, if there is one; there the hub is
    not asked if they are taken `from_cache`.

    Raises UserError for what is no adapter, cannot be applied, or cannot be had.
    """
    from transformers.utils.hub import cached_file
    from transformers.utils.peft_utils import find_adapter_config_file

    asked = list(spec.adapter)
    there: Any = {"revision": revision, "local_files_only": from_cache}
    if (beside := find_adapter_config_file(place, **there)) is not None:
        if not cached_file(place, "config.json", **there, **QUIETLY):
            base = read_json(Path(beside)).get("base_model_name_or_path")
            raise UserError(f"model {place}: is an adapter; give its model, -m {base} -o model.adapter={place}")
        same = [each for each in asked if user_path(each.place).resolve() == Path(place).resolve()]
        asked = asked if same else [Adapter(place=place, revision=revision), *asked]
    return [_found(adapter) for adapter in asked]


def _found(adapter: Adapter) -> AdapterFiles:
    folder = user_path(adapter.place)
    where = f"adapter {adapter.place}"
    if not folder.exists():
        folder = _fetched(adapter)
    if not (folder / ADAPTER_CONFIG).is_file():
        raise UserError(f"{where}: no {ADAPTER_CONFIG} in it; give a folder, or a hub id, as PEFT writes it")
    settings = read_json(folder / ADAPTER_CONFIG)
    if not isinstance(settings, dict) or "peft_type" not in settings:
        raise UserError(f"{where}: its {ADAPTER_CONFIG} names no peft_type; give it as PEFT writes it")
    if (method := str(settings["peft_type"])) not in METHODS:
        does = "is no method that changes layers alone, by weights of its own"
        raise UserError(f"{where}: {method!r} {does}; give LoRA, DoRA, IA3 or alike")
    if key := next((key for key in ELSEWHERE if settings.get(key)), None):
        raise UserError(f"{where}: its {key} {ELSEWHERE[key]}; take it out of {ADAPTER_CONFIG}")
    if str(settings.get("init_lora_weights")).startswith("pissa_niter"):
        drawn = "changes the base by singular vectors that are drawn anew at each loading"
        raise UserError(f"{where}: its init_lora_weights {drawn}; save it converted to LoRA")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise UserError(f"{where}: no {ADAPTER_WEIGHTS} in it; pickles are not read, save it as safetensors")
    return AdapterFiles(adapter, folder, settings)


def _fetched(adapter: Adapter) -> Path:
    """The folder of an adapter on the hub, or in its cache."""
    from huggingface_hub import snapshot_download

    if adapter.place.count("/") != 1 or adapter.place.startswith((".", "/", "~")):
        raise UserError(f"adapter {adapter.place}: neither a folder that exists nor a hub id `owner/name`")
    try:
        return Path(snapshot_download(adapter.place, revision=adapter.revision, allow_patterns=list(FILES)))
    except Exception as error:
        raise UserError(f"adapter {adapter.place}: {refusal(error, adapter.place)}") from error


def refusal(error: BaseException, place: str) -> str:
    """Why the hub does not give a model: it is gated, it is not there, or there is no network."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    known: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in known:
        known.append(cause)
        cause = cause.__cause__ or cause.__context__
    token = "set HF_TOKEN to a token of yours, or run `hf auth login`"
    if any(isinstance(each, GatedRepoError) for each in known):
        return f"gated: accept its terms at https://huggingface.co/{place}, then {token}"
    if any(isinstance(each, RepositoryNotFoundError) for each in known):
        return f"not on the hub, or private: check the id, or {token}"
    return "not to be had from the hub or its cache; check the id, or, without a network, give a local folder or file"


def require_peft(where: str) -> None:
    """Raise UserError if the library of adapters is not installed: without it an adapter would be lost."""
    try:
        import peft  # noqa: F401
    except ImportError as error:
        raise UserError(f'{where}: needs peft, which is missing ({error}); pip install "doxascope[peft]"') from error


def adapter_tokenizer(
    adapters: Sequence[AdapterFiles], base: "PreTrainedTokenizerBase | None" = None
) -> "PreTrainedTokenizerBase | None":
    """The tokenizer that was saved with an adapter; None: there is none.

    Raises UserError for adapters that bring different ones, and for one that gives a token of the base another id: it
    belongs to another model.
    """
    from transformers import AutoTokenizer

    bringing = [each for each in adapters if (each.folder / TOKENIZER).is_file()]
    if not bringing:
        return None
    words = {file_digest(path) if (path := each.folder / "tokenizer.json").is_file() else "" for each in bringing}
    if len(words) > 1:
        names = ", ".join(each.adapter.name for each in bringing)
        raise UserError(f"adapters {names}: bring different tokenizers, which no model has at once; give one of them")
    where = f"adapter {bringing[-1].adapter.place}"
    with in_one_line(f"{where}: its tokenizer"):
        tokenizer_of: Any = AutoTokenizer.from_pretrained(bringing[-1].folder, trust_remote_code=False)
    ids = tokenizer_of.get_vocab()
    if base and (other := [word for word, token in base.get_vocab().items() if ids.get(word) != token]):
        raise UserError(
            f"{where}: its tokenizer gives {len(other)} tokens of the model other ids, {other[0]!r} first; give the "
            "model that it was trained on"
        )
    return tokenizer_of


def fit_vocabulary(model: "PreTrainedModel", adapters: Sequence[AdapterFiles]) -> None:
    """Give a model as many embeddings as its adapters bring.

    Raises UserError if their tokenizer has further tokens, whose embeddings nobody brings.
    """
    from safetensors import safe_open

    inside: Any = model.get_input_embeddings()
    outside = model.get_output_embeddings()
    names = [name for name, module in model.named_modules() if module is inside or module is outside]
    for each in adapters:
        weights = each.folder / ADAPTER_WEIGHTS
        with in_one_line(f"adapter {each.adapter.place}: {weights.name}"), safe_open(weights, "pt") as file:
            shapes = {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
        ends = [f"{name}{inner}.weight" for name in names for inner in ("", ".base_layer")]
        rows = {shape[0] for key, shape in shapes.items() if key.endswith(tuple(f".{end}" for end in ends))}
        if rows and max(rows) != inside.weight.shape[0]:
            model.resize_token_embeddings(int(max(rows)), mean_resizing=False)
            inside: Any = model.get_input_embeddings()
    tokenizer = adapter_tokenizer(adapters)
    if tokenizer is not None and len(tokenizer) > (known := int(inside.weight.shape[0])):
        raise UserError(
            f"adapter {adapters[-1].adapter.place}: its tokenizer has {len(tokenizer)} tokens, and embeddings are "
            f"there for {known}; save it with its embeddings (save_embedding_layers=True)"
        )


def apply_adapters(spec: ModelSpec, model: "PreTrainedModel", adapters: Sequence[AdapterFiles]) -> "PreTrainedModel":
    """The model with its adapters, merged or attached as the settings say. It is changed in place.

    Of several, or of one with a weight, the changes that each alone makes to the weights of the base are added up, each
    times its weight: of LoRA that is its scale, and whatever the method, 0 is the base and 1 the adapter.

    Raises UserError for an adapter that does not fit, and for what cannot be merged or attached.
    """
    base = weights_digest(model)
    fit_vocabulary(model, adapters)
    whole = len(adapters) == 1 and adapters[0].adapter.weight == 1
    if spec.adapted == "attached":
        if not whole:
            raise UserError(
                f"model {spec.name}: several adapters, or one with a weight, are merged alone, not attached"
            )
        model = _peft(model, adapters[0]).get_base_model()  # type: ignore
        refuse_adapted_head(model, f"adapter {adapters[0].adapter.place}")
    elif getattr(model, "hf_quantizer", None) is not None:
        raise UserError(
            f"model {spec.name}: its weights are quantised, and would round what is merged into them; set "
            "model.adapted=attached"
        )
    elif whole:
        model = _merged(model, adapters[0])
    else:
        model = _summed(model, adapters)
    names = ", ".join(map(str, adapters))
    setattr(model, _DONE, Adapted(f"{names}, {spec.adapted}", base))
    return model


def refuse_adapted_head(model: "PreTrainedModel", where: str) -> None:
    """Raise UserError if something is attached to the unembedding, which is read by its weights alone."""
    if type(model.get_output_embeddings()).__module__.startswith("peft."):
        raise UserError(f"{where}: is attached to the unembedding, which is read by its weights alone; merge it")


def note_attached(model: "PreTrainedModel") -> None:
    """Say of an object that was handed over what PEFT has attached to it. Its weights' digest has that in it."""
    if (attached := getattr(model, "peft_config", None)) is not None:
        methods = sorted({str(getattr(each.peft_type, "value", each.peft_type)) for each in attached.values()})
        setattr(model, _DONE, Adapted(f"{', '.join(methods)}, attached {IN_MEMORY}", None))


def _summed(model: "PreTrainedModel", adapters: Sequence[AdapterFiles]) -> "PreTrainedModel":
    import torch

    base = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    total: dict[str, Any] = {}
    for each in adapters:
        model = _merged(model, each)
        for name, tensor in model.state_dict().items():
            if not torch.equal(tensor, base[name]):
                change = each.adapter.weight * (tensor.double() - base[name].double())
                total[name] = total[name] + change if name in total else change
        model.load_state_dict(base)
    model.load_state_dict({**base, **{name: (base[name].double() + change) for name, change in total.items()}})
    return model


def _merged(model: "PreTrainedModel", files: AdapterFiles) -> "PreTrainedModel":
    """One adapter in the weights. Embeddings that are tied are parted first where it changes one of them alone."""
    import torch

    if files.settings.get("layer_replication"):
        said = "changes each of the layers that it repeats, whose weights are one"
        raise UserError(f"adapter {files.adapter.place}: {said}; set model.adapted=attached")
    attached = _peft(model, files)
    ends = [model.get_input_embeddings(), model.get_output_embeddings()]
    inner: list[Any] = [getattr(end, "base_layer", end) for end in ends]
    changed = [a is not b for a, b in zip(ends, inner, strict=True)]
    if inner[1] is not None and any(changed) and inner[0].weight is inner[1].weight:
        inner[1].weight = torch.nn.Parameter(inner[1].weight.detach().clone(), requires_grad=False)
        model.config.tie_word_embeddings = False
    with in_one_line(f"adapter {files.adapter.place}: {files.method} cannot be merged"), _quiet():
        return attached.merge_and_unload().requires_grad_(False)  # pyright: ignore[reportCallIssue]


def _peft(model: "PreTrainedModel", files: AdapterFiles) -> "PeftModel":
    """A model with an adapter attached. Raises UserError for weights without a place, and the reverse."""
    from peft import PeftModel

    where = f"adapter {files.adapter.place}"
    patterns = [text for text in _texts(files.settings) if set(text) & set("*+?{")]
    given = json.dumps([patterns, [name for name, _ in model.named_modules()]])
    command = [sys.executable, "-I", "-c", TRIED]
    if patterns and subprocess.run(command, input=given, text=True, capture_output=True, check=False).returncode < 0:
        raise UserError(f"{where}: a pattern in its {ADAPTER_CONFIG} takes too long; name modules in target_modules")
    base = files.settings.get("base_model_name_or_path")
    advice = f"it is not of this model; give the one that it was trained on ({base})"
    with in_one_line(where, advice), _quiet():
        attached = PeftModel.from_pretrained(model, str(files.folder))
        result: Any = attached.load_adapter(str(files.folder), "default")
        faults = {"has no place for": result.unexpected_keys, "finds no weights for": result.missing_keys}
        for what, names in faults.items():
            if names:
                raise ValueError(f"the model {what} {sorted(names)[0]} ({len(names)} in all)")
    attached.requires_grad_(False).eval()
    return attached


def _texts(settings: Any) -> Iterator[str]:
    """Every text in settings, keys among them."""
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, dict | list):
        for each in [*settings, *settings.values()] if isinstance(settings, dict) else settings:
            yield from _texts(each)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of PEFT: what it warns of is an error here, or is seen to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
