// Package history stores changes of files, so that they can be undone and redone. It stores the bytes and modes before
// each change, and the hashes after it. Several processes can share the SQLite database. Each session has a separate
// history in it.
//
// A change is recorded in three steps:
//
//  1. Begin records the change before any file is changed.
//  2. The caller writes the files.
//  3. Finish records that the change was made, or Abandon records that it was not made.
//
// A process that is killed in between leaves an unfinished change. Unfinished returns the change to the next process,
// which inspects the files and either finishes or reverts the change. Callers hold the locks of the files from before
// Begin until after Finish. If the files of an unfinished change can be locked, its process therefore no longer exists.
//
// An undo or redo is also a change. Its Moves are the changes that it undoes or redoes. Finish marks these changes as
// undone or redone.
package history

import (
	"crypto/sha256"
	"io/fs"
	"time"

	"toolhost.dev/sdk/workspace"
)

// DefaultLimit is the default size limit for the histories of all sessions together, in bytes.
const DefaultLimit = 64 << 20

// Version is the state of a file before or after a change. The zero value means that the file does not exist.
type Version struct {
	Exists bool
	Hash   [32]byte
	// Mode contains the permission, setuid, setgid and sticky bits.
	Mode fs.FileMode
	// Data is the content of the file. It is nil if the content is not loaded.
	Data []byte
	// Attributes contains the attributes of a removed file. They are needed to restore the file. Attributes is nil
	// for other files.
	Attributes *workspace.Attributes
}

// Content creates the version of an existing file from its content.
func Content(data []byte, mode fs.FileMode) Version {
	return Known(sha256.Sum256(data), data, mode)
}

// Known creates the version of an existing file from its SHA-256 hash.
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

// State is the progress of a change.
type State int

// The states of a change.
const (
	Doing State = iota
	Done
	Undone
)

// Change is one recorded change of a session. It changes one or several files.
type Change struct {
	ID      int64
	Session string
	At      time.Time
	// Tool is the name of the tool that made the change. Title describes the change.
	Tool  string
	Title string
	State State
	Files []File
	// Dirs contains the directories that the change created. The outermost directory is first.
	Dirs []string

	// Moves contains the ids of the changes that this change undoes (if To is Undone) or redoes (if To is Done), in
	// the order of undoing or redoing.
	Moves []int64
	To    State

	// staged maps the hashes of large contents to their temporary files; see Stage.
	staged map[[sha256.Size]byte]string
}

// Touches reports whether the change affects a file.
func (c *Change) Touches(path string) bool {
	for _, f := range c.Files {
		if f.Path == path {
			return true
		}
	}
	return false
}
