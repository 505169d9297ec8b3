// Package history implements the history of changes of files, so that they can be undone and
// redone: the bytes and modes before, and the hashes after. It is one SQLite database that several
// processes may share. Each session has its own history in it.
//
// A change goes through the history in three steps:
//
//  1. Begin notes what is about to happen, before any file is touched.
//  2. The files are written.
//  3. Finish says that it happened, or Abandon that it did not.
//
// A process killed in between leaves an unfinished change, which Unfinished gives to the
// next one: it looks at the files, puts back what was begun, and settles it. Whoever
// calls holds the locks of the files from before Begin until after Finish; so an
// unfinished change on files that can be locked belongs to a process that is gone.
//
// Undoing is a change too. It moves others: its Finish marks them as undone or done again.
package history

import (
	"crypto/sha256"
	"io/fs"
	"time"

	"toolhost.dev/sdk/workspace"
)

// DefaultLimit is how many bytes a history keeps, of all sessions together.
const DefaultLimit = 64 << 20

// Version is a file at one moment. Its zero value is: there is no file.
type Version struct {
	Exists bool
	Hash   [32]byte
	// Mode has permission, setuid, setgid and sticky bits.
	Mode fs.FileMode
	// Data are the bytes, where they are known; nil otherwise.
	Data []byte
	// Attributes are kept of a file that goes, for when it comes back; nil of any other.
	Attributes *workspace.Attributes
}

// Content makes the version of a file that is there.
func Content(data []byte, mode fs.FileMode) Version {
	return Known(sha256.Sum256(data), data, mode)
}

// Known does what Content does, for bytes whose SHA-256 is known.
func Known(hash [sha256.Size]byte, data []byte, mode fs.FileMode) Version {
	if data == nil {
		data = []byte{}
	}
	return Version{Exists: true, Hash: hash, Mode: mode & modeBits, Data: data}
}

const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// Same reports whether two versions have the same bytes.
func (v Version) Same(w Version) bool { return v.Exists == w.Exists && v.Hash == w.Hash }

// File is what a change did to one file.
type File struct {
	// Path is absolute and without symbolic links.
	Path   string
	Before Version
	After  Version
}

// State of a change.
type State int

// The states.
const (
	Doing State = iota
	Done
	Undone
)

// Change is one step of a session's history, of one or several files.
type Change struct {
	ID      int64
	Session string
	At      time.Time
	// Tool is the tool that made it, Title says what it was to a reader.
	Tool  string
	Title string
	State State
	Files []File
	// Dirs are directories that the change made, the outermost first.
	Dirs []string

	// Moves are the changes that this one undoes (to Undone) or does again (to Done), in
	// that order.
	Moves []int64
	To    State

	// staged are files with large contents that have no name yet, by the hash; see Stage.
	staged map[[sha256.Size]byte]string
}

// Touches reports whether the change is about a file.
func (c *Change) Touches(path string) bool {
	for _, f := range c.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}
