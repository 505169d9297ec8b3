package mount

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// maxItems is the maximum number of prompts. The same limit applies to resources, and to templates.
const maxItems = 500

// maxURI is the maximum length of a URI, in bytes.
const maxURI = 2 << 10

// listItems requests lists of the server's features other than tools. It requests only features that the operator
// offers to clients.
func (c *conn) listItems(ctx context.Context) ([]tool.Item, error) {
	cfg, caps := &c.mount.cfg, c.session.InitializeResult().Capabilities
	var out []tool.Item
	if cfg.offers(offerPrompts) && caps.Prompts != nil {
		prompts, err := c.listPrompts(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range prompts {
			out = append(out, promptItem(p)...)
		}
	}
	if cfg.offers(offerResources) && caps.Resources != nil {
		more, err := c.listResources(ctx)
		if err != nil {
			return nil, err
		}
		if out = append(out, more...); caps.Resources.Subscribe {
			out = append(out, tool.Item{Kind: tool.ItemSubscription})
		}
	}
	if cfg.offers(offerCompletions) && caps.Completions != nil {
		out = append(out, tool.Item{Kind: tool.ItemCompletion})
	}
	if cfg.offers(offerLogging) && (caps.Logging != nil || c.stateless()) { //nolint:staticcheck // see Config.capabilities
		out = append(out, tool.Item{Kind: tool.ItemLogging})
	}
	return out, nil
}

func (c *conn) listPrompts(ctx context.Context) ([]*mcp.Prompt, error) {
	prompts, err := pages(ctx, "prompts", func(ctx context.Context, cursor string) ([]*mcp.Prompt, string, error) {
		r, err := c.session.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Prompts, r.NextCursor, nil
	})
	if err != nil {
		return nil, fmt.Errorf("the server does not list its prompts: %w", err)
	}
	return prompts, nil
}

func (c *conn) listResources(ctx context.Context) ([]tool.Item, error) {
	resources, err := pages(ctx, "resources",
		func(ctx context.Context, cursor string) ([]*mcp.Resource, string, error) {
			r, err := c.session.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.Resources, r.NextCursor, nil
		})
	if err != nil {
		return nil, fmt.Errorf("the server does not list its resources: %w", err)
	}
	var out []tool.Item
	for _, r := range resources {
		out = append(out, resourceItem(r)...)
	}
	templates, err := pages(ctx, "resource templates",
		func(ctx context.Context, cursor string) ([]*mcp.ResourceTemplate, string, error) {
			r, err := c.session.ListResourceTemplates(ctx, &mcp.ListResourceTemplatesParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.ResourceTemplates, r.NextCursor, nil
		})
	if err != nil {
		logf("info", "the server does not list its resource templates: %s", clean(err.Error(), maxMessage))
	}
	for _, t := range templates {
		out = append(out, templateItem(t)...)
	}
	return out, nil
}

// pages requests a list page by page. If a limit is reached, it returns the items that it has received so far.
func pages[T any](ctx context.Context, what string,
	page func(ctx context.Context, cursor string) ([]T, string, error)) ([]T, error) {
	var all []T
	cursor, seen := "", make(map[string]bool)
	for range maxPages {
		items, next, err := page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if len(all) > maxItems {
			logf("warn", "the server has more than %d %s; only the first are used", maxItems, what)
			return all[:maxItems], nil
		}
		if next == "" {
			return all, nil
		}
		if seen[next] {
			logf("warn", "the server's list of %s repeats a page", what)
			return all, nil
		}
		cursor, seen[next] = next, true
	}
	logf("warn", "the server's list of %s has more than %d pages; the further pages are not used", what, maxPages)
	return all, nil
}

// item returns an item with its definition. It omits an item that is too large.
func item(kind tool.ItemKind, name string, definition any) []tool.Item {
	raw, err := json.Marshal(definition)
	if err != nil || len(raw) > maxSchema {
		logf("warn", "the server's %s %q is not used because its definition is too large", kind, clean(name, maxNameShown))
		return nil
	}
	return []tool.Item{{Kind: kind, Name: name, Definition: raw}}
}

func promptItem(p *mcp.Prompt) []tool.Item {
	if p == nil || !usableName(p.Name) {
		logf("warn", "the server lists a prompt without a usable name; the prompt is not used")
		return nil
	}
	q := *p
	q.Meta, q.Icons = nil, usableIcons(p.Icons)
	q.Title, q.Description = clean(p.Title, maxTitle), clean(p.Description, maxDescription)
	q.Arguments = nil
	for _, a := range p.Arguments[:min(len(p.Arguments), maxFields)] {
		if a != nil {
			if !usableName(a.Name) {
				logf("warn", "the server's prompt %q is not used: the name of an argument is empty, contains hidden characters or is too long", clean(p.Name, maxNameShown))
				return nil
			}
			b := *a
			b.Title, b.Description = clean(a.Title, maxTitle), clean(a.Description, maxDescription)
			q.Arguments = append(q.Arguments, &b)
		}
	}
	return item(tool.ItemPrompt, p.Name, &q)
}

func resourceItem(r *mcp.Resource) []tool.Item {
	if r == nil || !usableURI(r.URI) {
		logf("warn", "the server lists a resource without a usable URI; the resource is not used")
		return nil
	}
	q := *r
	q.Meta, q.Icons = nil, usableIcons(r.Icons)
	q.Name, q.Title, q.Description = clean(r.Name, maxTitle), clean(r.Title, maxTitle),
		clean(r.Description, maxDescription)
	return item(tool.ItemResource, r.URI, &q)
}

func templateItem(t *mcp.ResourceTemplate) []tool.Item {
	if t == nil || t.URITemplate == "" || len(t.URITemplate) > maxURI || clean(t.URITemplate, maxURI) != t.URITemplate {
		logf("warn", "the server lists a resource template without a usable URI; the template is not used")
		return nil
	}
	q := *t
	q.Meta, q.Icons = nil, usableIcons(t.Icons)
	q.Name, q.Title, q.Description = clean(t.Name, maxTitle), clean(t.Title, maxTitle),
		clean(t.Description, maxDescription)
	return item(tool.ItemTemplate, t.URITemplate, &q)
}

// usableName reports whether a text is one line without invisible characters.
func usableName(s string) bool {
	return s != "" && clean(s, maxTitle) == s && !strings.ContainsAny(s, "\n\t")
}

// usableURI reports whether a text is an absolute URI without invisible characters.
func usableURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && len(s) <= maxURI && clean(s, maxURI) == s
}

// exchange carries out a client's request, except for calls of tools.
func (m *mount) exchange(ctx context.Context, call *sdk.Call) (*sdk.Result, error) {
	c, done, err := m.connFor(ctx, call)
	if err != nil {
		return nil, err
	}
	defer done()
	res, err := during(ctx, c, call, func(ctx context.Context, a *active, token string) (any, error) {
		switch call.Method {
		case "prompts/get":
			return c.getPrompt(ctx, a, token)
		case "resources/read":
			return c.readResource(ctx, a, token)
		case "completion/complete":
			p := new(mcp.CompleteParams)
			if err := decode(a, p); err != nil {
				return nil, err
			}
			p.Meta = m.meta(call)
			return c.session.Complete(ctx, p)
		case "resources/subscribe":
			p := new(mcp.SubscribeParams)
			if err := decode(a, p); err != nil {
				return nil, err
			}
			known, err := m.subs.add(call.SessionID, p.URI, func() error {
				return c.session.Subscribe(ctx, &mcp.SubscribeParams{URI: p.URI})
			})
			return tool.Subscribed(known), err
		case "resources/unsubscribe":
			p := new(mcp.UnsubscribeParams)
			if err := decode(a, p); err != nil {
				return nil, err
			}
			return struct{}{}, m.subs.remove(call.SessionID, p.URI, func() error {
				return c.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: p.URI})
			})
		case tool.MethodPing:
			return c.ping(ctx)
		case "logging/setLevel":
			return struct{}{}, c.setLevel(ctx, a)
		}
		return nil, sdk.Errorf(tool.NotFound, "The method %s is not known.", clean(call.Method, maxNameShown))
	})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(res)
	if err != nil {
		return nil, err
	}
	return &sdk.Result{Data: raw}, nil
}

