"""The page of the command line's verbs, from their parsers."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from vyre_driver.cli.parser import PROGRAM, VERBS, parser_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's verbs, by their names."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    return {name: one for action in found for name, one in action.choices.items()}


def text() -> str:
    """Return the page as Markdown."""
    intro = "What all verbs have in common, exit status and `--json` among it, is on [the page before](../command-line.md)."
    parts = ["# Commands\n", f"{intro}\n", "| verb | |", "|---|---|"]
    parts += [f"| [`{name}`](#{name}) | {verb.about} |" for name, verb in VERBS.items()]
    for name, verb in VERBS.items():
        parser = verbs_of(parser_of([name]))[name]
        parts += [f"\n## {name}\n", f"{_prose(verb.description)}\n", *_described(parser)]
        parts += ["```console", *(f"$ {PROGRAM} {one}" for one in verb.examples), "```\n"]
        for below, one in verbs_of(parser).items():
            parts += [f"\n### {name} {below}\n", f"{_prose(one.description or _about(parser, below))}\n", *_described(one)]
    return "\n".join(parts) + "\n"


def _prose(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;").replace("SHADER", "`SHADER`")


def _about(parser: argparse.ArgumentParser, verb: str) -> str:
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found = next((one.help for one in action._choices_actions if one.dest == verb), None)  # noqa: SLF001
            return f"{(found or '')[:1].upper()}{(found or '')[1:]}."
    return ""


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    usage = re.sub(r"\s+", " ", parser.format_usage().removeprefix("usage: ")).strip()
    yield from ("```text", *_wrapped(usage), "```\n")
    rows = [
        action
        for action in parser._actions  # noqa: SLF001
        if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)) and action.help != argparse.SUPPRESS  # noqa: SLF001
    ]
    if rows:
        yield from ("| argument | |", "|---|---|", *(f"| {_named(one)} | {_help(one, parser)} |" for one in rows), "")


def _wrapped(usage: str, width: int = 96) -> Iterator[str]:
    line = ""
    for part in re.findall(r"\[[^\]]*\](?:\s*\.\.\.)?|\S+", usage):
        if line and len(line) + 1 + len(part) > width:
            yield line
            line = "    " + part
        else:
            line = f"{line} {part}".strip() if not line.startswith("    ") else f"{line} {part}"
    yield line


def _named(action: argparse.Action) -> str:
    value = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest.upper())
    shown = value if isinstance(value, str) else " ".join(value)
    if not action.option_strings:
        return f"`{shown}`"
    takes = f" {shown}" if action.nargs != 0 else ""
    return ", ".join(f"`{one}{takes}`" for one in action.option_strings).replace("|", "\\|")


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
