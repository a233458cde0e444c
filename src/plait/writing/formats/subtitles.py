"""Read subtitles (SubRip, WebVTT): what is spoken, with the time above it.

Each line of the text is the same line of the file.
"""

import re

from plait.writing.formats.encodings import Converted, decoded

_TIMES = re.compile(
    r"\s*((?:\d{1,3}:)?\d{1,2}:\d{2})[.,]\d{1,3}\s*-->\s*(?:\d{1,3}:)?\d{1,2}:\d{2}"
)
_SPEAKER = re.compile(r"<v(?:\.[^\s<>]*+)?\s++([^<>]{1,100})>")
_MARK = re.compile(r"</?[a-zA-Z0-9][^<>]{0,100}>|\{\\an?\d\}")
# Blocks of WebVTT that are not spoken.
_ASIDE = ("NOTE", "STYLE", "REGION")


def convert_subtitles(data: bytes, name: str, max_bytes: int) -> Converted:
    r"""Return subtitles as text.

    >>> film = b"1\n00:01:02,500 --> 00:01:04,000\n<i>Run!</i>\n"
    >>> convert_subtitles(film, "film.srt", 100).text
    '\n[00:01:02]\nRun!\n'
    """
    source = decoded(data, name)
    rows = source.text.split("\n")
    out: list[str] = []
    aside = False
    for place, row in enumerate(rows):
        times = _TIMES.match(row)
        follows = _TIMES.match(rows[place + 1]) if place + 1 < len(rows) else None
        if not row.strip():
            aside = False
        elif (not place and row.startswith("WEBVTT")) or (
            row.startswith(_ASIDE) and not (out and out[-1])
        ):
            aside = True
        if times and not aside:
            out.append(f"[{times[1]}]")
        elif aside or (follows and not (out and out[-1])):
            out.append("")  # the number or name of a cue
        else:
            out.append(_MARK.sub("", _SPEAKER.sub(r"\1: ", row)).strip())
    return Converted("\n".join(out), remark=source.remark)
