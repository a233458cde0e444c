"""Hooks: what plait tells an agent when a session begins, at a prompt and around tools; saving.

`forms` and `tools` know what each agent sends and accepts, `prompts` which prompts need no memory,
`hints` the line beside a tool, `injecting` what is shown, `record` what was shown. Nothing here
prints, and nothing is written into the memory except by `saving`.
"""
