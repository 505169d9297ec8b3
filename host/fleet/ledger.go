package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet/internal/failpoint"
	"toolhost.dev/host/fleet/internal/hop"
	"toolhost.dev/host/fleet/internal/journal"
	"toolhost.dev/host/fleet/internal/surplus"
)

// ledger records one call. It implements [host.Ledger].
type ledger struct {
	f     *Fleet
	o     *owned
	in    *incoming
	began atomic.Bool
	name  string // of the tool
}

// Begin implements [host.Ledger]. It adds a record to the journal before the call runs, so that no other node runs the
// call again. If the session cannot move, Begin instead waits until the gateway knows that the call begins.
func (l *ledger) Begin(ctx context.Context, name string) error {
	if l.began.Load() { // a fallback of the call
		return nil
	}
	if err := l.Check(); err != nil {
		return err
	}
	l.name = name
	if l.o.log != nil {
		start := time.Now()
		err := l.o.log.Append(ctx, journal.Record{
			Kind: journal.Begun, At: l.f.lease.Now(), Call: l.in.id, Digest: l.in.digest, Tool: name,
		})
		l.f.metrics.appended(time.Since(start))
		switch {
		case errors.Is(err, journal.ErrFull):
			return errJournalFull()
		case errors.Is(err, journal.ErrLost):
			return tool.Errorf(tool.Unavailable, "Another node took the session before the call ran. Nothing was run. Try again.").WithRetryAfter(time.Second)
		case err != nil:
			return tool.Errorf(tool.Unavailable, "The call could not begin: %w. Nothing was run. Try again with a new call id: with the same id, the answer can be that the outcome is not known.", err).WithCode(CodeNoQuorum)
		}
	}
	failpoint.At("call begun")
	if err := l.in.begun(ctx, name, l.o.log == nil); err != nil { // the call is not added to the known calls, so a repetition can run
		return tool.Errorf(tool.Canceled, "The gateway of the call is gone. Nothing was run.")
	}
	now := l.f.lease.Now()
	l.o.mu.Lock()
	l.o.add(l.in.id, &earlier{digest: l.in.digest, at: now}, now)
	l.o.mu.Unlock()
	l.began.Store(true)
	return l.Check()
}

// Check implements [host.Ledger].
func (l *ledger) Check() error {
	if !l.o.shared || without("kill") {
		return nil
	}
	if incarnation, _, ok := l.f.lease.Incarnation(); !ok || incarnation != l.o.incarnation {
		return errNoLease(l.f.node())
	}
	return nil
}

// end records the end of a call before its result is returned.
func (l *ledger) end(ctx context.Context, res *tool.Result) *tool.Result {
	o := l.o
	l.place(res)
	var change *host.SessionChange
	if o.log != nil {
		change = o.taken()
	}
	if l.began.Load() {
		res = l.done(ctx, res, change)
	} else if change != nil && (change.Session != nil || len(change.Plugins) > 0) && l.Check() == nil {
		// A call that changes no file can still change the directory of the session. No record is needed for the states
		// of files that were read: if they are lost, an edit only requires that the file is read again.
		state, lost := stateOf(change, nil)
		_ = o.log.Append(ctx, journal.Record{Kind: journal.State, State: state, Lost: lost}) // the error is ignored: the next append returns it
	}
	l.explainUndo(res)
	l.note(res)
	if o.log != nil && o.log.Due() && l.Check() == nil {
		l.snapshot(ctx)
	}
	return res
}

