"""A memory in PostgreSQL: the same answers as from a file, for a team.

What does not depend on the engine is the SQLite store's own code: how a text becomes terms, how a
document becomes a row, how an entry of the audit log is hashed. So both cannot drift apart.
"""
