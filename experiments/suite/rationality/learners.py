"""What actions can be predicted from, out of fold: the two models of the gain in log-loss (METRICS E5)."""

import importlib.util
from typing import Any

import numpy as np

from ....base.errors import UserError
from ....metrics.contract import Floats
from .config import RationalityConfig

FOLDS = 5
FEWEST = 2 * FOLDS


def out_of_fold(config: RationalityConfig, features: Floats, actions: np.ndarray, groups: np.ndarray) -> Floats:
    """[n, k] probability of each action, predicted for a context from other contexts.

    Args:
        features: [n, m]; NaN where something was not revealed.
        actions: [n] numbers 0 .. k - 1.
        groups: [n] context, which no fold divides.

    An action that no training row has, gets a chance of 1 of n + k there. Too few contexts give NaN.
    """
    from sklearn.model_selection import GroupKFold  # slow to import

    n, k = len(actions), int(actions.max()) + 1 if len(actions) else 0
    predictions = np.full((n, max(k, 2)), np.nan)
    if len(set(groups)) < FEWEST:
        return predictions
    split = GroupKFold(FOLDS, shuffle=True, random_state=config.seed)
    for train, test in split.split(features, actions, groups):
        seen, counts = np.unique(actions[train], return_counts=True)
        predictions[test] = 1 / (len(train) + predictions.shape[1])
        varied = np.array([len(np.unique(column)) > 1 for column in features[train].T])
        if len(seen) > 1 and varied.any():  # boosting refuses what no training row reveals
            fitted = _fit(config, features[train][:, varied], actions[train])
            predicted = fitted.predict_proba(features[test][:, varied])
        else:  # there is nothing to learn from, which catboost refuses
            predicted = np.tile(counts / counts.sum(), (len(test), 1))
        predictions[np.ix_(test, seen)] = predicted
        predictions[test] /= predictions[test].sum(axis=1, keepdims=True)
    return predictions


def require_learner(config: RationalityConfig) -> None:
    """Raises UserError for a learner that is not installed."""
    if config.learner == "catboost" and importlib.util.find_spec("catboost") is None:
        raise UserError(
            "learner 'catboost': is not installed; pip install doxascope[catboost], or give -o learner=boosting"
        )


def _fit(config: RationalityConfig, features: Floats, actions: np.ndarray) -> Any:
    require_learner(config)
    if config.learner == "boosting":
        from sklearn.ensemble import HistGradientBoostingClassifier

        model: Any = HistGradientBoostingClassifier(
            max_depth=config.depth, max_iter=config.iterations, min_samples_leaf=5, random_state=config.seed
        )
        return model.fit(features, actions)
    from catboost import CatBoostClassifier  # type: ignore

    model = CatBoostClassifier(
        depth=config.depth,
        iterations=config.iterations,
        random_seed=config.seed,
        thread_count=1,
        allow_writing_files=False,
        verbose=False,
    )
    return model.fit(features, actions)
