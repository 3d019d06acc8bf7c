"""Git: the binary, libgit2, objects, refs, packs, notes and remotes. The index and linked work trees are in ``worktree``."""
