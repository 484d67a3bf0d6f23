"""A TOML file with options, read as defaults of the command line.

One file may serve several commands: options of other commands are passed over, names that no command knows are errors.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from bondic.errors import InvalidInput, did_you_mean, one_line

TABLES = ("columns", "missing", "with", "categories")
"""Options of the form KEY=VALUE, which may be tables in the file."""


def load_config(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Values of the file become the defaults of the options; the command line overrides them."""
    del parameter
    if path is None:
        return None
    content = _content(path)
    mine = dict(_long_names(ctx.command))
    group = ctx.find_root().command
    everywhere = set(mine)
    if isinstance(group, click.Group):
        everywhere |= {name for command in group.commands.values() for name, _ in _long_names(command)}
    values: dict[str, Any] = {}
    for name, value in _spelled_once(path, content).items():
        if name not in everywhere:
            raise InvalidInput(
                f"{path}: `{one_line(name)}` is not an option of any command.{did_you_mean(name, mine)} Options of "
                f"{ctx.command.name}: {', '.join(sorted(mine))}."
            )
        if name in mine:
            option = mine[name]
            assert option.name is not None
            values[option.name] = _fitting(path, name, option, value)
    ctx.default_map = {**(ctx.default_map or {}), **values}
    return path


def options_in(ctx: click.Context, path: Path, names: Collection[str]) -> dict[str, Any]:
    """Some options of the command as a file states them, in the form of the command line; those that say nothing left out."""
    content, found = _spelled_once(path, _content(path)), {}
    for long, option in _long_names(ctx.command):
        if option.name in names and long in content:
            found[option.name] = option.process_value(ctx, _fitting(path, long, option, content[long]))
    return {name: value for name, value in found.items() if value}


def _content(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read ({problem.strerror or problem}).") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{path} is not a TOML file ({one_line(problem, 200)}).") from problem


def _long_names(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    for option in command.params:
        if isinstance(option, click.Option):
            yield from (
                (long.removeprefix("--"), option)
                for long in option.opts
                if long.startswith("--") and long not in ("--config", "--help")
            )


def _spelled_once(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """`no_rows` is `no-rows`; if both stood there, one would win silently."""
    values: dict[str, Any] = {}
    for name, value in content.items():
        plain = name.replace("_", "-")
        if plain in values:
            raise InvalidInput(
                f"{path}: `{plain}` is given twice, with a hyphen and with an underscore. Keep one of them."
            )
        values[plain] = value
    return values


def _fitting(path: Path, name: str, option: click.Option, value: Any) -> Any:
    """The value in the form that the option takes; what TOML cannot mean is refused here, with the name in the file."""
    if option.multiple:
        return _several(path, name, value)
    if option.nargs > 1:
        listed = isinstance(value, list) and len(value) == option.nargs and all(map(_is_number, value))
        return _one_of(path, name, value, listed, f"a list of {option.nargs} numbers")
    if option.is_flag:
        return _one_of(path, name, value, isinstance(value, bool), "true or false")
    if option.name == "allowance":
        listed = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
        return _one_of(path, name, value, _is_plain(value) or listed, "a number or a list of two")
    if isinstance(option.type, click.types.UnprocessedParamType):  # names: a text with commas, or a list
        listed = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return _one_of(path, name, value, isinstance(value, str) or listed, "a text or a list of texts")
    if isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        return _one_of(path, name, value, _is_number(value), "a number")
    if isinstance(option.type, click.Path | click.Choice):
        return _one_of(path, name, value, isinstance(value, str) and "\0" not in value, "one text")
    return str(_one_of(path, name, value, _is_plain(value), "one text or number"))


def _several(path: Path, name: str, value: Any) -> list[str]:
    if isinstance(value, dict) and name in TABLES:
        return [f"{key}={_joined(path, f'{name}.{key}', group)}" for key, group in value.items()]
    items = value if isinstance(value, list) else [value]
    return [str(_one_of(path, name, item, _is_plain(item), "a text or a list of texts")) for item in items]


def _joined(path: Path, name: str, group: Any) -> str:
    items = group if isinstance(group, list) else [group]
    texts = all(isinstance(item, str) for item in items) if name.startswith("columns.") else all(map(_is_plain, items))
    if name.startswith("categories."):
        texts = texts and not any("," in str(item) for item in items)
    return ",".join(map(str, _one_of(path, name, items, texts, "a text or a list of texts")))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) or _is_number(value)


def _one_of(path: Path, name: str, value: Any, fits: bool, wanted: str) -> Any:
    if not fits:
        raise InvalidInput(f"{path}: `{one_line(name)}` is {one_line(repr(value))}; {wanted} is needed.")
    return value
