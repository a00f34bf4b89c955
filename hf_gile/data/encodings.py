"""Sees in a file's first bytes how characters are encoded."""
# ruff: noqa: RUF001, RUF002

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

_NULS = 0.02  # share of ASCII in UTF-16 without a byte order mark, such as line breaks
_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ESCAPES = {
    "iso2022_jp_ext": rb"\x1b\$[@B]",
    "iso2022_kr": rb"\x1b\$\)C",
    "hz": rb"~\{([!-w][!-~])+~\}",
}
_SAMPLE = 1 << 13  # bytes of lines with other characters than ASCII
_OPENING = "“‘«‹„‚¿¡"
_CLOSING = "”’»›“‘ºª"
_MARKS = set("\u00a0€…†‡‰•–—™¢£¥§©®°±²³´µ¶·¹¼½¾×÷№、。「」『』・ー，．：；？！（）") | {*_OPENING, *_CLOSING}
_MARK = 0.9  # weight of a mark that may be anywhere
_ALONE = 0.8  # weight of a letter beside no other
_UNUSUAL = 0.97  # weight of a letter that is rare in its language

# Letters of languages, beyond ASCII, and how old programs encode these; rare letters follow a space. If languages fit
# equally well, the first is taken, so Western Europe's come first. The encodings of Windows come before others.
_WESTERN = ("cp1252", "mac_roman", "cp850")
_CENTRAL = ("cp1250", "iso8859_2", "cp852", "mac_latin2")
_BALTIC = ("cp1257", "iso8859_4")
_CYRILLIC = ("cp1251", "koi8_u", "cp866", "iso8859_5", "mac_cyrillic")
_LETTERS = (
    ("äöüß", _WESTERN),
    ("éèàêçîôùûâëïœ üÿæ", _WESTERN),
    ("áéíóúñüª", _WESTERN),
    ("áâãàçéêíóôõúü", _WESTERN),
    ("àèéìíîòóùú", _WESTERN),
    ("åäöæøé", _WESTERN),
    ("éëïóöüèêá", _WESTERN),
    ("àèéíïòóúüç", _WESTERN),
    ("çğıöşüİâîû", ("cp1254", "cp857", "mac_turkish")),
    ("áðéíóúýþæö", _WESTERN),
    ("ąćęłńóśźż", _CENTRAL),
    ("áčďéěíňóřšťúůýž äĺľôŕ", _CENTRAL),
    ("áéíóöőúüű", _CENTRAL),
    ("ăâîşţșț", _CENTRAL),
    ("čćđšž", _CENTRAL),
    ("ąčęėįšųūž", _BALTIC),
    ("āčēģīķļņšūž", _BALTIC),
    ("äõöüšž", _BALTIC),
    ("אבגדהוזחטיךכלםמןנסעףפץצקרשת", ("cp1255", "cp862")),
    ("оаеинтсрвлкмдпузыьяб гчйхжшюцщэфъёіїєґўђљњћџјѕ", _CYRILLIC),
    ("αοιετσνηυρπκμλςάίόέήω θδγχύφβώξζψϊϋ", ("cp1253", "iso8859_7", "cp737")),
    ("اليمنرتوبعدهسفكقحجأةى شصخذضطظغزثءؤئآإپچژگ،؛؟ًٌٍَُِّْ", ("cp1256", "iso8859_6")),
)


def resolve_encoding(encoding: str) -> str:
    """Returns Python's name of an encoding, `"utf-8"` with a byte order mark or without.

    Raises:
        ValueError: If Python does not support it.
    """
    try:
        name = codecs.lookup(encoding).name
        "a".encode(name)
    except (LookupError, TypeError, UnicodeError):
        raise ValueError(f'encoding must be known to Python, such as "windows-1252", got {encoding!r}') from None
    return "utf-8" if name == "utf-8-sig" else name


def see_unicode(head: bytes) -> str | None:
    """Returns the encoding of a byte order mark, UTF-16 if every other byte is NUL, or one whose escapes are seen."""
    for bom, encoding in _BOMS.items():
        if head.startswith(bom):
            return encoding
    pairs = Counter(zip(head[:4096:2], head[1:4096:2], strict=False))
    counts = {
        "utf-16-le": sum(number for (low, high), number in pairs.items() if high == 0 < low < 128),
        "utf-16-be": sum(number for (high, low), number in pairs.items() if high == 0 < low < 128),
    }
    if (
        max(counts.values()) > max(_NULS * pairs.total(), 2 * min(counts.values()))
        # A line break without NUL is of UTF-8, in which a damaged sign may be NUL.
        and not (re.search(rb"(?<!\0)\n(?!\0)", head) and see_encoding(head)[0] == "utf-8")
    ):
        return max(counts, key=counts.__getitem__)
    return next((name for name, escape in _ESCAPES.items() if re.search(escape, head)), None)


