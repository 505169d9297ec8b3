package fleet

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/identity"
)

// recordOf returns the last JSON record in a stream of the coordinator that contains all given texts.
func (f *testFleet) recordOf(stream string, texts ...string) (last string) {
	f.t.Helper()
	blocks, err := filepath.Glob(filepath.Join(f.first().state, "fleet", "coordinator", "jetstream", "$G", "streams", stream, "msgs", "*.blk"))
	hosttest.Must(f.t, err)
	for _, path := range blocks {
		b, err := os.ReadFile(path)
		hosttest.Must(f.t, err)
		for at := bytes.IndexByte(b, '{'); at >= 0; {
			var record json.RawMessage
			step := 1
			if json.NewDecoder(bytes.NewReader(b[at:])).Decode(&record) == nil {
				step = len(record)
				all := true
				for _, text := range texts {
					all = all && bytes.Contains(record, []byte(text))
				}
				if all {
					last = string(record)
				}
			}
			next := bytes.IndexByte(b[at+step:], '{')
			if next < 0 {
				break
			}
			at += step + next
		}
	}
	return last
}

// TestFleetVersions runs a node of a later version and a node of this version in one fleet. The later version adds a
// field to all records. The field must still exist after the node of this version had the session, and after it fenced
// the other node. A request that this version does not know must be refused with a message.
func TestFleetVersions(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "old")
	old := f.nodes["old"]
	later := f.startNode(&fleetNode{fleet: f, name: "later", state: filepath.Join(f.dir, "later", "state"), listen: fleetPort(t), program: controlProgram(), env: []string{`TOOLHOST_FLEET_LATER="added"`}})
	old.want("s", "true")
	if owner, _ := f.owner("s"); owner != later {
		old.do("fleet", "move", "s", "--to", "later")
	}
	later.want("s", "mkdir -p sub && cd sub && COLOR=green")
	const added = `"later":"added"`
	if f.recordOf("KV_sessions", `"owner":"later"`, added) == "" || f.recordOf("KV_nodes", `"node":"later"`, added) == "" {
		t.Fatal("the later version adds nothing")
	}
	old.do("fleet", "move", "s", "--to", "old")
	if out := strings.TrimSpace(withoutNote(old.want("s", "pwd; echo $COLOR").Output)); out != f.workspace+"/sub\ngreen" {
		t.Errorf("the session at the earlier version: %q", out)
	}
	if record := f.recordOf("KV_sessions", `"owner":"old"`); !strings.Contains(record, added) {
		t.Errorf("the earlier version removed a field of the session: %s", record)
	}
	old.do("fleet", "move", "s", "--to", "later") // for this, the earlier version records the whole state
	if record := f.recordOf("JOURNAL", `"k":"snapshot"`, `"n":"old"`); !strings.Contains(record, added) {
		t.Errorf("the earlier version removed a part of the state: %s", record)
	}
	if out := strings.TrimSpace(withoutNote(later.want("s", "pwd; echo $COLOR").Output)); out != f.workspace+"/sub\ngreen" {
		t.Errorf("the session at the later version again: %q", out)
	}
	later.kill()
	old.want("s", "true") // the call waits until the other node is fenced
	if record := f.recordOf("KV_nodes", `"node":"later"`, `"fenced":true`); !strings.Contains(record, added) {
		t.Errorf("the earlier version removed a field of the node: %s", record)
	}

	id, err := identity.Open(filepath.Join(later.state, "fleet"))
	hosttest.Must(t, err)
	conn, err := grpc.NewClient(old.listen, grpc.WithTransportCredentials(credentials.NewTLS(id.Client(identity.ServerName("old")))))
	hosttest.Must(t, err)
	defer conn.Close()
	res, err := fleetpb.NewNodeServiceClient(conn).Query(t.Context(), &fleetpb.QueryRequest{Operation: "invented", Arguments: []byte(`{"invented": 1}`)})
	if err != nil || !strings.Contains(res.GetError(), `does not know the operation "invented"`) {
		t.Errorf("an unknown operation: %v %v", res, err)
	}
}
