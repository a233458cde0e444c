"""Export and import: a memory as lines of text, in plait's format and the reference server's.

Writing documents belongs in `plait.writing`.
"""
