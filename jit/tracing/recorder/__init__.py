"""The recorder: what runs becomes the graph of a Trace."""
