// Package ripgrep runs ripgrep as a separate program, as an agent without toolhost does.
package ripgrep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program is an installed ripgrep.
type Program struct{ path string }

// Find returns the ripgrep in the directory peers, in which `make peers` installs it.
func Find(peers string) (*Program, error) {
	found, err := filepath.Glob(filepath.Join(peers, "node_modules/@vscode/ripgrep-*/bin/rg"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("ripgrep is not installed: run make peers")
	}
	return &Program{found[0]}, nil
}

// Run runs ripgrep in a directory and returns its output.
func (p *Program) Run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, p.path, append([]string{"--no-config", "--color=never", "--no-heading"}, args...)...) //nolint:gosec // what is measured
	c.Dir = dir
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return out.Bytes(), nil // exit status 1 means no match
	}
	if err != nil {
		return nil, fmt.Errorf("rg %s: %w: %s", strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes(), nil
}
