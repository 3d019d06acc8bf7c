"""The journal of runs: what each step was, did and left, written before it counts; a chain of commits at refs/baton/runs/."""
