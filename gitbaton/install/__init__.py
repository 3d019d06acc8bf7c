"""What gitbaton puts into other programs' places, and takes out again: git's hooks, and the settings of coding agents."""
