"""Doctor and mending: what would not run or is behind, and repair of what a disk left damaged of ours."""
