package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/identity"
)

// forger connects to a node as another node, whose key it has.
type forger struct {
	f   *testFleet
	id  *identity.Identity
	key string // key of the session that the forger calls
}

// forger returns a forger that has the identity of node n and calls a session.
func (f *testFleet) forger(n *fleetNode, session string) *forger {
	f.t.Helper()
	id, err := identity.Open(filepath.Join(n.state, "fleet"))
	hosttest.Must(f.t, err)
	out := &forger{f: f, id: id}
	var all []struct{ Session, Key string }
	for _, other := range f.nodes {
		if !other.hasEnded() {
			hosttest.Must(f.t, json.Unmarshal([]byte(other.do("fleet", "sessions", "--json")), &all))
			break
		}
	}
	for _, s := range all {
		if s.Session == session {
			out.key = s.Key
		}
	}
	return out
}

// start returns the signed first message of a call. The function edit can change the message, and the statement before
// it is signed.
func (o *forger) start(c fleetCall, edit func(*identity.Statement, *fleetpb.Start)) *fleetpb.Start {
	o.f.t.Helper()
	request, err := json.Marshal(map[string]any{"command": c.Command, "session": c.Session, "workspace": c.Workspace})
	hosttest.Must(o.f.t, err)
	who, err := host.StartToken(o.f.workspace, filepath.Join(o.f.dir, "local")).Encode()
	hosttest.Must(o.f.t, err)
	digest := sha256.Sum256(request)
	said := identity.Statement{Principal: who, Session: o.key, Call: c.CallID, Digest: digest[:]}
	out := &fleetpb.Start{CallId: c.CallID, Key: o.key, Request: request, Once: true, Gateway: o.id.Node}
	if edit != nil {
		edit(&said, out)
	}
	out.Statement, out.Signature, err = o.id.Sign(said, time.Now())
	hosttest.Must(o.f.t, err)
	return out
}

// connect opens a connection to a node, and a stream for a call on this connection.
func (o *forger) connect(ctx context.Context, to *fleetNode) (stream fleetpb.NodeService_ForwardClient, closes func(), err error) {
	o.f.t.Helper()
	settings := o.id.Client(identity.ServerName(to.name))
	settings.InsecureSkipVerify = true // accept the certificate of any server
	conn, err := grpc.NewClient(to.listen, grpc.WithTransportCredentials(credentials.NewTLS(settings)))
	hosttest.Must(o.f.t, err)
	stream, err = fleetpb.NewNodeServiceClient(conn).Forward(ctx)
	return stream, func() { _ = conn.Close() }, err
}

// try sends a first message and returns the error of the stream. It returns nil if the node answers without an error.
func (o *forger) try(to *fleetNode, start *fleetpb.Start) error {
	o.f.t.Helper()
	stream, closes, err := o.connect(o.f.t.Context(), to)
	defer closes()
	if err != nil {
		return err
	}
	_ = stream.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Start{Start: start}})
	_, err = stream.Recv()
	return err
}

// withoutProceed sends a call to its owner, and disconnects when the owner reports that the call is about to begin.
func (f *testFleet) withoutProceed(owner, gateway *fleetNode, c fleetCall) {
	t := f.t
	t.Helper()
	o := f.forger(gateway, c.Session)
	stream, closes, err := o.connect(t.Context(), owner)
	hosttest.Must(t, err)
	hosttest.Must(t, stream.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Start{Start: o.start(c, nil)}}))
	for {
		m, err := stream.Recv()
		hosttest.Must(t, err)
		if m.GetQueued() != nil {
			continue
		}
		if b := m.GetBegun(); b == nil || !b.GetWaits() {
			t.Errorf("the owner sent %v", m)
		}
		break
	}
	time.Sleep(100 * time.Millisecond) // long enough for the call to run if it did not wait
	closes()
}

