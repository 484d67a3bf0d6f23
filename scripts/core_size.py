"""The size of the trusted core: `make core-size`. README quotes it, and a test compares.

Lines are all lines of its Python files; lines of code leave out blank lines, comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

CORE = Path(__file__).resolve().parents[1] / "src" / "bondic" / "core"
_WITHOUT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """Lines that hold code; strings that stand alone (docstrings, notes below a constant) are none."""
    lone: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            assert node.end_lineno is not None
            lone.update(range(node.lineno, node.end_lineno + 1))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _WITHOUT_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - lone)


def core_size(core: Path = CORE) -> dict[str, tuple[int, int]]:
    """Lines and lines of code by file."""
    texts = {str(path.relative_to(core)): path.read_text(encoding="utf-8") for path in sorted(core.rglob("*.py"))}
    return {name: (text.count("\n"), code_lines(text)) for name, text in texts.items()}


def totals(sizes: dict[str, tuple[int, int]]) -> tuple[int, int]:
    return sum(size[0] for size in sizes.values()), sum(size[1] for size in sizes.values())


def main() -> None:
    sizes = core_size()
    for name, (lines, code) in sizes.items():
        print(f"{lines:6} {code:6}  {name}")
    lines, code = totals(sizes)
    print(f"core: {lines} lines in {len(sizes)} files, {code} of code")


if __name__ == "__main__":
    main()
