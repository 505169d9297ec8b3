package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/council"
	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/lease"
)

// Operations that operators request. The arguments and the result of each operation are in JSON.
const (
	OpStatus   = "status"
	OpSessions = "sessions"
	OpMove     = "move"
	OpDrain    = "drain"
	OpUndrain  = "undrain"
	OpToken    = "token"
	OpTakeover = "takeover"
	OpForget   = "forget"
	OpRevoke   = "revoke"
	OpRepair   = "repair"
	OpRemove   = "remove"
	OpLog      = "log"
	OpAdopt    = "adopt"
	OpPush     = "push"
	OpPromote  = "promote"
	OpAbort    = "abort"
	OpPull     = "pull"
	OpRollout  = "rollout"
	// OpCoordinators shows or changes the coordinators.
	OpCoordinators = "coordinators"
)

// Changes of the coordinators.
const (
	ChangeAdd     = "add"
	ChangeRemove  = "remove"
	ChangeReplace = "replace" // moves the coordinator of the first node to the second node
	ChangeResume  = "resume"
	ChangeAbort   = "abort"
)

// Operations that nodes request from each other.
const (
	opApply   = "apply"
	opFigures = "figures"
	opRevoked = "revoked"
	opFollow  = "follow"
)

// Arguments are the arguments of all operations. Each operation uses some of them.
type Arguments struct {
	// Node is the node that an operation is about. Empty means the node that receives the request.
	Node string `json:"node,omitempty"`
	// Session is the key of a session, or its id if only one principal has a session of that id.
	Session string `json:"session,omitempty"`
	// To is the node to which a session moves. Empty means that the fleet chooses one.
	To string `json:"to,omitempty"`
	// Wait is the time for which a drain waits for calls and jobs.
	Wait time.Duration `json:"wait,omitempty"`
	// AbandonLocal makes a drain succeed even if the node has sessions that cannot move.
	AbandonLocal bool `json:"abandon_local,omitempty"`
	// Log selects entries of the audit log.
	Log host.LogQuery `json:"log,omitzero"`
	// Limit is the maximum number of sessions that are listed. Zero means 1000.
	Limit int `json:"limit,omitempty"`
	// Files is a configuration, and Canaries are the nodes on which it is tried. Approve accepts additional privileges
	// of the configuration.
	Files    *host.SharedFiles `json:"files,omitempty"`
	Canaries []string          `json:"canaries,omitempty"`
	Approve  bool              `json:"approve,omitempty"`
	// Force promotes a configuration even if more calls fail on the nodes that try it than on the other nodes.
	Force bool `json:"force,omitempty"`
	// Object is the name of a stored configuration.
	Object string `json:"object,omitempty"`
	// Revocations is a list of revoked certificates, as a CRL in DER.
	Revocations []byte `json:"revocations,omitempty"`
	// Change is the change of the coordinators, and Nodes are the nodes whose coordinators are added or removed. If
	// Change is empty, the coordinators are shown.
	Change string   `json:"change,omitempty"`
	Nodes  []string `json:"nodes,omitempty"`
	// Council is a record of the coordinators that a node must follow.
	Council *council.Record `json:"council,omitempty"`
}

// Status describes a fleet, as one of its nodes sees it.
type Status = host.FleetStatus

// NodeStatus describes a node.
type NodeStatus = host.FleetNode

// SessionStatus describes a session.
type SessionStatus struct {
	Key       string    `json:"key"`
	Session   string    `json:"session"`
	Principal string    `json:"principal"`
	Workspace string    `json:"workspace"`
	Node      string    `json:"node"`
	Epoch     uint64    `json:"epoch"`
	Shared    bool      `json:"shared"`
	Since     time.Time `json:"since"`
}

// Drained is the outcome of a drain.
type Drained struct {
	Moved int `json:"moved"`
	// Ended describes the jobs that were ended because they still ran after the wait.
	Ended []string `json:"ended"`
	// Local lists sessions that cannot move.
	Local []string `json:"local"`
}

// Log is the merged audit log of the nodes.
type Log struct {
	Entries []NodeEntry `json:"entries"`
	// The keys of Missing are the nodes that did not answer, and the values are the reasons.
	Missing map[string]string `json:"missing,omitempty"`
}

// NodeEntry is an entry of the audit log of a node.
type NodeEntry struct {
	Node string `json:"node"`
	host.LogEntry
}

// Do carries out an operation, if necessary on another node.
func (f *Fleet) Do(ctx context.Context, operation string, a Arguments) (any, error) {
	b, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return f.operate(ctx, operation, b)
}

