// Package library implements a library of named pieces of code with their earlier versions. It is
// one SQLite database that several processes may share.
package library

import (
	"fmt"
	"time"
)

// Snippet is one version of a piece of code.
type Snippet struct {
	// ID stays the same as long as the name exists, and is never reused.
	ID   int64
	Name string
	// Version counts from 1 with each change.
	Version     int
	Code        string // empty in lists
	Bytes       int    // length of the code
	Description string
	Language    string
	Tags        []string
	// Created is the time when the name was first saved, and Saved the time of this version.
	Created, Saved time.Time
}

// Change is what to save under a name.
type Change struct {
	Name, Code string
	// A nil field keeps its value.
	Description, Language *string
	Tags                  []string
}

// Outcome is the result of saving.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Updated   Outcome = "updated"
	Unchanged Outcome = "unchanged"
)

// Ref refers to a snippet by its name or its ID.
type Ref struct {
	Name string
	ID   int64 // used if Name is empty
}

func (r Ref) String() string {
	if r.Name != "" {
		return fmt.Sprintf("%q", r.Name)
	}
	return fmt.Sprintf("with the id %d", r.ID)
}

// Filter selects snippets to list.
type Filter struct {
	// Words must each begin a word, or a part of a camelCase word, of the name, description, tags, language or code. The
	// best matches come first. Without words, the last saved snippets come first.
	Words []string
	// Tags are tags that a snippet must have.
	Tags     []string
	Language string
	Limit    int
	Offset   int
}

// Limits are the limits of a library. A zero field has its default.
type Limits struct {
	Snippets int   // number of names; default 10 000
	Versions int   // number of versions kept per name; default 20
	Bytes    int64 // total size of all versions; default 256 MiB
}

func (l Limits) orDefault() Limits {
	if l.Snippets <= 0 {
		l.Snippets = 10_000
	}
	if l.Versions <= 0 {
		l.Versions = 20
	}
	if l.Bytes <= 0 {
		l.Bytes = 256 << 20
	}
	return l
}

// NotFoundError means that a snippet does not exist.
type NotFoundError struct {
	Ref Ref
	// Names are the existing names.
	Names []string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("unknown snippet %s", e.Ref) }

// NoVersionError means that a version is not kept.
type NoVersionError struct {
	Name    string
	Version int
	// First and Last are the first and last kept version.
	First, Last int
}

func (e *NoVersionError) Error() string {
	return fmt.Sprintf("version %d of %q is no longer stored", e.Version, e.Name)
}

// FullError means that the library cannot store another snippet.
type FullError struct{ What string }

func (e *FullError) Error() string { return "the library is full: it contains " + e.What }
