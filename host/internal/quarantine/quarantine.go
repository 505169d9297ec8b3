// Package quarantine keeps what the host took out of repositories and workspaces, in a directory that tools cannot write.
// Most callers want [Open] and [Store.List].
package quarantine

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"toolhost.dev/host/internal/ownfile"
)

// The kinds of entries.
const (
	Settings = "settings" // settings of git
	File     = "file"     // a file, such as a hook
	Link     = "link"     // a symbolic link
)

// Entry is something that was taken out of a repository.
type Entry struct {
	ID   string    `json:"id"`
	At   time.Time `json:"time"`
	Kind string    `json:"kind"`
	// Root is the writable directory that contains Path.
	Root string `json:"root"`
	Path string `json:"path"`
	Why  string `json:"why"`
	// Names contains the names of the settings.
	Names []string `json:"names,omitempty"`
	// Content is the text of the settings with their headers, the content of the file, or the target of the link.
	Content []byte      `json:"content,omitempty"`
	Mode    fs.FileMode `json:"mode,omitempty"`
	// Left is the path of a file that was too large to copy. It was only renamed.
	Left string `json:"left,omitempty"`
	// Keys identify the content at its place. After a restoration, the same content can stay there.
	Keys     []string  `json:"keys"`
	Restored time.Time `json:"restored,omitzero"`
}

// Digest returns a hash of what a restoration would write.
func (e *Entry) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %o\n", e.Kind, e.Path, e.Left, e.Mode)
	_, _ = h.Write(e.Content) // a hash never fails
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// maxEntries bounds the number of entries. The oldest ones are deleted first, restored ones last.
const maxEntries = 2000

// maxFile bounds the size of an entry's file, in bytes.
const maxFile = 32 << 20

// Store is a directory of entries. Several processes can use it at the same time.
type Store struct {
	dir string
	max int
}

// Open returns the store in a state directory. It does not create the directory.
func Open(stateDir string) *Store { return &Store{filepath.Join(stateDir, "quarantine"), maxEntries} }

// Keep stores an entry and sets its ID. The content is on the disk when Keep returns.
func (s *Store) Keep(e *Entry) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("the quarantine cannot be written: %w", err)
	}
	var id [6]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	e.ID = hex.EncodeToString(id[:])
	if err := s.write(e); err != nil {
		return err
	}
	return s.prune()
}

// Update replaces an entry.
func (s *Store) Update(e *Entry) error { return s.write(e) }

func (s *Store) write(e *Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := ownfile.Replace(s.path(e.ID), b, 0o600); err != nil {
		return fmt.Errorf("the quarantine cannot be written: %w", err)
	}
	return nil
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id+".json") }

// prune deletes the oldest entries if there are too many.
func (s *Store) prune() error {
	names, err := s.names()
	if err != nil || len(names) <= s.max {
		return err
	}
	all, err := s.List()
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b Entry) int { // restored entries last
		if restored := !a.Restored.IsZero(); restored == b.Restored.IsZero() {
			return map[bool]int{true: 1, false: -1}[restored]
		}
		return a.At.Compare(b.At)
	})
	for _, e := range all[:max(0, len(all)-s.max)] {
		err = errors.Join(err, os.Remove(s.path(e.ID)))
	}
	return err
}

func (s *Store) names() (names []string, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok && validID.MatchString(id) {
			names = append(names, id)
		}
	}
	return names, err
}

// List returns all entries, oldest first. An entry that cannot be read is an error.
func (s *Store) List() ([]Entry, error) {
	names, err := s.names()
	if err != nil {
		return nil, fmt.Errorf("the quarantine cannot be read: %w", err)
	}
	var out []Entry
	for _, id := range names {
		e, err := s.Get(id)
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, *e)
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return a.At.Compare(b.At) })
	return out, nil
}

var validID = regexp.MustCompile(`^[0-9a-f]{12}$`)

// Get returns the entry with an ID. The error is [fs.ErrNotExist] for an unknown ID.
func (s *Store) Get(id string) (*Entry, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("%q is not the ID of an entry: %w", id, fs.ErrNotExist)
	}
	f, err := os.OpenFile(s.path(id), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	e := new(Entry)
	if err == nil {
		err = json.Unmarshal(b, e)
	}
	if err == nil && e.ID != id {
		err = errors.New("it contains another ID")
	}
	if err != nil {
		return nil, fmt.Errorf("the entry %s of the quarantine cannot be read: %w. Remove the file to go on", s.path(id), err)
	}
	return e, nil
}

// Allowed returns the keys of all restored entries.
func (s *Store) Allowed() (map[string]bool, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool)
	for _, e := range all {
		if !e.Restored.IsZero() {
			for _, k := range e.Keys {
				out[k] = true
			}
		}
	}
	return out, nil
}
