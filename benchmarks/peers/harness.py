"""lm-evaluation-harness: the model in memory, one request per context and surface form, as its users ask."""

import logging
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from doxascope.hooks.exact.queries import Query

Request = tuple[str, str]
"""(context, continuation)."""


class Harness:
    """`HFLM` around a model, with its defaults. Raises ImportError if lm-eval is not installed."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        hflm = import_module("lm_eval.models.huggingface").HFLM  # an extra: type checks must do without it
        self._instance: Any = import_module("lm_eval.api.instance").Instance
        logging.getLogger("lm_eval").setLevel(logging.ERROR)
        self.lm: Any = hflm(pretrained=model, tokenizer=tokenizer, device=str(model.device))

    def requests(self, groups: Sequence[Sequence[Query]]) -> list[Request]:
        """The texts of every path of every query, in order.

        Raises ValueError if the harness would give the model other tokens than ours.
        """
        decode = self.lm.tokenizer.decode
        found = []
        for query in chain.from_iterable(groups):
            for path in chain.from_iterable(query.paths.paths):
                request = decode(query.prompt.ids), decode(path)
                if self.lm.tok_encode("".join(request)) != [*query.prompt.ids, *path]:
                    raise ValueError(f"read-out {query.readout_id}: {request[1]!r} has other tokens in the harness")
                found.append(request)
        return found

    def read(self, requests: Sequence[Request], batch_size: int) -> list[float]:
        """The log-likelihood of each request."""
        self.lm.batch_size_per_gpu = batch_size
        instances = [self._instance("loglikelihood", {}, request, i) for i, request in enumerate(requests)]
        return [value for value, _ in self.lm.loglikelihood(instances, disable_tqdm=True)]

    def moved(self, requests: Sequence[Request]) -> list[float]:
        """What `read` counts too much: the harness moves blanks that end a context to the continuation."""
        blanks = {context: (context.rstrip(), context[len(context.rstrip()) :]) for context, _ in requests}
        asked = {context: request for context, request in blanks.items() if request[1]}
        values = dict(zip(asked, self.read(list(asked.values()), batch_size=1), strict=True))
        return [values.get(context, 0.0) for context, _ in requests]
