// Package habit converts calls that agents know from other programs into calls of the bundled tools. [Presets] lists the
// calls by the program.
//
// A conversion loses nothing: an argument that no tool can honour stays, and the tool refuses it. Arguments without an
// effect on the result, such as a description for the user of another program, are dropped.
package habit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"toolhost.dev/sdk/suggest"
)

// Alias is a tool of another program.
type Alias struct {
	Name string
	// Tool is the bundled tool that does the same. If Name and Tool are equal, both tools have the same name and take
	// different arguments.
	Tool string
	// Params maps parameter names of the other tool to those of Tool. A parameter that maps to "" is dropped.
	Params map[string]string
	// Calls reports that the name is only known in function calls. As the first word of a command, it can be a program.
	Calls bool
	// Convert converts the arguments of a call. The tool can depend on them. A nil Convert renames the parameters as
	// Params says.
	Convert func(args Args) (tool string, out Args, err error)
}

// Args are the arguments of a call by parameter name.
type Args = map[string]json.RawMessage

// Converter returns the conversion of an alias in a preset. It returns nil for an alias without a conversion.
func Converter(preset, name string) func(args Args) (tool string, out Args, err error) {
	for _, a := range Presets[preset] {
		if a.Name == name {
			return a.Convert
		}
	}
	return nil
}

// call is a call during its conversion. A method that takes an argument removes it. The zero value is not usable.
type call struct {
	args     Args
	problems []string
}

// converter returns a conversion to a fixed tool. It renames parameters first.
func converter(tool string, params map[string]string, steps ...func(c *call)) func(Args) (string, Args, error) {
	return switching(params, func(c *call) string {
		for _, step := range steps {
			step(c)
		}
		return tool
	})
}

// switching returns a conversion that chooses the tool. It renames parameters first.
func switching(params map[string]string, convert func(c *call) (tool string)) func(Args) (string, Args, error) {
	return func(args Args) (string, Args, error) {
		c := &call{args: make(Args, len(args))}
		for _, given := range slices.Sorted(maps.Keys(args)) {
			to, known := params[given]
			if !known {
				to = similar(given, params)
			}
			if to != "" {
				c.set(to, args[given])
			}
		}
		tool := convert(c)
		if len(c.problems) > 0 {
			return "", nil, errors.New(strings.Join(c.problems, "; "))
		}
		return tool, c.args, nil
	}
}

// similar returns the new name of a parameter whose old or new name differs only in case, dashes and underscores. It
// returns the name itself without a match. A short flag is similar to nothing.
func similar(name string, params map[string]string) string {
	if strings.HasPrefix(name, "-") {
		return name
	}
	fold := suggest.Fold(name)
	for _, from := range slices.Sorted(maps.Keys(params)) {
		switch to := params[from]; {
		case to == name:
			return name
		case !strings.HasPrefix(from, "-") && suggest.Fold(from) == fold, to != "" && suggest.Fold(to) == fold:
			return to
		}
	}
	return name
}

func (c *call) fail(format string, a ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, a...))
}

// set sets an argument. A second value for the same parameter is a problem.
func (c *call) set(name string, value any) {
	raw, isRaw := value.(json.RawMessage)
	if !isRaw {
		raw, _ = json.Marshal(value) // strings, numbers, and lists and maps of them can be encoded
	}
	if was, again := c.args[name]; again && string(was) != string(raw) {
		c.fail("parameter %q is given twice", name)
		return
	}
	c.args[name] = raw
}

// drop removes arguments that have no effect.
func (c *call) drop(names ...string) {
	for _, name := range names {
		delete(c.args, name)
	}
}

// text takes a string. ok is false if the argument is missing or null.
func (c *call) text(name string) (text string, ok bool) {
	raw, ok := c.take(name)
	if !ok {
		return "", false
	}
	if json.Unmarshal(raw, &text) != nil {
		c.fail("parameter %q is not a string", name)
	}
	return text, true
}

// integer takes an integer, which can be written as a string.
func (c *call) integer(name string) (n int, ok bool) {
	raw, ok := c.take(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(unquoted(raw))
	if err != nil {
		c.fail("parameter %q is not an integer", name)
	}
	return n, true
}

// truth takes a boolean, which can be written as a string.
func (c *call) truth(name string) (v, ok bool) {
	raw, ok := c.take(name)
	if !ok {
		return false, false
	}
	v, err := strconv.ParseBool(strings.ToLower(unquoted(raw)))
	if err != nil {
		c.fail("parameter %q is not a boolean", name)
	}
	return v, true
}

// take removes an argument and returns it. ok is false if it is missing or null.
func (c *call) take(name string) (raw json.RawMessage, ok bool) {
	raw, ok = c.args[name]
	delete(c.args, name)
	return raw, ok && string(raw) != "null"
}

// unquoted returns a JSON value, or the text in a JSON string.
func unquoted(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
