package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"

	"toolhost.dev/host/fleet/identity"
)

// nodes decides which clients the server admits. If admitted is true, these are all clients with a certificate of the
// fleet. TLS has already verified the certificate.
type nodes struct {
	admitted atomic.Bool // whether nodes are admitted
	srv      *server.Server
	secret   string // password of the connections within this process
}

func newNodes() *nodes { return &nodes{secret: rand.Text()} }

// Names with which clients log in. A node uses systemUser for requests about the group of coordinators. On its other
// connections, a node uses no name.
const (
	insideUser = "inside"
	systemUser = "system"
)

// Check implements server.Authentication. The name of the user ends with the serial number of the certificate.
func (n *nodes) Check(c server.ClientAuthentication) bool {
	state := c.GetTLSConnectionState()
	if state == nil {
		o := c.GetOpts()
		return o.Username == insideUser && subtle.ConstantTimeCompare([]byte(o.Password), []byte(n.secret)) == 1
	}
	if len(state.VerifiedChains) == 0 || !n.admitted.Load() {
		return false
	}
	cert := state.PeerCertificates[0]
	u := &server.User{Username: cert.Subject.CommonName + " " + cert.SerialNumber.Text(16)}
	if c.GetOpts().Username == systemUser {
		u.Account = n.srv.SystemAccount()
	}
	c.RegisterUser(u)
	return true
}

// open waits until the coordinators have the records of the fleet, and then admits nodes. If adopts is true, only this
// server has the records, and open first makes the group adopt them.
func (n *nodes) open(ctx context.Context, records store, adopts bool) error {
	nc, js, err := inside(n.srv, n.secret)
	if err != nil {
		return err
	}
	defer nc.Close()
	if adopts {
		err = records.adopt(ctx, n.srv, js)
	} else {
		err = awaitRecords(ctx, js)
	}
	if err == nil {
		n.admitted.Store(true)
	}
	return err
}

// peers contains the certificates of all coordinators that ever connected. It is safe for concurrent use.
type peers struct {
	mu    sync.Mutex
	certs []*x509.Certificate
}

// note returns a function that verifies a connection and adds the certificate of its peer to p.
func (p *peers) note(verify func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if err := verify(s); err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.certs {
			if c.Equal(s.PeerCertificates[0]) {
				return nil
			}
		}
		p.certs = append(p.certs, s.PeerCertificates[0])
		return nil
	}
}

// revoked returns the name of a coordinator whose certificate is revoked, or "".
func (p *peers) revoked(r *identity.Revocations) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.certs {
		if r.Check(c) != nil {
			return c.Subject.CommonName
		}
	}
	return ""
}

// trust ends connections with nodes whose certificates are revoked. The list of revoked certificates is a file that the
// host of this node writes.
type trust struct {
	srv   *server.Server
	list  *identity.Revocations
	peers *peers
	seen  []byte // the list that was enforced last
}

func newTrust(srv *server.Server, id *identity.Identity, peers *peers) *trust {
	return &trust{srv: srv, list: id.Revocations(), peers: peers}
}

// maxConnections is the maximum number of connections that the method "enforce" requests from the server.
const maxConnections = 1 << 20

// enforce ends the connections of nodes whose certificates a new list revokes. The server cannot end the connection of
// another coordinator. If a coordinator is revoked, enforce returns an error. The program must then end, and the host
// starts it again.
func (t *trust) enforce() error {
	if err := t.list.Refresh(); err != nil {
		return err
	}
	now := t.list.DER()
	if string(now) == string(t.seen) {
		return nil
	}
	all, err := t.srv.Connz(&server.ConnzOptions{Username: true, Limit: maxConnections})
	if err != nil {
		return fmt.Errorf("the connections of nodes cannot be listed: %w", err)
	}
	for _, c := range all.Conns {
		if i := strings.LastIndexByte(c.AuthorizedUser, ' '); t.list.Has(c.AuthorizedUser[i+1:]) {
			_ = t.srv.DisconnectClientByID(c.Cid) // ignore the error: the connection has already ended
		}
	}
	if name := t.peers.revoked(t.list); name != "" {
		return errors.New("the coordinator of the node " + name + " was revoked. To end its connections, this coordinator restarts")
	}
	t.seen = now
	return nil
}
