"""The paper's baseline of iterated expectation: random forests fitted to the truth (rational-agents, Figure 2).

It is no reading noise: its violations come from what a forest smooths away, not from how beliefs are read.
"""

import numpy as np
import pandas as pd

from ...metrics import MedianCi, lie, median_ci
from ...metrics.validation import Floats
from .asking import AUXILIARY, CASE
from .config import RationalityConfig
from .learners import FEWEST, FOLDS
from .samples import revealed
from .table import Actions

TREES = 100


def forest_ratio(config: RationalityConfig, table: pd.DataFrame, acts: Actions) -> MedianCi | None:
    """Median of |p - implied| / p, where p and the beliefs by cases are the out-of-fold predictions of two forests, of
    p*(x) and of p*(x, z), and the weights are the true shares. None without cases, or with too few contexts.
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.model_selection import GroupKFold

    own = table[(table["scenario"] == AUXILIARY) & table["covariate"].notna()]
    asked = own.drop_duplicates("item").set_index("item")[["covariate", "shares"]]
    cases = table[(table["scenario"] == CASE) & (table["option_index"] == 0)].drop_duplicates(["item", "case"])
    cases = cases.dropna(subset=["truth"])
    place = {str(item): i for i, item in enumerate(acts.items)}
    if len(place) < FEWEST or cases.empty:
        return None
    names = sorted(asked["covariate"].unique())
    x = revealed(acts)
    row = np.array([place[str(item)] for item in cases["item"]])
    state = cases["case"].to_numpy(dtype=np.float64)
    kind = np.array([names.index(asked["covariate"].get(str(item))) for item in cases["item"]], dtype=np.float64)
    # A forest has no holes: what is not revealed is a state of its own.
    plain, wide = np.nan_to_num(x, nan=-1.0), np.column_stack([np.nan_to_num(x[row], nan=-1.0), kind, state])

    def predicted(features: Floats, truth: Floats, groups: np.ndarray) -> Floats:
        found = np.full(len(truth), np.nan)
        split = GroupKFold(FOLDS, shuffle=True, random_state=config.seed)
        for train, test in split.split(features, truth, groups):
            model = RandomForestRegressor(TREES, random_state=config.seed).fit(features[train], truth[train])
            found[test] = model.predict(features[test])
        return found

    p = predicted(plain, acts.truth, np.arange(len(acts.items)))
    given = predicted(wide, cases["truth"].to_numpy(dtype=np.float64), row)
    conditional = np.full((len(acts.items), int(state.max()) + 1), np.nan)
    conditional[row, state.astype(int)] = given
    weights = np.zeros(conditional.shape)
    for item, shares in asked["shares"].items():
        known = np.array([np.nan if share is None else share for share in shares], dtype=np.float64)
        weights[place[str(item)], : len(known)] = known[: weights.shape[1]]
    return median_ci(lie(p, np.where((weights == 0) & np.isnan(conditional), 0.5, conditional), weights).ratio)
