"""Turn results into JSON and text; nothing here reads, writes or decides anything."""
