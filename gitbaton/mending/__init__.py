"""Doctor and mending: what would not run or is behind, and what a disk left damaged of ours, found again or left out."""
