// Package bash is the tool bash: what a model says to it and hears from it. The
// running itself is in package shell.
package bash

import (
	"context"
	"path/filepath"
	"sync"

	"toolhost.dev/plugins/bash/capture"
	"toolhost.dev/plugins/bash/process"
	"toolhost.dev/sdk"
)

// Version of the plugin.
const Version = "0.1.0"

// Plugin gives the plugin. Nothing runs and nothing is written before the first call.
func Plugin() sdk.Plugin {
	b := &bash{store: capture.NewStore("")}
	return sdk.Plugin{
		Name: "bash", Version: Version,
		Tools:    []sdk.Tool{sdk.NewTool(definition(), b.run)},
		Commands: true,
		Config: sdk.NewConfig(func(_ context.Context, _ struct{}, s sdk.Setup) error {
			if s.StateDir != "" {
				b.store = capture.NewStore(filepath.Join(s.StateDir, "output"))
			}
			return nil
		}),
		Close: b.close,
	}
}

// bash holds what calls share: processes and output files. Everything that belongs
// to a session comes with the call and goes with its result.
type bash struct {
	store *capture.Store

	mu     sync.Mutex
	keeper *process.Keeper
	closed bool
}

// processes gives the keeper, which is made at the first call.
func (b *bash) processes() (*process.Keeper, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, process.ErrClosed
	}
	if b.keeper == nil {
		b.keeper = process.NewKeeper()
	}
	return b.keeper, nil
}

// close ends everything that calls left running.
func (b *bash) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.keeper != nil {
		b.keeper.Close()
	}
}
