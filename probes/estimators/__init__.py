"""Estimators of linear read-outs, as scikit-learn has them, but that what is fitted is a frozen object of its own."""
