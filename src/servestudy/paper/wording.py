"""How numbers and lists are written in the paper: digits are decided here, words follow from the numbers."""

from collections.abc import Sequence

MINUS = "\N{MINUS SIGN}"


def number(value: float, digits: int = 2) -> str:
    """With so many digits after the point, thousands set apart, and a minus sign instead of a hyphen."""
    text = f"{value:,.{digits}f}"
    if text.startswith("-") and not any(digit in text for digit in "123456789"):
        text = text[1:]  # no minus before a rounded zero
    return text.replace("-", MINUS)


def signed(value: float, digits: int = 2) -> str:
    """The same with a plus sign where it is above zero."""
    text = number(value, digits)
    return f"+{text}" if value > 0 else text


def interval(low: float, high: float, digits: int = 2) -> str:
    """[low, high]"""
    return f"[{number(low, digits)}, {number(high, digits)}]"


def percent(share: float, digits: int = 0) -> str:
    """A share of one in per cent."""
    return f"{number(100 * share, digits)} %"


def significant(value: float, digits: int = 3) -> str:
    """With so many digits at most, those before the point included, without zeros at the end; NaN is `undefined`."""
    if value != value:
        return "undefined"
    whole = len(f"{abs(value):.0f}") if abs(value) >= 1 else 0
    text = number(value, max(digits - whole, 0))
    return text.rstrip("0").rstrip(".") if "." in text else text


def none_or(count: int) -> str:
    """`none` for 0, else the number."""
    return "none" if count == 0 else number(count, 0)


def listed(words: Sequence[str]) -> str:
    """a, b and c; `none` if there are none."""
    if len(words) < 2:
        return words[0] if words else "none"
    return f"{', '.join(words[:-1])} and {words[-1]}"


def span(texts: Sequence[str]) -> str:
    """From the first to the last of ordered texts; one text if they are the same."""
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def moves(before: float, after: float, digits: int = 2) -> str:
    """Whether a number rises, falls or stays as it is, as far as its digits tell."""
    change = round(after, digits) - round(before, digits)
    return "rises" if change > 0 else "falls" if change < 0 else "stays"


def spaced(name: str) -> str:
    """A name of the code as words."""
    return name.replace("_", " ")
