"""How a tile of a kernel sum is computed: engines, compared with the reference."""
