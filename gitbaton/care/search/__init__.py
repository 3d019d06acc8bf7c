"""Search in checkpoints and conversations: a full-text index that can be thrown away, kept up to date from the refs."""
