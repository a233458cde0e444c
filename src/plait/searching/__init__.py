"""The read path: search, recall, names and timeline. Nothing here writes.

Computing scores belongs in `plait.ranking`.
"""
