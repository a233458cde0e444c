"""Turn a trained ``model.npz`` into the file that plait ships, and print its size.

    python pack.py MODEL.npz TOKENIZER.json OUT.bin
    python pack.py --slots OUT.bin

plait maps the file and reads it by offset, without numpy: a header line of JSON, then the pieces
sorted by their UTF-8 bytes, the start of each, its two integer weights, and its int8 row. OUT.slots
beside it is a hash table of the pieces' numbers, apart so that a new table is no new model.
"""

import json
import sys
import unicodedata
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

MAGIC = "plait static embedder 1"
LARGEST_WEIGHT = 8191  # 13 bits: the sum of the 2,000 heaviest pieces still fits a 32-bit lane
SPECIAL = ("[PAD]", "[UNK]")
SLOTS = 2**17
EMPTY_SLOT = 0xFFFF


def ranges(fits: Callable[[str], bool]) -> str:
    """Return the characters that fit, as the inside of a regular expression's class."""
    spans: list[list[int]] = []
    for code in range(0x110000):
        if 0xD800 <= code <= 0xDFFF or not fits(chr(code)):
            continue
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in spans)


def is_ideograph(char: str) -> bool:
    """Return whether the tokenizer treats a character as a word by itself."""
    code = ord(char)
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


def stands_alone(char: str) -> bool:
    """Return whether a character is punctuation (of Unicode or ASCII) or an ideograph."""
    ascii_mark = char.isascii() and not char.isalnum() and char.isprintable() and char != " "
    return ascii_mark or unicodedata.category(char).startswith("P") or is_ideograph(char)


def is_invisible(char: str) -> bool:
    """Return whether the tokenizer leaves a character out: control and format characters."""
    return unicodedata.category(char) in ("Cc", "Cf", "Co") and char not in "\t\n\r"


def pack(model: Path, tokenizer: Path, revision: str) -> bytes:
    """Return the bytes of the file."""
    arrays = np.load(model)
    vocabulary = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    pieces = sorted(
        (piece.encode("utf-8"), number)
        for piece, number in vocabulary.items()
        if piece not in SPECIAL
    )
    order = np.array([number for _, number in pieces])
    names = b"".join(piece for piece, _ in pieces)
    starts = np.cumsum([0, *(len(piece) for piece, _ in pieces)]).astype("<u4")
    rows = arrays["e"][order]
    sections = {"names": names, "starts": starts.tobytes()}
    for name, column in (("query", "wq"), ("passage", "wd")):
        weight = np.exp(arrays[column][order].astype(np.float64)) * arrays["s"][order]
        scaled = np.maximum(1, np.round(weight / weight.max() * LARGEST_WEIGHT)).astype("<u2")
        sections[name] = scaled.tobytes()
    # Stored as 0..255 with 128 for zero, so that whole rows can be added as one large integer.
    sections["rows"] = (rows.astype(np.int16) + 128).astype(np.uint8).tobytes()
    places, offset = {}, 0
    for name, data in sections.items():
        places[name] = [offset, len(data)]
        offset += len(data)
    header = {
        "format": MAGIC,
        "revision": revision,
        "dims": int(rows.shape[1]),
        "pieces": len(pieces),
        # Stored, because Python's Unicode tables differ from version to version.
        "alone": ranges(stands_alone),
        "invisible": ranges(is_invisible),
        "sections": places,
    }
    return json.dumps(header).encode("ascii") + b"\n" + b"".join(sections.values())


def slots_of(model: bytes) -> bytes:
    """Return the hash table of a packed model: crc32 of each piece, linear probing."""
    line, _, data = model.partition(b"\n")
    header = json.loads(line)
    (names, _), (starts, size) = header["sections"]["names"], header["sections"]["starts"]
    places = np.frombuffer(data, "<u4", size // 4, starts)
    slots = np.full(SLOTS, EMPTY_SLOT, "<u2")
    for number, (first, last) in enumerate(pairwise(places)):
        slot = zlib.crc32(data[names + first : names + last]) % SLOTS
        while slots[slot] != EMPTY_SLOT:
            slot = (slot + 1) % SLOTS
        slots[slot] = number
    return slots.tobytes()


if __name__ == "__main__":
    if sys.argv[1] == "--slots":
        packed, data = Path(sys.argv[2]), Path(sys.argv[2]).read_bytes()
    else:
        packed = Path(sys.argv[3])
        data = pack(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[4] if len(sys.argv) > 4 else "1")
        packed.write_bytes(data)
    packed.with_suffix(".slots").write_bytes(slots_of(data))
    print(f"{len(data):,} bytes")
