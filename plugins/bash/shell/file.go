package shell

import (
	"errors"
	"io"
	"os"
)

// namelessOnDisk is for systems and sandboxes without files in memory.
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

func fill(f *os.File, text string) (*os.File, error) {
	_, err := f.WriteString(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
