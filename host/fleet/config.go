package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/sandbox/deadline"
)

// configKey is the key of the configuration of the fleet.
const configKey = "current"

// sharedConfig is the configuration that all nodes should have.
type sharedConfig struct {
	Digest string    `json:"digest"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	// Files is the name of the stored object that contains the files. It is empty if other nodes cannot use the
	// configuration.
	Files string `json:"files,omitempty"`
}

func (f *Fleet) clock() time.Duration { return deadline.Now() }

// readConfig returns the configuration of the fleet, or nil if no node has set it.
func (f *Fleet) readConfig(ctx context.Context) (*sharedConfig, error) {
	out := new(sharedConfig)
	if found, _, err := f.readRecord(ctx, configKey, out); !found {
		return nil, err
	}
	return out, nil
}

// readRecord reads the record with the given key from the bucket of configurations. It decodes the record into the
// value that the argument "to" points to.
func (f *Fleet) readRecord(ctx context.Context, key string, to any) (found bool, revision uint64, err error) {
	c, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	e, err := f.bus.Config.Get(c, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("the configuration of the fleet cannot be read: %w", err)
	}
	return true, e.Revision(), json.Unmarshal(e.Value(), to)
}

// fleetConfig returns the digest of the configuration of the fleet, or "".
func (f *Fleet) fleetConfig(ctx context.Context) string {
	c, err := f.readConfig(ctx)
	if err != nil || c == nil {
		return ""
	}
	return c.Digest
}

// adopt makes the configuration of this node the configuration of the fleet.
func (f *Fleet) adopt(ctx context.Context) error {
	if next, _, err := f.readTrial(ctx); err != nil || next != nil {
		return errors.Join(err, next.runs())
	}
	b, err := f.ownConfig(ctx)
	if err != nil {
		return err
	}
	if _, err := f.bus.Config.Put(ctx, configKey, b); err != nil {
		return err
	}
	return f.checkConfig(ctx)
}

// ownConfig returns the record of this node's configuration. It also stores the files and plugins of the configuration
// for the other nodes.
func (f *Fleet) ownConfig(ctx context.Context) ([]byte, error) {
	_, digest := f.host.Fleet()
	out := sharedConfig{Digest: digest, By: f.node(), At: time.Now()}
	files, err := f.host.SharedFiles()
	if err != nil {
		f.log.Debug("the configuration cannot be given to other nodes", "why", err)
		return json.Marshal(out)
	}
	if out.Files, err = f.depot.Store(ctx, files); err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// checkConfig compares the configuration of this node with the configuration of the fleet. If the fleet has none yet,
// checkConfig stores the configuration of this node. A node whose configuration differs takes no sessions.
func (f *Fleet) checkConfig(ctx context.Context) error {
	_, digest := f.host.Fleet()
	now, err := f.readConfig(ctx)
	if err != nil {
		return err
	}
	if now == nil {
		b, err := f.ownConfig(ctx)
		if err != nil {
			return err
		}
		c, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if _, err := f.bus.Config.Create(c, configKey, b); err != nil && !bus.IsConflict(err) {
			return err
		}
		if now, err = f.readConfig(ctx); err != nil || now == nil {
			return err
		}
	}
	same := now.Digest == digest || f.settings.Outward
	if !same {
		next, _, err := f.readTrial(ctx)
		if err != nil {
			return err
		}
		same = next.includes(f.node(), digest)
	}
	if own := f.lease.Own(); !same && (own.State != lease.StateMismatched || own.Config != digest) {
		f.log.Warn("this node has another configuration than the fleet, and takes no sessions. To use the configuration of the fleet on this node: toolhost fleet config pull. To use the configuration of this node for the fleet: toolhost fleet config adopt", "digest", digest, "fleet", now.Digest)
	}
	f.lease.Update(func(r *lease.Record) {
		r.Config = digest
		switch {
		case !same && r.State == lease.StateReady:
			r.State = lease.StateMismatched
		case same && r.State == lease.StateMismatched:
			r.State = lease.StateReady
		}
	})
	return nil
}
