package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// store is the directory of the records. The server keeps the streams below jetstream/$G. If there are several
// coordinators, each also keeps the log of their group below jetstream/$SYS. A single coordinator has no such log.
//
// The server has no operation that turns a single coordinator into one of several. It would remove all streams after 30
// seconds, because they are not in the log of the group. Therefore, [store.prepare] and [store.adopt] take these steps:
//  1. Link all files of the streams into another directory. This directory marks the store until the last step.
//  2. Start the server as one of several coordinators. It refuses nodes.
//  3. Create each stream on this server, with the name and the settings of the old stream. The server then uses the existing
//     files. The journal comes last.
//  4. Compare the streams with their earlier states.
//  5. Remove the links, and admit nodes.
//
// If the program ends before the last step, the next run restores the missing streams and continues with step 2.
type store string

func (s store) streams() string { return filepath.Join(string(s), "jetstream", "$G", "streams") }
func (s store) group() string   { return filepath.Join(string(s), "jetstream", "$SYS") }
func (s store) links() string   { return filepath.Join(string(s), "single") }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// prepare checks whether the store has the kind that the coordinator needs: the store of a single coordinator, or of
// one of several. If the store has the other kind, prepare converts it if convert is true, and returns an error if
// convert is false. The result adopts reports whether the server must adopt the streams.
func (s store) prepare(several, convert bool) (adopts bool, err error) {
	isGroup := exists(filepath.Join(s.group(), "_js_", "_meta_"))
	switch {
	case several && exists(s.links()):
		return true, s.restore()
	case several && !isGroup && exists(s.streams()):
		if !convert {
			return false, fmt.Errorf("the store %s has the records of a single coordinator, and several coordinators would remove them. Change the coordinators of a fleet while it runs: set the configuration back, and use toolhost fleet coordinators add", s)
		}
		if err := link(s.streams(), s.links()+".new"); err != nil {
			return false, err
		}
		return true, os.Rename(s.links()+".new", s.links())
	case !several && (isGroup || exists(s.links())):
		if !convert {
			return false, fmt.Errorf("the store %s is that of one of several coordinators, and a single one could use old records. Change the coordinators of a fleet while it runs: set the configuration back, and use toolhost fleet coordinators remove", s)
		}
		return false, s.leaveGroup()
	}
	return false, nil
}

// leaveGroup changes the store of a coordinator so that it can run without other coordinators. It removes the log of
// the group. All streams must have a single copy, which is in this store.
func (s store) leaveGroup() error {
	if exists(s.links()) { // a conversion to several coordinators was interrupted, and no node has used its result
		if err := s.restore(); err != nil {
			return err
		}
	}
	all, err := s.settings()
	if err != nil {
		return err
	}
	for name, cfg := range all {
		if cfg.Replicas > 1 {
			return fmt.Errorf("the stream %s has %d copies, and the one in %s can be old. Start the other coordinators again", name, cfg.Replicas, s)
		}
	}
	return errors.Join(os.RemoveAll(s.group()), os.RemoveAll(s.links()))
}

// link creates hard links to all files of the directory from in the directory to.
func link(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		return os.Link(path, filepath.Join(to, rel)) //nolint:gosec // only the coordinator's user can write below the store
	})
}

// restore restores the streams that the server has removed, from the links.
func (s store) restore() error {
	all, err := os.ReadDir(s.links())
	if err != nil {
		return err
	}
	for _, d := range all {
		to := filepath.Join(s.streams(), d.Name())
		if exists(filepath.Join(to, "meta.inf")) {
			continue
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := link(filepath.Join(s.links(), d.Name()), to); err != nil {
			return err
		}
	}
	return nil
}

// settings returns the settings of the streams in the store.
func (s store) settings() (map[string]*jetstream.StreamConfig, error) {
	dirs, err := os.ReadDir(s.streams())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]*jetstream.StreamConfig)
	for _, d := range dirs {
		b, err := os.ReadFile(filepath.Join(s.streams(), d.Name(), "meta.inf"))
		if errors.Is(err, fs.ErrNotExist) { // the stream was not created completely
			continue
		}
		cfg := new(jetstream.StreamConfig)
		if err == nil {
			err = json.Unmarshal(b, cfg)
		}
		if err != nil {
			return nil, fmt.Errorf("the settings of the stream %s cannot be read: %w", d.Name(), err)
		}
		out[cfg.Name] = cfg
	}
	return out, nil
}

// tag is the prefix of the tag of a server. A stream whose placement contains the tag of a server is placed on this
// server.
const tag = "coordinator:"

// adoptPatience is the maximum time for adopting all streams. The server removes streams that are not adopted after 30
// seconds.
const adoptPatience = 20 * time.Second

// journal is the name of the stream that is adopted last. The other coordinators admit nodes when it exists. A node
// creates missing streams, so all of them must exist by then.
const journal = "JOURNAL"

// adopt turns the streams of a single coordinator into streams of several coordinators. It takes steps 3 to 5.
func (s store) adopt(ctx context.Context, srv *server.Server, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, adoptPatience)
	defer cancel()
	all, err := s.settings()
	if err != nil {
		return err
	}
	before := sizes(srv)
	names := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(name string) bool { return name == journal })
	if all[journal] != nil {
		names = append(names, journal)
	}
	for _, name := range names {
		cfg := all[name]
		cfg.Placement = &jetstream.Placement{Tags: []string{tag + srv.Name()}}
		if err := untilDone(ctx, func(c context.Context) error {
			_, err := js.CreateStream(c, *cfg)
			return err
		}); err != nil {
			return fmt.Errorf("the stream %s was not adopted, and is tried again: %w", name, err)
		}
		var now *jetstream.StreamInfo
		if err := untilDone(ctx, func(c context.Context) error {
			st, err := js.Stream(c, name)
			if err == nil {
				now = st.CachedInfo()
			}
			return err
		}); err != nil {
			return fmt.Errorf("the stream %s was not adopted, and is tried again: %w", name, err)
		}
		if now.State.LastSeq < before[name] {
			return fmt.Errorf("the stream %s ends with record %d after its adoption, and ended with %d before. Its records are in %s", name, now.State.LastSeq, before[name], s.links())
		}
	}
	return os.RemoveAll(s.links())
}

// sizes maps the name of each loaded stream to the sequence number of its last record.
func sizes(srv *server.Server) map[string]uint64 {
	out := make(map[string]uint64)
	all, err := srv.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return out
	}
	for _, a := range all.AccountDetails {
		for _, st := range a.Streams {
			out[st.Name] = st.State.LastSeq
		}
	}
	return out
}

// untilDone repeats a request until it succeeds. While the coordinators have no leader, none of them answers.
func untilDone(ctx context.Context, f func(context.Context) error) error {
	for {
		c, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
		err := f(c)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// awaitRecords waits until the coordinators have the records of the fleet.
func awaitRecords(ctx context.Context, js jetstream.JetStream) error {
	for {
		c, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
		_, err := js.Stream(c, journal)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// inside connects to the server from within this process.
func inside(srv *server.Server, secret string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserInfo(insideUser, secret),
		nats.Name("toolhost-coordinator"), nats.MaxReconnects(-1))
	if err != nil {
		return nil, nil, fmt.Errorf("the program cannot reach its own server: %w", err)
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}
