"""The tables of five papers, from the numbers of runs or of a table: no experiment and no model is needed."""
