package principal

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"toolhost.dev/host/internal/ownfile"
)

// tokensLayout is the version of the file format of the token store.
const tokensLayout = 1

// TokenPrefix begins every token, so that scanners recognize a token in a file.
const TokenPrefix = "toolhost_"

// Token is a token of the store, without its secret.
type Token struct {
	// ID identifies the token in lists. It reveals no part of the secret.
	ID string `json:"id"`
	// Principal is the name of the principal that the token authenticates.
	Principal string `json:"principal"`
	// Hash is the SHA-256 of the token.
	Hash    string    `json:"sha256"`
	Created time.Time `json:"created"`
	// Expires is the end of the token's validity. Zero means that the token is valid until it is revoked.
	Expires time.Time `json:"expires,omitzero"`
	// Expired reports that the store saw the token after its expiry. The token stays invalid even if the clock goes
	// back.
	Expired bool `json:"expired,omitempty"`
	// Grant applies if no principal block of the configuration has the name of the principal.
	Grant *StoredGrant `json:"grant,omitempty"`
}

// StoredGrant is a grant in the token store.
type StoredGrant struct {
	Rights     []string `json:"rights"`
	Workspaces []string `json:"workspaces,omitempty"`
	Tools      []string `json:"tools,omitempty"`
	Fields     []string `json:"fields,omitempty"`
}

func (g *StoredGrant) grant() (Grant, error) {
	rights, unknown := ParseRights(g.Rights)
	if unknown != "" {
		return Grant{}, fmt.Errorf("the token has the unknown right %q", unknown)
	}
	return Grant{Rights: rights, Workspaces: g.Workspaces, Tools: g.Tools, Fields: g.Fields}, nil
}

// Tokens is the token store, a file that belongs to the user. A change of the file takes effect at the next request. If
// the file cannot be read, no token is valid. Several processes can use the store at the same time.
type Tokens struct {
	dir string
	now func() time.Time

	mu     sync.Mutex
	stamp  stamp
	cached *tokensFile
	err    error
}

// stamp identifies one content of the store's file. Each change creates a new file.
type stamp struct {
	inode       uint64
	size, mtime int64
}

// OpenTokens returns the token store in a state directory. It does not read the file.
func OpenTokens(stateDir string) *Tokens { return &Tokens{dir: stateDir, now: steadyClock()} }

// steadyClock returns a clock that never goes back while the process runs. It follows the wall clock forward.
func steadyClock() func() time.Time {
	begin := time.Now()
	wall := begin.Round(0)
	return func() time.Time {
		now := time.Now()
		if steady := wall.Add(now.Sub(begin)); steady.After(now.Round(0)) {
			return steady
		}
		return now.Round(0)
	}
}

type tokensFile struct {
	Version int `json:"version"`
	// Seen is the latest time at which the store was changed or a token was checked. The clock of the store never
	// returns an earlier time.
	Seen   time.Time `json:"seen"`
	Tokens []Token   `json:"tokens"`
}

// Path returns the path of the store's file.
func (t *Tokens) Path() string { return filepath.Join(t.dir, "tokens.json") }

// Create makes a token for a principal and returns its secret, which the store does not contain. A zero lifetime means
// that the token does not expire.
func (t *Tokens) Create(principal string, lifetime time.Duration,
	grant *StoredGrant) (secret string, token Token, err error) {
	secret = TokenPrefix + rand.Text()
	err = t.change(func(f *tokensFile, now time.Time) error {
		token = Token{ID: strings.ToLower(rand.Text()[:10]), Principal: principal, Hash: hash(secret),
			Created: now.UTC().Truncate(time.Second), Grant: grant}
		if lifetime > 0 {
			token.Expires = now.Add(lifetime).UTC().Truncate(time.Second)
		}
		f.Tokens = append(f.Tokens, token)
		return nil
	})
	return secret, token, err
}

// Revoke removes a token by its id, or all tokens of a principal. It returns the removed tokens.
func (t *Tokens) Revoke(name string) (revoked []Token, err error) {
	err = t.change(func(f *tokensFile, _ time.Time) error {
		f.Tokens = slices.DeleteFunc(f.Tokens, func(k Token) bool {
			match := k.ID == name || k.Principal == name
			if match {
				revoked = append(revoked, k)
			}
			return match
		})
		return nil
	})
	return revoked, err
}

