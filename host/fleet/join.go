package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"toolhost.dev/sdk/suggest"

	"toolhost.dev/host/fleet/fleetpb"
	"toolhost.dev/host/fleet/identity"
	"toolhost.dev/host/fleet/internal/gate"
	"toolhost.dev/host/fleet/internal/lease"
	"toolhost.dev/host/fleet/internal/share"
	"toolhost.dev/host/internal/nodename"
)

// node returns the name of the node.
func (f *Fleet) node() string {
	if f.id != nil {
		return f.id.Node
	}
	if f.settings.Node != "" {
		return f.settings.Node
	}
	machine, _ := os.Hostname()
	return cmp.Or(nodename.Of(machine), "node")
}

// identify opens the identity of the node. A new node joins a fleet, or begins one.
func (f *Fleet) identify(ctx context.Context) error {
	id, err := identity.Open(f.dir)
	switch {
	case err == nil:
		if f.settings.Node != "" && f.settings.Node != id.Node {
			return fmt.Errorf("this node is named %s in its certificate, and %s in the configuration. Remove node from the fleet block, or join as a new node: remove %s", id.Node, f.settings.Node, f.dir)
		}
		if id.Revoked() != nil {
			return f.errRevoked()
		}
		f.id, f.gate = id, gate.New(id, f.log)
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the identity of the node cannot be read: %w", err)
	}
	node := f.node()
	if err := nodename.Check(node); err != nil {
		return fmt.Errorf("%w. Set it: fleet { node = \"…\" }", err)
	}
	if f.opts.Join != "" {
		if err := f.ask(ctx, node); err != nil {
			return fmt.Errorf("the node cannot join the fleet at %s: %w", f.opts.Join, err)
		}
	} else if err := f.begin(node); err != nil {
		return err
	} else {
		f.isNew = true
	}
	if f.id, err = identity.Open(f.dir); err == nil {
		f.gate = gate.New(f.id, f.log)
	}
	return err
}

// begin makes the authority of a new fleet, and the certificate of its first node.
func (f *Fleet) begin(node string) error {
	authority, err := identity.CreateAuthority(f.dir)
	if err != nil {
		return fmt.Errorf("the authority of the fleet cannot be made: %w", err)
	}
	public, err := identity.NewKey(f.dir)
	if err != nil {
		return err
	}
	cert, err := authority.Sign(node, public)
	if err != nil {
		return err
	}
	return identity.Save(f.dir, cert, authority.Certificate())
}

// JoinLine returns the command with which another machine joins the fleet, and a new join token. Only the first node of
// a fleet can make tokens.
func (f *Fleet) JoinLine() (command, token string, err error) {
	authority, err := identity.OpenAuthority(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", errors.New("only the first node of the fleet makes join tokens. Run toolhost fleet token there")
	}
	if err != nil {
		return "", "", err
	}
	if token, err = identity.OpenTokens(f.dir).New(authority); err != nil {
		return "", "", err
	}
	return "toolhost serve --fleet join " + f.address + " --fleet-token-file FILE", token, nil
}

// admitNodes lets other nodes join before this node reaches the coordinators, because the coordinators can be on those
// nodes.
func (f *Fleet) admitNodes(context.Context) error {
	f.host.OnFleet(f.operate)
	if !f.isNew || f.opts.Began == nil {
		return nil
	}
	command, token, err := f.JoinLine()
	if err == nil {
		f.opts.Began(command, token)
	}
	return err
}

// ask asks a node of the fleet for a certificate.
func (f *Fleet) ask(ctx context.Context, node string) error {
	if f.opts.Token == "" {
		return errors.New("a join token is missing. Make one on the first node, toolhost fleet token, and pass it with --fleet-token-file")
	}
	secret, fingerprint, err := identity.ParseToken(f.opts.Token)
	if err != nil {
		return err
	}
	public, err := identity.NewKey(f.dir)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+f.opts.Join,
		grpc.WithTransportCredentials(credentials.NewTLS(identity.Stranger(fingerprint))))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	res, err := fleetpb.NewNodeServiceClient(conn).Join(ctx, &fleetpb.JoinRequest{
		Secret: secret, Node: node, PublicKey: public,
	})
	if err != nil {
		return errors.New(status.Convert(err).Message())
	}
	if list := res.GetRevocations(); len(list) > 0 {
		if err := identity.SaveRevocations(f.dir, list, res.GetAuthority()); err != nil {
			return err
		}
	}
	if err := f.writeKnown(known{Name: res.GetFleet(), Coordinators: res.GetCoordinators()}); err != nil {
		return err
	}
	return identity.Save(f.dir, res.GetCertificate(), res.GetAuthority())
}

