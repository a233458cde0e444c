"""The interface for agents: an MCP server. Only this folder imports the SDK.

`schemas`, `arguments`, `tool`, `replies`, `reading` and the profiles (`core`, `layers`, `graph`)
do not know the SDK. `server` connects them to it; `stdio` and `http` are the transports.
"""
