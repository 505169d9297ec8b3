package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/lease"
)

// trialKey is the key of the configuration that is on trial.
const trialKey = "next"

// trial is a configuration that some nodes use before the other nodes.
type trial struct {
	sharedConfig
	// Approve accepts additional privileges on every node.
	Approve bool `json:"approve,omitempty"`
	// Nodes contains the nodes that use the configuration. Digest is empty until the first of these nodes has applied
	// the configuration.
	Nodes []string `json:"nodes"`
	// Before contains the figures that the nodes had when the trial began.
	Before map[string]NodeFigures `json:"before"`
}

// NodeFigures counts the calls of a node since its start.
type NodeFigures struct {
	Calls    int64 `json:"calls"`
	Failures int64 `json:"failures"`
	// Began is when the host began to count.
	Began time.Time `json:"began"`
}

// Trial describes a configuration on trial.
type Trial = host.FleetTrial

// TrialNode describes a node in a trial.
type TrialNode = host.FleetTrialNode

// Promoted is the outcome of a promotion.
type Promoted struct {
	// Missed contains the nodes that were not running. They still have the earlier configuration.
	Missed []string `json:"missed"`
}

// includes reports whether a node takes part in the trial and digest is the digest of the configuration on trial.
func (t *trial) includes(node, digest string) bool {
	return t != nil && slices.Contains(t.Nodes, node) && (t.Digest == "" || t.Digest == digest)
}

// runs returns an error if t is not nil, because a trial is running.
func (t *trial) runs() error {
	if t == nil {
		return nil
	}
	return fmt.Errorf("a configuration is on trial at %s. First end the trial: toolhost fleet config promote or abort", strings.Join(t.Nodes, ", "))
}

// readTrial returns the configuration on trial, or nil.
func (f *Fleet) readTrial(ctx context.Context) (t *trial, revision uint64, err error) {
	t = new(trial)
	found, revision, err := f.readRecord(ctx, trialKey, t)
	if !found {
		return nil, 0, err
	}
	return t, revision, err
}

// writeTrial replaces the record of the trial if nobody changed it since revision.
func (f *Fleet) writeTrial(ctx context.Context, t *trial, revision uint64) (uint64, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if revision == 0 {
		revision, err = f.bus.Config.Create(ctx, trialKey, b)
	} else {
		revision, err = f.bus.Config.Update(ctx, trialKey, b, revision)
	}
	if bus.IsConflict(err) {
		return 0, errors.New("another operator changes the configuration of the fleet at this moment. See toolhost fleet rollout")
	}
	return revision, err
}

// present returns the configuration of the fleet with its files.
func (f *Fleet) present(ctx context.Context) (*sharedConfig, error) {
	current, err := f.readConfig(ctx)
	if err != nil {
		return nil, err
	}
	if current == nil || current.Files == "" {
		return nil, errors.New("the fleet does not have the files of its present configuration. Run this on a node whose configuration is one file: toolhost fleet config adopt")
	}
	return current, nil
}

// push begins a trial: some nodes apply a configuration. If one of them refuses it, all of them apply the present
// configuration again.
func (f *Fleet) push(ctx context.Context, a Arguments) (*Trial, error) {
	current, err := f.present(ctx)
	if err != nil {
		return nil, err
	}
	if len(a.Canaries) == 0 {
		return nil, errors.New("name the nodes that try the configuration: --canary NODE")
	}
	for _, name := range a.Canaries {
		if p := f.lease.Peer(name); p == nil {
			return nil, fmt.Errorf("the fleet has no node %q. See toolhost fleet status", name)
		} else if p.Outward {
			return nil, errOwnConfig(name)
		} else if !f.serves(p) {
			return nil, fmt.Errorf("the node %s is %s, so it cannot try a configuration", name, f.stateOf(p))
		}
	}
	if next, _, err := f.readTrial(ctx); err != nil || next != nil {
		return nil, errors.Join(err, next.runs())
	}
	t := &trial{Approve: a.Approve, Nodes: slices.Compact(slices.Sorted(slices.Values(a.Canaries))),
		Before: make(map[string]NodeFigures)}
	t.By, t.At = f.node(), time.Now()
	if t.Files, err = f.depot.Store(ctx, a.Files); err != nil {
		return nil, err
	}
	for _, n := range f.figures(ctx) {
		t.Before[n.Node] = n.now
	}
	revision, err := f.writeTrial(ctx, t, 0)
	if err != nil {
		return nil, err
	}
	for _, name := range t.Nodes {
		digest, err := f.applyAt(ctx, name, t.Files, t.Approve)
		if err == nil && t.Digest != "" && digest != t.Digest {
			err = errors.New("the configuration has another meaning there than on the other nodes, so it depends on the machine, for example on a variable")
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the node %s refuses the configuration, and all nodes keep the present one: %w", name, err), f.goBack(context.WithoutCancel(ctx), t, current))
		}
		t.Digest = digest
	}
	if _, err := f.writeTrial(ctx, t, revision); err != nil {
		return nil, err
	}
	return f.showTrial(ctx, t), nil
}

