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

// The limits of a [Store]. Files that exceed a limit are removed, the oldest first.
const (
	keepAge   = 7 * 24 * time.Hour
	keepFiles = 100
	keepBytes = 1 << 30
	// keepAlways is the minimum age of a file that can be removed. A younger file can still be written by a call, or
	// its path can just have been returned to a caller.
	keepAlways = 10 * time.Minute
)

// Store is the directory for output that is too long to show. It is created at the first use.
type Store struct {
	mu  sync.Mutex
	dir string
}

// NewStore returns a store in the directory dir, which only the user must be able to access. For an empty dir, the store
// uses a private directory in the temporary directory.
func NewStore(dir string) *Store { return &Store{dir: dir} }

// create creates a file that only the user can read. It also removes old files from the store.
func (s *Store) create(name string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	s.sweep(time.Now())
	return os.CreateTemp(s.dir, time.Now().Format("20060102-150405-")+"*-"+name+".txt") // os.CreateTemp uses mode 0600
}

func (s *Store) prepare() error {
	if s.dir != "" {
		return os.MkdirAll(s.dir, 0o700)
	}
	// Other users can also write to the temporary directory. Therefore use only a directory that this user owns.
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

// sweep removes the oldest files that exceed the limits. It ignores errors.
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
