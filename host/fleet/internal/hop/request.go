// Package hop passes calls from one process to another: from a gateway to the node that has the session, or from a
// program to the node on its machine. [Call] is the end of the process that makes the call. [Caller] represents this
// process in the node that runs it. A call with a hold survives the loss of its connection, see [Holds].
package hop

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// MaxMessage is the maximum size of a message between processes, in bytes. A result can have a size of 64 MiB.
const MaxMessage = 80 << 20

// Request is a request in the form that nodes exchange. It contains the name of the workspace instead of the path.
type Request struct {
	MessageID    string           `json:"message_id,omitempty"`
	Command      string           `json:"command,omitempty"`
	Name         string           `json:"name,omitempty"`
	Arguments    json.RawMessage  `json:"arguments,omitempty"`
	Session      string           `json:"session"`
	Workspace    string           `json:"workspace"`
	Branch       string           `json:"branch,omitempty"`
	InOrder      bool             `json:"in_order,omitempty"`
	Preview      bool             `json:"preview,omitempty"`
	From         string           `json:"from,omitempty"`
	Endpoint     string           `json:"endpoint,omitempty"`
	Exchange     *host.Exchange   `json:"exchange,omitempty"`
	Client       *tool.ClientInfo `json:"client,omitempty"`
	Continuable  bool             `json:"continuable,omitempty"`
	Continuation []byte           `json:"continuation,omitempty"`
}

// RequestOf returns a request for a workspace in this form.
func RequestOf(req *host.Request, workspace string) Request {
	return Request{
		MessageID: req.MessageID, Command: req.Command, Name: req.Name, Arguments: req.Arguments, Session: req.Session,
		Workspace: workspace, Branch: req.Branch,
		InOrder: req.InOrder, Preview: req.Preview, From: req.From, Endpoint: req.Endpoint, Exchange: req.Exchange,
		Client:      req.Client,
		Continuable: req.Continuable, Continuation: req.Continuation,
	}
}

// Host returns the request for a host. The argument workspace replaces the name of the workspace.
func (r *Request) Host(workspace string) host.Request {
	return host.Request{
		MessageID: r.MessageID, Command: r.Command, Name: r.Name, Arguments: r.Arguments, Session: r.Session,
		InOrder: r.InOrder, From: r.From,
		Workspace: workspace, Branch: r.Branch, Preview: r.Preview, Endpoint: r.Endpoint, Exchange: r.Exchange,
		Client:      r.Client,
		Continuable: r.Continuable, Continuation: r.Continuation,
	}
}

// Decode returns the request in a text.
func Decode(text []byte) (*Request, error) {
	r := new(Request)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	return r, nil
}

// Content returns a digest of what the request runs. A repetition of a call has the same digest at each gateway. So the
// digest leaves out what differs between requests for the same call, such as the id of the message.
func (r *Request) Content() []byte {
	c := *r
	c.MessageID, c.From, c.InOrder, c.Client, c.Continuable = "", "", false, nil, false
	b, _ := json.Marshal(c) // it was marshaled before, with these arguments
	sum := sha256.Sum256(b)
	return sum[:]
}
