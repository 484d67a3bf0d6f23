"""The command line: commands parse, call and print."""
