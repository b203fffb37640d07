"""Passes over graphs: each takes a valid graph, leaves a valid graph and says whether it changed anything."""
