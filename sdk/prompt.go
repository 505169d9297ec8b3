package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Prompt is a template of messages, which the user of an MCP client selects by its name.
type Prompt struct {
	// Name is unique among the prompts of the plugin.
	Name string
	// Title and Description are for people. Both can be empty.
	Title       string
	Description string
	Arguments   []PromptArgument
	// Get returns the messages. The map has the arguments that the user gave, among them all required ones. Several
	// calls of Get can run at the same time.
	Get func(ctx context.Context, call *Call, arguments map[string]string) ([]Message, error)
}

// PromptArgument is an argument of a [Prompt]. Its value is a text.
type PromptArgument struct {
	Name        string
	Title       string
	Description string
	Required    bool
	// Complete returns values that begin with the given text, the best first. Clients get at most 100. The map has the
	// arguments that the user already gave. A nil Complete means that no values are proposed.
	Complete func(ctx context.Context, begin string, given map[string]string) ([]string, error)
}

// Message is one message of a prompt: a text, or another content block.
type Message struct {
	// Role is "user" or "assistant". An empty Role means "user".
	Role string
	Text string
	// Block replaces Text. It is a content block as MCP defines it, such as an image.
	Block json.RawMessage
}

// Resource is data that an MCP client reads by its URI, such as a document.
type Resource struct {
	// URI names the resource, such as "weather://stations". It can be a template with variables in braces, such as
	// "weather://{city}/today". A variable stands for any text without the characters / ? # and &.
	URI string
	// Name is a short name. Title and Description are for people, and can be empty.
	Name        string
	Title       string
	Description string
	// MediaType is the type of the content, such as "text/plain". It can be empty.
	MediaType string
	// Read returns the content. The map has the values of the variables of a template. An error of the kind
	// [tool.NotFound] means that no such resource exists. Several calls of Read can run at the same time.
	Read func(ctx context.Context, call *Call, variables map[string]string) (Document, error)
}

// Document is the content of a [Resource]: a text, or bytes.
type Document struct {
	Text string
	// Data replaces Text if it is not nil.
	Data []byte
	// MediaType is the media type of the content. Empty means the media type of the resource.
	MediaType string
}

// offers reports whether the plugin has prompts or resources.
func (p *Plugin) offers() bool { return len(p.Prompts) > 0 || len(p.Resources) > 0 }

// relay returns the relay of the plugin, or nil. If the plugin has prompts or resources, relay creates a relay for
// them.
func (p *Plugin) relay() (*Relay, error) {
	if !p.offers() {
		return p.Relay, nil
	}
	if p.Relay != nil {
		return nil, errors.New("both Relay and Prompts or Resources are set; set one of them")
	}
	items, err := p.items()
	if err != nil {
		return nil, err
	}
	return &Relay{Items: func() []tool.Item { return items }, Exchange: p.exchange}, nil
}

// items returns the prompts and resources as clients list them.
func (p *Plugin) items() (out []tool.Item, err error) {
	var errs []error
	seen, completes := make(map[string]bool), false
	add := func(i tool.Item, bad string) {
		if bad != "" {
			errs = append(errs, fmt.Errorf("%s %q: %s", i.Kind, i.Name, bad))
		}
		if seen[i.FullName()] {
			errs = append(errs, fmt.Errorf("%s %q: the name is used twice", i.Kind, i.Name))
		}
		seen[i.FullName()] = true
		out = append(out, i)
	}
	for _, r := range p.Prompts {
		bad := ""
		if r.Name == "" || r.Get == nil {
			bad = "the fields Name and Get are required"
		}
		add(tool.Item{Kind: tool.ItemPrompt, Name: r.Name, Definition: Data(r.definition())}, bad)
		completes = completes ||
			slices.ContainsFunc(r.Arguments, func(a PromptArgument) bool { return a.Complete != nil })
	}
	for _, r := range p.Resources {
		kind, bad := tool.ItemResource, ""
		if strings.Contains(r.URI, "{") {
			kind = tool.ItemTemplate
		}
		if _, err := r.variables(r.URI); err != nil {
			bad = err.Error()
		} else if scheme, _, ok := strings.Cut(r.URI, ":"); !ok || scheme == "" || r.Name == "" || r.Read == nil {
			bad = "the fields Name and Read, and a URI with a scheme, are required"
		}
		add(tool.Item{Kind: kind, Name: r.URI, Definition: Data(r.definition(kind))}, bad)
	}
	if completes {
		out = append(out, tool.Item{Kind: tool.ItemCompletion})
	}
	return out, errors.Join(errs...)
}

func (r *Prompt) definition() any {
	type argument struct {
		Name        string `json:"name"`
		Title       string `json:"title,omitempty"`
		Description string `json:"description,omitempty"`
		Required    bool   `json:"required,omitempty"`
	}
	var arguments []argument
	for _, a := range r.Arguments {
		arguments = append(arguments, argument{a.Name, a.Title, a.Description, a.Required})
	}
	return struct {
		Name        string     `json:"name"`
		Title       string     `json:"title,omitempty"`
		Description string     `json:"description,omitempty"`
		Arguments   []argument `json:"arguments,omitempty"`
	}{r.Name, r.Title, r.Description, arguments}
}

