"""Rules of detect-secrets."""

ENTROPY = 4.5
SHIPPED: tuple[tuple[str, tuple[str, ...], str, bool], ...] = ()
