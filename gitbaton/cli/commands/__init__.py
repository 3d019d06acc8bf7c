"""The verbs: each a function with its options as parameters, in a module of its own or of its family; imported late."""
