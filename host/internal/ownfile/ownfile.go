// Package ownfile stores state of the user in files. Most callers use [File], which has a value in JSON.
//
// A file that another user could have written is rejected. Each change replaces the whole file, so that no reader sees
// an incomplete file, even after a crash.
//
// [Key] encrypts and authenticates values that leave the host and come back later, possibly to another process.
package ownfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/flock"
)

// File is a file with a value in JSON. Several processes can use it at the same time.
type File struct {
	Path string
	// Name is the name of the file in messages, such as "the trust store".
	Name string
}

// Read decodes the file into the value at which v points. It leaves the value unchanged if the file does not exist. It
// returns an error if another user could have written the file, or if the file has unknown fields.
func (f File) Read(v any) error {
	in, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	if err := own(in); err != nil {
		return err
	}
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// own returns an error if another user owns a file or can write it.
func own(f *os.File) error {
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

// Change replaces the file with the value that change returns. Other processes cannot change the file meanwhile. Change
// creates the directory of the file if necessary.
func (f File) Change(change func() (any, error)) error {
	failed := func(err error) error { return fmt.Errorf("%s cannot be written: %w", f.Name, err) }
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return failed(err)
	}
	lock, err := flock.Open(strings.TrimSuffix(f.Path, filepath.Ext(f.Path))+".lock", os.O_CREATE|os.O_RDWR,
		syscall.LOCK_EX)
	if err != nil {
		return fmt.Errorf("%s cannot be locked: %w", f.Name, err)
	}
	defer lock.Close() //nolint:errcheck // also unlocks
	v, err := change()
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(f.Path, append(b, '\n')); err != nil {
		return failed(err)
	}
	return nil
}
