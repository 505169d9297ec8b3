// Package library stores named pieces of code and their earlier versions. The library is an SQLite database that
// several processes can share.
package library

import (
	"fmt"
	"time"
)

// Snippet is one version of a piece of code.
type Snippet struct {
	// ID identifies a snippet as long as its name exists. An ID is never reused.
	ID   int64
	Name string
	// Version is the number of the version. The first version is 1, and each change increases the number.
	Version     int
	Code        string // empty in results of List
	Bytes       int    // length of the code in bytes
	Description string
	Language    string
	Tags        []string
	// Created is the time at which the name was first saved. Saved is the time at which this version was saved.
	Created, Saved time.Time
}

// Change contains the data that Save stores under a name.
type Change struct {
	Name, Code string
	// If one of the following fields is nil, the field keeps its previous value.
	Description, Language *string
	Tags                  []string
}

// Outcome is the outcome of saving a snippet.
type Outcome string

// The values of [Outcome].
const (
	Created   Outcome = "created"
	Updated   Outcome = "updated"
	Unchanged Outcome = "unchanged"
)

// Ref identifies a snippet by its name or its ID.
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

// Filter selects the snippets to list.
type Filter struct {
	// Words lists words to search for in the name, description, tags, language and code. Each word must be the
	// beginning of a word in the snippet, or of a part of a camelCase word. The best matches come first. If Words is
	// empty, the snippets that were saved last come first.
	Words []string
	// Tags lists tags. A snippet must have all of these tags.
	Tags     []string
	Language string
	Limit    int
	Offset   int
}

// Limits contains the limits of a library. A zero field means the default.
type Limits struct {
	Snippets int   // maximum number of names; default 10 000
	Versions int   // maximum number of versions kept per name; default 20
	Bytes    int64 // maximum total size of all versions in bytes; default 256 MiB
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

// NotFoundError is the error for a snippet that does not exist.
type NotFoundError struct {
	Ref Ref
	// Names lists the existing names.
	Names []string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("unknown snippet %s", e.Ref) }

// NoVersionError is the error for a version that does not exist or is no longer kept.
type NoVersionError struct {
	Name    string
	Version int
	// First and Last are the numbers of the first and the last kept version.
	First, Last int
}

func (e *NoVersionError) Error() string {
	return fmt.Sprintf("version %d of %q is no longer stored", e.Version, e.Name)
}

// FullError means that a limit prevents saving a snippet.
type FullError struct{ What string }

func (e *FullError) Error() string { return "the library is full: it contains " + e.What }
