package shell

import (
	"errors"
	"os"
)

// Sizes of pipe buffers in bytes. Some systems do not support setting them.
const (
	outputSize = 256 << 10
	dumpSize   = 1 << 20 // Linux does not allow more to an unprivileged user
)

// namelessOnDisk does the same as the function "nameless", but creates the file on disk. It is used on systems and in
// sandboxes without memory files.
func namelessOnDisk(text string) (*os.File, error) {
	f, err := os.CreateTemp("", "toolhost-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return fill(f, text)
}

// fill writes text to a file and sets the offset to the beginning.
func fill(f *os.File, text string) (*os.File, error) {
	if text == "" {
		return f, nil
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
