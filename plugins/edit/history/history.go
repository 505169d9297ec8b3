// Package history implements the history of changes of files, so that they can be undone and
// redone: the bytes and modes before, and the hashes after. It is one SQLite database that several
// processes may share. Each session has its own history in it.
//
// A change goes through the history in three steps:
//
//  1. Begin records the change before any file is touched.
//  2. The files are written.
//  3. Finish records that the change was made, or Abandon that it was not.
//
// A process that is killed in between leaves an unfinished change, which Unfinished returns to the next process. That
// process examines the files, reverts what was begun, and settles the change. Callers hold the locks of the files from
// before Begin until after Finish. So an unfinished change of files that can be locked belongs to a process that no
// longer exists.
//
// Undoing is also a change. It moves other changes: its Finish marks them as undone or redone.
package history

import (
	"crypto/sha256"
	"io/fs"
	"time"

	"toolhost.dev/sdk/workspace"
)

// DefaultLimit is the default limit in bytes for all sessions together.
const DefaultLimit = 64 << 20

// Version is the state of a file at one time. The zero value means that the file does not exist.
type Version struct {
	Exists bool
	Hash   [32]byte
	// Mode contains the permission, setuid, setgid and sticky bits.
	Mode fs.FileMode
	// Data is the content if it is loaded, and else nil.
	Data []byte
	// Attributes are kept for a file that is removed, to restore them with it. Otherwise they are nil.
	Attributes *workspace.Attributes
}

// Content returns the version of an existing file.
func Content(data []byte, mode fs.FileMode) Version {
	return Known(sha256.Sum256(data), data, mode)
}

// Known is Content for data whose SHA-256 is known.
func Known(hash [sha256.Size]byte, data []byte, mode fs.FileMode) Version {
	if data == nil {
		data = []byte{}
	}
	return Version{Exists: true, Hash: hash, Mode: mode & modeBits, Data: data}
}

const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// Same reports whether two versions have the same content.
func (v Version) Same(w Version) bool { return v.Exists == w.Exists && v.Hash == w.Hash }

// File is the change of one file.
type File struct {
	// Path is absolute and contains no symbolic links.
	Path   string
	Before Version
	After  Version
}

// State is the state of a change.
type State int

// The states.
const (
	Doing State = iota
	Done
	Undone
)

// Change is one step of a session's history. It changes one or several files.
type Change struct {
	ID      int64
	Session string
	At      time.Time
	// Tool is the tool that made the change, and Title describes it for a reader.
	Tool  string
	Title string
	State State
	Files []File
	// Dirs are directories that the change created, the outermost first.
	Dirs []string

	// Moves are the changes that this one undoes (if To is Undone) or redoes (if To is Done), in that order.
	Moves []int64
	To    State

	// staged are the temporary files of large contents, by hash; see Stage.
	staged map[[sha256.Size]byte]string
}

// Touches reports whether the change concerns a file.
func (c *Change) Touches(path string) bool {
	for _, f := range c.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}
