package state

import (
	"context"
	"database/sql"
	"time"

	"toolhost.dev/sdk/tool"
)

type key struct{ session, name string }

// batch is a set of writes. A later write replaces an earlier write with the same key.
type batch struct {
	sessions     map[string]Session
	files        map[key]fileChange
	pluginStates map[key][]byte
	history      []Entry
	audit        []AuditEntry
}

type fileChange struct {
	state   tool.FileState
	removed bool
}

func (b *batch) empty() bool {
	return len(b.sessions) == 0 && len(b.files) == 0 && len(b.pluginStates) == 0 && len(b.history) == 0 &&
		len(b.audit) == 0
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

// change calls f to add writes to the pending batch and to the batch for the journal. Then it wakes the
// flusher.
func (d *DB) change(f func(b *batch)) {
	d.mu.Lock()
	f(&d.pending)
	if d.path != "" {
		f(&d.unkept)
	}
	d.follow(f)
	d.changes++
	d.mu.Unlock()
	d.wake()
}

// changeAudit adds audit entries to the pending batch. The journal does not contain them.
func (d *DB) changeAudit(f func(b *batch)) {
	d.mu.Lock()
	f(&d.pending)
	d.mu.Unlock()
	d.wake()
}

func (d *DB) wake() {
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// flusher writes the pending batch after a short delay. It runs until Close.
func (d *DB) flusher() {
	defer close(d.stopped)
	delay, failed := flushDelay, false
	for {
		select {
		case <-d.signal:
			select {
			case <-time.After(delay):
			case <-d.done:
			}
			delay = flushDelay
			err := d.Flush()
			d.flushed(err)
			if err != nil {
				if !failed {
					d.log.Error("cannot save session states; they stay in memory and are saved later", "error", err)
				}
				delay = failedDelay
				d.wake()
			}
			failed = err != nil
		case <-d.done:
			d.closeErr = d.Flush()
			return
		}
	}
}

// flushed records the outcome of a write by the flusher.
func (d *DB) flushed(err error) {
	if err == nil {
		d.writeError.Store(nil)
		return
	}
	d.failures.Add(1)
	d.writeError.Store(&err)
}

// Failures returns the number of failed writes since the database was opened.
func (d *DB) Failures() uint64 { return d.failures.Load() }

// WriteProblem returns the reason why the last write failed. It returns nil if the last write succeeded.
func (d *DB) WriteProblem() error {
	if err := d.writeError.Load(); err != nil {
		return *err
	}
	return nil
}

// Flush immediately writes the pending batch. If the write fails, the batch stays pending.
func (d *DB) Flush() error {
	d.flush.Lock()
	defer d.flush.Unlock()
	d.mu.Lock()
	d.keepBeforeFlush()
	if d.pending.empty() && d.orphaned.empty() {
		d.mu.Unlock()
		return nil
	}
	d.writing, d.pending = d.pending, batch{}
	b, unkept, upTo := d.writing, d.unkept, d.changes
	d.unkept, d.holding = batch{}, !unkept.empty()
	rotated := d.journal.rotate()
	segments, orphans := len(d.journal.old), d.orphans
	written := []applied{{id: d.journal.id, seq: d.journal.seq}}
	for _, o := range orphans {
		written = append(written, o.applied)
	}
	all := b
	if len(orphans) > 0 {
		all = batch{}
		d.orphaned.addTo(&all)
		b.addTo(&all)
	}
	d.mu.Unlock()

	err := d.write(all, written...)
	if len(b.audit) > 0 {
		d.prove(err, d.version())
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	for d.journaling { // wait, because the goroutine that writes the journal uses the segments
		d.cond.Wait()
	}
	if err != nil {
		merged := b
		d.pending.addTo(&merged)
		d.pending = merged
		d.unkept.addTo(&unkept)
		d.unkept = unkept
		d.journal.reuse(rotated)
	} else {
		d.kept = max(d.kept, upTo)
		d.journal.empty(segments)
		d.orphans, d.orphaned = nil, batch{} // safe, because no journal is adopted during a flush
		for _, o := range orphans {
			if err := d.removeOrphan(o); err != nil {
				d.log.Warn("a journal cannot be removed, although the database contains its changes", "journal", o.owner.Name(), "why", err)
			}
			_ = o.owner.Close()
		}
	}
	d.writing, d.holding = batch{}, false
	d.cond.Broadcast()
	return err
}

// keepBeforeFlush appends the unkept changes to the journal if possible, so that no Commit has to wait for the flush.
// It waits until no other goroutine writes to the journal. The caller must hold d.mu. keepBeforeFlush unlocks d.mu
// while it waits or writes.
func (d *DB) keepBeforeFlush() {
	for range 3 { // limited, because new changes never stop under load
		for d.journaling {
			d.cond.Wait()
		}
		if d.unkept.empty() || d.journal.owner == nil || d.appendUnkept() != nil {
			break
		}
	}
	for d.journaling {
		d.cond.Wait()
	}
}

// addTo adds the writes of batch b to batch a. If both contain the same key, the write of b replaces the
// write of a.
func (b *batch) addTo(a *batch) {
	for k, v := range b.sessions {
		put(&a.sessions, k, v)
	}
	for k, v := range b.files {
		put(&a.files, k, v)
	}
	for k, v := range b.pluginStates {
		put(&a.pluginStates, k, v)
	}
	a.history = append(a.history, b.history...)
	a.audit = append(a.audit, b.audit...)
}

// write writes a batch in one transaction. For each journal in journals, it also writes the number of the
// last record that the database then contains. The caller must hold d.flush.
func (d *DB) write(b batch, journals ...applied) error {
	if err := d.prepareWrites(); err != nil {
		return err
	}
	ctx := context.Background()
	conn, err := d.sql.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // gives it back
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	w := writer{tx: tx}
	// During the transaction, other processes cannot write.
	before, foreign := d.version(), w.number(d.stmt.changes)
	d.writeBatch(&w, b)
	for _, j := range journals {
		if j.id != "" {
			w.exec(d.stmt.putJournal, j.id, j.seq, time.Now().UnixNano())
		}
	}
	if w.err == nil && !d.forgot {
		_, w.err = forget(tx, d.retention.Load())
		d.forgot = w.err == nil
	}
	if w.err != nil {
		return w.err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	after := d.version()
	var now int64 // value of PRAGMA data_version; commits of other connections change this value
	if err := conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&now); err == nil && now == foreign {
		d.cache.wrote(&b, before, after)
	}
	return nil
}

func (d *DB) writeBatch(w *writer, b batch) {
	now := time.Now().UnixNano()
	for id, s := range b.sessions {
		w.exec(d.stmt.putSession, id, s.Workspace, s.Cwd, now)
	}
	for k, c := range b.files {
		if c.removed {
			w.exec(d.stmt.dropFile, k.session, k.name)
		} else {
			w.exec(d.stmt.putFile, k.session, k.name, c.state.ModTime.UnixNano(), c.state.Size, c.state.Hash[:],
				c.state.Partial)
		}
	}
	for k, v := range b.pluginStates {
		if v == nil { // a change from another host removed the state
			w.exec(d.stmt.dropState, k.session, k.name)
		} else {
			w.exec(d.stmt.putState, k.session, k.name, v)
		}
	}
	trimmed := make(map[string]bool)
	for _, e := range b.history {
		w.exec(d.stmt.addHistory, e.Session, e.At.UnixNano(), d.masked(&e), e.Tool, e.Success)
		trimmed[e.Session] = true
	}
	for s := range trimmed {
		w.exec(d.stmt.trimHistory, s, MaxHistory)
	}
	d.writeAudit(w, b.audit)
}

// writer runs statements in a transaction. After the first error, it skips all further statements.
type writer struct {
	tx  *sql.Tx
	err error
	own map[*sql.Stmt]*sql.Stmt // maps prepared statements of the database to prepared statements of the transaction
}

func (w *writer) statement(of *sql.Stmt) *sql.Stmt {
	if w.own[of] == nil {
		put(&w.own, of, w.tx.Stmt(of))
	}
	return w.own[of]
}

// exec runs a prepared statement.
func (w *writer) exec(statement *sql.Stmt, args ...any) {
	if w.err == nil {
		_, w.err = w.statement(statement).Exec(args...)
	}
}

// run runs a rarely used statement without preparing it.
func (w *writer) run(query string, args ...any) {
	if w.err == nil {
		_, w.err = w.tx.Exec(query, args...)
	}
}

// number runs a query and returns the single number in its result.
func (w *writer) number(query *sql.Stmt) (n int64) {
	if w.err == nil {
		w.err = w.statement(query).QueryRow().Scan(&n)
	}
	return n
}
