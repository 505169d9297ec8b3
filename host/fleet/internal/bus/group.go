package bus

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// systemUser is the name with which a node asks about the group of coordinators and changes it.
const systemUser = "system"

// serverNotMember is the error for a server that is not in the group.
const serverNotMember = 10044

// Peer is a coordinator in the group.
type Peer struct {
	// Name is the name of the server. The leader does not know the name if it has not heard from the server since the
	// leader started. Then Name is a text with spaces.
	Name string `json:"name"`
	// ID identifies the server in the group.
	ID      string `json:"peer"`
	Current bool   `json:"current"`
	Offline bool   `json:"offline"`
	// Active is the time since the leader heard from the coordinator. It is zero if this leader never heard from it.
	Active time.Duration `json:"active"`
}

// silence is the time after which a coordinator that the leader does not hear counts as stopped. The servers themselves
// notice only after minutes that another one was killed.
const silence = 10 * time.Second

// Runs reports whether the coordinator runs and the leader hears it.
func (p *Peer) Runs() bool {
	if p.Active == 0 {
		return p.Current && !p.Offline
	}
	return !p.Offline && p.Active < silence
}

// Is reports whether the coordinator is the server with the given name.
func (p *Peer) Is(server string) bool { return p.ID == PeerID(server) }

// Label returns the name of the server, or its ID if the leader does not know the name.
func (p *Peer) Label() string {
	if strings.Contains(p.Name, " ") {
		return p.ID
	}
	return p.Name
}

// PeerID returns the ID of a server in the group. It depends only on the name of the server. See the function getHash
// in server/events.go of nats-server.
func PeerID(server string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(server))
	id := make([]byte, 8)
	for i := range id {
		id[i] = digits[int(sum[i])%len(digits)]
	}
	return string(id)
}

// Group returns the coordinators that share the log of the group, including those that do not run.
func (b *Bus) Group(ctx context.Context) ([]Peer, error) {
	var out struct {
		Data struct {
			Meta *struct {
				Leader   string `json:"leader"`
				Replicas []Peer `json:"replicas"`
			} `json:"meta_cluster"`
		} `json:"data"`
	}
	if err := b.system(ctx, "$SYS.REQ.SERVER.PING.JSZ", map[string]bool{"leader_only": true}, &out); err != nil {
		return nil, err
	}
	if out.Data.Meta == nil || out.Data.Meta.Leader == "" {
		return nil, errors.New("the coordinators have no leader yet")
	}
	leader := out.Data.Meta.Leader
	return append(out.Data.Meta.Replicas, Peer{Name: leader, ID: PeerID(leader), Current: true}), nil
}

// RemoveServer removes a coordinator that has stopped from the group. It is no error if the coordinator is not in the
// group. The argument "id" is its ID in the group: the leader need not know its name.
func (b *Bus) RemoveServer(ctx context.Context, id string) error {
	var out struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := b.system(ctx, "$JS.API.SERVER.REMOVE", map[string]string{"peer_id": id}, &out); err != nil {
		return err
	}
	if out.Error == nil || out.Error.ErrorCode == serverNotMember {
		return nil
	}
	return out.Error
}

// system makes a request in the account of the servers, and decodes the answer into out.
func (b *Bus) system(ctx context.Context, subject string, request, out any) error {
	o := append(slices.Clone(b.options), nats.UserInfo(systemUser, ""), nats.RetryOnFailedConnect(false))
	nc, err := nats.Connect(strings.Join(b.Conn.Servers(), ","), o...)
	if err != nil {
		return err
	}
	defer nc.Close()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(m.Data, out)
}
