"""The verbs: one module each, imported when it is called. Each has a function ``command`` whose parameters are its options."""
