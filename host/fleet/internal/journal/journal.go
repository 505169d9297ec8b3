// Package journal records the calls that change shared workspaces, so that no call runs twice. [Open] makes a new owner
// the writer of a session's journal, and [Log.Append] adds a record.
//
// Each append contains the sequence number of the last record that the owner knows. JetStream refuses the append if the
// journal has a later record. So once a new owner has appended its epoch, an earlier owner cannot begin another call.
package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/bus"
	"toolhost.dev/host/fleet/internal/failpoint"
)

// Schema is the number of the format of records. A node can read this format and the previous one.
const Schema = 1

// Kind is the kind of a record.
type Kind string

// Kinds of records.
const (
	Epoch    Kind = "epoch"    // a node took the session
	Begun    Kind = "begun"    // a call begins that can change something
	Done     Kind = "done"     // a call has ended, and its result is about to be returned
	State    Kind = "state"    // a call that changes no file changed the session
	Snapshot Kind = "snapshot" // the whole state of the session
)

// Record is one record of the journal of a session.
type Record struct {
	Schema int    `json:"v"`
	Kind   Kind   `json:"k"`
	Epoch  uint64 `json:"e"`
	Node   string `json:"n"`
	// At is the time of the record by the clock of the coordinators. It is zero in records that are not about a call.
	At time.Time `json:"t,omitzero"`
	// Call is the id of the call, and Digest is the SHA-256 of its request.
	Call   string `json:"c,omitempty"`
	Digest []byte `json:"d,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// Result is the result that was returned. Omitted means that the result was too long to keep.
	Result  []byte `json:"r,omitempty"`
	Omitted bool   `json:"o,omitempty"`
	// State is the change that the call made to the state of the session. In a snapshot, it is the whole state of the
	// session.
	State json.RawMessage `json:"s,omitempty"`
	// Lost names the parts of the state that were too large for the record.
	Lost []string `json:"lost,omitempty"`
	// Known contains the calls of earlier records. It is set only in a snapshot.
	Known []Known `json:"known,omitempty"`
	// Nodes contains the nodes that had the session. It is set only in a snapshot.
	Nodes []string `json:"nodes,omitempty"`
	// Base is the sequence number of the last snapshot. A replay begins with this snapshot.
	Base uint64 `json:"b,omitempty"`
}

// Known is a call of an earlier record.
type Known struct {
	Call   string    `json:"c"`
	Digest []byte    `json:"d"`
	Done   bool      `json:"x"`
	At     time.Time `json:"t"`
	// Result is the result that was returned. Empty means that it is not kept any more.
	Result []byte `json:"r,omitempty"`
}

// MaxRecord is the maximum size of a record in bytes. The server refuses larger messages.
const MaxRecord = 900 << 10

// SnapshotEvery is the number of records after which a snapshot is due. A snapshot is also due after snapshotBytes
// bytes of records.
const (
	SnapshotEvery = 64
	snapshotBytes = 1 << 20
)

// Errors of [Log.Append] and [Open].
var (
	// ErrLost means that another node has the session.
	ErrLost = errors.New("another node has the session")
	// ErrFull means that the journal has no room.
	ErrFull = errors.New("the journal of the fleet is full")
	// ErrBroken means that records are missing or cannot be read.
	ErrBroken = errors.New("the journal of the session is damaged")
	// ErrFormat means that a later version of toolhost wrote a record. Such a journal is not damaged.
	ErrFormat = errors.New("the journal of the session needs a later version of toolhost")
)

// NewerError means that the journal has a later epoch than the directory. It matches [ErrLost] with [errors.Is].
type NewerError struct{ Epoch uint64 }

func (e *NewerError) Error() string {
	return fmt.Sprintf("the journal of the session is in epoch %d already", e.Epoch)
}

// Is reports whether target is [ErrLost]. It is called by [errors.Is].
func (e *NewerError) Is(target error) bool { return target == ErrLost }

// Log is the journal of a session, for the owner of the session. It is safe for concurrent use.
type Log struct {
	bus     *bus.Bus
	subject string
	node    string
	epoch   uint64

	lease context.Context // ends with the lease of the owner; nil means never

	mu     sync.Mutex
	last   uint64 // sequence number of the last record
	base   uint64 // sequence number of the last snapshot
	since  int    // records since the last snapshot
	size   int    // their bytes
	kept   uint64 // this owner has removed the records before this sequence number
	failed error  // set when an append failed and its outcome is unknown
}

// Unguarded makes appends succeed even if another node has the session. It is set only in programs of tests that leave
// out guards.
var Unguarded bool

// openTimeout limits [Open].
const openTimeout = 10 * time.Second

// Open makes a node the writer of a session's journal in an epoch, and returns the earlier records. The argument opened
// is the last epoch in which the journal was opened, according to the directory. The error is [ErrLost] if another node
// took the journal first, and [ErrBroken] if records are missing.
func Open(ctx context.Context, b *bus.Bus, node, session string, epoch, opened uint64) (*Log, []Record, error) {
	l := &Log{bus: b, subject: bus.JournalSubject + session, node: node, epoch: epoch}
	c, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	newest, err := l.readLast(c)
	if err != nil {
		return nil, nil, err
	}
	if newest.Epoch >= epoch && !Unguarded {
		return nil, nil, &NewerError{newest.Epoch}
	}
	records, err := l.read(c, newest, opened)
	if err != nil {
		return nil, nil, err
	}
	failpoint.At("journal read")
	// The append comes after the replay: a record that another owner adds meanwhile makes it fail.
	if err := l.Append(c, Record{Kind: Epoch}); err != nil {
		return nil, nil, err
	}
	return l, records, nil
}

// readLast reads the last record. Without a record, it returns an empty one.
func (l *Log) readLast(ctx context.Context) (newest Record, err error) {
	m, err := l.bus.Journal.GetLastMsgForSubject(ctx, l.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return newest, nil
	}
	if err != nil {
		return newest, fmt.Errorf("the journal cannot be read: %w", err)
	}
	l.last = m.Sequence
	return newest, decode(m.Data, &newest)
}

// read reads the records that a takeover needs. The argument newest is the last record.
func (l *Log) read(ctx context.Context, newest Record, opened uint64) ([]Record, error) {
	if newest.Epoch < opened {
		return nil, fmt.Errorf("%w: the directory knows epoch %d, and the last record is of epoch %d", ErrBroken, opened, newest.Epoch)
	}
	l.base = newest.Base
	if newest.Kind == Snapshot {
		l.base = l.last
	}
	return l.replay(ctx)
}

func decode(b []byte, r *Record) error {
	if err := json.Unmarshal(b, r); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if r.Schema == 0 {
		return fmt.Errorf("%w: a record has no format", ErrBroken)
	}
	if r.Schema > Schema {
		return fmt.Errorf("%w: a record has format %d, and this version of toolhost reads %d", ErrFormat, r.Schema, Schema)
	}
	return nil
}

// replay reads the records, beginning with the last snapshot. It requests each record from the leader of the stream, so
// that it needs no consumer.
func (l *Log) replay(ctx context.Context) (out []Record, err error) {
	for seq := max(l.base, 1); l.last > 0 && seq <= l.last; {
		m, err := l.bus.Journal.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(l.subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the journal cannot be read: %w", err)
		}
		var r Record
		if err := decode(m.Data, &r); err != nil {
			return nil, err
		}
		out = append(out, r)
		l.since++
		l.size += len(m.Data)
		seq = m.Sequence + 1
	}
	if l.base > 0 && (len(out) == 0 || out[0].Kind != Snapshot) {
		return nil, fmt.Errorf("%w: its last snapshot is missing", ErrBroken)
	}
	return out, nil
}

// Bind makes appends give up when the lease of the owner ends. It must be called before other goroutines use the log.
func (l *Log) Bind(lease context.Context) { l.lease = lease }

// Append adds a record. After an error other than [ErrFull], it is not known whether the record was written, and the
// log cannot be used any more.
func (l *Log) Append(ctx context.Context, r Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	r.Schema, r.Epoch, r.Node, r.Base = Schema, l.epoch, l.node, l.base
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(b) > MaxRecord {
		return fmt.Errorf("a record of %d bytes is too long for the journal", len(b))
	}
	c, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout) // an interrupted append would have an unknown outcome
	defer cancel()
	if l.lease != nil {
		defer context.AfterFunc(l.lease, cancel)()
	}
	seq, err := l.publish(c, b)
	if errors.Is(err, ErrFull) {
		return err
	}
	if err != nil {
		l.failed = err
		return err
	}
	l.last = seq
	l.since++
	l.size += len(b)
	if r.Kind == Snapshot {
		l.base, l.since, l.size = l.last, 0, 0
	}
	return nil
}

// Times of an append. Without a leader, the server does not answer. A new leader is elected within nine seconds.
const (
	appendTimeout = 12 * time.Second
	appendPause   = 50 * time.Millisecond
)

// publish appends a record, and returns its sequence number. It tries again while the server does not answer. All tries
// contain the sequence number of the same last record, so the server accepts at most one of them.
func (l *Log) publish(ctx context.Context, b []byte) (seq uint64, err error) {
	opts := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}
	if !Unguarded {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(l.last))
	}
	for tries := 0; ; tries++ {
		c, cancel := context.WithTimeout(ctx, bus.TryTimeout)
		ack, err := l.bus.JS.Publish(c, l.subject, b, opts...)
		cancel()
		switch {
		case err == nil:
			return ack.Sequence, nil
		case bus.IsConflict(err) && tries == 0:
			return 0, ErrLost
		case bus.IsConflict(err):
			return l.find(ctx, b)
		case bus.IsFull(err) && tries == 0:
			return 0, ErrFull
		}
		select {
		case <-time.After(appendPause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil || Unguarded {
			return 0, fmt.Errorf("the journal did not confirm a record: %w", err)
		}
	}
}

// find returns the sequence number of a record if an earlier try has written it but the confirmation was lost. If
// another record was written instead, the error is [ErrLost].
func (l *Log) find(ctx context.Context, b []byte) (seq uint64, err error) {
	for {
		c, cancel := context.WithTimeout(ctx, bus.TryTimeout)
		m, err := l.bus.Journal.GetLastMsgForSubject(c, l.subject)
		cancel()
		switch {
		case err == nil && m.Sequence > l.last && bytes.Equal(m.Data, b):
			return m.Sequence, nil
		case err == nil && m.Sequence > l.last:
			return 0, ErrLost
		case ctx.Err() != nil:
			return 0, errors.Join(errors.New("the journal did not confirm a record"), err, ctx.Err())
		}
		// A group of servers also refuses a try while the servers have not yet agreed on an earlier try. The record of
		// the earlier try cannot be read until they agree.
		select {
		case <-time.After(appendPause):
		case <-ctx.Done():
		}
	}
}

// Due reports whether a snapshot is due.
func (l *Log) Due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since >= SnapshotEvery || l.size >= snapshotBytes
}

// Trim removes the records before the last snapshot, because no replay needs these records. It sends a request to the
// server only if there is a new snapshot.
func (l *Log) Trim(ctx context.Context) error {
	l.mu.Lock()
	base, done := l.base, l.base <= l.kept || l.failed != nil
	l.mu.Unlock()
	if done {
		return nil
	}
	c, cancel := context.WithTimeout(ctx, 2*bus.TryTimeout)
	defer cancel()
	if err := l.bus.Journal.Purge(c, jetstream.WithPurgeSubject(l.subject),
		jetstream.WithPurgeSequence(base)); err != nil {
		return fmt.Errorf("old records of the journal cannot be removed: %w", err)
	}
	failpoint.At("journal trimmed")
	l.mu.Lock()
	l.kept = base
	l.mu.Unlock()
	return nil
}

// Failed returns the reason why the log cannot be used any more, or nil.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}
