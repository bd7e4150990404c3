"""Foreign filter notations, one file each: every parser builds predicate nodes or raises `UnparsedFilter`."""
