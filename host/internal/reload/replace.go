package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/trust"
	"toolhost.dev/sdk/durable"
)

// SharedFiles are the files of a configuration that the nodes of a fleet share.
type SharedFiles struct {
	// Text is the configuration without the settings that belong to a single node. Lock is the content of the lock
	// file. If Lock is nil, the lock file stays unchanged.
	Text []byte `json:"text"`
	Lock []byte `json:"lock,omitempty"`
}

// own contains the paths of the files that Replace writes.
type own struct{ config, lock string }

func (r *Reloader) own() (own, error) {
	path := r.Source.Path
	if path == "" {
		return own{}, errors.New("this node uses the built-in configuration, which has no file. Start it with --config FILE")
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return own{}, fmt.Errorf("the configuration %s is a directory, and nodes of a fleet exchange single files. Put it into one file", path)
	}
	lock, err := trust.PathFor(path)
	return own{path, lock}, err
}

// Shared returns the files of the configuration that other nodes can use.
func (r *Reloader) Shared() (*SharedFiles, error) {
	at, err := r.own()
	if err != nil {
		return nil, err
	}
	return SharedOf(at.config)
}

// SharedOf reads the configuration at a path and returns the files that other nodes can use.
func SharedOf(path string) (*SharedFiles, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	shared, err := config.SharedText(filepath.Base(path), text)
	if err != nil {
		return nil, err
	}
	place, err := trust.PathFor(path)
	if err != nil {
		return nil, err
	}
	lock, err := os.ReadFile(place)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the lock file cannot be read: %w", err)
	}
	return &SharedFiles{Text: shared, Lock: lock}, nil
}

// Replace replaces the configuration by the files that nodes share. The node keeps its own settings. If the host
// refuses the new configuration or a plugin in it, Replace restores the old files and returns an error with the reason.
func (r *Reloader) Replace(ctx context.Context, files *SharedFiles, opts Options) error {
	r.progress.one.Lock()
	defer r.progress.one.Unlock()
	at, err := r.own()
	if err != nil {
		return err
	}
	was, err := os.ReadFile(at.config)
	if err != nil {
		return err
	}
	wasLock, err := os.ReadFile(at.lock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	hadLock := err == nil
	text, err := config.WithOwn(filepath.Base(at.config), files.Text, was)
	if err != nil {
		return err
	}
	same, err := config.WithOwn(filepath.Base(at.config), was, was)
	if err != nil {
		return err
	}
	if bytes.Equal(text, same) && (files.Lock == nil || bytes.Equal(files.Lock, wasLock)) {
		return nil
	}
	err = r.put(at, text, files.Lock, false)
	if err == nil {
		err = r.applied(ctx, opts)
	}
	refused := ""
	if err != nil {
		refused = err.Error()
		back := r.put(at, was, wasLock, files.Lock != nil && !hadLock)
		if back == nil {
			_, back = r.reload(context.WithoutCancel(ctx), Options{ApprovePrivileges: true, By: opts.By})
		}
		if back != nil {
			err = errors.Join(err, fmt.Errorf("the earlier configuration could not be restored: %w", back))
		}
	}
	r.Audit(opts.By, "(replace configuration)", map[string]any{"config": at.config}, refused)
	return err
}

// put writes the files and renews the trust in them. If the argument "lock" is nil, it writes no lock file. If unlock
// is true, it removes the lock file.
func (r *Reloader) put(at own, text, lock []byte, unlock bool) error {
	switch {
	case unlock:
		if err := os.Remove(at.lock); err != nil {
			return err
		}
	case lock != nil:
		if err := durable.Update(at.lock, lock); err != nil {
			return fmt.Errorf("the lock file cannot be written: %w", err)
		}
	}
	if err := durable.Update(at.config, text); err != nil {
		return fmt.Errorf("the configuration cannot be written: %w", err)
	}
	return r.Source.Renew(at.config, at.lock)
}

// applied reloads the configuration. It returns an error if the host refuses a part of it.
func (r *Reloader) applied(ctx context.Context, opts Options) error {
	report, err := r.reload(ctx, opts)
	if err != nil {
		return err
	}
	if report.Config.Refused != "" {
		return errors.New(report.Config.Refused)
	}
	for _, p := range report.Plugins {
		if p.Outcome == Refused {
			return fmt.Errorf("plugin %s: %s", p.Name, p.Refused)
		}
	}
	return nil
}