// TestFleetForgedCalls checks that a node refuses calls with forged statements, keys of another fleet and wrong
// messages.
func TestFleetForgedCalls(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "", "one", "two")
	one, two := f.nodes["one"], f.nodes["two"]
	one.want("s", "SECRET=1")
	o := f.forger(two, "s")
	call := fleetCall{Command: "touch forged", Session: "s", Workspace: "repo", CallID: "f"}
	forged := map[string]*fleetpb.Start{
		"a statement about another call":    o.start(call, func(s *identity.Statement, _ *fleetpb.Start) { s.Call = "other" }),
		"a statement about another session": o.start(call, func(s *identity.Statement, _ *fleetpb.Start) { s.Session = "other" }),
		"another request":                   o.start(call, func(_ *identity.Statement, m *fleetpb.Start) { m.Request = append(m.Request, ' ') }),
		"another gateway":                   o.start(call, func(_ *identity.Statement, m *fleetpb.Start) { m.Gateway = "one" }),
		"the session of another principal": o.start(call, func(s *identity.Statement, _ *fleetpb.Start) {
			s.Principal = json.RawMessage(`{"name":"mallory","rights":["call"]}`)
		}),
		"a principal without a name": o.start(call, func(s *identity.Statement, _ *fleetpb.Start) { s.Principal = json.RawMessage(`{}`) }),
		"an unknown right": o.start(call, func(s *identity.Statement, _ *fleetpb.Start) {
			s.Principal = json.RawMessage(`{"name":"x","rights":["reign"]}`)
		}),
		"a statement about all calls of another session": o.start(call, func(s *identity.Statement, _ *fleetpb.Start) { s.Call, s.Digest, s.Session = "", nil, "other" }),
		"a statement about all calls of another principal": o.start(call, func(s *identity.Statement, _ *fleetpb.Start) {
			s.Call, s.Digest, s.Principal = "", nil, json.RawMessage(`{"name":"mallory","rights":["call"]}`)
		}),
		"a statement without a call": o.start(call, func(s *identity.Statement, _ *fleetpb.Start) { s.Call = "" }),
		"no statement":               {CallId: "f", Key: o.key, Gateway: "two", Request: []byte("{}")},
	}
	old := o.start(call, nil)
	var err error
	old.Statement, old.Signature, err = o.id.Sign(identity.Statement{Principal: json.RawMessage(`{"name":"x"}`), Session: o.key, Call: "f"}, time.Now().Add(-time.Hour))
	hosttest.Must(t, err)
	forged["an old statement"] = old
	for name, start := range forged {
		if err := o.try(one, start); grpcstatus.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(one.said(), "a call of another node was refused") {
		t.Error("the operator is not notified of forged calls")
	}
	// A node must refuse a connection with a certificate of another authority.
	authority, err := identity.CreateAuthority(t.TempDir())
	hosttest.Must(t, err)
	dir := t.TempDir()
	public, err := identity.NewKey(dir)
	hosttest.Must(t, err)
	cert, err := authority.Sign("two", public)
	hosttest.Must(t, err)
	hosttest.Must(t, identity.Save(dir, cert, authority.Certificate()))
	foreign, err := identity.Open(dir)
	hosttest.Must(t, err)
	if err := (&forger{f: f, id: foreign, key: o.key}).try(one, o.start(call, nil)); grpcstatus.Code(err) != codes.Unavailable {
		t.Errorf("a key of another fleet: %v", err)
	}
	// A true statement of the same forger must be accepted. This shows that the calls above were refused for their
	// faults.
	if err := o.try(one, o.start(fleetCall{Command: "true", Session: "s", Workspace: "repo", CallID: "true"}, nil)); err != nil {
		t.Errorf("a true statement is refused: %v", err)
	}
	if res := one.want("s", "ls"); strings.Contains(res.Output, "forged") {
		t.Errorf("a forged call ran: %q", res.Output)
	}
	owner, gateway := f.owner("s")
	f.forger(gateway, "s").wrongFrames(owner, gateway)
}

// wrongFrames checks that a message that no node sends, or one that is too large, ends its own call. Other calls go on.
func (o *forger) wrongFrames(to, other *fleetNode) {
	t := o.f.t
	t.Helper()
	wait := "while [ ! -e go ]; do sleep 0.1; done; touch ended"
	for name, wrong := range map[string]*fleetpb.ForwardRequest{
		"an empty message":    {},
		"a second call":       {Frame: &fleetpb.ForwardRequest_Start{Start: o.start(fleetCall{Command: "touch forged", Session: "s", Workspace: "repo", CallID: "second"}, nil)}},
		"a message of 100 MB": {Frame: &fleetpb.ForwardRequest_Answer{Answer: &fleetpb.Answer{Answer: make([]byte, 100<<20)}}},
	} {
		stream, closes, err := o.connect(t.Context(), to)
		hosttest.Must(t, err)
		hosttest.Must(t, stream.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Start{Start: o.start(fleetCall{Command: wait, Session: "s", Workspace: "repo", CallID: name}, nil)}}))
		for begun := false; !begun; {
			m, err := stream.Recv()
			if err != nil || m.GetResult() != nil || m.GetRefusal() != nil {
				t.Fatalf("%s: the call did not begin: %v %v", name, m, err)
			}
			begun = m.GetBegun() != nil
		}
		hosttest.Must(t, stream.Send(&fleetpb.ForwardRequest{Frame: &fleetpb.ForwardRequest_Proceed{Proceed: &fleetpb.Proceed{}}}))
		_ = stream.Send(wrong) // the node can end the stream before it has the whole message
		for err = nil; err == nil; {
			var m *fleetpb.ForwardResponse
			if m, err = stream.Recv(); m.GetResult() != nil {
				break // of the canceled call
			}
		}
		closes()
		if out := other.want("s", "ls").Output; strings.Contains(out, "ended") || strings.Contains(out, "forged") {
			t.Errorf("after %s: %q", name, out)
		}
	}
}
