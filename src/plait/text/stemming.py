"""Endings of English words that Porter's stemmer takes off or changes. Pure.

The keyword index has stems only: whoever wants the words that a stem may come from adds an ending.
"""

_ENDINGS = (
    "abilities ability able ables ably al alism alities ality alize alized alizing ally als ance "
    "ances ancies ancy ant antly ants ate ated ately ates ating ation ational ationally ations "
    "ative atively ator ators ed edly ement ements ence ences encies ency ent ently ents er ers es "
    "ful fully fulness ibilities ibility ible ibly ic ical ically icate icated icates icating "
    "icities icity ics ied ies iest ily iness ing ingly ings ion ional ionally ions ism isms ist "
    "istic ists ities ity ive ively iveness ivities ivity ization izations ize ized izer izers "
    "izes izing ly ment mental ments ness nesses ous ously ousness s tional y"
)
ENDINGS = tuple(_ENDINGS.split())
# The commonest of them.
_USUAL_ENDINGS = (
    "s es ed ing ings er ers ly ion ions ation ations ment ments ness able al ally ity ities ive "
    "ance ence ant ent ents ous ate ates ated ating ator ators ization ize ized ism ist ists ful "
    "ies ied ic ical ics"
)
USUAL_ENDINGS = tuple(_USUAL_ENDINGS.split())
# Tried first; a stem itself may have another stem.
LIKELIEST_ENDINGS = ("", "e", "s", "es", "ed", "ing", "y")
DOUBLED_CONSONANTS = "bdfglmnprtz"  # that English doubles before an ending