// operate carries out an operation for an operator of this machine.
func (f *Fleet) operate(ctx context.Context, operation string, arguments json.RawMessage) (any, error) {
	var a Arguments
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, fmt.Errorf("the arguments cannot be read: %w", err)
	}
	if !f.isReady() && operation != OpToken {
		return nil, errors.New("this node waits for the coordinators of its fleet. With several coordinators, start the nodes of most of them; a token for a new node: toolhost fleet token")
	}
	switch operation {
	case OpStatus:
		return f.Status(ctx), nil
	case OpSessions:
		return f.listSessions(a), nil
	case OpLog:
		return f.mergedLog(ctx, a)
	case OpToken:
		command, token, err := f.JoinLine()
		return map[string]string{"command": command, "token": token}, err
	case OpTakeover:
		if a.Node == f.node() {
			return nil, errors.New("a node cannot declare itself dead. Run this on another node")
		}
		return struct{}{}, f.lease.TakeOver(ctx, a.Node)
	case OpForget:
		return struct{}{}, f.lease.Forget(ctx, a.Node)
	case OpRevoke:
		return f.revoke(ctx, a.Node)
	case OpCoordinators:
		return f.changeCoordinators(ctx, a)
	case OpAdopt, OpPush, OpPromote, OpAbort, OpRollout:
		return f.configure(ctx, operation, a)
	case OpMove, OpRemove, OpRepair:
		key, e, err := f.resolve(a.Session)
		if err != nil {
			return nil, err
		}
		a.Session, a.Node = key, e.Owner
		if p := f.lease.Peer(e.Owner); p == nil || p.Ended(e.Incarnation) {
			switch operation {
			case OpRemove:
				return struct{}{}, f.forgetSession(ctx, key, e)
			case OpRepair:
				return f.repair(ctx, key)
			}
		}
	case OpDrain, OpUndrain, OpPull:
	default:
		return nil, fmt.Errorf("this version of toolhost does not know the operation %q", operation)
	}
	a.Node = cmp.Or(a.Node, f.node())
	if a.Node == f.node() {
		out, err := f.carryOut(ctx, operation, a)
		return out, errors.Join(err, f.settle(ctx, operation, a, nil, err))
	}
	out, err := f.query(ctx, a.Node, operation, a)
	return out, errors.Join(err, f.settle(ctx, operation, a, out, err))
}

// configure carries out an operation on the configuration of the fleet.
func (f *Fleet) configure(ctx context.Context, operation string, a Arguments) (any, error) {
	switch operation {
	case OpPush:
		if a.Files == nil {
			return nil, errors.New("the configuration is missing")
		}
		return f.push(ctx, a)
	case OpPromote:
		missed, err := f.promote(ctx, a.Force)
		return Promoted{Missed: append([]string{}, missed...)}, err
	case OpAbort:
		return struct{}{}, f.abort(ctx)
	case OpRollout:
		return f.rollout(ctx)
	}
	return struct{}{}, f.adopt(ctx)
}

// operateHere carries out an operation that another node requested.
func (f *Fleet) operateHere(ctx context.Context, by, operation string, arguments []byte) (any, error) {
	var a Arguments
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, fmt.Errorf("the arguments cannot be read: %w", err)
	}
	if operation != OpLog && operation != opFigures {
		f.log.Info("an operation of another node", "operation", operation, "by", by)
	}
	if f.settings.Outward && (operation == opApply || operation == OpPull) {
		return nil, errOwnConfig(f.node())
	}
	switch operation {
	case opApply:
		return f.apply(ctx, a.Object, by, a.Approve)
	case opFigures:
		return f.ownFigures(), nil
	case opRevoked:
		return struct{}{}, f.learnRevocations(a.Revocations)
	case opFollow:
		return struct{}{}, f.followCouncil(a.Council)
	}
	return f.carryOut(ctx, operation, a)
}

// carryOut carries out an operation that is about this node.
func (f *Fleet) carryOut(ctx context.Context, operation string, a Arguments) (any, error) {
	switch operation {
	case OpMove:
		return struct{}{}, f.move(ctx, a.Session, a.To, cmp.Or(a.Wait, time.Minute))
	case OpRemove:
		revision, err := f.removeSession(ctx, a.Session, cmp.Or(a.Wait, time.Minute))
		return removed{revision}, err
	case OpRepair:
		return f.repair(ctx, a.Session)
	case OpDrain:
		return f.drain(ctx, a)
	case OpUndrain:
		f.lease.Update(func(r *lease.Record) { r.State = lease.StateReady })
		return struct{}{}, f.checkConfig(ctx)
	case OpPull:
		return struct{}{}, f.pull(ctx, f.node())
	case OpLog:
		return f.host.Log(a.Log)
	}
	return nil, fmt.Errorf("this version of toolhost does not know the operation %q", operation)
}

