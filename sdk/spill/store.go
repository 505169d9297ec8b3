package spill

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// DefaultAge is the age at which a file is removed if [Store.MaxAge] is zero.
	DefaultAge = 7 * 24 * time.Hour
	// DefaultBytes is the maximum size of all files if [Store.MaxBytes] is zero.
	DefaultBytes = 1 << 30
	maxFiles     = 100
	// protected is the minimum age of a file that can be removed because of its age or because there are too many
	// files. A call may still be writing a younger file, or a caller may have just received the path of the file.
	protected = 10 * time.Minute
	// protectedFull is the minimum age of a file that can be removed because the files exceed MaxBytes.
	protectedFull = time.Minute
	// rescan is the number of written bytes after which the store reads its directory again. This is necessary because
	// other processes can also write to the directory.
	rescan = 32 << 20
)

// Store is the directory for output that is too long to show. It is created at the first use. If its files exceed a
// limit, the store removes the oldest files. If this does not free enough space, the store accepts no more bytes.
type Store struct {
	// MaxBytes is the maximum size of all files. Zero means DefaultBytes. Set it before the first use.
	MaxBytes int64
	// MaxAge is the age at which a file is removed. Zero means DefaultAge. Set it before the first use.
	MaxAge time.Duration
	// Setting names what the operator changes to raise MaxBytes. Errors contain it. Set it before the first use.
	Setting string

	mu   sync.Mutex
	dir  string
	free int64 // number of bytes that can be written before the directory must be read again
}

// NewStore returns a store in the directory dir. Other users must not have access to dir. For an empty dir, the store
// uses a private directory in the temporary directory.
func NewStore(dir string) *Store { return &Store{dir: dir} }

// Save writes a file and returns its path. The name ends with one of the extensions .txt, .json and .bin. If the whole
// content does not fit, Save keeps nothing and returns an error.
func (s *Store) Save(name string, content []byte) (path string, err error) {
	f, err := s.create(name)
	if err != nil {
		return "", err
	}
	if s.reserve(int64(len(content))) < int64(len(content)) {
		err = s.full()
	} else {
		_, err = f.Write(content)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// extensions lists the extensions of the files of a store. A store ignores other files in its directory.
var extensions = []string{".txt", ".json", ".bin"}

// create creates a file that only the user can read. It also removes old files from the store.
func (s *Store) create(name string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	s.sweep(time.Now(), 0)
	return os.CreateTemp(s.dir, time.Now().Format("20060102-150405-")+"*-"+name) // os.CreateTemp uses mode 0600
}

func (s *Store) prepare() error {
	if s.dir != "" {
		return os.MkdirAll(s.dir, 0o700)
	}
	// Other users can also write to the temporary directory. Therefore use only a directory that this user owns.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("toolhost-output-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByUs(info) {
		if dir, err = os.MkdirTemp("", "toolhost-output-"); err != nil {
			return err
		}
	}
	s.dir = dir
	return nil
}

// reserve returns how many of n bytes can be written to a file.
func (s *Store) reserve(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free < n {
		s.sweep(time.Now(), n)
	}
	n = max(0, min(n, s.free))
	s.free -= n
	return n
}

// sweep removes the oldest files if the files exceed a limit. The argument "need" is the number of bytes for which the
// store must have room afterwards. Then sweep determines how many bytes are free. It ignores errors.
func (s *Store) sweep(now time.Time, need int64) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() &&
			slices.Contains(extensions, filepath.Ext(e.Name())) {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	limit := cmp.Or(s.MaxBytes, DefaultBytes)
	var newer, kept int64 // size of this file and all newer files together, and size of the files that remain
	for i, f := range files {
		newer += f.Size()
		age := now.Sub(f.ModTime())
		old := age > protected && (age > cmp.Or(s.MaxAge, DefaultAge) || i >= maxFiles)
		full := age > protectedFull && newer+need > limit
		if (old || full) && os.Remove(filepath.Join(s.dir, f.Name())) == nil {
			continue
		}
		kept += f.Size()
	}
	s.free = min(max(rescan, need), limit-kept)
}

// full returns the error for a file that cannot be completed because of MaxBytes.
func (s *Store) full() error {
	remedy := "Ask for less, or call again in a minute"
	if s.Setting != "" {
		remedy += ", or let the operator raise " + s.Setting
	}
	return fmt.Errorf("the output files together may have %d bytes, and those of the last minute stay. %s", cmp.Or(s.MaxBytes, DefaultBytes), remedy)
}
