// Package store implements a store on disk for values that must survive restarts of a plugin, such as tokens, cursors
// and counters. A plugin gets its [Store] from the call:
//
//	s, err := call.Store()
//	found, err := s.Get("cursor", &cursor)
//	err = s.Set("cursor", cursor)
//
// Each value is a file of its own, which is replaced by renaming. A process that is killed at any moment therefore
// leaves either the old or the new value. Several processes can use one store at the same time. Changes wait for each
// other. After Set has returned, the value also survives a failure of the system.
//
// A store is for few, small values. Its size is limited, and nothing is removed automatically: a Set beyond the limit
// fails. The SDKs for other languages use the same files.
package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/flock"
)

// Options limits a store. A field that is zero has the default limit.
type Options struct {
	// MaxValue is the maximum size of a value in bytes of JSON, by default 1 MiB.
	MaxValue int
	// MaxBytes is the maximum size of all values, by default 64 MiB. MaxKeys is their maximum number, by default 4096.
	MaxBytes int64
	MaxKeys  int
}

// ErrFull is the error of a change that would exceed the size of the store.
var ErrFull = errors.New("the plugin's store is full")

// maxKey is the maximum length of a key, in bytes.
const maxKey = 1024

// Store is a set of values with keys. It is safe for concurrent use, also by several processes. A Store needs no Close.
type Store struct {
	dir  string
	opts Options
}

// Open returns the store in a directory. The first change creates the directory.
func Open(dir string, opts Options) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the store's directory %q is not absolute", dir)
	}
	if opts.MaxValue <= 0 {
		opts.MaxValue = 1 << 20
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = 64 << 20
	}
	if opts.MaxKeys <= 0 {
		opts.MaxKeys = 4096
	}
	return &Store{dir: dir, opts: opts}, nil
}

// entry is the content of a file.
type entry struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

const suffix = ".json"

func (s *Store) path(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+suffix)
}

// Get decodes the value of a key into v, which is a pointer. If there is no value, found is false and v keeps its
// value.
func (s *Store) Get(key string, v any) (found bool, err error) {
	raw, err := s.read(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(raw.Value, v); err != nil {
		return true, fmt.Errorf("the stored value of %q is not a %T: %w", key, v, err)
	}
	return true, nil
}

func (s *Store) read(path string) (e entry, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("the stored value in %s is damaged: %w. Remove the file", path, err)
	}
	return e, nil
}

// Set stores a value, which JSON must be able to represent.
func (s *Store) Set(key string, v any) error {
	return s.Update(key, func(json.RawMessage) (any, error) { return v, nil })
}

// Update changes the value of a key. The function "change" gets the current value, or nil if there is no value. It
// returns the new value. If the new value is nil, the key is removed. If change returns an error, the store does not
// change. No other process changes the store meanwhile, so change must be fast and must not use the store.
func (s *Store) Update(key string, change func(old json.RawMessage) (any, error)) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("a key of the store must have 1 to %d bytes, not %d", maxKey, len(key))
	}
	unlock, err := s.lock()
	if err != nil {
		return fmt.Errorf("the plugin's store cannot be locked: %w", err)
	}
	defer unlock()
	path := s.path(key)
	old, err := s.read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	v, err := change(old.Value)
	if err != nil {
		return err
	}
	if v == nil {
		return ignoreMissing(os.Remove(path))
	}
	value, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("the value of %q cannot be stored: %w", key, err)
	}
	if len(value) > s.opts.MaxValue {
		return fmt.Errorf("the value of %q has %d bytes, and at most %d can be stored: %w", key, len(value), s.opts.MaxValue, ErrFull)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(entry{key, value}); err != nil {
		return err
	}
	if err := s.fits(path, int64(b.Len())); err != nil {
		return err
	}
	return s.replace(path, b.Bytes())
}

// Delete removes a value. A missing value is no error.
func (s *Store) Delete(key string) error {
	return s.Update(key, func(json.RawMessage) (any, error) { return nil, nil })
}

// Keys returns the keys that begin with prefix, sorted.
func (s *Store) Keys(prefix string) ([]string, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var keys []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), suffix) {
			continue
		}
		e, err := s.read(filepath.Join(s.dir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) { // another process has removed it
			continue
		}
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(e.Key, prefix) {
			keys = append(keys, e.Key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// fits returns an error if the store is too small for a file. It also removes the temporary files of killed processes.
// The caller must have locked the store.
func (s *Store) fits(path string, size int64) error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	total, keys := size, 1
	for _, f := range files {
		name := filepath.Join(s.dir, f.Name())
		if strings.HasPrefix(f.Name(), durable.TempPrefix) {
			_ = os.Remove(name) // nobody uses it, because the store is locked
			continue
		}
		if name == path || !strings.HasSuffix(f.Name(), suffix) {
			continue
		}
		if info, err := f.Info(); err == nil {
			total += info.Size()
			keys++
		}
	}
	if total > s.opts.MaxBytes || keys > s.opts.MaxKeys {
		return fmt.Errorf("%w: %d values (limit %d) with %d bytes (limit %d). Delete some values", ErrFull, keys, s.opts.MaxKeys, total, s.opts.MaxBytes)
	}
	return nil
}

// replace writes a file and renames it, so that readers see the old or the new content.
func (s *Store) replace(path string, content []byte) error {
	if err := durable.Replace(path, content); err != nil {
		return fmt.Errorf("the value cannot be stored: %w", err)
	}
	return nil
}

// lock locks the store against other processes and other callers.
func (s *Store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	f, err := flock.Open(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