// Join implements fleetpb.NodeServiceServer. It issues a certificate for a new node.
func (s *service) Join(ctx context.Context, req *fleetpb.JoinRequest) (*fleetpb.JoinResponse, error) {
	f := s.fleet
	authority, err := identity.OpenAuthority(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("only the first node of the fleet admits nodes. Join at its address")
	}
	if err != nil {
		f.log.Error("the authority of the fleet cannot be read", "why", err)
		return nil, errors.New("the authority of the fleet cannot be read")
	}
	if f.isReady() {
		if p := f.lease.Peer(req.GetNode()); p != nil && (!p.Fenced || !p.Cut) {
			return nil, fmt.Errorf("the fleet has a node named %s. Give this node another name: fleet { node = … }", req.GetNode())
		}
	}
	if err := nodename.Check(req.GetNode()); err != nil {
		return nil, err
	}
	if err := identity.OpenTokens(f.dir).Use(req.GetSecret()); err != nil {
		f.log.Warn("a node was not admitted", "node", req.GetNode(), "from", peerAddress(ctx), "why", err)
		return nil, err
	}
	cert, err := authority.Sign(req.GetNode(), req.GetPublicKey())
	if err != nil {
		return nil, err
	}
	coordinators, err := f.coordinators()
	if err != nil {
		return nil, err
	}
	f.log.Info("a node was admitted", "node", req.GetNode(), "from", peerAddress(ctx))
	return &fleetpb.JoinResponse{Certificate: cert, Authority: authority.Certificate(), Fleet: f.settings.Name,
		Coordinators: coordinators, Revocations: f.id.Revocations().DER()}, nil
}

// Revoked is the outcome of a revocation.
type Revoked struct {
	// Serials contains the serial numbers of the revoked certificates of the node, in hexadecimal digits.
	Serials []string `json:"serials"`
	// Told contains the nodes that now refuse the certificates. The keys of Missing are the other nodes, and the values
	// are the reasons. These nodes receive the list of revoked certificates when they reach the coordinators.
	Told    []string          `json:"told"`
	Missing map[string]string `json:"missing,omitempty"`
	// External reports whether the records are in an external NATS cluster, whose users the fleet does not manage.
	External bool `json:"external,omitempty"`
}

// stateRevoked is the state of a node whose certificate was revoked, as operators see it.
const stateRevoked = "revoked"

// serves reports whether sessions can be placed on a node.
func (f *Fleet) serves(p *lease.Peer) bool { return p.Serves() && !f.id.HasRevoked(p.Certificate) }

// servesNamed reports whether sessions that name a node can be placed on it. The configuration of the node can differ
// from that of the fleet, because the session is for this node.
func (f *Fleet) servesNamed(p *lease.Peer) bool {
	return p.Lives() && (p.State == lease.StateReady || p.State == lease.StateMismatched) &&
		!f.id.HasRevoked(p.Certificate)
}

// stateOf returns the state of a node for messages.
func (f *Fleet) stateOf(p *lease.Peer) string {
	if f.id.HasRevoked(p.Certificate) {
		return stateRevoked
	}
	return p.State
}

// errRevoked returns the error for a node whose own certificate was revoked.
func (f *Fleet) errRevoked() error {
	return fmt.Errorf("the fleet has revoked the certificate of this node, so no other node accepts its connections. To join again as a new node, stop it, remove %s, and start it with a new token. The first node makes one: toolhost fleet token", f.dir)
}

