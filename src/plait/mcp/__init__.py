"""The door for agents: a server of the Model Context Protocol. Only here is the SDK imported.

`tool`, `arguments`, `answers` and the profiles (`memory_tools`, `layers`, `graph`) know nothing of
the SDK; `server` joins them to it, `stdio` and `http` carry it.
"""
