package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of a [Store]. It keeps the newest files within all of them.
const (
	keepAge   = 7 * 24 * time.Hour
	keepFiles = 100
	keepBytes = 1 << 30
	// keepAlways is the age up to which a file is never removed. A call may still write it, and its reader may have just
	// learned of it.
	keepAlways = 10 * time.Minute
)

// Store is the directory for output that is too long to show. It is created on first use.
type Store struct {
	mu  sync.Mutex
	dir string
}

// NewStore returns a store in the directory dir, which only the user may access. If dir is empty, the store uses a
// directory of the user in the temporary directory.
func NewStore(dir string) *Store { return &Store{dir: dir} }

// create creates a file that only the user can read, and removes old files.
func (s *Store) create(name string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	s.sweep(time.Now())
	return os.CreateTemp(s.dir, time.Now().Format("20060102-150405-")+"*-"+name+".txt") // mode 0600
}

func (s *Store) prepare() error {
	if s.dir != "" {
		return os.MkdirAll(s.dir, 0o700)
	}
	// Others can write to the temporary directory too, so use only a directory that the user owns.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("toolhost-bash-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByUs(info) {
		if dir, err = os.MkdirTemp("", "toolhost-bash-"); err != nil {
			return err
		}
	}
	s.dir = dir
	return nil
}

// sweep removes the files beyond the limits, oldest first. It ignores files that it cannot remove.
func (s *Store) sweep(now time.Time) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), ".txt") {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var total int64
	for i, f := range files {
		total += f.Size()
		age := now.Sub(f.ModTime())
		if age > keepAlways && (age > keepAge || i >= keepFiles || total > keepBytes) {
			_ = os.Remove(filepath.Join(s.dir, f.Name()))
		}
	}
}
