"""Who may do what: roles, the rights of a caller, and the table of what each method asks for. No transport in it."""
