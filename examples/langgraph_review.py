"""A LangGraph graph that waits for a human, dies, goes on, goes back, forks, and moves to another machine: on git alone.

The graph: research -> draft -> review (asks a human by interrupt()) -> publish. It calls no model and no network. Each command
is a process of its own; all that they share is the git repository of the current directory, where ``GitSaver`` keeps each
thread as a chain of commits. What a node does is told in ``effects.log``, so that one can count what ran how often.

    pip install 'gitbaton[langgraph]'
    git init -q --bare hub.git
    git clone -q hub.git desk
    cd desk
    python ../langgraph_review.py start tea             # research, draft; waits for the review
    python ../langgraph_review.py crash jam             # research; then the process dies in the middle of the draft
    python ../langgraph_review.py resume jam            # draft: the research is not done again; waits for the review
    python ../langgraph_review.py approve tea           # review, publish
    python ../langgraph_review.py replay tea            # from before the draft: draft; waits for the review once more
    python ../langgraph_review.py fork tea iced-tea     # a new thread with the past of another, on another topic
    git baton push --threads --yes                      # to the hub, as plain git objects and refs

    cd ..
    git clone -q hub.git laptop
    cd laptop
    git baton sync --threads                            # and here they are
    python ../langgraph_review.py approve jam           # what began on the desk ends here: review, publish
    python ../langgraph_review.py resume iced-tea       # draft; waits for the review
"""

from __future__ import annotations

import os
import sys
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateSnapshot, interrupt

from gitbaton.langgraph import GitSaver


class Article(TypedDict, total=False):
    """The state of the graph: one channel a key, each stored only when it changes."""

    topic: str
    facts: list[str]
    draft: str
    verdict: str


Graph = CompiledStateGraph[Article, None, Article, Article]


def did(what: str) -> None:
    """Tell an effect, to people and to the ledger."""
    print(f"  {what}")
    with open("effects.log", "a") as ledger:
        ledger.write(f"{what}\n")


def research(state: Article) -> Article:
    """The slow and costly part, which nobody wants to pay for twice."""
    did(f"research {state['topic']}")
    return {"facts": [f"{state['topic']} is old", f"{state['topic']} is good"]}


def draft(state: Article) -> Article:
    """Write; or die while writing, without a word to anybody."""
    if sys.argv[1] == "crash":
        os._exit(1)
    did(f"draft {state['topic']}")
    return {"draft": f"On {state['topic']}: {', and '.join(state['facts'])}."}


def review(state: Article) -> Article:
    """Ask a human. The graph stops here, the process may end, and the answer is what interrupt() returns one day."""
    verdict = interrupt({"publish this?": state["draft"]})
    did(f"review {state['topic']}")  # not before interrupt(): a node that was interrupted begins anew
    return {"verdict": verdict}


def publish(state: Article) -> Article:
    """What must not happen twice."""
    did(f"publish {state['topic']}")
    return {}


def build(saver: GitSaver) -> Graph:
    """The graph, with its state kept by the saver."""
    graph = StateGraph(Article)
    for node in (research, draft, review, publish):
        graph.add_node(node)
    graph.add_edge(START, "research")
    graph.add_edge("research", "draft")
    graph.add_edge("draft", "review")
    graph.add_edge("review", "publish")
    graph.add_edge("publish", END)
    return graph.compile(checkpointer=saver)


def thread(name: str) -> RunnableConfig:
    """How LangGraph names a thread."""
    return {"configurable": {"thread_id": name}}


def before(graph: Graph, node: str, name: str) -> StateSnapshot:
    """The newest checkpoint of a thread at which ``node`` came next."""
    return next(state for state in graph.get_state_history(thread(name)) if state.next == (node,))


def run(graph: Graph, value: Article | Command[Any] | None, config: RunnableConfig) -> None:
    """Go on until the graph ends or asks; ``sync``: each step is on disk before the next one begins."""
    graph.invoke(value, config, durability="sync")


def main(command: str, name: str, target: str = "") -> None:
    """One command on one thread."""
    print(f"{command} {name}")
    with GitSaver(".") as saver:
        graph = build(saver)
        if command in ("start", "crash"):
            run(graph, {"topic": name}, thread(name))
        elif command == "resume":
            run(graph, None, thread(name))
        elif command == "approve":
            run(graph, Command(resume="approved"), thread(name))
        elif command == "replay":
            run(graph, None, before(graph, "draft", name).config)
        elif command == "fork":
            saver.copy_thread(name, target)
            graph.update_state(before(graph, "draft", target).config, {"topic": target})
            name = target
        state = graph.get_state(thread(name))
        print(f"{name}: next {state.next[0]}" if state.next else f"{name}: done, {state.values['verdict']}")
        for asked in state.interrupts:
            print(f"  asks {asked.value}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
