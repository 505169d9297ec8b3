package principal

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
)

// Block is a principal of the configuration.
type Block struct {
	Name string
	Grant
	// Users lists user ids. A client on a Unix socket with one of these ids is authenticated as this principal.
	Users []int
	// Issuer is the name of the issuer whose tokens authenticate the principal. Empty means that no issuer
	// authenticates the principal.
	Issuer string
	// Claims are the values that a token of the issuer must have.
	Claims map[string]string
}

// Blocks contains the principals and issuers of a configuration.
type Blocks struct {
	Principals []Block
	Issuers    []Issuer
}

// OutputBytes returns the maximum size of a plugin's output files for an owner; see [Principal.Owner]. Zero means that
// the configuration sets no limit.
func (b *Blocks) OutputBytes(owner string) int64 {
	name, err := url.QueryUnescape(owner)
	if err != nil {
		return 0
	}
	if p := b.find(family(name)); p != nil {
		return p.MaxOutput
	}
	return 0
}

// find returns the block with the given name, or nil.
func (b *Blocks) find(name string) *Block {
	i := slices.IndexFunc(b.Principals, func(p Block) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &b.Principals[i]
}

// Secret is a token that the server received at its start, with the principal that the token authenticates.
type Secret struct {
	Token     string
	Principal *Principal
}

// Directory authenticates the clients of a server. It is safe for concurrent use.
type Directory struct {
	// Blocks returns the principals and issuers of the current configuration.
	Blocks func() Blocks
	// Tokens is the token store. A nil Tokens contains no token.
	Tokens *Tokens
	// Secrets are the tokens with which the server was started.
	Secrets []Secret
	// Anonymous permits requests without a token.
	Anonymous bool

	signed verifiers
	places places
	pinned sync.Once
}

// pin returns a grant whose workspaces contain no symbolic links. The first call pins the workspaces of all
// principals, before a request can run tools.
func (d *Directory) pin(g Grant) Grant {
	blocks := d.Blocks()
	var all []string
	for _, b := range blocks.Principals {
		all = append(all, b.Workspaces...)
	}
	for _, s := range d.Secrets {
		all = append(all, s.Principal.Workspaces...)
	}
	d.pinned.Do(func() {
		for _, b := range blocks.Principals {
			d.places.pin(b.Grant, all)
		}
	})
	return d.places.pin(g, all)
}

// NewDirectory returns a directory without secrets.
func NewDirectory(blocks func() Blocks, tokens *Tokens) *Directory {
	now := steadyClock()
	if tokens != nil {
		now = tokens.clock
	}
	return &Directory{Blocks: blocks, Tokens: tokens, signed: verifiers{now: now}}
}

// peerKey is the key of the peer in a context.
type peerKey struct{}

// Peer is the client of a Unix socket. Err is the reason why the client cannot be identified.
type Peer struct {
	User int
	Err  error
}

// WithPeer returns a context for the requests of a Unix socket's client.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// ErrMissing means that a request has no token.
var ErrMissing = errors.New("the request has no token")

// Authenticate returns the principal of a request. The token must be in the header "Authorization: Bearer TOKEN";
// tokens in other places are ignored.
func (d *Directory) Authenticate(r *http.Request) (*Principal, error) {
	if len(r.Header.Values("Authorization")) > 1 { // with several headers, a proxy and this server could use different tokens
		return nil, errors.New("the request has more than one header Authorization")
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token != "" && strings.EqualFold(scheme, "Bearer") {
		return d.byToken(r.Context(), token)
	}
	if peer, ok := r.Context().Value(peerKey{}).(Peer); ok {
		if peer.Err != nil {
			return nil, peer.Err
		}
		return d.byUser(peer.User)
	}
	if d.Anonymous {
		return Anonymous(), nil
	}
	return nil, ErrMissing
}

func (d *Directory) byToken(ctx context.Context, token string) (*Principal, error) {
	given, found := sha256.Sum256([]byte(token)), -1
	for i, s := range d.Secrets {
		want := sha256.Sum256([]byte(s.Token))
		if subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
			found = i
		}
	}
	if found >= 0 {
		d.pin(Grant{})
		return d.Secrets[found].Principal, nil
	}
	blocks := d.Blocks()
	if strings.Count(token, ".") == 2 && len(blocks.Issuers) > 0 {
		return d.bySignature(ctx, &blocks, token)
	}
	if d.Tokens == nil {
		return nil, errNoToken
	}
	k, err := d.Tokens.find(token)
	if err != nil {
		return nil, err
	}
	if b := blocks.find(k.Principal); b != nil {
		return &Principal{Name: b.Name, Grant: d.pin(b.Grant)}, nil
	}
	if k.Grant == nil {
		return nil, fmt.Errorf("the token %s is for principal %q, which the configuration no longer has. Add principal %q, or revoke the token: toolhost token revoke %s", k.ID, k.Principal, k.Principal, k.ID)
	}
	grant, err := k.Grant.grant()
	if err != nil {
		return nil, err
	}
	return &Principal{Name: k.Principal, Grant: d.pin(grant)}, nil
}

// bySignature returns the first principal of the configuration that the claims of a signed token match. Each subject is
// a separate principal.
func (d *Directory) bySignature(ctx context.Context, blocks *Blocks, token string) (*Principal, error) {
	issuer, claims, err := d.signed.verify(ctx, blocks.Issuers, token)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks.Principals {
		if b.Issuer == issuer.Name && claims.match(b.Claims) {
			return &Principal{Name: b.Name + "/" + claims.Subject, Grant: d.pin(b.Grant)}, nil
		}
	}
	return nil, fmt.Errorf("no principal of the configuration matches the token of issuer %s with subject %q", issuer.Name, claims.Subject)
}

// byUser returns the principal of a user on this machine.
func (d *Directory) byUser(uid int) (*Principal, error) {
	blocks := d.Blocks()
	for _, b := range blocks.Principals {
		if slices.Contains(b.Users, uid) {
			return &Principal{Name: b.Name, Grant: d.pin(b.Grant)}, nil
		}
	}
	if uid == os.Getuid() {
		return LocalUser(), nil
	}
	return nil, fmt.Errorf("user %d is not a principal of the configuration. Add users = [%[1]d] to a principal block", uid)
}

func decodeSegment(s string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(s) }
