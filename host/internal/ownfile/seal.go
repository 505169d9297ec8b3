package ownfile

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Key is a file with a key. The file is read for each use, so a deleted or replaced key is invalid at once in all
// processes.
type Key struct{ Path string }

const keySize = 32 // AES-256

// ErrInvalid is the error for a text that was not sealed with the key and for the same purpose. It has no details,
// because they would help to forge a text.
var ErrInvalid = errors.New("the sealed value is not valid")

// Seal encrypts a value. Only [Key.Open] with the same purpose returns it. Seal creates a missing key.
func (f Key) Seal(value, purpose []byte) (string, error) {
	key, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.create(); err == nil {
			key, err = f.read()
		}
	}
	if err != nil {
		return "", fmt.Errorf("the key %s cannot be used: %w", f.Path, err)
	}
	aead, err := newAEAD(key)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, value, purpose)), nil //nolint:gosec // the AEAD adds a random nonce
}

// Open decrypts a text of [Key.Seal]. It returns [ErrInvalid] if the text was changed, or sealed with another key or
// for another purpose.
func (f Key) Open(text string, purpose []byte) ([]byte, error) {
	key, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrInvalid
	}
	if err != nil {
		return nil, fmt.Errorf("the key %s cannot be used: %w", f.Path, err)
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, ErrInvalid
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	value, err := aead.Open(nil, nil, sealed, purpose)
	if err != nil {
		return nil, ErrInvalid
	}
	return value, nil
}

// newAEAD returns AES-GCM with random nonces. A key is safe for 2^32 values.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// read reads the key. It refuses a file that another user could have read or written.
func (f Key) read() ([]byte, error) {
	in, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // only read
	st, err := in.Stat()
	if err != nil {
		return nil, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular():
		return nil, errors.New("it is not a regular file; delete it")
	case ok && int(sys.Uid) != os.Geteuid():
		return nil, errors.New("it belongs to another user; delete it")
	case st.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("its mode %#o lets other users use it; delete it", st.Mode().Perm())
	}
	key, err := io.ReadAll(io.LimitReader(in, keySize+1))
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("it does not have %d bytes; delete it", keySize)
	}
	return key, err
}

// create creates the key. If another process creates it at the same time, one of the two keys remains.
func (f Key) create() error {
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key := make([]byte, keySize)
	rand.Read(key)
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // the key has another name
	_, err = tmp.Write(key)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link does not replace the key of another process.
	if err := os.Link(tmp.Name(), f.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