// query lets another node carry out an operation.
func (f *Fleet) query(ctx context.Context, node, operation string, a Arguments) (json.RawMessage, error) {
	conn, err := f.conn(node)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	connectAgain(ctx, conn)
	res, err := fleetpb.NewNodeServiceClient(conn).Query(ctx, &fleetpb.QueryRequest{Operation: operation, Arguments: b})
	if err != nil {
		return nil, fmt.Errorf("the node %s does not answer: %s", node, status.Convert(err).Message())
	}
	if res.GetError() != "" {
		return nil, errors.New(res.GetError())
	}
	return res.GetResult(), nil
}

// Status returns the state of the fleet, as this node sees it.
func (f *Fleet) Status(ctx context.Context) *Status {
	out := &Status{Fleet: f.settings.Name, Node: f.node(), Nodes: []NodeStatus{}}
	left, valid := f.lease.Valid()
	now := f.clock()
	for name, p := range f.lease.Peers() {
		n := NodeStatus{
			Node: name, Incarnation: p.Incarnation, State: p.State, Address: p.Address, Version: p.Version,
			Config: p.Config, Sessions: p.Sessions, Calls: p.Calls, Labels: p.Labels,
			Left: max(0, (p.Seen + p.Lease - now).Seconds()), Workspaces: []string{},
		}
		if name == f.node() {
			n.Left = left.Seconds()
		}
		for w, at := range p.Workspaces {
			if at.Shared != "" {
				w += "(shared)"
			} else {
				w += "(local)"
			}
			n.Workspaces = append(n.Workspaces, w)
		}
		slices.Sort(n.Workspaces)
		if p.Fenced || p.State == lease.StateLeft {
			n.Left = 0
		}
		switch {
		case p.Fenced && p.Cut:
			n.State = "dead"
		case p.Fenced:
			n.State = "fenced"
			out.Problems = append(out.Problems, fmt.Sprintf("The node %s is fenced, and the command that cuts it off has not succeeded yet, so its shared sessions wait. See the log of %s. If the node certainly cannot change shared files any more: toolhost fleet takeover %s --i-have-fenced-it.", name, p.By, name))
		case n.Left == 0 && p.State != lease.StateLeft:
			n.State = "silent"
		}
		if f.id.HasRevoked(p.Certificate) {
			n.State = stateRevoked
		}
		out.Nodes = append(out.Nodes, n)
	}
	slices.SortFunc(out.Nodes, func(a, b NodeStatus) int { return strings.Compare(a.Node, b.Node) })
	f.sessions.All(func(string, *directory.Entry) bool {
		out.Sessions++
		return true
	})
	if !valid {
		out.Problems = append(out.Problems, fmt.Sprintf("The node %s has no lease, so it runs no calls of shared workspaces. Check that it reaches the coordinators.", f.node()))
	}
	if f.id.Revoked() != nil {
		out.Problems = append(out.Problems, f.errRevoked().Error()+".")
	}
	if c := f.coordinator; c != nil && c.Problem() != nil {
		out.Problems = append(out.Problems, fmt.Sprintf("The coordinator of the node %s does not run: %s.", f.node(), strings.TrimSuffix(c.Problem().Error(), ".")))
	}
	f.coordinatorStatus(ctx, out)
	out.Config = f.fleetConfig(ctx)
	if t, _, err := f.readTrial(ctx); err == nil && t != nil {
		out.Trial = t.Nodes
	}
	return out
}

