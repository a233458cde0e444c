"""Connect agents: an MCP entry, hooks and a skill in the files where an agent looks for them.

`places` says which agent looks where, `jsonc`, `toml` and `yaml` edit text, `planning` decides what
changes, `files` writes it, `handshake` proves the command. Only what is plait's own is changed: the
rest of a file keeps every byte.
"""