// decode reads the parameters of a request.
func decode(a *active, into any) error {
	if err := json.Unmarshal(a.Arguments, into); err != nil {
		return sdk.Errorf(tool.InvalidArguments, "The parameters of %s are not valid: %w", a.Method, err)
	}
	return nil
}

func (c *conn) getPrompt(ctx context.Context, a *active, token string) (*mcp.GetPromptResult, error) {
	p := new(mcp.GetPromptParams)
	if err := decode(a, p); err != nil {
		return nil, err
	}
	p = &mcp.GetPromptParams{Name: p.Name, Arguments: p.Arguments, Meta: c.mount.meta(a.Call)}
	p.SetProgressToken(token)
	return rounds(ctx, c, a, func() (*mcp.GetPromptResult, mcp.InputRequestMap, string, error) {
		res, err := c.session.GetPrompt(ctx, p)
		if err != nil {
			return nil, nil, "", err
		}
		return res, res.InputRequests, res.RequestState, nil
	}, func(answers mcp.InputResponseMap, state string) { p.InputResponses, p.RequestState = answers, state })
}

func (c *conn) readResource(ctx context.Context, a *active, token string) (*mcp.ReadResourceResult, error) {
	p := new(mcp.ReadResourceParams)
	if err := decode(a, p); err != nil {
		return nil, err
	}
	p = &mcp.ReadResourceParams{URI: p.URI, Meta: c.mount.meta(a.Call)}
	p.SetProgressToken(token)
	return rounds(ctx, c, a, func() (*mcp.ReadResourceResult, mcp.InputRequestMap, string, error) {
		res, err := c.session.ReadResource(ctx, p)
		if err != nil {
			return nil, nil, "", err
		}
		return res, res.InputRequests, res.RequestState, nil
	}, func(answers mcp.InputResponseMap, state string) { p.InputResponses, p.RequestState = answers, state })
}

