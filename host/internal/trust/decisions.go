package trust

import (
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

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/ownfile"
)

// decisionsLayout is the version of the file format of the trust store.
const decisionsLayout = 1

// Content holds the hashes of a configuration's files and programs at one moment. A person trusts or rejects the whole
// content.
type Content struct {
	// Config is the path of the configuration file or directory, without symbolic links.
	Config string `json:"config"`
	// Files contains the SHA-256 of each file that the configuration depends on. The key is the path. An empty hash
	// means that the file did not exist.
	Files map[string]string `json:"files"`
	// Programs contains the SHA-256 of each program that tools can change. The key is the path.
	Programs map[string]string `json:"programs"`
}

// Digest returns a hash of the content. The hash includes the path of the configuration.
func (c *Content) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "toolhost content %d\n%q\n", decisionsLayout, c.Config)
	for _, part := range []map[string]string{c.Files, c.Programs} {
		for _, path := range slices.Sorted(maps.Keys(part)) {
			fmt.Fprintf(h, "%q %s\n", path, part[path])
		}
		_, _ = io.WriteString(h, "\n") // error ignored, because a hash never fails
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

// Hash returns the SHA-256 of a file for a [Content]. It returns "" if the file does not exist.
func Hash(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK, so that a named pipe does not block
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
	// Review holds the lines that the person read. The next review marks lines that are not in Review as new.
	Review []string `json:"review"`
	// Restrictions are the restrictions in the trusted configuration. They apply even if the content changes.
	Restrictions json.RawMessage `json:"restrictions,omitempty"`
}

// Decisions is the trust store, a file that belongs to the user. Each use reads the file, so that a running host sees
// new decisions. If the file is unreadable, no content is trusted. Several processes can use the store at the same
// time.
type Decisions struct {
	dir string
	err error // reason why the store must not be used, or nil
}

// OpenDecisions returns the trust store in a state directory. It does not read the file.
func OpenDecisions(stateDir string) *Decisions { return &Decisions{dir: stateDir} }

// Distrust makes every use of the store fail with err. It is called if another user or a tool can write to the store.
func (d *Decisions) Distrust(err error) { d.err = err }

type decisionsFile struct {
	Version   int                 `json:"version"`
	Decisions map[string]Decision `json:"decisions"` // decisions by the path of the configuration
}

// Path returns the path of the store's file.
func (d *Decisions) Path() string { return filepath.Join(d.dir, "trust.json") }

// Of returns the decision about a configuration, or nil if no decision exists. It returns an error if the store cannot
// be read.
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
	return slices.SortedFunc(maps.Values(all.Decisions),
		func(a, b Decision) int { return strings.Compare(a.Config, b.Config) }), nil
}

// Record stores a decision. It replaces an earlier decision about the same configuration.
func (d *Decisions) Record(is Decision) error {
	return d.change(func(f *decisionsFile) error {
		f.Decisions[is.Config] = is
		return nil
	})
}

// Revoke removes the decision about a configuration, or all decisions about configurations below a directory. It
// returns the paths of these configurations.
func (d *Decisions) Revoke(path string) (revoked []string, err error) {
	err = d.change(func(f *decisionsFile) error {
		for config := range f.Decisions {
			if tool.Within(path, config) {
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
	err := d.file().Read(out)
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

func (d *Decisions) file() ownfile.File { return ownfile.File{Path: d.Path(), Name: "the trust store"} }

// change locks the store, calls the function "do", and replaces the file atomically.
func (d *Decisions) change(do func(*decisionsFile) error) error {
	return d.file().Change(func() (any, error) {
		f, err := d.read()
		if err != nil {
			return nil, err
		}
		return f, do(f)
	})
}
