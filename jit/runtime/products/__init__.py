"""Products: matrix products, convolutions and pooling as steps of a plan."""
