package router

import (
	"encoding/json"
	"strings"

	"toolhost.dev/sdk/tool"
)

// envelope has the fields in which the APIs of models and their agents write a tool call.
type envelope struct {
	// Name and Tool name the tool.
	Name, Tool string
	// The arguments, as an object or as a string with an object.
	Input, Arguments, Args, Parameters json.RawMessage
	// A call in another object.
	Function, FunctionCall, FunctionCallOld *envelope
	Method                                  string
	Params                                  *envelope
	Calls                                   []envelope
}

// UnmarshalJSON implements [json.Unmarshaler]. A "function" or "tool" can be a name or an object.
func (e *envelope) UnmarshalJSON(raw []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	name := func(key string) (text string) {
		_ = json.Unmarshal(fields[key], &text) // another type is no name
		return text
	}
	call := func(key string) *envelope {
		var inner envelope
		if v, ok := fields[key]; !ok || v[0] != '{' || json.Unmarshal(v, &inner) != nil {
			return nil
		}
		return &inner
	}
	e.Name, e.Tool, e.Method = name("name"), name("tool"), name("method")
	e.Input, e.Arguments, e.Args, e.Parameters = fields["input"], fields["arguments"], fields["args"], fields["parameters"]
	e.Function, e.FunctionCall, e.FunctionCallOld, e.Params = call("function"), call("functionCall"), call("function_call"), call("params")
	if calls, ok := fields["tool_calls"]; ok {
		return json.Unmarshal(calls, &e.Calls)
	}
	return nil
}

// call returns the tool and the arguments. ok is false if the envelope contains no call.
func (e *envelope) call() (name string, arguments json.RawMessage, ok bool) {
	switch {
	case e.Function != nil:
		return e.Function.call()
	case e.FunctionCall != nil:
		return e.FunctionCall.call()
	case e.FunctionCallOld != nil:
		return e.FunctionCallOld.call()
	case e.Method == "tools/call" && e.Params != nil:
		return e.Params.call()
	case len(e.Calls) == 1:
		return e.Calls[0].call()
	}
	if name = e.Name; name == "" {
		name = e.Tool
	}
	for _, arguments := range []json.RawMessage{e.Input, e.Arguments, e.Args, e.Parameters} {
		if arguments != nil {
			return name, arguments, name != ""
		}
	}
	return "", nil, false
}

// pasted routes a command that is a tool call in JSON, as an API of a model writes it. It returns nil for other commands.
func pasted(command string, tools Tools) *Command {
	text := strings.TrimSpace(command)
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || !strings.ContainsRune(text, '"') {
		return nil
	}
	var all []envelope
	if text[0] == '[' {
		if json.Unmarshal([]byte(text), &all) != nil {
			return nil
		}
	} else {
		var one envelope
		if json.Unmarshal([]byte(text), &one) != nil {
			return nil
		}
		if all = []envelope{one}; len(one.Calls) > 1 {
			all = one.Calls
		}
	}
	if len(all) == 0 {
		return nil
	}
	for i := range all {
		if _, _, ok := all[i].call(); !ok {
			return nil
		}
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
