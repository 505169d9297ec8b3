package generation

import (
	"crypto/sha256"
	"encoding/json"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
)

// Binary identifies a plugin's binary at the time of the last check.
type Binary struct {
	// File identifies the file version. It is empty if the file did not exist.
	File string
	// Sum is the SHA-256 of the file. It is nil if the file was not readable.
	Sum *[32]byte
	// Key is the hash of the binary and its settings. The plugin's description is saved under this key, because both can
	// change the served tools. Key is valid if Keyed is true.
	Key   [32]byte
	Keyed bool
}

// BinaryOf identifies a plugin's binary. It uses hashes from the database for unchanged files.
func BinaryOf(db *state.DB, p *config.Plugin) Binary {
	b := Binary{File: state.FileIdentity(p.Path)}
	hash, err := db.BinaryHash(p.Path)
	if err != nil {
		return b
	}
	b.Sum = &hash
	how, err := json.Marshal([]any{hash, p.Args, p.Env, p.Config}) // JSON sorts the keys of maps
	if err == nil {
		b.Key, b.Keyed = sha256.Sum256(how), true
	}
	return b
}
