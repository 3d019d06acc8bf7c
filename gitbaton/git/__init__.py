"""Git: the binary, libgit2, objects, refs, packs, notes and remotes. Only this room reads or writes a repository."""
