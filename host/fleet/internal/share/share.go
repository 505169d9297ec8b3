// Package share checks that the nodes of a fleet see the same files in a shared workspace. Most callers want [Check].
//
// The first node writes a file with a random text into the workspace, and records the text. Every other node must find
// the file. A node that does not find the file has other files in its workspace than the other nodes, although the
// workspace has the same name.
package share

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/bus"
)

// dir is the directory for the file, below the workspace.
const dir = ".toolhost"

// timeout limits a request to the coordinators.
const timeout = 5 * time.Second

// record names the file that proves that nodes see the same files.
type record struct {
	File string `json:"file"`
	Text string `json:"text"`
	Path string `json:"path"`
	Node string `json:"node"`
}

// Check returns an error if a node does not see the files of a shared workspace. The argument shared identifies the
// files, and path is the path of the workspace on the node.
func Check(ctx context.Context, kv jetstream.KeyValue, node, shared, path string) error {
	sum := sha256.Sum256([]byte(shared))
	key := "shared." + hex.EncodeToString(sum[:12])
	for {
		first, err := read(ctx, kv, key)
		if err != nil {
			return err
		}
		if first == nil {
			if first, err = create(ctx, kv, key, node, path); first == nil && err == nil {
				continue // another node was faster
			}
			if err != nil {
				return err
			}
		}
		if first.Path != path {
			return fmt.Errorf("it is at %s here and at %s on node %s. Use the same path on every node, because agents and their results name paths", path, first.Path, first.Node)
		}
		if err := find(path, first); err != nil {
			return fmt.Errorf("this node does not see the file %s that node %s wrote to prove that both have the files of %q: %w. Check the mount of %s", first.File, first.Node, shared, err, path)
		}
		return nil
	}
}

func read(ctx context.Context, kv jetstream.KeyValue, key string) (*record, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil //nolint:nilnil // no node has written a file
	}
	if err != nil {
		return nil, err
	}
	out := new(record)
	return out, json.Unmarshal(e.Value(), out)
}

// create writes the file and its record. It returns nil if another node has created the record first.
func create(ctx context.Context, kv jetstream.KeyValue, key, node, path string) (*record, error) {
	out := &record{File: filepath.Join(dir, "fleet-"+rand.Text()[:8]), Text: rand.Text(), Path: path, Node: node}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only opened
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := root.WriteFile(out.File, []byte(out.Text), 0o644); err != nil {
		return nil, err
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err = kv.Create(ctx, key, b); err == nil {
		return out, nil
	}
	_ = root.Remove(out.File) // the error is ignored: a file that remains does no harm
	if bus.IsConflict(err) {
		return nil, nil //nolint:nilnil // see above
	}
	return nil, err
}

// find checks that the file exists and contains the recorded text.
func find(path string, r *record) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only opened
	b, err := root.ReadFile(r.File)
	if err == nil && string(b) != r.Text {
		err = errors.New("the file has another content")
	}
	return err
}
