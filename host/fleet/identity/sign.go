package identity

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Statement is the statement of a node about a call of its client.
type Statement struct {
	// Node is the name of the node that makes the statement.
	Node string `json:"node"`
	// Principal is the client, in the form of host.Principal.
	Principal json.RawMessage `json:"principal"`
	// Session is the key of the session, and Call the id of the call. Digest is the SHA-256 of the request. Without
	// Call and Digest, the statement is about all calls of the session that the node itself sends.
	Session string `json:"session"`
	Call    string `json:"call,omitempty"`
	Digest  []byte `json:"digest,omitempty"`
	// Expires is the time in Unix seconds after which the statement is not valid.
	Expires int64 `json:"expires"`
}

// StatementLife is the time for which a statement is valid. It also covers the difference between the clocks of nodes.
const StatementLife = time.Minute

// The signature covers this prefix, so that a signature for something else cannot be used.
const signed = "toolhost fleet statement v1\n"

// Sign signs a statement at a time on which the nodes agree. It sets the node and the time of expiry.
func (i *Identity) Sign(s Statement, now time.Time) (text, signature []byte, err error) {
	s.Node, s.Expires = i.Node, now.Add(StatementLife).Unix()
	if text, err = json.Marshal(s); err != nil {
		return nil, nil, err
	}
	return text, ed25519.Sign(i.key, append([]byte(signed), text...)), nil
}

// SignSession returns a statement about all calls of a session. It makes a new statement when half of the lifetime of
// the last statement has passed.
func (i *Identity) SignSession(principal json.RawMessage, session string,
	now time.Time) (text, signature []byte, err error) {
	key := session + "\n" + string(principal)
	if s, ok := i.said.get(key); ok && now.Before(s.renew) && now.After(s.renew.Add(-StatementLife)) {
		return s.text, s.signature, nil
	}
	text, signature, err = i.Sign(Statement{Principal: principal, Session: session}, now)
	if err == nil {
		i.said.put(key, signedStatement{text, signature, now.Add(StatementLife / 2)})
	}
	return text, signature, err
}

type signedStatement struct {
	text, signature []byte
	renew           time.Time
}

// Verify returns a statement of another node if it is valid at a time. The certificate is the one that the node used
// for its connection, or the one in the record of the node. The caller must not change the statement.
func (i *Identity) Verify(node string, certificate, text, signature []byte, now time.Time) (*Statement, error) {
	key := node + "\n" + string(certificate) + string(signature) + string(text) // only the text varies in length
	s, known := i.heard.get(key)
	if !known {
		var err error
		if s, err = i.verify(node, certificate, text, signature); err != nil {
			return nil, err
		}
		if s.Call == "" { // it will be seen again
			i.heard.put(key, s)
		}
	}
	return s, s.valid(now)
}

// verify checks the signature of a statement, and its author.
func (i *Identity) verify(node string, certificate, text, signature []byte) (*Statement, error) {
	pub, err := i.keys.keyOf(i.authority, node, certificate)
	if err != nil {
		return nil, err
	}
	if !ed25519.Verify(pub, append([]byte(signed), text...), signature) {
		return nil, errors.New("the signature of the principal is wrong")
	}
	s := new(Statement)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the statement about the principal cannot be read: %w", err)
	}
	if s.Node != node {
		return nil, fmt.Errorf("the statement is by node %s, not by %s", s.Node, node)
	}
	return s, nil
}

// valid returns an error if the statement is not valid at a time.
func (s *Statement) valid(now time.Time) error {
	if now.After(time.Unix(s.Expires, 0).Add(StatementLife)) ||
		now.Add(3*StatementLife).Before(time.Unix(s.Expires, 0)) {
		return fmt.Errorf("the statement about the principal has expired, or the nodes do not agree on the time within %s. Check that both reach the coordinators", StatementLife)
	}
	return nil
}

// memory caches values that would be expensive to compute again for each forwarded call. Its zero value is ready to
// use. It is safe for concurrent use.
type memory[T any] struct {
	mu    sync.RWMutex
	known map[string]T
}

// maxKnown is the maximum number of cached values. If a further value is added, all earlier values are removed.
const maxKnown = 1024

func (m *memory[T]) get(key string) (v T, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok = m.known[key]
	return v, ok
}

func (m *memory[T]) put(key string, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxKnown {
		m.known = make(map[string]T)
	}
	m.known[key] = v
}

// nodeKeys contains the keys of certificates that were checked, by the certificate in DER.
type nodeKeys struct{ memory[checkedKey] }

type checkedKey struct {
	node string
	key  ed25519.PublicKey
}

// keyOf returns the key of a node from its certificate.
func (k *nodeKeys) keyOf(authority *x509.Certificate, node string, certificate []byte) (ed25519.PublicKey, error) {
	if known, ok := k.get(string(certificate)); ok && known.node == node {
		return known.key, nil
	}
	cert, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("the certificate of node %s cannot be read: %w", node, err)
	}
	if err := cert.CheckSignatureFrom(authority); err != nil {
		return nil, fmt.Errorf("the certificate of node %s is not from the authority of the fleet: %w", node, err)
	}
	pub, isEd25519 := cert.PublicKey.(ed25519.PublicKey)
	if !isEd25519 || cert.Subject.CommonName != node {
		return nil, fmt.Errorf("the certificate is not that of node %s", node)
	}
	k.put(string(certificate), checkedKey{node, pub})
	return pub, nil
}
