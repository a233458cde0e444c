"""One memory in one SQLite file, through APSW. The only place that knows SQL."""
