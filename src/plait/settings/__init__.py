"""Settings: their names and values, the files and variables they come from, and keys.

Only this folder reads the environment and settings files. What a setting does is decided where it
is used.
"""
