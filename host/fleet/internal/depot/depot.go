// Package depot stores configurations for the nodes of a fleet: the files of a configuration, and the plugins that it
// needs.
package depot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/trust"
)

// transferTime is the maximum time in which the files of a configuration, or of one plugin, are stored or fetched.
const transferTime = 5 * time.Minute

// Depot keeps objects in JetStream. It is safe for concurrent use.
type Depot struct {
	Objects jetstream.ObjectStore
	Log     *slog.Logger
}

// Names of objects begin with configObject or pluginObject. The rest is a hash of the content.
const (
	configObject = "config/"
	pluginObject = "plugin/"
)

// Store stores the files of a configuration. It also stores those plugins of the configuration's lock file that are
// installed on this machine. It returns the name of the object that contains the files.
func (d *Depot) Store(ctx context.Context, files *reload.SharedFiles) (string, error) {
	b, err := json.Marshal(files)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	name := configObject + hex.EncodeToString(sum[:])
	if err := d.put(ctx, name, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(b))
		return err
	}); err != nil {
		return "", fmt.Errorf("the configuration cannot be stored for the other nodes: %w", err)
	}
	builds, err := pinned(files.Lock)
	if err != nil {
		return "", err
	}
	installed, err := artifact.UserStore()
	if err != nil {
		return "", err
	}
	for _, build := range builds {
		if !installed.Has(build.content) {
			continue
		}
		if err := d.put(ctx, pluginObject+build.content, func(w io.Writer) error {
			_, err := artifact.Pack(w, installed.Dir(build.content), build.program)
			return err
		}); err != nil {
			return "", fmt.Errorf("plugin %s cannot be stored for the other nodes: %w", build.plugin, err)
		}
	}
	return name, nil
}

// build is the build of a plugin for a platform.
type build struct{ plugin, platform, content, entry, program string }

// pinned returns all builds in a lock file, for all platforms.
func pinned(lock []byte) (out []build, err error) {
	if lock == nil {
		return nil, nil
	}
	read, err := trust.ParseLock("of the configuration", lock)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(read.Plugins)) {
		pin := read.Plugins[name]
		for _, platform := range slices.Sorted(maps.Keys(pin.Platforms)) {
			p := pin.Platforms[platform]
			out = append(out, build{name, platform, p.Content, p.Entry, pin.Base()})
		}
	}
	return out, nil
}

// put stores an object with the content that the function "write" writes. If an object of this name exists already, put
// does nothing.
func (d *Depot) put(ctx context.Context, name string, write func(io.Writer) error) error {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	if _, err := d.Objects.GetInfo(ctx, name); !errors.Is(err, jetstream.ErrObjectNotFound) {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }()
	_, err := d.Objects.Put(ctx, jetstream.ObjectMeta{Name: name}, r)
	return errors.Join(err, r.Close())
}

// get reads an object.
func (d *Depot) get(ctx context.Context, name string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, transferTime)
	defer cancel()
	o, err := d.Objects.Get(ctx, name)
	if err != nil {
		return err
	}
	err = read(o)
	return errors.Join(err, o.Close())
}

// maxConfig is the maximum size of the files of a configuration, in bytes.
const maxConfig = 16 << 20

// Fetch returns the files of a configuration. Before that, it installs the plugins of this platform that this machine
// lacks.
func (d *Depot) Fetch(ctx context.Context, name string) (*reload.SharedFiles, error) {
	files := new(reload.SharedFiles)
	err := d.get(ctx, name, func(r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, maxConfig))
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(b); configObject+hex.EncodeToString(sum[:]) != name {
			return errors.New("its content does not match its hash")
		}
		return json.Unmarshal(b, files)
	})
	if err != nil {
		return nil, fmt.Errorf("the files of the configuration cannot be fetched: %w", err)
	}
	builds, err := pinned(files.Lock)
	if err != nil {
		return nil, err
	}
	for _, b := range builds {
		if b.platform != trust.ThisPlatform() {
			continue
		}
		if err := d.install(ctx, b); err != nil {
			return nil, fmt.Errorf("plugin %s cannot be installed from the fleet: %w. Install it on this machine: toolhost plugin install", b.plugin, err)
		}
	}
	return files, nil
}

// install adds a build to the store of this machine. It need not trust the object, because it compares the hash of the
// files with the hash in the lock file.
func (d *Depot) install(ctx context.Context, b build) error {
	to, err := artifact.OpenStore()
	if err != nil || to.Has(b.content) {
		return err
	}
	dir, release, err := to.Temporary()
	if err != nil {
		return err
	}
	defer release()
	err = d.get(ctx, pluginObject+b.content, func(r io.Reader) error {
		content, entry, err := artifact.Unpack(r, dir, b.program)
		if err == nil && (content != b.content || entry != b.entry) {
			err = fmt.Errorf("its files have the hash %s, but %s is locked", content, b.content)
		}
		return err
	})
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("no node with the platform %s has given the plugin to the fleet", b.platform)
	}
	if err != nil {
		return err
	}
	d.Log.Info("a plugin was installed from the fleet", "plugin", b.plugin, "content", b.content)
	return to.Publish(dir, b.content)
}

// Keep removes all objects that none of the given configurations needs. If Keep fails, objects that are not needed can
// remain until the next call.
func (d *Depot) Keep(ctx context.Context, configurations ...string) {
	needed := make(map[string]bool)
	for _, name := range configurations {
		needed[name] = true
		if name == "" {
			continue
		}
		files := new(reload.SharedFiles)
		err := d.get(ctx, name, func(r io.Reader) error { return json.NewDecoder(r).Decode(files) })
		if err != nil {
			return
		}
		builds, err := pinned(files.Lock)
		if err != nil {
			return
		}
		for _, b := range builds {
			needed[pluginObject+b.content] = true
		}
	}
	all, err := d.Objects.List(ctx)
	if err != nil {
		return
	}
	for _, o := range all {
		if !needed[o.Name] {
			_ = d.Objects.Delete(ctx, o.Name)
		}
	}
}
