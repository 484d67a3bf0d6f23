"""Where the pieces of a sum are computed: one after the other, or in threads."""
