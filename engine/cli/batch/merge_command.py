"""`engine batch merge`: one ledger of those of all shards."""

from __future__ import annotations

import os
from pathlib import Path

from engine.batch.batch_scheduler import BatchOutcome
from engine.batch.merge_ledgers import merge_ledgers
from engine.cli.batch.batch_text import exit_code, outcome_text
from engine.cli.command_table.find_command import parse_arguments
from engine.cli.problems.raised import lines_of_error
from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.exit_codes import DONE, FAILED, WITHHELD, run_command
from engine.cli.terminal.standard_streams import print_note, print_text


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    around = Surroundings(env=os.environ, command="batch")

    def run() -> int:
        args = parse_arguments("batch merge", arguments)
        folders = [Path(folder).absolute() for folder in args.folders]
        target = args.results_dir.absolute() if args.results_dir else folders[0]
        merged = merge_ledgers(folders, target, allow_changed=args.allow_changed)
        tally = merged.tally
        is_done = sum(map(tally.is_done, tally.records))
        outcome = BatchOutcome(tally=tally, tasks=merged.tasks, bad=0, left=merged.tasks - is_done)
        print_text(outcome_text(merged.name, target, outcome, again="The commands of the shards run what is left."))
        if merged.damaged:
            print_note(f"{merged.damaged} lines of the ledgers are no rows: they were left as they are")
        if merged.missing:
            shown = ", ".join(map(str, merged.missing))
            print_note(f"no ledger yet of shards {shown} of {merged.shards}: run them, and merge again")
        code = exit_code(outcome, None)
        return WITHHELD if merged.missing and code in {DONE, FAILED} else code

    return run_command("batch merge", run, explain=lambda error: lines_of_error(error, around))