// coordinatorStatus queries the state of the coordinators.
func (f *Fleet) coordinatorStatus(ctx context.Context, out *Status) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := f.bus.Whole(ctx); errors.Is(err, bus.ErrRecordsLost) {
		out.Problems = append(out.Problems, "For this node, "+err.Error()+".")
		out.Coordinators = f.coordinatorCount()
		return
	}
	info, err := f.bus.Journal.Info(ctx)
	if err != nil {
		out.Problems = append(out.Problems, "The coordinators do not answer: "+err.Error()+".")
		out.Coordinators = f.coordinatorCount()
		return
	}
	if r, _, err := council.Read(ctx, f.bus.Config); err == nil && r.Changing() {
		out.Problems = append(out.Problems, fmt.Sprintf("A change of the coordinators, begun by %s, %s. If it does not go on, complete it, toolhost fleet coordinators resume, or give it up: toolhost fleet coordinators abort.", r.By, r.Describe()))
	}
	out.Journal, out.JournalMax = info.State.Bytes, info.Config.MaxBytes
	out.Coordinators, out.Current = 1, 1
	if c := info.Cluster; c != nil && c.Leader != "" {
		out.Leader = f.nodeOfServer(ctx, c.Leader)
		for _, r := range c.Replicas {
			out.Coordinators++
			if r.Current && !r.Offline {
				out.Current++
			}
		}
	}
	if out.JournalMax > 0 && out.Journal > uint64(out.JournalMax)*9/10 {
		out.Problems = append(out.Problems, "The journal is nearly full. Remove sessions that nobody uses: toolhost fleet session remove SESSION. Or give the coordinators more room.")
	}
	if out.Current <= out.Coordinators/2 {
		out.Problems = append(out.Problems, fmt.Sprintf("Only %d of %d coordinators are current. Start the others before one more fails.", out.Current, out.Coordinators))
	}
}

// listSessions returns the sessions in the directory, or only those of the node a.Node.
func (f *Fleet) listSessions(a Arguments) []SessionStatus {
	out := []SessionStatus{}
	f.sessions.All(func(key string, e *directory.Entry) bool {
		if a.Node == "" || a.Node == e.Owner {
			out = append(out, sessionStatus(key, e))
		}
		return true
	})
	slices.SortFunc(out, func(x, y SessionStatus) int {
		return cmp.Or(strings.Compare(x.Node, y.Node), strings.Compare(x.Principal, y.Principal),
			strings.Compare(x.Session, y.Session))
	})
	return out[:min(len(out), cmp.Or(a.Limit, 1000))]
}

func sessionStatus(key string, e *directory.Entry) SessionStatus {
	return SessionStatus{Key: key, Session: e.Session, Principal: e.Principal, Workspace: e.Workspace, Node: e.Owner,
		Epoch: e.Epoch, Shared: e.Shared, Since: e.At}
}

// resolve returns the session whose key or id is text.
func (f *Fleet) resolve(text string) (key string, e *directory.Entry, err error) {
	if e = f.sessions.Find(text); e != nil {
		return text, e, nil
	}
	var found []string
	f.sessions.All(func(k string, s *directory.Entry) bool {
		if s.Session == text {
			found = append(found, k)
		}
		return true
	})
	switch len(found) {
	case 0:
		return "", nil, fmt.Errorf("the fleet has no session %q. See toolhost fleet sessions", text)
	case 1:
		return found[0], f.sessions.Find(found[0]), nil
	}
	return "", nil, fmt.Errorf("%d sessions have the id %q. Use the key of one of them: %s", len(found), text, strings.Join(found, ", "))
}

// mergedLog returns the audit log of all nodes, merged by time.
func (f *Fleet) mergedLog(ctx context.Context, a Arguments) (*Log, error) {
	out := &Log{Entries: []NodeEntry{}}
	type answer struct {
		node    string
		entries []host.LogEntry
		err     error
	}
	answers := make(chan answer)
	asked := 0
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for name, p := range f.lease.Peers() {
		if p.State == lease.StateLeft {
			continue
		}
		asked++
		go func() {
			r := answer{node: name}
			if name == f.node() {
				r.entries, r.err = f.host.Log(a.Log)
			} else {
				var b json.RawMessage
				if b, r.err = f.query(ctx, name, OpLog, a); r.err == nil {
					r.err = json.Unmarshal(b, &r.entries)
				}
			}
			answers <- r
		}()
	}
	for range asked {
		r := <-answers
		if r.err != nil {
			if out.Missing == nil {
				out.Missing = make(map[string]string)
			}
			out.Missing[r.node] = r.err.Error()
			continue
		}
		for _, e := range r.entries {
			out.Entries = append(out.Entries, NodeEntry{Node: r.node, LogEntry: e})
		}
	}
	slices.SortStableFunc(out.Entries, func(x, y NodeEntry) int { return x.At.Compare(y.At) })
	if n := a.Log.Limit; n > 0 && len(out.Entries) > n {
		out.Entries = out.Entries[len(out.Entries)-n:]
	}
	return out, nil
}
