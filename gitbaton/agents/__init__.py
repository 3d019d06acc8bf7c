"""Pure translators between what coding agents send and expect, and our values."""
