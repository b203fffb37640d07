"""Checkpoints in parts: a folder to which every process writes a share, and an index that makes them one.

Note [A checkpoint is its index]
    A folder holds parts, which are files of safetensors whose names occur once, and one `index.json`, which says what
    is in which part. A save writes new parts under temporary names, makes them durable and renames them; when every
    process has said that its part is there, the first one replaces the index, which takes effect at once. Parts that no
    index names any more are removed after that. So whoever is killed at any moment leaves the old index with the old
    parts, or the new one with the new parts, and at most some files that the next save removes.
"""
