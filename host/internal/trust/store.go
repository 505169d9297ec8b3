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

// MismatchError reports a file whose content differs from the pinned content.
type MismatchError struct {
	Path, Is, Pinned string
}

// Error returns a message with the actual and the pinned hash.
func (m *MismatchError) Error() string {
	return fmt.Sprintf("%s has the SHA-256 %s, but %s is pinned", m.Path, m.Is, m.Pinned)
}

// Store holds copies of pinned binaries. The path of a copy contains the hash of the binary. The host runs the copy, so
// that a change to the original after the check has no effect.
type Store struct {
	// Dir is the directory of the copies. No other program is allowed to write in Dir.
	Dir string
	// Hash returns the SHA-256 of a file. It can cache the hash of an unchanged file.
	Hash func(path string) ([32]byte, error)
}

// Executable returns a copy of path that has the pinned content. The error is a [*MismatchError] if the content of path
// differs.
func (s *Store) Executable(path, pinned string) (string, error) {
	copied, ok := s.Copy(path, pinned)
	if ok {
		return copied, nil
	}
	if err := s.copy(path, copied, pinned); err != nil {
		return "", err
	}
	return copied, nil
}

// Copy returns the copy with a hash. path is the path of the original. ok is false if the copy is missing or changed.
func (s *Store) Copy(path, hash string) (copied string, ok bool) {
	copied = s.place(path, hash)
	sum, err := s.Hash(copied)
	return copied, err == nil && hex.EncodeToString(sum[:]) == hash
}

// place returns the path of a copy. The copy has the file name of the original, because process lists show
// this name.
func (s *Store) place(path, pinned string) string {
	return filepath.Join(s.Dir, pinned, filepath.Base(path))
}

// Forget removes all copies with a hash. Running processes of a removed copy continue.
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
	// Without the lock, a process forked during the copy would inherit the open file. The kernel could then not execute
	// the copy.
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
