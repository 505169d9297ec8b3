package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/state/records"
)

// Binary identifies a plugin's binary at the time of the last check.
type Binary struct {
	// File identifies the version of the file. It is empty if the file does not exist.
	File string
	// Sum is the SHA-256 of the file. It is nil if the file cannot be read.
	Sum *[32]byte
	// Key is a hash of the binary and its settings, because both can change the plugin's tools. The plugin's
	// description is saved under this key. Key is valid only if Keyed is true.
	Key   [32]byte
	Keyed bool
}

// startKey returns the key under which a failed start is saved. Unlike [Binary.Key], it depends on all that can change
// the outcome of a start: the sandbox and the time limit, too.
func (p *Plugin) startKey() [32]byte {
	how, err := json.Marshal([]any{p.Binary.Key, p.cfg.Sandbox, p.Confinement, p.Profile, p.StartTimeout})
	if err != nil {
		return p.Binary.Key
	}
	return sha256.Sum256(how)
}

// sum returns the SHA-256 in hexadecimal digits. The file must be readable.
func (b *Binary) sum() string { return hex.EncodeToString(b.Sum[:]) }

// BinaryOf identifies the binary of a plugin at a path. For an unchanged file, it uses the hash in the database.
func BinaryOf(db *state.DB, p *config.Plugin, path string) Binary {
	b := Binary{File: records.Identity(path)}
	hash, err := db.BinaryHash(path)
	if err != nil {
		return b
	}
	b.Sum = &hash
	how, err := json.Marshal([]any{hash, p.Args, p.Env, p.Config}) // the result is deterministic, because JSON sorts the keys of maps
	if err == nil {
		b.Key, b.Keyed = sha256.Sum256(how), true
	}
	return b
}