// errOwnConfig means that other nodes must not change the configuration of an outward node. It contains the rules for
// their calls there.
func errOwnConfig(node string) error {
	return fmt.Errorf("the node %s is outward, so it has a configuration of its own, which only its own operator changes. To use that of the fleet, run there: toolhost fleet config pull", node)
}

// goBack ends a trial: its nodes apply the present configuration of the fleet.
func (f *Fleet) goBack(ctx context.Context, t *trial, current *sharedConfig) error {
	var errs []error
	for _, name := range t.Nodes {
		if _, err := f.applyAt(ctx, name, current.Files, true); err != nil {
			errs = append(errs, fmt.Errorf("the node %s still has the other configuration: %w. Once it runs: toolhost fleet config pull %[1]s", name, err))
		}
	}
	errs = append(errs, f.bus.Config.Delete(ctx, trialKey), f.checkConfig(ctx))
	f.depot.Keep(ctx, current.Files)
	return errors.Join(errs...)
}

// abort ends the trial.
func (f *Fleet) abort(ctx context.Context) error {
	t, _, err := f.readTrial(ctx)
	if err != nil {
		return err
	}
	if t == nil {
		return errNoTrial
	}
	current, err := f.present(ctx)
	if err != nil {
		return err
	}
	return f.goBack(ctx, t, current)
}

var errNoTrial = errors.New("no configuration is on trial. Begin a trial: toolhost fleet config push FILE --canary NODE")

// Limits of the failures on the nodes of a trial.
const (
	fewCalls     = 20   // fewer calls prove nothing
	failureRatio = 2    // the share of failures may be this multiple of the share on the other nodes
	failureShare = 0.05 // plus this share
)

// worse returns the reason why the nodes of a trial work worse than the other nodes. It returns "" if they do not.
func worse(t *Trial) string {
	var calls, failures [2]int64
	for _, n := range t.Nodes {
		switch {
		case n.New && n.Problem != "":
			return fmt.Sprintf("the node %s does not answer: %s", n.Node, n.Problem)
		case n.New && n.State != lease.StateReady:
			return fmt.Sprintf("the node %s is %s", n.Node, n.State)
		}
		i := 0
		if n.New {
			i = 1
		}
		calls[i] += n.Calls
		failures[i] += n.Failures
	}
	share := func(i int) float64 { return float64(failures[i]) / float64(max(calls[i], 1)) }
	if calls[1] >= fewCalls && share(1) > failureRatio*share(0)+failureShare {
		return fmt.Sprintf("%.0f %% of %d calls failed with it, and %.0f %% of %d with the present one", 100*share(1), calls[1], 100*share(0), calls[0])
	}
	return ""
}

// promote applies the configuration on trial on all other nodes, one after another. It stops at the first node that
// refuses the configuration. The result missed lists the nodes that were not running.
func (f *Fleet) promote(ctx context.Context, force bool) (missed []string, err error) {
	t, revision, err := f.readTrial(ctx)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, errNoTrial
	}
	if t.Digest == "" {
		return nil, errors.New("the trial did not begin completely. End it, and begin another one: toolhost fleet config abort")
	}
	if why := worse(f.showTrial(ctx, t)); why != "" && !force {
		return nil, fmt.Errorf("the configuration on trial is not promoted, because %s. Go back with toolhost fleet config abort, or repeat this command with --force", why)
	}
	for name, p := range f.lease.Peers() {
		if slices.Contains(t.Nodes, name) || p.Outward {
			continue
		}
		if p.State == lease.StateLeft || p.Fenced || p.Seen+p.Lease < f.clock() {
			missed = append(missed, name)
			continue
		}
		next := *t
		next.Nodes = append(slices.Clone(t.Nodes), name)
		if revision, err = f.writeTrial(ctx, &next, revision); err != nil {
			return nil, err
		}
		digest, err := f.applyAt(ctx, name, t.Files, t.Approve)
		if err == nil && digest != t.Digest {
			err = errors.New("the configuration has another meaning there than on the other nodes")
		}
		if err != nil {
			return nil, fmt.Errorf("the node %s refuses the configuration: %w. These nodes use it: %s. Mend the node and repeat this command, or go back: toolhost fleet config abort", name, err, strings.Join(t.Nodes, ", "))
		}
		t = &next
	}
	if _, err := f.writeTrial(ctx, t, revision); err != nil { // fails if the trial was ended meanwhile
		return nil, err
	}
	current := t.sharedConfig
	current.At = time.Now()
	b, err := json.Marshal(current)
	if err != nil {
		return nil, err
	}
	if _, err := f.bus.Config.Put(ctx, configKey, b); err != nil {
		return nil, err
	}
	if err := f.bus.Config.Delete(ctx, trialKey); err != nil {
		return nil, err
	}
	f.depot.Keep(ctx, current.Files)
	slices.Sort(missed)
	return missed, f.checkConfig(ctx)
}

