"""No models: the tables of benbi are its own. Django tells only apps with a module of this name
that a database was migrated."""
