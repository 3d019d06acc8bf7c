"""Words said around a checkpoint: one small blob a turn, on a ref of its own."""

from __future__ import annotations

from gitbaton.agents.values import NAMES
from gitbaton.baton import Baton
from gitbaton.codec import told_bytes
from gitbaton.errors import UsageError
from gitbaton.git.objects import RefChange, TreeEntry, new_object
from gitbaton.git.publish import publish
from gitbaton.model import Agent, Oid, Told, Transcript
from gitbaton.store.chain import append_to
from gitbaton.transcripts import layout
from gitbaton.transcripts.proofs import forgotten


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

    def once(_: object) -> Oid:
        old = objects.info(ref)
        commit = layout.commit(baton, frame[-1].oid, old, "what was said\n")
        change = RefChange(name=ref, new=commit.oid, old=old.oid if old else None)
        publish(baton.repo, [change], new=[blob, *frame, commit], automatic=True)
        return blob.oid

    return append_to(baton.repo, (ref,), once, seconds=0, lock=lambda: baton.repo.lock((ref,), wait=layout.LOCK_WAIT))
