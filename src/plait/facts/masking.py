"""Take secrets out of a text that is stored without a person looking at it.

`plait.facts.credentials` recognises them; here their values are replaced, else their lines,
else the whole text. What is returned holds no secret that plait would recognise.
"""

from plait.facts.assigned import pattern
from plait.facts.credentials import as_shown, secret_kinds, secret_values, spread

MASK = "[secret]"
# A value may come to light when the one before it is gone.
ROUNDS = 3
# A text with more is a list of secrets; each costs a pass over the text.
MOST_SECRETS = 50
_BLOCK = pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
    r"(?:[^-]|-(?!----END))*+(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----)?"
)


def masked(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without its secrets, and the kinds of what was taken out.

    >>> masked("use password: 'x7-Kqz92!f' there")
    ("use password: '[secret]' there", ('password',))
    >>> masked("nothing here")
    ('nothing here', ())
    """
    kinds = secret_kinds(text)
    if not kinds:
        return text, ()
    text = _BLOCK().sub(MASK, text) if "PRIVATE KEY" in text else text
    for _ in range(ROUNDS):
        values = sorted({value for value in secret_values(text) if value.strip()}, key=len)
        if len(values) > MOST_SECRETS:
            return MASK, kinds
        for value in reversed(values):
            text = text.replace(value, MASK)
        shown = as_shown(text)
        for value in reversed(values) if shown is not text else ():
            if value in shown:
                text = spread(value).sub(MASK, text)
        if not values or not secret_kinds(text):
            break
    if secret_kinds(text):
        text = "\n".join(MASK if secret_kinds(line) else line for line in text.split("\n"))
    # What several lines tell together.
    return (MASK if secret_kinds(text) else text), kinds
