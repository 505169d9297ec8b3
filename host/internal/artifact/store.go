package artifact

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"
)

// Store is the store of one user. It is safe for concurrent use, also by several processes.
type Store struct{ root string }

// StorePath returns the directory of the user's store, $XDG_DATA_HOME/toolhost/store.
func StorePath() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "toolhost", "store"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("the store of plugins has no directory: set $XDG_DATA_HOME or $HOME: %w", err)
	}
	return filepath.Join(home, ".local", "share", "toolhost", "store"), nil
}

// UserStore returns the user's store without creating its directory.
func UserStore() (*Store, error) {
	root, err := StorePath()
	if err != nil {
		return nil, err
	}
	return &Store{root}, nil
}

// OpenStore returns the user's store and creates its directories. It returns an error if other users can write in them.
func OpenStore() (*Store, error) {
	s, err := UserStore()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{s.root, s.contents(), s.Partial(), s.records()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("the store of plugins cannot be created: %w", err)
		}
	}
	st, err := os.Stat(s.root)
	if err != nil {
		return nil, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("other users can write in the store %s, so it is not used. Change that with chmod go-w, or set $XDG_DATA_HOME to another directory", s.root)
	}
	return s, nil
}

func (s *Store) contents() string { return filepath.Join(s.root, "content") }
func (s *Store) records() string  { return filepath.Join(s.root, "records") }

// Root returns the directory of the store.
func (s *Store) Root() string { return s.root }

// Partial returns the directory of unfinished downloads. The name of a file is the digest of the complete download.
func (s *Store) Partial() string { return filepath.Join(s.root, "partial") }

// Dir returns the directory of a plugin's files. content is their hash, which has the form "h1:…".
func (s *Store) Dir(content string) string {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(content, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return filepath.Join(s.contents(), "invalid")
	}
	return filepath.Join(s.contents(), "h1-"+hex.EncodeToString(sum))
}

// ContentOf returns the hash of the plugin that has a file with this path. It returns "" for a path outside of the
// store.
func (s *Store) ContentOf(path string) string {
	rel, err := filepath.Rel(s.contents(), path)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	first, _, _ := strings.Cut(rel, string(filepath.Separator))
	sum, err := hex.DecodeString(strings.TrimPrefix(first, "h1-"))
	if err != nil || len(sum) != sha256.Size {
		return ""
	}
	return "h1:" + base64.StdEncoding.EncodeToString(sum)
}

// Has reports whether the files of a plugin are installed.
func (s *Store) Has(content string) bool {
	st, err := os.Stat(s.Dir(content))
	return err == nil && st.IsDir()
}

// Temporary creates a directory for files that are being unpacked. The directory is locked until release is called, so
// that [Store.Sweep] does not remove it. The function release also removes the directory, unless it was published.
func (s *Store) Temporary() (dir string, release func(), err error) {
	for {
		if dir, err = os.MkdirTemp(s.Partial(), "x-"); err != nil {
			return "", nil, err
		}
		f, err := flock.Open(dir, os.O_RDONLY, unix.LOCK_EX)
		if errors.Is(err, fs.ErrNotExist) { // Sweep was faster
			continue
		}
		if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		return dir, func() {
			_ = os.RemoveAll(dir) // nothing is left after Publish
			_ = f.Close()
		}, nil
	}
}

// Publish makes a temporary directory the directory of a plugin's files. If another process has already published the
// same content, the files of that process stay. The files are on the disk before they get their name: after a power
// failure, a version is whole or missing.
func (s *Store) Publish(temporary, content string) error {
	err := filepath.WalkDir(temporary, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.IsDir() || d.Type().IsRegular()) {
			err = flush(path)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = os.Rename(temporary, s.Dir(content))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	if err != nil {
		return err
	}
	return flush(s.contents())
}

// flush waits until a file or the entries of a directory are on the disk.
func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Remove removes the files of a plugin. It returns false if a running process uses them.
func (s *Store) Remove(content string) (bool, error) {
	dir := s.Dir(content)
	f, err := flock.Open(dir, os.O_RDONLY, unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, err
	}
	defer f.Close() //nolint:errcheck // also unlocks
	gone, release, err := s.Temporary()
	if err != nil {
		return false, err
	}
	defer release()
	// The rename comes first. Otherwise a plugin would look installed after a removal that stopped halfway.
	if err := os.Rename(dir, filepath.Join(gone, "content")); err != nil {
		return false, err
	}
	return true, os.RemoveAll(gone)
}

// Contents returns the hashes of the installed plugins.
func (s *Store) Contents() ([]string, error) {
	entries, err := os.ReadDir(s.contents())
	var out []string
	for _, e := range entries {
		if c := s.ContentOf(filepath.Join(s.contents(), e.Name())); c != "" {
			out = append(out, c)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}

// Sweep removes the directories that killed processes left behind. If parts is true, it also removes the unfinished
// downloads. It keeps everything that a running process uses.
func (s *Store) Sweep(parts bool) error {
	entries, err := os.ReadDir(s.Partial())
	var errs []error
	for _, e := range entries {
		path := filepath.Join(s.Partial(), e.Name())
		if !e.IsDir() && !parts {
			continue
		}
		if f, err := flock.Open(path, os.O_RDONLY, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			errs = append(errs, os.RemoveAll(path), f.Close())
		}
	}
	return errors.Join(append(errs, err)...)
}

// held contains the locked directories of this process.
var held struct {
	sync.Mutex
	dirs map[string]*os.File
}

// Hold keeps the files of a plugin from being removed while this process runs. It does nothing for a path outside of
// the store.
func (s *Store) Hold(path string) error {
	content := s.ContentOf(path)
	if content == "" {
		return nil
	}
	dir := s.Dir(content)
	held.Lock()
	defer held.Unlock()
	if held.dirs[dir] != nil {
		return nil
	}
	f, err := flock.Open(dir, os.O_RDONLY, unix.LOCK_SH)
	if err != nil {
		return err
	}
	if held.dirs == nil {
		held.dirs = make(map[string]*os.File)
	}
	held.dirs[dir] = f
	return nil
}