// done records the end of a call that began.
func (l *ledger) done(ctx context.Context, res *tool.Result, change *host.SessionChange) *tool.Result {
	o := l.o
	failpoint.At("call ran")
	left := res.Error != nil && res.Error.Kind == tool.Canceled && errors.Is(context.Cause(ctx), hop.ErrCallerGone)
	if left {
		res = &tool.Result{Error: callerLost(l.in.gateway, l.name), Run: res.Run}
	}
	kept := *res
	kept.Effects, kept.SessionState, kept.Cwd = nil, nil, ""
	encoded, err := encodeResult(&kept)
	tooLong := err != nil || len(encoded) > maxKeptResult
	if errors.Is(context.Cause(ctx), errLeaseEnded) {
		res = &tool.Result{Error: outcomeUnknown(l.f.node(), l.name), Run: res.Run}
	} else if o.log != nil {
		r := journal.Record{Kind: journal.Done, At: l.f.lease.Now(), Call: l.in.id, Omitted: tooLong}
		r.State, r.Lost = stateOf(change, nil)
		if !tooLong {
			r.Result = encoded
		}
		start := time.Now()
		err := o.log.Append(ctx, r)
		l.f.metrics.appended(time.Since(start))
		if err != nil && !errors.Is(err, journal.ErrFull) {
			l.f.log.Warn("the end of a call could not be recorded", "tool", l.name, "why", err)
			res = &tool.Result{Error: outcomeUnknown(l.f.node(), l.name), Run: res.Run}
		}
	}
	failpoint.At("call recorded")
	if res.Error != nil && res.Error.Code == CodeUnknown {
		l.f.metrics.unknown.Add(1)
	}
	now := l.f.lease.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if k := o.calls[l.in.id]; k != nil {
		if !tooLong {
			k.result = &kept
		}
		if res.Error != nil && res.Error.Code == CodeUnknown && !left {
			k.result = nil
		} else {
			k.ended = true
		}
		k.at = now
	}
	return res
}

// callerLost is the error of a call that was canceled because its gateway was lost. A repetition gets it.
func callerLost(gateway, name string) *tool.Error {
	return tool.Errorf(tool.Unavailable, "The connection with the node %s, through which the call came, was lost while `%s` ran, so the call was canceled. It may have happened in part. Read the files before you repeat it.", gateway, name).WithCode(CodeUnknown).From(tool.SourceHost)
}

// maxState is the maximum size of the state in a record, in bytes of JSON.
const maxState = journal.MaxRecord / 2

// stateOf returns a change in JSON, together with the parts that only a later version of toolhost knows. If the JSON is
// too long for a record, the states of files are left out, because an edit then only requires that the file is read
// again. If necessary, the data of plugins is left out, too, the largest first. The result lost names these plugins.
func stateOf(c *host.SessionChange, unknown surplus.Fields) (state json.RawMessage, lost []string) {
	if c == nil {
		c = new(host.SessionChange)
	}
	if c.Empty() && len(unknown) == 0 {
		return nil, nil
	}
	less := *c
	less.Plugins = maps.Clone(c.Plugins)
	for {
		if b, err := surplus.Encode(&less, unknown); err == nil && len(b) < maxState {
			slices.Sort(lost)
			return b, lost
		}
		switch {
		case less.Files != nil || less.Removed != nil:
			less.Files, less.Removed = nil, nil
		case len(less.Plugins) > 0:
			names := slices.Sorted(maps.Keys(less.Plugins))
			largest := slices.MaxFunc(names, func(a, b string) int {
				return cmp.Compare(len(less.Plugins[a]), len(less.Plugins[b]))
			})
			lost = append(lost, largest)
			delete(less.Plugins, largest)
		case len(unknown) > 0:
			lost = append(lost, slices.Sorted(maps.Keys(unknown))...)
			unknown = nil
		default:
			return nil, lost
		}
	}
}

// place adds metadata to a result: the node that ran the call, and the epoch of the session.
func (l *ledger) place(res *tool.Result) {
	res.Metadata = maps.Clone(res.Metadata)
	if res.Metadata == nil {
		res.Metadata = make(map[string]any)
	}
	res.Metadata["node"], res.Metadata["epoch"] = l.f.node(), l.o.entry.Epoch
}

