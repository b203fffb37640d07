"""Functions that are written in operators: spellings, differences, low-rank factors, limits of dtypes."""
