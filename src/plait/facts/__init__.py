"""The rules for facts: duplicates, versions, trust, names, profiles, relations and trash.

Pure functions on values, without SQL, files or a clock. A flow reads, these rules decide, the flow
writes, all in one transaction.
"""