func (r *Resource) definition(kind tool.ItemKind) map[string]string {
	out := map[string]string{
		"uri": r.URI, "name": r.Name, "title": r.Title, "description": r.Description, "mimeType": r.MediaType,
	}
	if kind == tool.ItemTemplate {
		out["uriTemplate"] = r.URI
		delete(out, "uri")
	}
	for k, v := range out {
		if v == "" {
			delete(out, k)
		}
	}
	return out
}

// exchange answers a request of a client about a prompt or a resource.
func (p *Plugin) exchange(ctx context.Context, call *Call) (*Result, error) {
	var params struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
		URI       string            `json:"uri"`
		Ref       struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"ref"`
		Argument struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"argument"`
		Context struct {
			Arguments map[string]string `json:"arguments"`
		} `json:"context"`
	}
	if err := json.Unmarshal(call.Arguments, &params); err != nil {
		return nil, Errorf(tool.InvalidArguments, "The parameters of %s are not valid: %w.", call.Method, err)
	}
	switch call.Method {
	case "prompts/get":
		return p.getPrompt(ctx, call, params.Name, params.Arguments)
	case "resources/read":
		return p.readResource(ctx, call, params.URI)
	case "completion/complete":
		if params.Ref.Type == "ref/prompt" {
			return p.complete(ctx, params.Ref.Name, params.Argument.Name, params.Argument.Value,
				params.Context.Arguments)
		}
		return completions(nil), nil
	}
	return nil, Errorf(tool.NotFound, "Plugin %s does not support %s.", p.Name, call.Method)
}

// prompt returns the prompt with a name, or nil.
func (p *Plugin) prompt(name string) *Prompt {
	i := slices.IndexFunc(p.Prompts, func(r Prompt) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &p.Prompts[i]
}

func (p *Plugin) getPrompt(ctx context.Context, call *Call, name string, arguments map[string]string) (*Result, error) {
	r := p.prompt(name)
	if r == nil {
		return nil, Errorf(tool.NotFound, "The plugin has no prompt %q.", name)
	}
	for _, a := range r.Arguments {
		if _, given := arguments[a.Name]; a.Required && !given {
			return nil, Errorf(tool.InvalidArguments, "The prompt %s needs the argument %q.", name, a.Name)
		}
	}
	if arguments == nil {
		arguments = make(map[string]string)
	}
	messages, err := r.Get(ctx, call, arguments)
	if err != nil {
		return nil, err
	}
	type message struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	out := make([]message, 0, len(messages))
	for _, m := range messages {
		if m.Role == "" {
			m.Role = "user"
		}
		if m.Block == nil {
			m.Block = Data(map[string]string{"type": "text", "text": m.Text})
		}
		out = append(out, message{m.Role, m.Block})
	}
	return &Result{Data: Data(map[string]any{"description": r.Description, "messages": out})}, nil
}

func (p *Plugin) readResource(ctx context.Context, call *Call, uri string) (*Result, error) {
	for _, r := range p.Resources {
		variables, err := r.variables(uri)
		if err != nil || variables == nil {
			continue
		}
		doc, err := r.Read(ctx, call, variables)
		if err != nil {
			return nil, err
		}
		content := map[string]any{"uri": uri}
		if doc.MediaType == "" {
			doc.MediaType = r.MediaType
		}
		if doc.MediaType != "" {
			content["mimeType"] = doc.MediaType
		}
		if content["text"] = doc.Text; doc.Data != nil {
			delete(content, "text")
			content["blob"] = doc.Data
		}
		return &Result{Data: Data(map[string]any{"contents": []any{content}})}, nil
	}
	return nil, Errorf(tool.NotFound, "The plugin has no resource %q.", uri)
}

// maxCompletions is the maximum number of completions that MCP permits in an answer.
const maxCompletions = 100

func (p *Plugin) complete(ctx context.Context, prompt, argument, begin string,
	given map[string]string) (*Result, error) {
	r := p.prompt(prompt)
	if r == nil {
		return nil, Errorf(tool.NotFound, "The plugin has no prompt %q.", prompt)
	}
	i := slices.IndexFunc(r.Arguments, func(a PromptArgument) bool { return a.Name == argument })
	if i < 0 || r.Arguments[i].Complete == nil {
		return completions(nil), nil
	}
	values, err := r.Arguments[i].Complete(ctx, begin, given)
	if err != nil {
		return nil, err
	}
	return completions(values), nil
}

func completions(values []string) *Result {
	shown := append([]string{}, values[:min(len(values), maxCompletions)]...)
	return &Result{
		Data: Data(map[string]any{
			"completion": map[string]any{"values": shown, "total": len(values), "hasMore": len(values) > len(shown)},
		}),
	}
}