// All returns all tokens. Tokens past their expiry are marked as expired.
func (t *Tokens) All() ([]Token, error) {
	f, err := t.read()
	if err != nil {
		return nil, err
	}
	now := later(t.now(), f.Seen)
	out := slices.Clone(f.Tokens)
	for i := range out {
		out[i].Expired = out[i].expired(now)
	}
	return out, nil
}

func (k *Token) expired(now time.Time) bool {
	return k.Expired || !k.Expires.IsZero() && !now.Before(k.Expires)
}

// errNoToken means that the store does not contain the token.
var errNoToken = errors.New("the token is unknown")

// seenEvery is the time between two updates of the time in the store.
const seenEvery = time.Minute

// find returns the token with the given secret. The comparison takes the same time for every secret.
func (t *Tokens) find(secret string) (*Token, error) {
	f, err := t.read()
	if err != nil {
		return nil, err
	}
	sum, found := hash(secret), -1
	for i := range f.Tokens {
		if subtle.ConstantTimeCompare([]byte(f.Tokens[i].Hash), []byte(sum)) == 1 {
			found = i
		}
	}
	if found < 0 {
		return nil, errNoToken
	}
	now := later(t.now(), f.Seen)
	k := f.Tokens[found]
	over := k.expired(now)
	expiring := slices.ContainsFunc(f.Tokens, func(k Token) bool { return !k.Expires.IsZero() })
	if over && !k.Expired || expiring && now.Sub(f.Seen) > seenEvery { // the check of one token also reveals the expiry of other tokens
		if err := t.change(func(f *tokensFile, _ time.Time) error {
			for i := range f.Tokens {
				f.Tokens[i].Expired = f.Tokens[i].expired(now)
			}
			return nil
		}); err != nil && over {
			return nil, err
		}
	}
	if over {
		return nil, fmt.Errorf("the token %s ended at %s. Make another one: toolhost token create %s", k.ID, k.Expires.Format(time.RFC3339), k.Principal)
	}
	return &k, nil
}

// clock returns the current time. It never returns a time before the time in the store, and updates the
// stored time about once a minute.
func (t *Tokens) clock() time.Time {
	f, err := t.read()
	if err != nil {
		return t.now()
	}
	now := later(t.now(), f.Seen)
	if now.Sub(f.Seen) > seenEvery {
		_ = t.change(func(*tokensFile, time.Time) error { return nil }) // error ignored: the next call tries again
	}
	return now
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// read returns the content of the store. It reads the file only if the file changed.
func (t *Tokens) read() (*tokensFile, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := stampOf(t.Path())
	if t.cached == nil && t.err == nil || now != t.stamp || now == (stamp{}) {
		t.cached, t.err = t.load()
		t.stamp = now
	}
	return t.cached, t.err
}

func stampOf(path string) stamp {
	st, err := os.Lstat(path)
	if err != nil {
		return stamp{}
	}
	out := stamp{size: st.Size(), mtime: st.ModTime().UnixNano()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		out.inode = sys.Ino
	}
	return out
}

func (t *Tokens) load() (*tokensFile, error) {
	out := &tokensFile{Version: tokensLayout}
	err := t.file().Read(out)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the token store %s cannot be read, so no token is valid: %w. Remove the file and make new tokens: toolhost token create", t.Path(), err)
	case out.Version != tokensLayout:
		return nil, fmt.Errorf("the token store %s has version %d, but this toolhost reads version %d, so no token is valid: use the toolhost that wrote it", t.Path(), out.Version, tokensLayout)
	}
	return out, nil
}

func (t *Tokens) file() ownfile.File { return ownfile.File{Path: t.Path(), Name: "the token store"} }

// change locks the store, calls the function "do", and replaces the file atomically.
func (t *Tokens) change(do func(f *tokensFile, now time.Time) error) error {
	return t.file().Change(func() (any, error) {
		f, err := t.load()
		if err != nil {
			return nil, err
		}
		f.Seen = later(t.now(), f.Seen)
		return f, do(f, f.Seen)
	})
}
