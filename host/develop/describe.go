package develop

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/supervisor"
)

// errDescribed ends the start of a plugin once its description is known.
var errDescribed = errors.New("described")

// Describe starts a program and returns its description, without a sandbox and without a configuration.
func Describe(ctx context.Context, binary string, args []string, env map[string]string) (*tool.Description, error) {
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "th") // the supervisor of this process's own host removes its default directory
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary directory
	s := supervisor.New(supervisor.Options{HostVersion: "0.0.0", RuntimeDir: dir, Log: slog.New(slog.DiscardHandler)})
	defer s.Close(0)
	var h describer
	if _, err = s.Add(supervisor.Spec{Name: "described", Path: path, Args: args, Env: env, Host: &h}).
		Describe(ctx); h.description != nil {
		return h.description, nil
	}
	return nil, err
}

// describer is the host of a program that only has to describe itself.
type describer struct {
	supervisor.Alone
	description *tool.Description
}

// Accept implements [supervisor.Host].
func (h *describer) Accept(d *tool.Description) error {
	h.description = d
	return errDescribed
}
