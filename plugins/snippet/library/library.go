// Package library implements a library of named pieces of code with their earlier versions. It is
// one SQLite database that several processes may share.
package library

import (
	"fmt"
	"time"
)

// Snippet is one version of a piece of code.
type Snippet struct {
	// ID stays the same as long as the name is kept, and is never given again.
	ID   int64
	Name string
	// Version counts from 1 with each change.
	Version     int
	Code        string // empty in lists
	Bytes       int    // of the code
	Description string
	Language    string
	Tags        []string
	// Created is when the name was first saved, Saved when this version was.
	Created, Saved time.Time
}

// Change is what is to be saved under a name.
type Change struct {
	Name, Code string
	// What is nil stays as it is.
	Description, Language *string
	Tags                  []string
}

// Outcome says what saving did.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Updated   Outcome = "updated"
	Unchanged Outcome = "unchanged"
)

// Ref names a snippet, by its name or its ID.
type Ref struct {
	Name string
	ID   int64 // when Name is empty
}

func (r Ref) String() string {
	if r.Name != "" {
		return fmt.Sprintf("%q", r.Name)
	}
	return fmt.Sprintf("with the id %d", r.ID)
}

// Filter says which snippets are listed.
type Filter struct {
	// Words must each begin a word, or a part of one as in camelCase, of the name,
	// description, tags, language or code. Those that fit best come first; without
	// words, those saved last.
	Words []string
	// Tags must all be there.
	Tags     []string
	Language string
	Limit    int
	Offset   int
}

// Limits bound a library. What is 0 has its default.
type Limits struct {
	Snippets int   // names; default 10 000
	Versions int   // kept of each name; default 20
	Bytes    int64 // of all versions; default 256 MiB
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

// NotFoundError is a snippet that is not there.
type NotFoundError struct {
	Ref Ref
	// Names are those that there are.
	Names []string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("unknown snippet %s", e.Ref) }

// NoVersionError is a version that is not kept.
type NoVersionError struct {
	Name    string
	Version int
	// First and Last are the versions that are kept.
	First, Last int
}

func (e *NoVersionError) Error() string {
	return fmt.Sprintf("version %d of %q is not kept", e.Version, e.Name)
}

// FullError is a library that cannot take another snippet.
type FullError struct{ What string }

func (e *FullError) Error() string { return "the library is full: it holds " + e.What }
