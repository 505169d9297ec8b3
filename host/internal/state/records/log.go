package records

import "database/sql"

// Log reads and writes the records of all configurations in a state database. It is safe for concurrent use.
type Log struct{ sql *sql.DB }

// NewLog returns the records in a database, which must have the tables of package state.
func NewLog(db *sql.DB) *Log { return &Log{sql: db} }
