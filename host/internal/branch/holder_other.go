//go:build !linux

package branch

import (
	"errors"
	"os"
)

type holder struct{}

var errSystem = errors.New("branches need the overlay file system of Linux")

func startHolder(string, string, []string, string, string, *os.File) (*holder, error) {
	return nil, errSystem
}

func (*holder) clone() (*os.File, error) { return nil, errSystem }
func (*holder) refresh() error           { return errSystem }
func (*holder) alive() bool              { return false }
func (*holder) close()                   {}

func unsupported(string) error { return errSystem }

func (*Branch) lingering() int { return 0 }
