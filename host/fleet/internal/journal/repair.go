package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/bus"
)

// Check reads the journal of a session as [Open] does, but does not become its writer. The error is [ErrBroken] if
// records are missing or cannot be read, and [ErrFormat] if this version cannot read them.
func Check(ctx context.Context, b *bus.Bus, session string, opened uint64) ([]Record, error) {
	l := &Log{bus: b, subject: bus.JournalSubject + session}
	c, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	newest, err := l.readLast(c)
	if err != nil {
		return nil, err
	}
	return l.read(c, newest, opened)
}

// Salvage reads all records of a damaged journal that can be read, and returns the number of the other ones. It makes a
// node the writer of the journal in an epoch that is at least the argument epoch and the epochs of all records. The
// caller must append a snapshot, so that no replay needs the damaged records. The append fails if another owner has
// appended a record meanwhile.
func Salvage(ctx context.Context, b *bus.Bus, node, session string,
	epoch uint64) (l *Log, records []Record, unreadable int, err error) {
	l = &Log{bus: b, subject: bus.JournalSubject + session, node: node, epoch: epoch}
	c, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for seq := uint64(1); ; seq = l.last + 1 {
		m, err := b.Journal.GetMsg(c, seq, jetstream.WithGetMsgSubject(l.subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return l, records, unreadable, nil
		}
		if err != nil {
			return nil, nil, 0, fmt.Errorf("the journal cannot be read: %w", err)
		}
		l.last = m.Sequence
		var r Record
		err = decode(m.Data, &r)
		switch {
		case errors.Is(err, ErrFormat):
			return nil, nil, 0, err
		case err != nil:
			unreadable++
		default:
			records = append(records, r)
			l.epoch = max(l.epoch, r.Epoch)
		}
	}
}

// Epoch returns the epoch of the writer.
func (l *Log) Epoch() uint64 { return l.epoch }
