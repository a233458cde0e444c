"""The interface for agents: an MCP server. Only this folder imports the SDK.

The tools themselves belong to `plait.tools`, which does not know the SDK. `server` connects them to
it; `stdio` and `http` are the transports.
"""
