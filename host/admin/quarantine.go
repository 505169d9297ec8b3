package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"toolhost.dev/host/internal/generation"
	"toolhost.dev/host/internal/repository"
	"toolhost.dev/host/internal/state"
)

// Quarantined is an entry of the quarantine. A host moved its content out of a git repository.
type Quarantined = repository.QuarantineEntry

// Quarantine returns all entries of the quarantine, oldest first.
func Quarantine(opts Options) ([]Quarantined, error) {
	store, err := openQuarantine(opts)
	if err != nil {
		return nil, err
	}
	return store.List()
}

// QuarantineEntry returns the entry with the given ID.
func QuarantineEntry(opts Options, id string) (*Quarantined, error) {
	store, err := openQuarantine(opts)
	if err != nil {
		return nil, err
	}
	return quarantineEntry(store, id)
}

// RestoreQuarantined writes the content of an entry back to its original path. The digest must be the digest of the
// entry that a person reviewed. After that, hosts no longer move this content out of the repository.
func RestoreQuarantined(opts Options, id, digest string) (*Quarantined, error) {
	store, err := openQuarantine(opts)
	if err != nil {
		return nil, err
	}
	e, err := quarantineEntry(store, id)
	switch {
	case err != nil:
		return nil, err
	case e.Digest() != digest:
		return nil, fmt.Errorf("the entry %s has the digest %s, not %s: review it with toolhost quarantine show %s", id, e.Digest(), digest, id)
	case !e.Restored.IsZero():
		return nil, fmt.Errorf("the entry %s was restored at %s", id, e.Restored.Local().Format(time.DateTime))
	}
	e.Restored = time.Now()
	if err := store.Update(e); err != nil { // update the entry first, because otherwise a running host removes the content again
		return nil, err
	}
	if err := repository.Restore(e); err != nil {
		e.Restored = time.Time{}
		return nil, fmt.Errorf("the entry %s cannot be restored: %w", id, errors.Join(err, store.Update(e)))
	}
	return e, auditRestored(opts, e)
}

// auditRestored adds the restoration to the audit log.
func auditRestored(opts Options, e *Quarantined) error {
	cfg, dir, err := stateDirectory(opts)
	if err != nil {
		return err
	}
	db, err := state.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	generation.Audit(cfg, db, nil)
	args, err := json.Marshal(map[string]any{"path": e.Path, "settings": e.Names, "quarantine": e.ID})
	if err != nil { // cannot happen for these values
		panic(err)
	}
	db.AddAudit(state.AuditEntry{
		At: e.Restored, Workspace: e.Root, Tool: "(quarantine)", Arguments: args, Decision: "allow",
		Rule: "toolhost quarantine restore", Outcome: "success",
	})
	return db.Close()
}

func quarantineEntry(store *repository.Quarantine, id string) (*Quarantined, error) {
	e, err := store.Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the quarantine has no entry %q; for its entries, run: toolhost quarantine list", id)
	}
	return e, err
}

func openQuarantine(opts Options) (*repository.Quarantine, error) {
	_, dir, err := stateDirectory(opts)
	if err != nil {
		return nil, err
	}
	return repository.OpenQuarantine(dir), nil
}
