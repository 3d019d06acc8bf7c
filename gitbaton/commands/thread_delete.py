"""``git baton thread delete``."""

from contextlib import suppress
from typing import Annotated

from gitbaton import terminal
from gitbaton.cli.common import AsJson, askable, confirmed, opened, print_json
from gitbaton.cli.options import Call, Option
from gitbaton.codec import Json, counted, in_quotes
from gitbaton.commands.threads import AThread, meant, name, remotes_of, store_of
from gitbaton.errors import BatonError, NoAnswerError
from gitbaton.render import in_shell
from gitbaton.threads.reports import missing


def command(
    ctx: Call,
    thread: AThread,
    yes: Annotated[bool, Option("--yes", "-y", help="On a terminal: do not ask.")] = False,
    json: AsJson = False,
) -> int:
    """Delete a thread in all its namespaces, what cannot be read of it, too.

    On a terminal it asks first. A saver's delete_thread does the same; on remotes it stays until a push prunes it there.

    Where a thread was deleted while a run of it went on, what that run has written since goes.

    Examples:
        git baton thread delete demo
    """
    with opened(ctx, door=None) as baton, store_of(baton) as store:
        elsewhere = remotes_of(baton)
        if store is None:
            raise missing(thread, elsewhere)
        names = {found for place in store.chains() for found in place}
        thread = meant(thread, names)
        places = store.chains(thread)
        if not places and not store.remains(thread):
            raise missing(thread, elsewhere, {found for found, _ in store.chains()})
        count = 0
        for place in places:
            with suppress(BatonError):  # what cannot be read goes as well
                count += sum(1 for _ in store.walk(*place))
        what = counted(count, "checkpoint") if places else "writes of a run that went on"
        if not yes and askable() and not confirmed(f"delete thread {in_quotes(name(thread))} with {what}?"):
            raise NoAnswerError("nothing is deleted")
        store.delete(thread)
        remotes = sorted(elsewhere.get(thread, ()))
        if json:
            there: list[Json] = [*remotes]
            print_json({"thread": thread, "deleted": count, "remotes": there})
            return 0
        terminal.say(f"thread {in_quotes(name(thread))} deleted: {what}")
        for remote in remotes:
            there_too = f"'git baton push --threads --prune {in_shell(remote)}' deletes it there"
            terminal.tell(f"hint: {in_quotes(name(remote))} may have it still; {there_too}")
    return 0
