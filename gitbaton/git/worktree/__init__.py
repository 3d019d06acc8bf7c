"""The work tree: captured, compared and put back; linked and isolated ones."""
