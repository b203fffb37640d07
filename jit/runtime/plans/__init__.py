"""Plans: whole graphs as one native call, their memory, threads and entry."""
