package generation

import (
	"crypto/sha256"
	"encoding/json"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
)

// Binary identifies a plugin's binary as it was at some moment.
type Binary struct {
	// File identifies the file. It is empty if there was none.
	File string
	// Sum is its SHA-256. It is nil if the file could not be read.
	Sum *[32]byte
	// Key is the hash of the binary and the way it runs. The plugin's description is kept under it, since what a plugin
	// serves may depend on both. It is valid if Keyed is set.
	Key   [32]byte
	Keyed bool
}

// BinaryOf looks at a plugin's binary. The database remembers the hashes of files that did not change.
func BinaryOf(db *state.DB, p *config.Plugin) Binary {
	b := Binary{File: state.FileIdentity(p.Path)}
	hash, err := db.BinaryHash(p.Path)
	if err != nil {
		return b
	}
	b.Sum = &hash
	how, err := json.Marshal([]any{hash, p.Args, p.Env, p.Config}) // maps marshal sorted
	if err == nil {
		b.Key, b.Keyed = sha256.Sum256(how), true
	}
	return b
}