// note adds a note to the first result after a takeover. The note reports that the session has moved, and which parts
// of its state are lost.
func (l *ledger) note(res *tool.Result) {
	l.o.mu.Lock()
	from, lost := l.o.movedFrom, l.o.lost
	l.o.movedFrom, l.o.lost = "", nil
	l.o.mu.Unlock()
	if from == "" {
		return
	}
	text := fmt.Sprintf("[the session moved from %s to %s; background jobs ended]", from, l.f.node())
	if len(lost) > 0 {
		text = fmt.Sprintf("[the session moved from %s to %s; background jobs ended. The state of %s was too large to move and is lost, such as variables and functions of the shell: set again what you need]", from, l.f.node(), strings.Join(lost, ", "))
	}
	res.Metadata = maps.Clone(res.Metadata) // the result that is kept must not contain the note
	if res.Metadata == nil {
		res.Metadata = make(map[string]any)
	}
	res.Metadata["moved_from"] = from
	if len(lost) > 0 {
		res.Metadata["lost_state"] = lost
	}
	if res.Error != nil {
		e := *res.Error
		e.Message += " " + text
		res.Error = &e
		return
	}
	if res.Output != "" {
		res.Output += "\n"
	}
	res.Output += text
	if len(res.Contents) > 0 {
		res.Contents = append(res.Contents, tool.Content{Text: len(text)})
	}
}

// explainUndo handles the error of an undo that finds no changes. It names in the error the nodes on which the earlier
// changes of the session can be undone.
func (l *ledger) explainUndo(res *tool.Result) {
	if res.Run.Role != tool.RoleUndo || res.Error == nil || res.Error.Kind != tool.NotFound || len(l.o.nodes) == 0 {
		return
	}
	e := *res.Error
	e.Message += fmt.Sprintf(" The session was on %s before. The data that undo needs for the changes made there stayed there. To undo them, move the session back: toolhost fleet move %s --to %s.", strings.Join(l.o.nodes, ", "), l.o.key, l.o.nodes[len(l.o.nodes)-1])
	res.Error = &e
}

// snapshot appends the whole state of the session, so that a replay is short.
func (l *ledger) snapshot(ctx context.Context) {
	state, err := l.f.host.SessionState(l.o.request)
	if err != nil {
		l.f.log.Warn("the state of a session cannot be read for a snapshot", "why", err)
		return
	}
	if err := l.o.log.Append(ctx, l.o.snapshot(state)); err != nil {
		l.f.log.Warn("the snapshot of a session could not be recorded", "why", err)
	}
	failpoint.At("snapshot recorded")
}

// maxKnownResults limits the size of all results in a snapshot, in bytes. The newest results are kept.
const maxKnownResults = 192 << 10

// snapshot returns a record with the whole state of a session and the calls that the session's owner remembers.
func (o *owned) snapshot(state *host.SessionChange) journal.Record {
	r := journal.Record{Kind: journal.Snapshot, Nodes: o.nodes}
	r.State, r.Lost = stateOf(state, o.unknown)
	o.mu.Lock()
	defer o.mu.Unlock()
	left := maxKnownResults
	for _, id := range slices.Backward(o.order) {
		k := o.calls[id]
		known := journal.Known{Call: id, Digest: k.digest, Done: k.ended, At: k.at}
		if k.result != nil {
			if b, err := encodeResult(k.result); err == nil && len(b) <= left {
				known.Result = b
				left -= len(b)
			}
		}
		r.Known = append(r.Known, known)
	}
	slices.Reverse(r.Known)
	return r
}

// result is the stored form of a result. It also contains the parts that the protocol of plugins leaves out.
type result struct {
	Result []byte   `json:"r"`
	Run    tool.Run `json:"run"`
	Source string   `json:"source,omitempty"`
}

func encodeResult(r *tool.Result) ([]byte, error) {
	b, err := toolrpc.EncodeResult(r)
	if err != nil {
		return nil, err
	}
	out := result{Result: b, Run: r.Run}
	if r.Error != nil {
		out.Source = string(r.Error.Source)
	}
	return json.Marshal(out)
}

func decodeResult(b []byte) (*tool.Result, error) {
	if len(b) == 0 {
		return nil, errors.New("the result was not kept")
	}
	var in result
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, err
	}
	out, err := toolrpc.DecodeResult(in.Result)
	if err != nil {
		return nil, err
	}
	out.Run = in.Run
	if out.Error != nil {
		out.Error = out.Error.From(tool.Source(in.Source))
	}
	return out, nil
}
