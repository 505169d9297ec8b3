package console

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"toolhost.dev/host"
)

// argument is an argument of a call as people read it.
type argument struct{ Name, Value string }

// argumentList returns the arguments in a JSON object, in their order, without those that have their default value. The
// defaults are JSON values by the names of the parameters. It returns false if the text is not a JSON object, for
// example because it was cut.
func argumentList(raw string, defaults map[string]json.RawMessage) (out []argument, ok bool) {
	dec := json.NewDecoder(strings.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil, false
		}
		key, _ := name.(string) // the names in an object are strings
		if same(value, defaults[key]) {
			continue
		}
		text := string(value)
		_ = json.Unmarshal(value, &text) // an error means that the value is not a string, and stays as it is
		out = append(out, argument{key, text})
	}
	_, err := dec.Token()
	return out, err == nil
}

// same reports whether two JSON values are equal.
func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return len(b) > 0 && json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// call is a call with its arguments in the form for people.
type call struct {
	Tool string
	// Text is the command, or what cannot be shown as a list of arguments.
	Text string
	List []argument
}

// shown returns a call of a tool for people.
func (c *Console) shown(ctx context.Context, tool, raw string) call {
	list, ok := argumentList(raw, c.defaults(ctx)[tool])
	switch {
	case !ok:
		return call{Tool: tool, Text: raw}
	case len(list) == 1 && list[0].Name == "command":
		return call{Tool: tool, Text: list[0].Value}
	}
	return call{Tool: tool, List: list}
}

// entry is an entry of the audit log with its arguments in the form for people.
type entry struct {
	host.LogEntry
	Shown call
}

func (c *Console) entries(ctx context.Context, log []host.LogEntry) []entry {
	out := make([]entry, 0, len(log))
	for i := range log {
		out = append(out, entry{log[i], c.shown(ctx, log[i].Tool, string(log[i].Arguments))})
	}
	return out
}

// activeCall is a call that runs or waits, with its arguments in the form for people. Asked is the open ask for whose
// answer the call waits, if the person can see it.
type activeCall struct {
	host.ActiveCall
	Shown call
	Asked *ask
}

func (c *Console) active(ctx context.Context, calls []host.ActiveCall, asks []ask) []activeCall {
	out := make([]activeCall, 0, len(calls))
	for i := range calls {
		row := activeCall{ActiveCall: calls[i], Shown: call{Text: calls[i].Text}}
		if name, raw, ok := strings.Cut(calls[i].Text, " {"); ok && !strings.Contains(name, " ") { // a call of a tool, and not a command
			if list := c.shown(ctx, name, "{"+raw); list.Text != "{"+raw {
				row.Shown = list
			}
		}
		for j := range asks {
			if calls[i].Ask != "" && asks[j].Digest == calls[i].Ask {
				row.Asked = &asks[j]
				break
			}
		}
		out = append(out, row)
	}
	return out
}

// kept holds what the pages need often and what changes rarely.
type kept struct {
	mu       sync.Mutex
	defaults map[string]map[string]json.RawMessage // by tool and parameter
	read     time.Time
	recent   map[string]recent // by principal
}

type recent struct {
	at      time.Time
	entries []entry
}

// defaults returns the default values of the parameters of all tools.
func (c *Console) defaults(ctx context.Context) map[string]map[string]json.RawMessage {
	k := &c.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.read) < 10*time.Second {
		return k.defaults
	}
	k.read = time.Now()
	var tools []host.Tool
	if c.get(ctx, host.LocalUser(), "/v1/tools", &tools) != nil { // then all arguments are shown
		return k.defaults
	}
	k.defaults = make(map[string]map[string]json.RawMessage, len(tools))
	for i := range tools {
		var schema struct {
			Properties map[string]struct {
				Default json.RawMessage `json:"default"`
			} `json:"properties"`
		}
		if json.Unmarshal(tools[i].Input, &schema) != nil {
			continue
		}
		of := make(map[string]json.RawMessage)
		for name, p := range schema.Properties {
			of[name] = p.Default
		}
		k.defaults[tools[i].FullName] = of
	}
	return k.defaults
}

// lastCalls returns the last calls that a person can see, newest first. The answer can be some seconds old.
func (c *Console) lastCalls(ctx context.Context, s *session) ([]entry, error) {
	k, name := &c.kept, s.principal.Name
	k.mu.Lock()
	last, known := k.recent[name]
	k.mu.Unlock()
	if known && time.Since(last.at) < 2*time.Second {
		return last.entries, nil
	}
	var log []host.LogEntry
	if err := c.get(ctx, s.principal, "/v1/log?limit=10", &log); err != nil {
		return nil, err
	}
	last = recent{time.Now(), newestFirst(c.entries(ctx, log))}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.recent == nil || len(k.recent) > maxSessions {
		k.recent = make(map[string]recent)
	}
	k.recent[name] = last
	return last.entries, nil
}
