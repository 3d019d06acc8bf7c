"""Tools that verbs offer on top of checkpoints: bisect, branch, worktree, rewind, drill, doctor, import and export."""
