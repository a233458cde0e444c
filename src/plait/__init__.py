"""plait: memory that an AI agent can search, by keyword and by meaning, in one SQLite file."""

__version__ = "0.1.0"
