"""Install and uninstall of gitbaton in other programs: git's hooks, and the settings of coding agents."""
