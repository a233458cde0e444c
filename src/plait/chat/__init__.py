"""The chat: a person talks to a model that searches the memory and stores in it.

`models` opens the official client of one provider, `context` gathers what the model is told about
the memory, `talk` leads the conversation, `sessions` keeps and shortens it, `digest` proposes facts
from one. Nothing here prints or reads a terminal: that belongs in `plait.cli`. A client is loaded
only when it is used.
"""
