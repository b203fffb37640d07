"""Parts that passes are made of: analysis, building, pieces and iteration spaces."""
