"""What our speed is measured against does the same work: its log-probabilities are ours."""

from typing import Any

import numpy as np

from doxascope.benchmarks.peers import forward, kv_cache, workload


def test_peers_by_hand_find_what_we_read(smollm: Any) -> None:
    groups = [group[:2] for group in workload.compiled(smollm, 1, workload.ONE_FORM)]
    firsts = workload.first_tokens(groups)
    for work, theirs in ((groups, kv_cache), (firsts, kv_cache), (firsts, forward)):
        ours = workload.log_probabilities(smollm, work)
        assert np.abs(np.array(theirs.read(smollm.model, work)) - ours).max() < 1e-4
    assert workload.unique_tokens(groups[0]) == smollm.read(groups[0])[1].tokens_run
