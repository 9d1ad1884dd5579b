"""No number in the text of the paper is typed: digits and number words come from values, or are listed here."""

import re
from pathlib import Path

import pytest

ALLOWED = {
    "P99": "the name of a statistic",
}
"""Words with digits that are no result, and why."""
NUMBER_WORDS = re.compile(
    r"\b(three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|sixteen|twenty|thirty|forty|fifty|"
    r"hundreds?|thousands?|millions?|dozens?|twice|thrice|double[sd]?|triple[sd]?|third|fourth|fifth|tenths?|"
    r"halves|quarters?)\b",
    re.IGNORECASE,
)
LOOKUPS = "v|has|holds|see-figure|see-table|shown-figure|shown-table|reference|origin|label|import|include"
LENGTH = r"(?:auto|[\d.]+(?:pt|em|fr|in|%))"
CODE = (
    r"//[^\n]*",  # comments
    r"@[a-z]+\d{4}[a-z]*",  # citations
    r"\bclaim\(\s*\"[^\"]*\",\s*\"(?:reported|reproduced|serving)\",\s*\"[^\"]*\"",
    rf"(?:#|\b)(?:{LOOKUPS})\(?\s*\"[^\"]*\"",  # keys of values, names of items and files
    rf"\b(?:columns|size|width|inset|stroke|leading|spacing|column-gutter|x|y|first-line-indent):\s*{LENGTH}",
    rf"\bcolumns:\s*\((?:\s*{LENGTH}\s*,?)+\)",
    rf"\bgrid-of\((?:headline|counts), \((?:\s*{LENGTH}\s*,?)+\)",
    r"#let many = 16\b",  # cells of the appendix
)
"""What is no text in the source of a section."""


def typed_numbers(source: str) -> list[str]:
    """Words of a section's text that hold a digit or are a number, those of ALLOWED left out."""
    for pattern in CODE:
        source = re.sub(pattern, " ", source)
    words = re.findall(r"[^\s]*\d[^\s]*", source)
    typed = [word for word in words if not any(re.fullmatch(rf"\W*{name}\W*", word) for name in ALLOWED)]
    return typed + [found.group() for found in NUMBER_WORDS.finditer(source)]


def sections(project: Path) -> list[Path]:
    return [project / "paper/paper.typ", *sorted((project / "paper/sections").glob("*.typ"))]


def test_no_number_is_typed(project):
    found = {path.name: typed_numbers(path.read_text(encoding="utf-8")) for path in sections(project)}
    assert {name: words for name, words in found.items() if words} == {}
    assert len(found) > 10


@pytest.mark.parametrize(
    "text",
    [
        "tau-b rises to 0.61",
        "of 10 reversals 6 vanish",
        '#v("arms.cap.gone") of 10 vanish',
        "$K = 4$",
        "#text[44 reversals]",
        '#let n = "44"',
        "#(2 + 2) tiers",
        "a speed-up of 3.08x",
        "columns: 44 of them",
        "size: 12",
        "all three sources",
        "Twenty windows",
        "about half a dozen",
        "P95 is lower",
        "P99 falls by 3",
        "see @fig-2 and 7",
        '#shown-figure("tiers/ablation", [The 3.08 of the study.])',
        '#shown-figure("tiers/ablation", "The 3.08 of the study.")',
    ],
)
def test_a_typed_number_is_found(text):
    assert typed_numbers(text)


@pytest.mark.parametrize(
    "text",
    [
        'tau-b of #v("models.k2.tau") @kwon2023',
        '#claim("tiers.cost_per_latency_10k", "reported", "max")',
        "end-to-end P99, P99.",
        "// in 2023",
        '#shown-table("portability/sources", [A caption.], columns: (1.2fr, 0.5fr), size: 6.6pt)',
    ],
)
def test_what_is_no_text_is_let_pass(text):
    assert typed_numbers(text) == []


def test_lib_and_template_hold_no_sentence_with_a_number(project):
    for name in ("lib.typ", "template.typ"):
        text = (project / "paper" / name).read_text(encoding="utf-8")
        content = re.findall(r"\[([^\[\]]*)\]", re.sub(r"//[^\n]*", "", text))
        assert [body for body in content if re.search(r"\d|%", body) or NUMBER_WORDS.search(body)] == []


def test_no_value_is_followed_by_a_semicolon(project):
    """Typst takes it as the end of the expression, so that it would not be printed."""
    swallowed = re.compile(r"#[\w-]+\((?:[^()]|\([^()]*\))*\);")
    assert swallowed.search('#v("a");')
    for path in sections(project):
        assert not swallowed.search(path.read_text(encoding="utf-8")), path


def test_what_is_cited_is_listed_and_the_other_way_round(project):
    text = " ".join(path.read_text(encoding="utf-8") for path in sections(project))
    references = (project / "paper/refs.bib").read_text(encoding="utf-8")
    listed = set(re.findall(r"@\w+\{(\w+),", references))
    cited = set(re.findall(r"@([a-z]+\d{4}[a-z]*|vahidi|vestrum)\b", text))
    assert cited == listed
    entries = references.split("\n@")
    assert [entry for entry in entries if not re.search(r"\n  (doi|url) = ", entry)] == []
