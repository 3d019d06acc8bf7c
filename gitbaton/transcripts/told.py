"""Words said around a checkpoint: one small blob a turn, on a ref of its own."""

from __future__ import annotations

from gitbaton.agents.values import NAMES
from gitbaton.baton import Baton
from gitbaton.codec import told_bytes
from gitbaton.errors import UsageError
from gitbaton.git.objects import RefChange, TreeEntry, commit_data, new_object
from gitbaton.git.publish import publish
from gitbaton.model import Agent, Oid, Told, Transcript
from gitbaton.transcripts import layout
from gitbaton.transcripts.proofs import forgotten

_LOCK_WAIT = 1.0


def keep(baton: Baton, agent: Agent, told: Told) -> Oid | None:
    """Store what was said; the blob, which a later turn's does not take away. None where the conversation was forgotten, or no
    ref can be named after its session. Raises BatonError."""
    if agent.session is None or agent.name not in NAMES:
        return None
    try:
        ref = layout.told_ref(agent.name, agent.session)
        if forgotten(baton.repo, layout.transcript_ref(agent.name, agent.session)):
            return None
    except UsageError:
        return None
    data, objects = told_bytes(told), baton.repo.objects
    blob = new_object(objects.algorithm, "blob", data)
    place = Transcript(size=len(data), lines=data.count(b"\n"))
    meta = layout.meta(place, len(data), agent.name, layout.told_session(agent.session))
    frame = layout.frame(objects, [TreeEntry(mode=b"100644", name=b"00000000", oid=blob.oid)], meta)
    author = baton.author()[0] + b" %d +0000" % int(baton.clock().timestamp())
    with baton.repo.lock((ref,), wait=_LOCK_WAIT):
        old = objects.info(ref)
        parents = [old.oid] if old is not None and old.kind == "commit" else []
        data = commit_data(tree=frame[-1].oid, parents=parents, author=author, message=b"what was said\n")
        commit = new_object(objects.algorithm, "commit", data)
        made = [blob, *frame, commit]
        change = RefChange(name=ref, new=commit.oid, old=old.oid if old else None)
        publish(baton.repo, [change], new=made, automatic=True)
    return blob.oid
