"""Export and import: a memory as lines or as a folder of files, and other systems' files.

Writing documents belongs in `plait.writing`.
"""