// revoke revokes the certificates of a node, and notifies the other nodes. Only the first node of the fleet can do
// that, because only this node has the key of the authority.
func (f *Fleet) revoke(ctx context.Context, node string) (*Revoked, error) {
	authority, err := identity.OpenAuthority(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("only the first node of the fleet can revoke certificates. Run toolhost fleet revoke there")
	}
	if err != nil {
		return nil, fmt.Errorf("the authority of the fleet cannot be read: %w", err)
	}
	if node == f.node() {
		return nil, errors.New("this node has the key that signs all certificates of the fleet, so revoking its certificate protects nothing. If somebody has its key, begin a new fleet, and let the nodes join that one")
	}
	peers := f.lease.Peers()
	var record []byte
	if p := peers[node]; p != nil {
		record = p.Certificate
	}
	f.revoking.Lock()
	defer f.revoking.Unlock()
	list, serials, err := authority.Revoke(node, record)
	if err != nil {
		return nil, err
	}
	if len(serials) == 0 && !f.id.HasRevoked(record) {
		names := slices.Collect(maps.Keys(peers))
		return nil, fmt.Errorf("the fleet has no valid certificate of a node named %q.%s See toolhost fleet status", node, suggest.DidYouMean(node, names))
	}
	if err := f.learnRevocations(list); err != nil {
		return nil, err
	}
	f.log.Warn("certificates were revoked", "node", node, "serials", serials)
	out := &Revoked{Serials: append([]string{}, serials...), Told: []string{f.node()}, Missing: make(map[string]string),
		External: len(f.settings.NATS) > 0}
	if err := f.shareRevocations(ctx); err != nil {
		out.Missing["the coordinators"] = err.Error()
	}
	f.tellRevocations(ctx, list, peers, out)
	return out, nil
}

// tellRevocations sends a list of revoked certificates to the other nodes, and notes in out which nodes have accepted
// it.
func (f *Fleet) tellRevocations(ctx context.Context, list []byte, peers map[string]*lease.Peer, out *Revoked) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, p := range peers {
		if name == f.node() || p.State == lease.StateLeft || f.id.HasRevoked(p.Certificate) {
			continue
		}
		all.Go(func() {
			_, err := f.query(ctx, name, opRevoked, Arguments{Revocations: list})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.Missing[name] = err.Error()
				return
			}
			out.Told = append(out.Told, name)
		})
	}
	all.Wait()
	slices.Sort(out.Told)
}

// learnRevocations adopts a list of revoked certificates if it is newer than the known list. It ends the connections
// with the nodes that have these certificates. The list can come from any node, because the authority has signed it.
func (f *Fleet) learnRevocations(list []byte) error {
	newer, err := f.id.Revocations().Learn(list)
	if !newer {
		return err
	}
	f.log.Info("this node has a new list of revoked certificates", "connections ended", f.gate.Cut())
	if f.id.Revoked() != nil {
		f.log.Error(f.errRevoked().Error())
	}
	return err
}

// revocationsKey is the key of the list of revoked certificates.
const revocationsKey = "revocations"

// shareRevocations adopts the fleet's list of revoked certificates, or replaces that list if this node has a newer one.
// So no node can remove a certificate from the list, although every node can write the record.
func (f *Fleet) shareRevocations(ctx context.Context) error {
	c, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	e, err := f.bus.Config.Get(c, revocationsKey)
	var theirs []byte
	if err == nil {
		theirs = e.Value()
		if err := f.learnRevocations(theirs); err != nil {
			f.log.Warn("the record of revoked certificates is damaged, and is replaced", "why", err)
		}
	} else if !errors.Is(err, jetstream.ErrKeyNotFound) {
		return err
	}
	if own := f.id.Revocations().DER(); own != nil && !bytes.Equal(own, theirs) {
		_, err := f.bus.Config.Put(c, revocationsKey, own)
		return err
	}
	return nil
}

// checkShared checks that this node sees the same files as the others in its shared workspaces.
func (f *Fleet) checkShared(ctx context.Context) error {
	for _, w := range f.shared() {
		if err := share.Check(ctx, f.bus.Config, f.node(), w.Shared, w.Path); err != nil {
			return fmt.Errorf("workspace %s: %w", w.Name, err)
		}
	}
	return nil
}
