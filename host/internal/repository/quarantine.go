package repository

import (
	"cmp"
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
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/host/internal/lazyregexp"
)

// The kinds of entries.
const (
	KindSettings = "settings" // settings of git
	KindFile     = "file"     // a file, such as a hook
	KindLink     = "link"     // a symbolic link
)

// QuarantineEntry is a file, link or group of settings that the host removed from a repository or workspace.
type QuarantineEntry struct {
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
	// Raw contains the paths if one of them is not valid UTF-8, which JSON cannot represent.
	Raw *RawPaths `json:"raw,omitempty"`
	// Keys identify the content and its path. After a restoration, the host accepts the same content at this path.
	Keys     []string  `json:"keys"`
	Restored time.Time `json:"restored,omitzero"`
}

// RawPaths contains the paths of an entry as bytes.
type RawPaths struct {
	Root []byte `json:"root"`
	Path []byte `json:"path"`
	Left []byte `json:"left"`
}

// Digest returns a hash of the data that a restoration writes.
func (e *QuarantineEntry) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %o\n", e.Kind, e.Path, e.Left, e.Mode)
	_, _ = h.Write(e.Content) // error ignored, because a hash never fails
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

const (
	// maxEntries limits the number of entries.
	maxEntries = 2000
	// maxBytes limits the size of all entries together, in bytes.
	maxBytes = 256 << 20
)

// maxFile limits the size of an entry's file, in bytes.
const maxFile = 32 << 20

// Quarantine is a directory of entries. Several processes can use it at the same time.
type Quarantine struct {
	dir   string
	max   int
	bytes int64
}

// OpenQuarantine returns the store in a state directory. It does not create the directory.
func OpenQuarantine(stateDir string) *Quarantine {
	return &Quarantine{filepath.Join(stateDir, "quarantine"), maxEntries, maxBytes}
}

// Keep stores an entry and sets its ID. The content is on the disk when Keep returns.
func (s *Quarantine) Keep(e *QuarantineEntry) error {
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
func (s *Quarantine) Update(e *QuarantineEntry) error { return s.write(e) }

func (s *Quarantine) write(e *QuarantineEntry) error {
	e.Raw = nil
	if !utf8.ValidString(e.Root + e.Path + e.Left) {
		e.Raw = &RawPaths{[]byte(e.Root), []byte(e.Path), []byte(e.Left)}
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := durable.ReplaceUnsynced(s.path(e.ID), b); err != nil {
		return fmt.Errorf("the quarantine cannot be written: %w", err)
	}
	return nil
}

func (s *Quarantine) path(id string) string { return filepath.Join(s.dir, id+".json") }

// group identifies the entries of a directory in an hour.
type group struct {
	root     string
	hour     time.Time
	restored bool
}

// weight is the size of a group.
type weight struct {
	entries []QuarantineEntry // oldest first
	bytes   int64
}

// pop removes and returns the oldest entry of the directory with the most entries.
func (w *weight) pop() QuarantineEntry {
	count := make(map[string]int)
	for _, e := range w.entries {
		count[filepath.Dir(e.Path)]++
	}
	out := 0
	for i, e := range w.entries {
		if count[filepath.Dir(e.Path)] > count[filepath.Dir(w.entries[out].Path)] {
			out = i
		}
	}
	e := w.entries[out]
	w.entries = slices.Delete(w.entries, out, out+1)
	return e
}

// prune deletes entries if too many exist. It deletes from the largest group, and deletes restored entries
// last. Therefore many new entries displace neither earlier entries nor entries of other directories. To save time,
// prune deletes a tenth of the entries at once.
func (s *Quarantine) prune() error {
	sizes, bytes, err := s.sizes()
	if err != nil || len(sizes) <= s.max && bytes <= s.bytes {
		return err
	}
	all, err := s.List() // oldest first
	if err != nil {
		return err
	}
	groups, left := make(map[group]*weight), len(all)
	for _, e := range all {
		at := group{e.Root, e.At.UTC().Truncate(time.Hour), !e.Restored.IsZero()}
		if groups[at] == nil {
			groups[at] = new(weight)
		}
		groups[at].entries = append(groups[at].entries, e)
		groups[at].bytes += sizes[e.ID]
	}
	for left > 0 && (left > s.max-s.max/10 || bytes > s.bytes-s.bytes/10) {
		at := largest(groups, left <= s.max-s.max/10)
		w := groups[at]
		e := w.pop()
		err = errors.Join(err, os.Remove(s.path(e.ID)))
		left--
		bytes -= sizes[e.ID]
		w.bytes -= sizes[e.ID]
		if len(w.entries) == 0 {
			delete(groups, at)
		}
	}
	return err
}

// largest returns the group with the most entries or the most bytes.
func largest(groups map[group]*weight, byBytes bool) (out group) {
	var most *weight
	for at, w := range groups {
		order := 1
		if most != nil {
			order = cmp.Or(cmp.Compare(btoi(out.restored), btoi(at.restored)), cmp.Compare(len(w.entries),
				len(most.entries)), out.hour.Compare(at.hour), cmp.Compare(out.root, at.root))
			if byBytes && out.restored == at.restored {
				order = cmp.Or(cmp.Compare(w.bytes, most.bytes), order)
			}
		}
		if order > 0 {
			out, most = at, w
		}
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sizes returns the file sizes of the entries by ID, and their sum, in bytes.
func (s *Quarantine) sizes() (by map[string]int64, sum int64, err error) {
	entries, err := os.ReadDir(s.dir)
	by = make(map[string]int64)
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if st, err := e.Info(); ok && err == nil && validID.MatchString(id) {
			by[id] = st.Size()
			sum += st.Size()
		}
	}
	return by, sum, err
}

func (s *Quarantine) names() (names []string, err error) {
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

// List returns all entries, oldest first. It returns an error if an entry is unreadable.
func (s *Quarantine) List() ([]QuarantineEntry, error) {
	names, err := s.names()
	if err != nil {
		return nil, fmt.Errorf("the quarantine cannot be read: %w", err)
	}
	var out []QuarantineEntry
	for _, id := range names {
		e, err := s.Get(id)
		if errors.Is(err, fs.ErrNotExist) { // another process deleted the entry
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, *e)
	}
	slices.SortStableFunc(out, func(a, b QuarantineEntry) int { return a.At.Compare(b.At) })
	return out, nil
}

var validID = lazyregexp.New(`^[0-9a-f]{12}$`)

// Get returns the entry with an ID. The error is [fs.ErrNotExist] for an unknown ID.
func (s *Quarantine) Get(id string) (*QuarantineEntry, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("%q is not the ID of an entry: %w", id, fs.ErrNotExist)
	}
	f, err := os.OpenFile(s.path(id), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	e := new(QuarantineEntry)
	if err == nil {
		err = json.Unmarshal(b, e)
	}
	if err == nil && e.ID != id {
		err = errors.New("it contains another ID")
	}
	if e.Raw != nil {
		e.Root, e.Path, e.Left = string(e.Raw.Root), string(e.Raw.Path), string(e.Raw.Left)
	}
	if err != nil {
		return nil, fmt.Errorf("the entry %s of the quarantine cannot be read: %w. Remove the file to go on", s.path(id), err)
	}
	return e, nil
}

// Allowed returns the keys of all restored entries.
func (s *Quarantine) Allowed() (map[string]bool, error) {
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
