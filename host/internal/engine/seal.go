package engine

import (
	"errors"
	"path/filepath"

	"toolhost.dev/host/internal/seal"
)

// ErrSealed is the error for a sealed text that is not valid.
var ErrSealed = seal.ErrInvalid

var errUnsealable = errors.New("the host has no state directory for a key")

// Seal seals a value with the key in the state directory; see package seal.
func (e *Engine) Seal(value, purpose []byte) (string, error) {
	if e.home.Root == "" {
		return "", errUnsealable
	}
	return e.sealKey().Seal(value, purpose)
}

// Unseal opens a text of Seal.
func (e *Engine) Unseal(text string, purpose []byte) ([]byte, error) {
	if e.home.Root == "" {
		return nil, errUnsealable
	}
	return e.sealKey().Open(text, purpose)
}

func (e *Engine) sealKey() seal.File {
	return seal.File{Path: filepath.Join(e.home.Root, "seal.key")}
}
