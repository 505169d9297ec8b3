package fleet

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/fleet/identity"
)

// jetStream connects to the coordinator of a node with the key of the node.
func (n *fleetNode) jetStream() jetstream.JetStream {
	t := n.fleet.t
	t.Helper()
	id, err := identity.Open(filepath.Join(n.state, "fleet"))
	hosttest.Must(t, err)
	nc, err := (&thief{t, id}).records(n.coordinatorAddress())
	hosttest.Must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	hosttest.Must(t, err)
	return js
}

// coordinatorAddress returns the address of the coordinator that the first node of a fleet starts.
func (n *fleetNode) coordinatorAddress() string {
	host, port, _ := net.SplitHostPort(n.listen)
	number, err := strconv.Atoi(port)
	hosttest.Must(n.fleet.t, err)
	return net.JoinHostPort(host, strconv.Itoa(number+1))
}

// TestFleetOldSessions checks that sessions are removed after they were not used for a long time, including the
// sessions of a dead node. Sessions in use must not be removed.
func TestFleetOldSessions(t *testing.T) {
	t.Parallel()
	f, withLocal := newFleetWithLocal(t, "")
	one := f.startNode(&fleetNode{fleet: f, name: "one", state: filepath.Join(f.dir, "one", "state"), listen: fleetPort(t), config: withLocal})
	two := f.start("two")
	local := fleetCall{Command: "true", Workspace: "local", Session: "local"}
	if res, err := one.call(t.Context(), local); err != nil || !res.Success {
		t.Fatalf("%v %v", res, err)
	}
	owners := make(map[string][]string)
	for i := 0; len(owners["one"]) < 3 || len(owners["two"]) < 2; i++ {
		session := "s" + strconv.Itoa(i)
		one.want(session, "true")
		owner, _ := f.owner(session)
		owners[owner.name] = append(owners[owner.name], session)
	}
	old, fresh, written, dead := owners["one"][0], owners["one"][1], owners["one"][2], owners["two"][0]
	two.signal(syscall.SIGKILL)
	hosttest.Wait(t, "the other node is dead", func() bool { return strings.Contains(one.do("fleet", "status"), "dead") })
	js := one.jetStream()
	one.kill()
	kv, err := js.KeyValue(t.Context(), "sessions")
	hosttest.Must(t, err)
	journal, err := js.Stream(t.Context(), "JOURNAL")
	hosttest.Must(t, err)
	keys, err := kv.Keys(t.Context())
	hosttest.Must(t, err)
	localKey := ""
	for _, key := range keys {
		e, err := kv.Get(t.Context(), key)
		hosttest.Must(t, err)
		var entry map[string]any
		hosttest.Must(t, json.Unmarshal(e.Value(), &entry))
		at := time.Now().Add(-100 * 24 * time.Hour)
		switch entry["session"] {
		case fresh:
			continue
		case local.Session: // a session that cannot move has no journal
			at, localKey = time.Now().Add(-50*24*time.Hour), key
		}
		if entry["session"] != written { // this session keeps a recent record in the journal
			hosttest.Must(t, journal.Purge(t.Context(), jetstream.WithPurgeSubject("j."+key)))
		}
		entry["at"] = at
		b, err := json.Marshal(entry)
		hosttest.Must(t, err)
		_, err = kv.Put(t.Context(), key, b)
		hosttest.Must(t, err)
	}
	one.run()
	var left string
	hosttest.Wait(t, "old sessions are removed", func() bool {
		left = ""
		var all []struct{ Session string }
		hosttest.Must(t, json.Unmarshal([]byte(one.do("fleet", "sessions", "--json")), &all))
		for _, s := range all {
			left += s.Session + " "
		}
		return !strings.Contains(left, old+" ") && !strings.Contains(left, dead+" ")
	})
	for _, session := range []string{fresh, written, local.Session} {
		if !strings.Contains(left, session+" ") {
			t.Errorf("the session %s was removed: %s", session, left)
		}
	}
	if !strings.Contains(one.said(), "because nobody used it") {
		t.Error("the operator is not notified")
	}
	for _, session := range []string{old, dead, fresh} {
		one.want(session, "true")
	}
	// A call updates the entry of a session that cannot move.
	if res, err := one.call(t.Context(), local); err != nil || !res.Success {
		t.Errorf("%v %v", res, err)
	}
	hosttest.Wait(t, "the entry of a session that cannot move is updated", func() bool {
		var entry struct{ At time.Time }
		e, err := kv.Get(t.Context(), localKey)
		return err == nil && json.Unmarshal(e.Value(), &entry) == nil && time.Since(entry.At) < time.Hour
	})
}
