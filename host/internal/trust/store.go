package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// MismatchError is a file that has not the bytes that it is pinned to.
type MismatchError struct {
	Path, Is, Pinned string
}

// Error says what the file has, and what it should have.
func (m *MismatchError) Error() string {
	return fmt.Sprintf("%s has the SHA-256 %s, but %s is pinned", m.Path, m.Is, m.Pinned)
}

// Store holds copies of pinned binaries, under their hashes. What is run is the copy, so
// that a file that is changed after it was looked at is not run.
type Store struct {
	// Dir belongs to the host alone.
	Dir string
	// Hash gives the SHA-256 of a file; it may remember what it found for a file that did
	// not change since.
	Hash func(path string) ([32]byte, error)
}

// Executable gives the file to run in the place of path: one with the bytes that are
// pinned. The error is a [*MismatchError] when path has others.
func (s *Store) Executable(path, pinned string) (string, error) {
	copied := s.place(path, pinned)
	if sum, err := s.Hash(copied); err == nil && hex.EncodeToString(sum[:]) == pinned {
		return copied, nil
	}
	if err := s.copy(path, copied, pinned); err != nil {
		return "", err
	}
	return copied, nil
}

// place is where a copy is. It keeps its name, which processes are listed by.
func (s *Store) place(path, pinned string) string {
	return filepath.Join(s.Dir, pinned, filepath.Base(path))
}

// Forget removes the copies of a hash. A process that runs one goes on.
func (s *Store) Forget(pinned string) error {
	if len(pinned) != 2*sha256.Size {
		return nil
	}
	return os.RemoveAll(filepath.Join(s.Dir, pinned))
}

func (s *Store) copy(from, to, pinned string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("the pinned binary cannot be copied: %w", err)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	// A process that is forked meanwhile would hold the copy open for writing, and then
	// nothing could run it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.CreateTemp(filepath.Dir(to), ".copy-*")
	if err != nil {
		return fmt.Errorf("the pinned binary cannot be copied: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), in)
	if err == nil {
		err = out.Chmod(0o500)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("the pinned binary %s cannot be copied: %w", from, err)
	}
	if is := hex.EncodeToString(h.Sum(nil)); is != pinned {
		return &MismatchError{Path: from, Is: is, Pinned: pinned}
	}
	return os.Rename(out.Name(), to)
}