// pull applies the configuration of the fleet on this node.
func (f *Fleet) pull(ctx context.Context, by string) error {
	current, err := f.present(ctx)
	if err != nil {
		return err
	}
	digest, err := f.apply(ctx, current.Files, by, true)
	if err == nil && digest != current.Digest {
		err = errors.New("this node has another configuration than the fleet although it has its files, so the configuration depends on the machine, for example on a variable")
	}
	return errors.Join(err, f.checkConfig(ctx))
}

// applyAt lets a node apply the files of a configuration, and returns the digest.
func (f *Fleet) applyAt(ctx context.Context, node, files string, approve bool) (string, error) {
	if node == f.node() {
		return f.apply(ctx, files, node, approve)
	}
	b, err := f.query(ctx, node, opApply, Arguments{Object: files, Approve: approve})
	if err != nil {
		return "", err
	}
	var digest string
	return digest, json.Unmarshal(b, &digest)
}

// apply applies the files of a configuration on this node.
func (f *Fleet) apply(ctx context.Context, files, by string, approve bool) (string, error) {
	fetched, err := f.depot.Fetch(ctx, files)
	if err != nil {
		return "", err
	}
	if err := f.host.ReplaceConfig(ctx, fetched, "(fleet "+by+")", approve); err != nil {
		return "", err
	}
	_, digest := f.host.Fleet()
	return digest, nil
}

// figuresOf contains the figures of a node, or the reason why there are no figures.
type figuresOf struct {
	Node string
	now  NodeFigures
	err  error
}

// figures requests the figures of all nodes.
func (f *Fleet) figures(ctx context.Context) (out []figuresOf) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	answers := make(chan figuresOf)
	for name, p := range f.lease.Peers() {
		if p.State == lease.StateLeft || p.Outward {
			continue
		}
		out = append(out, figuresOf{})
		go func() {
			a := figuresOf{Node: name, now: f.ownFigures()}
			if name != f.node() {
				var b json.RawMessage
				if b, a.err = f.query(ctx, name, opFigures, Arguments{}); a.err == nil {
					a.err = json.Unmarshal(b, &a.now)
				}
			}
			answers <- a
		}()
	}
	for i := range out {
		out[i] = <-answers
	}
	slices.SortFunc(out, func(x, y figuresOf) int { return strings.Compare(x.Node, y.Node) })
	return out
}

// ownFigures counts the calls of this host.
func (f *Fleet) ownFigures() NodeFigures {
	out := NodeFigures{Began: f.began}
	for _, t := range f.host.Stats().Tools {
		out.Calls += int64(t.Calls)
		out.Failures += int64(t.Failures)
	}
	return out
}

// showTrial describes a trial.
func (f *Fleet) showTrial(ctx context.Context, t *trial) *Trial {
	out := &Trial{Digest: t.Digest, By: t.By, At: t.At, Nodes: []TrialNode{}}
	for _, n := range f.figures(ctx) {
		v := TrialNode{Node: n.Node, New: slices.Contains(t.Nodes, n.Node)}
		if p := f.lease.Peer(n.Node); p != nil {
			v.State = p.State
		}
		if n.err != nil {
			v.Problem = n.err.Error()
		} else {
			before := t.Before[n.Node]
			if !before.Began.Equal(n.now.Began) { // the host was restarted, or has joined since the trial began
				before = NodeFigures{}
			}
			v.Calls, v.Failures = n.now.Calls-before.Calls, n.now.Failures-before.Failures
		}
		out.Nodes = append(out.Nodes, v)
	}
	return out
}

// rollout describes the running trial. It returns nil if no trial is running.
func (f *Fleet) rollout(ctx context.Context) (*Trial, error) {
	t, _, err := f.readTrial(ctx)
	if err != nil || t == nil {
		return nil, err
	}
	return f.showTrial(ctx, t), nil
}
