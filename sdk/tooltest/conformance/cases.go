package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"toolhost.dev/sdk/lines"
	"toolhost.dev/sdk/tool"
)

// Cases are the calls and configurations that the author of the plugin adds to the generated checks.
type Cases struct {
	// Config is the configuration of the plugin. A nil Config means the configuration {}.
	Config json.RawMessage
	// BadConfigs lists configurations that satisfy the schema but that the plugin must refuse.
	BadConfigs []json.RawMessage
	Calls      []Case
}

// Case is one call that the author specifies.
type Case struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Error is the kind of error that the call must return. If Error is empty, the call must succeed.
	Error tool.Kind `json:"error,omitempty"`
	// Long means that the call takes at least ten seconds unless it is canceled.
	Long bool `json:"long,omitempty"`
	// Repeat means that the checks are allowed to make the call any number of times and concurrently. Calls of
	// read-only tools are always repeatable. All other calls are made once.
	Repeat bool `json:"repeat,omitempty"`
}

// ReadCases reads cases in the format JSON Lines. Each line has one of these forms:
//
//	{"tool": "greet", "arguments": {"name": "you"}}
//	{"tool": "greet", "arguments": {"name": ""}, "error": "invalid_arguments"}
//	{"tool": "wait", "arguments": {"seconds": 60}, "long": true}
//	{"config": {"greeting": "hello"}}
//	{"bad_config": {"greeting": "no such greeting"}}
//
// ReadCases ignores empty lines and lines that begin with #. The maximum length of a line is 1 MiB.
func ReadCases(r io.Reader) (Cases, error) {
	var c Cases
	in := lines.NewReader(r, 1<<20)
	for n, ended := 1, false; !ended; n++ {
		line, err := in.Read()
		if ended = errors.Is(err, io.EOF); err != nil && err != io.EOF { //nolint:errorlint // a line that is too long wraps io.EOF
			return c, fmt.Errorf("line %d: %w", n, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			if err := c.add(text); err != nil {
				return c, fmt.Errorf("line %d: %w", n, err)
			}
		}
	}
	return c, nil
}

func (c *Cases) add(text []byte) error {
	var line struct {
		Case
		Config    json.RawMessage `json:"config"`
		BadConfig json.RawMessage `json:"bad_config"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&line); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("the line contains more than one JSON object; write one object per line")
	}
	given := 0
	for _, is := range []bool{line.Tool != "", line.Config != nil, line.BadConfig != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return errors.New(`the case needs exactly one of the keys "tool", "config" and "bad_config"`)
	}
	switch {
	case line.Config != nil:
		if c.Config != nil {
			return errors.New("the file has a second configuration; remove one of the two")
		}
		c.Config = line.Config
	case line.BadConfig != nil:
		c.BadConfigs = append(c.BadConfigs, line.BadConfig)
	default:
		c.Calls = append(c.Calls, line.Case)
	}
	return nil
}

// call is a call that the checks are allowed to make.
type call struct {
	Case
	from      string // origin of the arguments, for messages
	made      bool   // true if the arguments were generated
	definedAs *tool.Definition
}

func (c *call) String() string { return fmt.Sprintf("%s %.200s (%s)", c.Tool, c.Arguments, c.from) }

// plan decides which calls to make. It needs the descriptions of the tools.
func (s *suite) plan() error {
	s.leftOut = nil
	s.calls = nil
	for _, given := range s.opts.Cases.Calls {
		i := slices.IndexFunc(s.desc.Tools, func(d tool.Definition) bool { return d.Name == given.Tool })
		if i < 0 {
			return fmt.Errorf("the cases call the tool %q, which the plugin does not provide", given.Tool)
		}
		d := &s.desc.Tools[i]
		args, err := complete(d, given.Arguments)
		if err != nil {
			if given.Error == tool.InvalidArguments {
				continue // skip the call, because the host would refuse the arguments
			}
			return fmt.Errorf("the cases have an invalid call of the tool %s: %w", given.Tool, err)
		}
		given.Arguments = args
		given.Repeat = given.Repeat || d.Traits.ReadOnly
		s.calls = append(s.calls, call{Case: given, from: "given", definedAs: d})
	}
	for i := range s.desc.Tools {
		d := &s.desc.Tools[i]
		given := slices.ContainsFunc(s.calls, func(c call) bool { return c.Tool == d.Name })
		if !d.Traits.ReadOnly && !s.opts.AllTools {
			if !given {
				s.leaveOut("the tool %s is not called, because it is not read-only: add a call of it to the file of --calls, or allow generated calls with --all-tools", d.Name)
			}
			continue
		}
		all, err := s.makeUp(d)
		if err != nil {
			if !given {
				s.leaveOut("the tool %s is not called, because no arguments can be generated for it (%v): add a call of it to the file of --calls", d.Name, err)
			}
			continue
		}
		for _, args := range all {
			s.calls = append(s.calls, call{
				Case: Case{Tool: d.Name, Arguments: args, Repeat: d.Traits.ReadOnly}, from: "made up", made: true,
				definedAs: d,
			})
		}
	}
	return nil
}

func (s *suite) leaveOut(format string, a ...any) {
	s.leftOut = append(s.leftOut, fmt.Sprintf(format, a...))
}

// complete validates arguments and fills in the defaults, as a host does.
func complete(d *tool.Definition, raw json.RawMessage) (json.RawMessage, error) {
	schema, err := tool.ParseSchema(d.Input)
	if err != nil {
		return nil, fmt.Errorf("the schema of the tool is not valid: %w", err)
	}
	args := make(map[string]json.RawMessage)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, fmt.Errorf("the arguments are not a JSON object: %w", err)
		}
	}
	full, bad := schema.Check(args)
	if len(bad) > 0 {
		return nil, errors.New(bad[0].Message)
	}
	return json.Marshal(full)
}

// probe returns a call that the checks are allowed to make any number of times. It prefers a call of the author to a
// generated call. If neither exists, it returns a call of an unknown tool, which every plugin must answer with an
// error.
func (s *suite) probe() call {
	for _, c := range s.calls {
		if c.Repeat && !c.Long {
			return c
		}
	}
	return call{Case: Case{Tool: unknownTool, Arguments: json.RawMessage("{}")}, from: "an unknown tool"}
}

// unknownTool is the name of a tool that no plugin has.
const unknownTool = "conformance_no_such_tool"

// long returns a long call of the author. If the author has specified no long call, ok is false.
func (s *suite) long() (call, bool) {
	for _, c := range s.calls {
		if c.Long && c.Repeat {
			return c, true
		}
	}
	return call{}, false
}
