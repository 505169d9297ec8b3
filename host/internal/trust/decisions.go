package trust

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// decisionsLayout is the version of the store that this package writes.
const decisionsLayout = 1

// Content is what a decision is about: the files of a configuration and the programs that it names, as they were at one
// moment.
type Content struct {
	// Config is the configuration's file or directory, without symbolic links.
	Config string `json:"config"`
	// Files are the SHA-256 of all files that the configuration depends on, by path. An empty hash means that there was
	// no file.
	Files map[string]string `json:"files"`
	// Programs are the SHA-256 of programs that tools could change.
	Programs map[string]string `json:"programs"`
}

// Digest identifies the content. Equal content at different places has different digests.
func (c *Content) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "toolhost content %d\n%q\n", decisionsLayout, c.Config)
	for _, part := range []map[string]string{c.Files, c.Programs} {
		for _, path := range slices.Sorted(maps.Keys(part)) {
			fmt.Fprintf(h, "%q %s\n", path, part[path])
		}
		_, _ = io.WriteString(h, "\n") // a hash never fails
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Differences returns the paths whose content differs between c and other, sorted.
func (c *Content) Differences(other *Content) (paths []string) {
	for _, pair := range [][2]map[string]string{{c.Files, other.Files}, {c.Programs, other.Programs}} {
		all := maps.Clone(pair[0])
		if all == nil {
			all = make(map[string]string)
		}
		maps.Copy(all, pair[1])
		for path := range all {
			was, known := pair[0][path]
			is, now := pair[1][path]
			if was != is || known != now {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Hash returns the SHA-256 of a file for a [Content]. It returns "" if there is no file.
func Hash(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer must not block
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", cmp.Or(err, fmt.Errorf("%s is not a regular file", path))
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Decision is a person's decision to trust content.
type Decision struct {
	Content
	At time.Time `json:"at"`
	// Review has the lines that the person read, to mark new ones at the next review.
	Review []string `json:"review"`
}

// Decisions is the store of decisions: one file, which belongs to the user. It reads the file at each use, so a running
// host sees new decisions. A store that cannot be read trusts nothing. It is safe for concurrent use by several
// processes.
type Decisions struct {
	dir string
	err error // why nothing in the store counts
}

// OpenDecisions returns the store in a state directory. It reads nothing.
func OpenDecisions(stateDir string) *Decisions { return &Decisions{dir: stateDir} }

// Distrust makes every use of the store fail with err, because somebody else can write the store.
func (d *Decisions) Distrust(err error) { d.err = err }

type decisionsFile struct {
	Version   int                 `json:"version"`
	Decisions map[string]Decision `json:"decisions"` // by configuration
}

// Path returns the path of the store's file.
func (d *Decisions) Path() string { return filepath.Join(d.dir, "trust.json") }

// Of returns the decision about a configuration, or nil if there is none. The error says why the store cannot be read.
func (d *Decisions) Of(config string) (*Decision, error) {
	all, err := d.read()
	if err != nil {
		return nil, err
	}
	if out, ok := all.Decisions[config]; ok {
		return &out, nil
	}
	return nil, nil
}

// All returns all decisions, sorted by configuration.
func (d *Decisions) All() ([]Decision, error) {
	all, err := d.read()
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(all.Decisions), func(a, b Decision) int { return strings.Compare(a.Config, b.Config) }), nil
}

// Record keeps a decision. It replaces an earlier one about the same configuration.
func (d *Decisions) Record(is Decision) error {
	return d.change(func(f *decisionsFile) error {
		f.Decisions[is.Config] = is
		return nil
	})
}

// Revoke removes the decisions about a configuration, or about all configurations in a directory and below. It returns
// the configurations.
func (d *Decisions) Revoke(path string) (revoked []string, err error) {
	err = d.change(func(f *decisionsFile) error {
		for config := range f.Decisions {
			if rel, err := filepath.Rel(path, config); err == nil && filepath.IsLocal(rel) {
				revoked = append(revoked, config)
				delete(f.Decisions, config)
			}
		}
		return nil
	})
	slices.Sort(revoked)
	return revoked, err
}

func (d *Decisions) read() (*decisionsFile, error) {
	if d.err != nil {
		return nil, d.err
	}
	out := &decisionsFile{Version: decisionsLayout, Decisions: make(map[string]Decision)}
	f, err := os.OpenFile(d.Path(), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return out, nil
	}
	if err == nil {
		defer f.Close() //nolint:errcheck // only read
		err = ownFile(f)
	}
	var b []byte
	if err == nil {
		b, err = io.ReadAll(f)
	}
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.DisallowUnknownFields()
		err = dec.Decode(out)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the trust store %s cannot be read, so nothing is trusted: %w. Remove the file and review the configurations again: toolhost trust", d.Path(), err)
	case out.Version != decisionsLayout:
		return nil, fmt.Errorf("the trust store %s has version %d, but this toolhost reads version %d, so nothing is trusted: use the toolhost that wrote it", d.Path(), out.Version, decisionsLayout)
	case out.Decisions == nil:
		out.Decisions = make(map[string]Decision)
	}
	return out, nil
}

// ownFile returns an error if somebody else could have written a file.
func ownFile(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case ok && int(sys.Uid) != os.Geteuid():
		return errors.New("it belongs to another user")
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("its mode %#o lets other users write it", st.Mode().Perm())
	}
	return nil
}

// change changes the store under a lock, whole or not at all.
func (d *Decisions) change(do func(*decisionsFile) error) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("the trust store cannot be written: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(d.dir, "trust.lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("the trust store cannot be written: %w", err)
	}
	defer lock.Close() //nolint:errcheck // also unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("the trust store cannot be locked: %w", err)
	}
	f, err := d.read()
	if err != nil {
		return err
	}
	if err := do(f); err != nil {
		return err
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(d.Path(), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("the trust store cannot be written: %w", err)
	}
	return nil
}
