"""The write path: store, ingest, delete, undo and reindex.

The rules that decide between facts belong in `plait.facts`.
"""
