// Package checkpoint stores copies of the layer of a branch, and restores the layer from them.
//
// A [Set] contains the checkpoints of one branch. [Set.Make] makes one. It shares the contents of unchanged files with
// the previous checkpoint, and leaves out large paths that git ignores. A restore begins with [Set.Begin], changes the
// layer by [Set.Exchange] or [Set.Rewrite], and ends with [Set.End]. If its process is killed, [Set.Begun] returns it,
// and Exchange completes it.
//
// The caller must hold the lock of the branch. Only the methods that change nothing need no lock.
package checkpoint

import (
	"cmp"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/workcopy"
)

// Dir is the name of the directory with the checkpoints of a branch. It is in the branch's directory.
const Dir = "checkpoints"

// These are names in the directory of a branch, and in the directories of its checkpoints.
const (
	checkpointFile = "checkpoint.json"
	derivedFile    = "derived.json"
	manifestFile   = "manifest"
	objectsDir     = "objects"
	upperDir       = "upper"
)

// Checkpoint is a copy of the layer of a branch. It shares the contents of unchanged files with the previous
// checkpoint.
type Checkpoint struct {
	Number  int       `json:"number"`
	At      time.Time `json:"at"`
	Message string    `json:"message,omitempty"`
	// Files is the number of files in the checkpoint, and Bytes is their size. Ignored is the number of large files and
	// directories that the checkpoint leaves out because git ignores them.
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	Ignored int   `json:"ignored,omitempty"`
	// Call is the id of the call before which the checkpoint was made, and Session is the session of the call. Both are
	// empty if a person or an agent requested the checkpoint.
	Call    string `json:"call,omitempty"`
	Session string `json:"session,omitempty"`
	// Undone means that the branch went back to this checkpoint or to an earlier one.
	Undone bool `json:"undone,omitempty"`
	// Then lists the commands of later calls without their own checkpoint. An undo of Call also undoes these calls.
	Then []string `json:"then,omitempty"`
	// Stored is the total size of the stored contents when this checkpoint was made. Zero means that it is unknown.
	Stored int64 `json:"stored,omitempty"`
	// Saved means that the checkpoint was made automatically before a restore.
	Saved bool `json:"saved,omitempty"`
}

// Automatic reports whether the checkpoint was made without a request. If there are too many automatic checkpoints, the
// oldest are removed.
func (c *Checkpoint) Automatic() bool { return c.Call != "" || c.Saved }

// Rules limits the checkpoints of a branch. The zero value stores everything and limits nothing.
type Rules struct {
	// Keep is the maximum number of automatic checkpoints, and Bytes is the maximum total size of the contents that all
	// checkpoints store. Zero means no limit.
	Keep  int
	Bytes int64
	// SkipIgnored leaves out large files and directories that git ignores.
	SkipIgnored bool
}

// NoRoomError means that a checkpoint was not made, because the stored contents would exceed the limit.
type NoRoomError struct{ Limit int64 }

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("the checkpoints of the branch would need more than %d MiB", e.Limit>>20)
}

// Set contains the checkpoints of a branch.
type Set struct {
	// Branch is the name of the branch, for messages. Dir is its directory.
	Branch, Dir string
	// Base is the directory below the layer, and Layer is the directory with the layer.
	Base, Layer string
	// Copy is the working copy from which the layer is computed. It is nil for an overlay.
	Copy *workcopy.Copy
	// Newest stores the manifest of the newest checkpoint between calls of [Set.Make].
	Newest *Newest
}

// view returns the files that the branch shows.
func (s *Set) view() change.View { return change.View{Base: s.Base, Upper: s.Layer} }

// List lists the checkpoints of a branch, the oldest first.
func (s *Set) List() ([]Checkpoint, error) {
	entries, err := os.ReadDir(filepath.Join(s.Dir, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []Checkpoint
	for _, e := range entries {
		if _, notNumber := strconv.Atoi(e.Name()); notNumber != nil {
			continue
		}
		var c Checkpoint
		text, readErr := os.ReadFile(filepath.Join(s.Dir, Dir, e.Name(), checkpointFile))
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
			return nil, fmt.Errorf("the checkpoint %s of the branch %s cannot be read: %w", e.Name(), s.Branch, readErr)
		}
		if readErr == nil && json.Unmarshal(text, &c) == nil && strconv.Itoa(c.Number) == e.Name() {
			out = append(out, c) // skip damaged checkpoints, which can remain if the machine stops
		}
	}
	slices.SortFunc(out, func(a, b Checkpoint) int { return cmp.Compare(a.Number, b.Number) })
	return out, err
}

func (s *Set) path(number int) string {
	return filepath.Join(s.Dir, Dir, strconv.Itoa(number))
}

// Manifest returns the entries of a checkpoint.
func (s *Set) Manifest(number int) (out []Entry, err error) {
	f, err := os.Open(filepath.Join(s.path(number), manifestFile))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := gob.NewDecoder(f).Decode(&out); err != nil {
		return nil, fmt.Errorf("the checkpoint %d of the branch %s is damaged: %w", number, s.Branch, err)
	}
	return out, nil
}

func (s *Set) object(name string) string {
	return filepath.Join(s.Dir, Dir, objectsDir, name)
}

// Derived reads the value that was stored with a checkpoint. If an older version of the program made the checkpoint,
// nothing was stored, and the argument "value" stays as it is.
func (s *Set) Derived(number int, value any) error {
	text, err := os.ReadFile(filepath.Join(s.path(number), derivedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}

// NotFoundError means that a branch has no checkpoint with a number.
type NotFoundError struct {
	Branch string
	Number int
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the branch %s has no checkpoint %d", e.Branch, e.Number)
}

// Find returns a checkpoint. Number 0 means the last one. If it does not exist, the error is a [NotFoundError].
func (s *Set) Find(number int) (*Checkpoint, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(c Checkpoint) bool { return c.Number == number })
	if number == 0 {
		i = len(all) - 1
	}
	if i < 0 {
		return nil, &NotFoundError{Branch: s.Branch, Number: number}
	}
	return &all[i], nil
}
