"""Units of training over settings and seeds: executors, the ledger, the tuning playbook, its verdict."""