def see_encoding(head: bytes) -> tuple[str, str]:
    """Returns the encoding of bytes, and a word for which it matters.

    It is UTF-8, unless most bytes beyond ASCII are not. Otherwise it is the encoding in which most of these are letters
    of a language, and in which no capital follows a small letter.

    Example:
        >>> see_encoding("kargo geç geldi, müşteri ağladı".encode("cp1254"))
        ('cp1254', 'müşteri')
    """
    with suppress(UnicodeDecodeError):  # the last character may be cut
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return "utf-8", ""
    text = head.decode("utf-8", "replace")
    invalid = text.count("\ufffd") - text.endswith("\ufffd")
    valid = sum(map(len, re.findall("[^\0-\x7f\ufffd]+", text)))
    if valid >= invalid:
        return "utf-8", ""  # with damaged lines, if any, which the reader reports
    sample = b"\n".join(line for line in head.splitlines() if not line.isascii())[:_SAMPLE]
    languages = [*_LETTERS, *_asian_letters()]
    candidates = [
        (encoding, letters)
        for rank in range(len(_CYRILLIC))
        for letters, encodings in languages
        for encoding in encodings[rank : rank + 1]
    ]
    encoding, _ = max(candidates, key=lambda pair: _share_of_letters(sample.decode(pair[0], "replace"), pair[1]))
    words = re.findall(r"[^\W\d_]+", sample.decode(encoding, "replace"))
    longest = max((word[:20] for word in words if not word.isascii()), key=len, default="")
    return encoding, longest


def _share_of_letters(text: str, letters: str) -> float:
    """Returns the share of characters beyond ASCII that are letters of a language, or marks where these may be."""
    usual, _, rare = letters.partition(" ")
    weights = dict.fromkeys(rare, _UNUSUAL) | dict.fromkeys(usual, 1.0)
    is_latin = usual[0] < "\u0250"
    total = 0.0
    matches = list(re.finditer(r"[^\0-\x7f]", text))
    for match in matches:
        character = match[0]
        before = text[match.start() - 1 : match.start()]
        after = text[match.end() : match.end() + 1]
        neighbours = (before.isalpha(), after.isalpha())
        if character in _MARKS:
            total += _weight_of_mark(character, *neighbours)
            continue
        weight = weights.get(character) or weights.get(character.lower(), 0.0)
        if not any(neighbours):
            weight *= _ALONE
        is_mixed = not is_latin and (before + after).isascii() and any(neighbours)
        is_mixed |= before.islower() and character.isupper()
        is_mixed |= after.isupper() and character.islower()
        if not is_mixed:
            total += weight
    return total / max(1, len(matches))


def _weight_of_mark(mark: str, follows: bool, precedes: bool) -> float:
    """Returns how plausible a mark is that follows or precedes a letter."""
    if follows and precedes:
        return float(mark in "’·")
    is_quote = (mark in _OPENING and precedes) or (mark in _CLOSING and follows)
    return 1.0 if is_quote else _MARK


def _asian_letters() -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the syllables of Korean, and the frequent characters of Japanese, Chinese and Thai."""
    yield _plane("euc_kr", 0xB0, 0xC9, 0xA1), ("cp949", "johab")
    kana = "".join(map(chr, range(0x3041, 0x30FF)))
    yield kana + _plane("shift_jis", 0x88, 0x98, 0x40), ("cp932", "euc_jp")
    yield _plane("gb2312", 0xB0, 0xD8, 0xA1), ("gb18030",)
    yield _plane("big5", 0xA4, 0xC7, 0x40), ("big5",)
    yield "านรกเงอมยลวดทสตะปบคหแจพชข่้ัิีืุู็์ำใไโถผ ซธณศภญฉฟฐษฝฮฆฏฎฑฒฌฬฤๆฯ๊๋", ("cp874",)


def _plane(encoding: str, start: int, stop: int, low: int) -> str:
    """Returns the characters of two bytes, of which the first is from `start` to below `stop`."""
    pairs = (bytes([first, second]) for first in range(start, stop) for second in range(low, 0xFF))
    return "".join(pair.decode(encoding, "ignore") for pair in pairs)
