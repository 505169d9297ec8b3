package router

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// envelope contains the fields of a tool call in the formats of model APIs and agents.
type envelope struct {
	name, method string
	arguments    json.RawMessage // a JSON object, or a string that contains a JSON object
	// The fields "function" and "params" are objects that contain the call. The field "calls" is a list of calls.
	function, params *envelope
	calls            []*envelope
}

// maxEnvelopes limits the number of nested objects around a call. The limit is needed because each object is parsed
// again.
const maxEnvelopes = 4

// open parses an object. The value of the keys "function" and "tool" can be a name or an object. If the text is not a
// JSON object, open returns nil.
func open(raw json.RawMessage, depth int) *envelope {
	var fields map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	name := func(key string) (text string) {
		_ = json.Unmarshal(fields[key], &text) // ignore the error: a value of another type is not a name
		return text
	}
	inner := func(key string) *envelope {
		if v := fields[key]; len(v) > 0 && v[0] == '{' {
			return open(v, depth-1)
		}
		return nil
	}
	e := &envelope{
		name: cmp.Or(name("name"), name("tool")), method: name("method"), params: inner("params"),
		function: cmp.Or(inner("function"), inner("functionCall"), inner("function_call")),
	}
	for _, key := range []string{"input", "arguments", "args", "parameters"} {
		if v, ok := fields[key]; ok && e.arguments == nil {
			e.arguments = v
		}
	}
	var calls []json.RawMessage
	if json.Unmarshal(fields["tool_calls"], &calls) == nil {
		for _, c := range calls[:min(len(calls), maxCalls)] {
			if one := open(c, depth-1); one != nil {
				e.calls = append(e.calls, one)
			}
		}
	}
	return e
}

// maxCalls limits the number of calls that are parsed from a list. Only a list with exactly one call runs.
const maxCalls = 100

// call returns the tool and the arguments. If the envelope contains no call, ok is false.
func (e *envelope) call() (name string, arguments json.RawMessage, ok bool) {
	switch {
	case e == nil:
		return "", nil, false
	case e.function != nil:
		return e.function.call()
	case e.method == "tools/call":
		return e.params.call()
	case len(e.calls) == 1:
		return e.calls[0].call()
	}
	return e.name, e.arguments, e.name != "" && e.arguments != nil
}

// IsCall reports whether a text is one tool call or a list of tool calls in JSON, in the format of a model API.
func IsCall(text string) bool { return len(envelopes(text)) > 0 }

// pasted routes a command that is a tool call in JSON, in the format of a model API. It returns nil for other commands.
func pasted(command string, tools Tools) *Command {
	all := envelopes(command)
	if len(all) == 0 {
		return nil
	}
	if len(all) > 1 {
		c := &Command{Raw: command, Args: []string{}, Kwargs: map[string]json.RawMessage{}}
		return c.refuse(tool.Errorf(tool.InvalidArguments, "The command contains %d tool calls. Send each of them as a command of its own.", len(all)))
	}
	name, arguments, _ := all[0].call()
	c := Function(name, arguments, tools)
	c.Raw = command
	if c.Error == nil {
		c.Reason = "the command is a tool call in JSON"
	}
	return c
}

// envelopes returns the tool calls in a text, or nil if the text is something else.
func envelopes(command string) (all []*envelope) {
	text := json.RawMessage(strings.TrimSpace(command))
	switch {
	case bytes.HasPrefix(text, []byte("{")):
		all = []*envelope{open(text, maxEnvelopes)}
		if all[0] != nil && len(all[0].calls) > 1 {
			all = all[0].calls
		}
	case bytes.HasPrefix(text, []byte("[")):
		var list []json.RawMessage
		if json.Unmarshal(text, &list) != nil {
			return nil
		}
		for _, one := range list[:min(len(list), maxCalls)] {
			all = append(all, open(one, maxEnvelopes))
		}
	}
	if slices.ContainsFunc(all, func(e *envelope) bool { _, _, ok := e.call(); return !ok }) {
		return nil
	}
	return all
}
