package call

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/policy"
)

// These limits apply to the requests in one [tool.Ask].
const (
	maxRequests     = 16
	maxRequestBytes = 1 << 20
	maxShownPrompt  = 1000
)

// request passes requests of a plugin on to the client. Using the client's model requires a permission, which is valid
// for the whole session. From a list of the client's roots, request removes those that are not in a root of the
// session.
func (p *peer) request(ctx context.Context, ask tool.Ask) (tool.Answer, error) {
	size, keys := 0, make(map[string]bool)
	for _, r := range ask.Requests {
		size += len(r.Params)
		keys[r.Key] = true
	}
	if len(ask.Requests) > maxRequests || size > maxRequestBytes || len(keys) < len(ask.Requests) {
		return tool.Answer{Outcome: tool.Declined, Message: fmt.Sprintf("a plugin can send at most %d different requests and %d bytes to a client at once", maxRequests, maxRequestBytes)}, nil
	}
	for _, r := range ask.Requests {
		switch r.Method {
		case tool.MethodElicit, tool.MethodRoots:
		case tool.MethodSampling:
			a, err := p.permitSampling(ctx, r)
			if err != nil || a.Outcome != tool.Accepted {
				return a, err
			}
		default:
			return tool.Answer{Outcome: tool.NobodyToAsk, Message: "unknown request to the client"}, nil
		}
	}
	if !p.call.Request.Continuable {
		// For example, a child call has no continuation, because its parent call cannot be resumed halfway.
		ask.Continuation = nil
	}
	a, err := p.Client.Ask(ctx, ask)
	if err != nil || a.Outcome != tool.Accepted {
		return a, err
	}
	return p.withinRoots(ask, a)
}

// permitSampling asks for the permission to use the client's model, once for each server and session.
func (p *peer) permitSampling(ctx context.Context, r tool.ClientRequest) (tool.Answer, error) {
	if p.noModel.Load() {
		return tool.Answer{Outcome: tool.Declined, Message: "the user declined it earlier in this call"}, nil
	}
	req := p.call.Question()
	server := p.call.Identity.Tool.Namespace
	if server == "" {
		server = p.call.Identity.Tool.Plugin
	}
	req.Name = server
	var prompt strings.Builder
	collect(&prompt, r.Params)
	text := []rune(prompt.String())
	if len(text) > maxShownPrompt {
		text = append(text[:maxShownPrompt], '…')
	}
	answers := p.call.Answers(p.state)
	a, answered, err := p.policy.Permit(ctx, req, &tool.Permission{
		Kind: policy.KindSampling, Title: fmt.Sprintf("Let the server %s use your model? It sends: %s", server, string(text)), Patterns: []string{server},
	}, p.Client, answers)
	p.call.answered(answered)
	if err == nil && a.Outcome == tool.Accepted {
		if _, known := answers.Recall(policy.KindSampling, server, server); !known {
			err = answers.Remember(policy.KindSampling, server, server, true, false)
		}
	}
	if a.Outcome == tool.Declined { // do not ask again and again, because a server could wait for a yes
		p.noModel.Store(true)
	}
	return a, err
}

// collect appends the texts of the messages in the parameters of a sampling request.
func collect(out *strings.Builder, params json.RawMessage) {
	var p struct {
		SystemPrompt string
		Messages     []struct{ Content json.RawMessage }
	}
	_ = json.Unmarshal(params, &p) // the client refuses invalid parameters
	if p.SystemPrompt != "" {
		out.WriteString(p.SystemPrompt + " ")
	}
	for _, m := range p.Messages {
		var one struct{ Text string }
		var several []struct{ Text string }
		if json.Unmarshal(m.Content, &one) != nil {
			_ = json.Unmarshal(m.Content, &several) // see above
		}
		for _, c := range append(several, one) {
			if c.Text != "" {
				out.WriteString(c.Text + " ")
			}
		}
	}
}

// withinRoots removes the roots of the client that are not in a root of the session. Otherwise a client could give a
// server access to directories that the operator did not permit.
func (p *peer) withinRoots(ask tool.Ask, a tool.Answer) (tool.Answer, error) {
	var results map[string]json.RawMessage
	if json.Unmarshal(a.Content, &results) != nil {
		return tool.Answer{Outcome: tool.NobodyToAsk, Message: "the client sent no valid answer"}, nil //nolint:nilerr // the plugin gets the outcome
	}
	for _, r := range ask.Requests {
		var list struct {
			Roots []json.RawMessage `json:"roots"`
		}
		if r.Method != tool.MethodRoots || json.Unmarshal(results[r.Key], &list) != nil {
			continue
		}
		kept := []json.RawMessage{}
		for _, raw := range list.Roots {
			var root struct{ URI string }
			if json.Unmarshal(raw, &root) == nil && p.isWithin(root.URI) {
				kept = append(kept, raw)
			}
		}
		b, err := json.Marshal(map[string]any{"roots": kept})
		if err != nil {
			return tool.Answer{}, err
		}
		results[r.Key] = b
	}
	b, err := json.Marshal(results)
	if err != nil {
		return tool.Answer{}, err
	}
	a.Content = b
	return a, nil
}

// isWithin reports whether a file URI is in a root of the session.
func (p *peer) isWithin(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
		return false
	}
	path, err := filepath.EvalSymlinks(filepath.Clean(u.Path))
	return err == nil && p.call.Request.Session.Contains(path)
}
