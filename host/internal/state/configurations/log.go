// Package configurations records data about the configurations of hosts: the applied settings, the history of files,
// approved tool definitions, and the version of each plugin that serves calls.
//
// Package state embeds the [Log] of its database, so callers reach it through an open database.
package configurations

import "database/sql"

// Log reads and writes the records of all configurations in a state database. It is safe for concurrent use.
type Log struct{ sql *sql.DB }

// NewLog returns the records in a database, which must have the tables of package state.
func NewLog(db *sql.DB) *Log { return &Log{sql: db} }
