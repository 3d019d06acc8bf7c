// Tells the model of OpenCode, or of Kilo, where work stands, and lets git baton take checkpoints.
// gitbaton:plugin
import { spawnSync } from "node:child_process"

const TRACK = null
const AGENT = /[\\/]kilo[^\\/]*$/.test(process.execPath) ? "kilo" : "opencode" // which of the two runs this
const PLUGIN = false // whether it stands in a plugin, which also acts where no checkpoint is yet
const FRESH = 5000 // ms for which an answer that was empty is believed
const LIMIT = 5000 // ms for one call; git-baton itself ends sooner
const GUARD = 10000 // ms before a command that may be destructive
const LONG = 10000 // characters, of which a regular expression takes longer than git-baton itself
// What no destructive command is without; git-baton reads the line itself.
const DANGER = new RegExp(
  [
    "--(?:hard|keep|merge|abort|skip|del|in-place)|checkout|restore|git[^]*(?:switch|clean)|stash|rebase|filter-|bfg|read-tree|update-ref",
    "branch[^]* -(?:[a-z]*[DMCf]|-force)|worktree[^]*remove|submodule[^]*-f|unlink|shred|truncate|-delete",
    "(?:sed|perl|ruby)[^]* -[A-Za-z0-9]*i|pull[^]* -(?:r|-rebase)|(?:^|[^\\w.-])(?:rm|mv|cp|dd|tee|ln)(?![\\w./=:@-])|>(?![>&=(]|\\s*/dev/)",
  ].join("|"),
)
const EDITS = new Set(["edit", "write", "patch", "apply_patch", "multiedit", "bash"])

export const GitBaton = async ({ directory, worktree }) => {
  const place = directory || worktree || process.cwd()
  const children = new Set()
  const sessions = new Map() // id -> { text, at, stale, busy }
  const loaded = (globalThis[Symbol.for("gitbaton")] ??= new Map()) // place -> the one that acts: there may be one at each level
  const me = {}
  loaded.set(place, me)
  let missing = false

  // What git-baton prints; empty whenever something is amiss. A hook must not disturb the session.
  const call = (word, sessionID, more = {}) => {
    if (missing) return ""
    try {
      const input = JSON.stringify({ sessionID, directory: place, ...more })
      const args = ["hook", AGENT, word, ...(TRACK === null ? [] : ["--track", TRACK]), ...(PLUGIN ? ["--plugin"] : [])]
      const done = spawnSync("git-baton", args, {
        cwd: place,
        input,
        encoding: "utf8",
        timeout: word === "command" ? GUARD : LIMIT,
        stdio: ["pipe", "pipe", "ignore"],
        windowsHide: true,
      })
      if (done.error && done.error.code === "ENOENT") missing = true
      return done.status === 0 && typeof done.stdout === "string" ? done.stdout : ""
    } catch {
      return ""
    }
  }

  const state = (id) => {
    if (!sessions.has(id)) sessions.set(id, { text: "", at: 0, stale: true, busy: false })
    return sessions.get(id)
  }
  const ours = (id) => typeof id === "string" && id !== "" && !id.startsWith("title-") && !children.has(id)
  const quiet = (hook) => async (...given) => {
    if (loaded.get(place) !== me) return
    try {
      await hook(...given)
    } catch {
      // the session goes on as if we were not there
    }
  }

  // Commands that the user named besides; asked once.
  let named = null
  const guarded = (command) => {
    if (named === null) {
      const asked = spawnSync("git", ["config", "--get-all", "baton.guardCommand"], { cwd: place, encoding: "utf8", timeout: LIMIT })
      named = (asked.stdout || "").split("\n").filter((line) => line.trim())
    }
    return command.length > LONG || DANGER.test(command) || named.some((words) => command.includes(words))
  }

  const context = (id) => {
    const known = state(id)
    // The text is of the session's start or its last compaction; where there was none yet, ask again after a while.
    if (known.stale || (known.text === "" && Date.now() - known.at > FRESH)) {
      known.text = call("context", id).trim()
      known.at = Date.now()
      known.stale = false
    }
    return known.text
  }

  const idle = (id) => {
    const known = state(id)
    if (!known.busy) return
    known.busy = false
    call("idle", id)
  }

  const seen = {
    "session.created": ({ info }) => {
      if (info && info.parentID) children.add(info.id)
    },
    "session.updated": ({ info }) => {
      if (info && info.parentID) children.add(info.id)
    },
    "session.status": ({ sessionID, status }) => {
      if (!ours(sessionID) || !status) return
      if (status.type === "idle") idle(sessionID)
      else state(sessionID).busy = true
    },
    "session.idle": ({ sessionID }) => {
      if (ours(sessionID)) idle(sessionID)
    },
    "session.compacted": ({ sessionID }) => {
      if (!ours(sessionID)) return
      call("compacted", sessionID)
      state(sessionID).stale = true
    },
    "session.deleted": ({ info }) => {
      if (!info) return
      if (ours(info.id) && sessions.has(info.id)) call("ended", info.id)
      sessions.delete(info.id)
      children.delete(info.id)
    },
  }

  return {
    event: quiet(async ({ event }) => {
      if (Object.hasOwn(seen, event.type)) seen[event.type](event.properties || {})
    }),
    "chat.message": quiet(async ({ sessionID }, { parts } = {}) => {
      if (!ours(sessionID)) return
      state(sessionID).busy = true
      const words = (parts || []).filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      if (words.length) call("prompt", sessionID, { prompt: words.join("\n") })
    }),
    // Commands of the agent know their session: what they commit or snapshot is its own.
    "shell.env": quiet(async ({ sessionID }, { env }) => {
      if (ours(sessionID)) env[`GIT_BATON_${AGENT.toUpperCase()}_SESSION`] = sessionID
    }),
    "tool.execute.before": quiet(async ({ tool, sessionID }, { args } = {}) => {
      const command = tool === "bash" && args ? args.command : undefined
      if (typeof command === "string" && guarded(command)) call("command", sessionID, { command, child: children.has(sessionID) })
    }),
    "tool.execute.after": quiet(async ({ tool, sessionID }) => {
      if (!ours(sessionID) || !EDITS.has(tool)) return
      state(sessionID).busy = true
      call("edited", sessionID)
    }),
    "experimental.chat.system.transform": quiet(async ({ sessionID }, output) => {
      if (!ours(sessionID)) return
      const text = context(sessionID)
      if (!text) return
      if (output.system.length) output.system[0] += "\n\n" + text
      else output.system.push(text)
    }),
    "experimental.session.compacting": quiet(async ({ sessionID }, output) => {
      if (!ours(sessionID)) return
      const text = call("compacting", sessionID).trim()
      if (text) output.context.push(text)
      state(sessionID).stale = true
    }),
  }
}
