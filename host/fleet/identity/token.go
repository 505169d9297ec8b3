package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"toolhost.dev/host/internal/ownfile"
)

// TokenLife is the time for which a join token can be used, once.
const TokenLife = 15 * time.Minute

const (
	tokenPrefix = "thfleet1."
	tokensFile  = "tokens.json"
)

// Tokens contains the unused join tokens that a node made. It is safe for concurrent use, also by several processes and
// by several values for the same directory: all changes take the lock of the file.
type Tokens struct{ file ownfile.File }

type savedToken struct {
	Hash    []byte    `json:"hash"`
	Expires time.Time `json:"expires"`
}

// OpenTokens returns the tokens in a directory.
func OpenTokens(dir string) *Tokens {
	return &Tokens{ownfile.File{Path: filepath.Join(dir, tokensFile), Name: "the file of the join tokens"}}
}

// New makes a token. It contains the fingerprint of the authority, so that the new node can recognize the authority.
func (t *Tokens) New(authority *Authority) (string, error) {
	secret := rand.Text()
	err := t.file.Change(func() (any, error) {
		all, err := t.read()
		hash := sha256.Sum256([]byte(secret))
		return append(all, savedToken{Hash: hash[:], Expires: time.Now().Add(TokenLife)}), err
	})
	if err != nil {
		return "", err
	}
	fingerprint := sha256.Sum256(authority.Certificate())
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(fingerprint[:]) + "." + secret, nil
}

// ErrToken means that a join token is unknown, used or too old.
var ErrToken = errors.New("the join token is unknown, was used before, or is older than 15 minutes. Make a new one on the first node: toolhost fleet token")

// Use uses a token up. It returns [ErrToken] if the token is not valid. When Use returns without an error, the removal
// of the token is on the disk. So no other node can use the token, even after a loss of power.
func (t *Tokens) Use(secret string) error {
	return t.file.Change(func() (any, error) {
		all, err := t.read()
		if err != nil {
			return nil, err
		}
		hash := sha256.Sum256([]byte(secret))
		i := slices.IndexFunc(all, func(s savedToken) bool { return subtle.ConstantTimeCompare(s.Hash, hash[:]) == 1 })
		if i < 0 {
			return nil, ErrToken
		}
		return slices.Delete(all, i, i+1), nil
	})
}

// read returns the tokens that are not too old.
func (t *Tokens) read() ([]savedToken, error) {
	all := []savedToken{}
	if err := t.file.Read(&all); err != nil {
		return nil, fmt.Errorf("the join tokens cannot be read: %w. Remove %s to give all of them up, and make new ones: toolhost fleet token", err, t.file.Path)
	}
	return slices.DeleteFunc(all, func(s savedToken) bool { return time.Now().After(s.Expires) }), nil
}

// ParseToken splits a token into its secret and the fingerprint of the authority.
func ParseToken(token string) (secret string, fingerprint [sha256.Size]byte, err error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(token), tokenPrefix)
	encoded, secret, found := strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || !found || err != nil || len(raw) != len(fingerprint) || secret == "" {
		return "", fingerprint, errors.New("this is not a join token. A token begins with " + tokenPrefix + "; make one on the first node: toolhost fleet token")
	}
	copy(fingerprint[:], raw)
	return secret, fingerprint, nil
}

// Stranger returns the TLS settings of a node without a certificate. It accepts only a server with a certificate of the
// authority that a token names.
func Stranger(fingerprint [sha256.Size]byte) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks the chain against the fingerprint
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) < 2 {
				return errors.New("the server sent no certificate of its authority")
			}
			authority := s.PeerCertificates[len(s.PeerCertificates)-1]
			if sha256.Sum256(authority.Raw) != fingerprint {
				return errors.New("the server belongs to another fleet than the join token")
			}
			pool := x509.NewCertPool()
			pool.AddCert(authority)
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
				Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			})
			return err
		},
	}
}