// setLevel sets the level of log messages on a private connection. On a shared connection, the server sends all
// messages from the level "debug" upwards, because other sessions can want them. The host drops messages that a client
// does not want.
//
//nolint:staticcheck // logging belongs to the older protocol, which most servers speak
func (c *conn) setLevel(ctx context.Context, a *active) error {
	if c.stateless() {
		return nil // each request has its level
	}
	p := new(mcp.SetLoggingLevelParams)
	if err := decode(a, p); err != nil {
		return err
	}
	if c.key == "" {
		p.Level = "debug"
	}
	return c.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: p.Level})
}

// log passes a log message on to the client whose call runs. A log message does not name its call, so log drops the
// message if calls of several sessions run.
func (c *conn) log(_ context.Context, r *mcp.LoggingMessageRequest) {
	if !c.mount.cfg.offers(offerLogging) {
		return
	}
	a := c.calls.ofOneSession()
	if a == nil {
		return
	}
	dropped, ok := c.flood.permit(a.SessionID)
	c.reportDropped(a, dropped)
	if !ok {
		return
	}
	data, err := json.Marshal(r.Params.Data)
	if err != nil || len(data) > maxLog {
		data = sdk.Data(fmt.Sprintf("a log message of %d bytes was dropped", len(data)))
	}
	m := tool.LogMessage{
		Level: string(r.Params.Level), Logger: strings.TrimSpace(clean(r.Params.Logger, maxTitle)), Data: data,
	}
	a.events.post(func() { a.Log(m) })
}

// reportDropped notifies the client how many log messages were dropped.
func (c *conn) reportDropped(a *active, dropped int) {
	if dropped == 0 {
		return
	}
	note := sdk.Data(fmt.Sprintf("%d log messages of the server were dropped, because it sent more than %d in a second", dropped, maxRate))
	a.events.post(func() { a.Log(tool.LogMessage{Level: "warning", Logger: "toolhost", Data: note}) })
}

// maxLog is the maximum size of a log message, in bytes.
const maxLog = 16 << 10

// updated passes on the notification that a resource has changed.
func (c *conn) updated(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
	if !c.mount.cfg.offers(offerResources) || !usableURI(r.Params.URI) {
		return
	}
	if _, ok := c.updates.permit(""); !ok {
		return
	}
	c.mount.news.tell(tool.Notification{
		Method: tool.NotifyResourceUpdated, Params: sdk.Data(map[string]string{"uri": r.Params.URI}),
	})
}
