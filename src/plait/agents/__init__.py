"""Other agents on this machine: read their session files, answer their hooks, edit their settings.

`histories` reads session files, one module for each agent; `importing` stores what it read;
`hooks` answers while they work; `connecting` edits settings files. Nothing here starts an agent or
asks a model.
"""
