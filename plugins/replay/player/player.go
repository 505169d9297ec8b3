// Package player answers calls from a tape. Most callers want [Plugin].
package player

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tape"
	"toolhost.dev/sdk/tool"
)

// Plugin returns a plugin with the tools of one recorded plugin. The returned plugin answers a call with the result
// that the tape contains for the same arguments. If the tape contains several such calls, the plugin returns their
// results in the order of the tape. After the last of them, it returns the last result again. No tool runs, so nothing
// changes.
func Plugin(t *tape.Tape, name string) sdk.Plugin {
	p := &player{tape: t, next: make(map[string]int), calls: make(map[string][]*tape.Call)}
	for i := range t.Calls {
		c := &t.Calls[i]
		key := c.Tool + " " + canonical(c.Arguments)
		p.calls[key] = append(p.calls[key], c)
	}
	var tools []sdk.Tool
	seen := make(map[string]bool)
	for _, v := range t.Tools {
		if v.Plugin != name || seen[v.FullName()] {
			continue
		}
		seen[v.FullName()] = true
		full := v.FullName()
		tools = append(tools, sdk.NewTool(v.Definition,
			func(_ context.Context, call *sdk.Call, _ map[string]json.RawMessage) (*sdk.Result, error) {
				return p.answer(full, call)
			}))
	}
	version := "0.0.0"
	for _, c := range t.Calls {
		if c.Plugin == name && c.PluginVersion != "" {
			version = c.PluginVersion
		}
	}
	return sdk.Plugin{Name: name, Version: version, Tools: tools, Needs: &sdk.Needs{Read: sdk.Required}}
}

// player answers calls. It is safe for concurrent use.
type player struct {
	tape  *tape.Tape
	calls map[string][]*tape.Call // the key contains the tool and the arguments

	mu   sync.Mutex
	next map[string]int // index of the next call to answer with; the key contains the session, the tool and the arguments
}

// canonical returns the text of a JSON object in a normal form. Equal objects have equal texts.
func canonical(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil { // impossible for a decoded value
		return string(raw)
	}
	return string(b)
}

// answer returns the recorded result of a call.
func (p *player) answer(name string, call *sdk.Call) (*sdk.Result, error) {
	args, workspace := call.Arguments, ""
	if roots := call.Roots; len(roots) > 0 {
		workspace = roots[0].Path
		moved, err := tape.Relocate(args, workspace, tape.Workspace)
		if err != nil {
			return nil, err
		}
		args = moved
	}
	text := canonical(args)
	recorded := p.take(call.SessionID, name+" "+text)
	if recorded == nil {
		return nil, p.unknown(name, text)
	}
	out := *recorded
	if workspace != "" {
		var err error
		if out, err = tape.Relocate(out, tape.Workspace, workspace); err != nil {
			return nil, err
		}
	}
	for _, e := range out.Events {
		switch e.Kind {
		case "output":
			stream := tool.Stdout
			if e.Stream == fmt.Sprint(tool.Stderr) {
				stream = tool.Stderr
			}
			call.Output(stream, []byte(e.Text))
		case "progress":
			call.Progress(e.Text, nil)
		}
	}
	res := out.Result.Result()
	// The recorded directory possibly does not exist on this machine. In that case, keep the session's directory,
	// because the host would refuse later calls in a missing directory.
	if st, err := os.Stat(out.Result.Cwd); err == nil && st.IsDir() {
		res.Cwd = out.Result.Cwd
	}
	if res.Error != nil {
		err := res.Error
		res.Error = nil
		return res, err
	}
	return res, nil
}

// take returns the next recorded call with this key for a session. After the last such call, it returns that call
// again. It returns nil if the tape has no call with this key.
func (p *player) take(session, key string) *tape.Call {
	all := p.calls[key]
	if len(all) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := session + " " + key
	i := min(p.next[at], len(all)-1)
	p.next[at]++
	return all[i]
}

// unknown returns the error for a call that is not on the tape. The message contains the most similar recorded call.
func (p *player) unknown(name, args string) error {
	best, most := "", -1
	for i := range p.tape.Calls {
		if c := &p.tape.Calls[i]; c.Tool == name {
			text := canonical(c.Arguments)
			if n := common(text, args); n > most {
				best, most = text, n
			}
		}
	}
	if best == "" {
		return sdk.Errorf(tool.NotFound, "The tape has no call of %s. Record the session again with such a call.", name)
	}
	return sdk.Errorf(tool.NotFound, "The tape has no call of %s with these arguments. The nearest recorded call is: %s %s. Make that call, or record the session again.", name, name, best)
}

// common returns the number of bytes that two texts share at the beginning and at the end.
func common(a, b string) int {
	short := min(len(a), len(b))
	n := 0
	for n < short && a[n] == b[n] {
		n++
	}
	end := 0
	for end < short-n && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return n + end
}
