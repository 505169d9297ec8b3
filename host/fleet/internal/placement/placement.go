// Package placement decides on which node a session can be. [Lacks] returns why a node cannot have a session, and
// [Best] chooses between the nodes that can.
package placement

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"

	"toolhost.dev/host/fleet/internal/directory"
	"toolhost.dev/host/fleet/internal/lease"
)

// Split splits the workspace of a session. WORKSPACE@NODE is the workspace of one node: a session of it is only on this
// node. Without a node, the result node is "", and any node that has the workspace can have the session.
func Split(workspace string) (name, node string) {
	name, node, _ = strings.Cut(workspace, "@")
	return name, node
}

// Of returns the workspace of a node for a session of the given workspace. ok is false if the node has none.
func Of(p *lease.Peer, workspace string) (w lease.Workspace, ok bool) {
	name, node := Split(workspace)
	if node != "" && node != p.Node {
		return w, false
	}
	w, ok = p.Workspaces[name]
	return w, ok
}

// Lacks returns the reason why a node cannot have a session of a workspace, or "" if the node has its files. The
// argument e is the entry of the session, or nil for a new session.
func Lacks(p *lease.Peer, workspace string, e *directory.Entry) string {
	w, has := Of(p, workspace)
	_, node := Split(workspace)
	switch {
	case !has:
		return "no workspace " + workspace
	case node == "" && p.Outward:
		return "takes only sessions that name it, " + workspace + "@" + p.Node
	case e == nil || CheckFiles(e, p.Node, w.Shared) == nil:
		return ""
	case w.Shared == "":
		return fmt.Sprintf("its workspace %s is not shared, and the session is in the files%s", workspace, quoted(e.Identity))
	}
	return fmt.Sprintf("its workspace %s has the files %q, and the session is in the files%s", workspace, w.Shared, quoted(e.Identity))
}

// CheckFiles returns an error if a node does not have the files of a session of a shared workspace. The name of the
// workspace is not enough, because another node can have other files under the same name. The argument shared is the
// identity of the files on the node. An entry without an identity was written by an earlier version, so any shared
// files are accepted.
func CheckFiles(e *directory.Entry, node, shared string) error {
	const remedy = "Use the same shared on all nodes that see these files, and another name for the workspace on the other nodes"
	switch {
	case !e.Shared || shared != "" && (e.Identity == "" || e.Identity == shared):
		return nil
	case shared == "":
		return fmt.Errorf("the session is in shared files%s, and the workspace %s of the node %s has no shared, so its files are others. %s", quoted(e.Identity), e.Workspace, node, remedy)
	}
	return fmt.Errorf("the session is in shared files%s, and the workspace %s of the node %s has the files %q. %s", quoted(e.Identity), e.Workspace, node, shared, remedy)
}

// quoted returns the identity of files for a message.
func quoted(identity string) string {
	if identity == "" {
		return ""
	}
	return fmt.Sprintf(" %q", identity)
}

// Best picks two random nodes and returns the one with more free capacity. There must be at least one node.
func Best(nodes []*lease.Peer, key string) string {
	a, b := nodes[rand.IntN(len(nodes))], nodes[rand.IntN(len(nodes))] //nolint:gosec // a balance needs no secret
	switch x, y := room(a), room(b); {
	case x > y, x == y && Rank(a.Node, key) >= Rank(b.Node, key):
		return a.Node
	}
	return b.Node
}

// room returns the share of a node's capacity that is free. For a node without limits, it assumes a capacity of 1000
// sessions and 100 calls.
func room(p *lease.Peer) float64 {
	sessions, calls := 1-float64(p.Sessions)/1000, 1-float64(p.Calls)/100
	if p.MaxSessions > 0 {
		sessions = 1 - float64(p.Sessions)/float64(p.MaxSessions)
	}
	if p.MaxCalls > 0 {
		calls = 1 - float64(p.Calls)/float64(p.MaxCalls)
	}
	return min(sessions, calls)
}

// Rank is the weight of a node for a session. Each gateway computes the same weight.
func Rank(node, key string) uint64 {
	h := sha256.Sum256([]byte(node + "\x00" + key))
	return binary.BigEndian.Uint64(h[:])
}
