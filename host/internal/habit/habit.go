// Package habit converts calls in the form of other programs into calls of the tools that have the same roles, because
// agents know the other programs. [Presets] contains the aliases of each program.
//
// A conversion loses no argument with an effect. If no tool supports an argument, the argument stays, and the tool
// refuses the call. Arguments without an effect on the result are dropped, such as a description for the user of
// another program.
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
	"toolhost.dev/sdk/tool"
)

// Alias is a tool of another program.
type Alias struct {
	Name string
	// Role is the role of the tool with the same purpose.
	Role tool.Role
	// Params maps parameter names of the other program's tool to parameter names of the tool with the role. A parameter
	// that maps to "" is dropped.
	Params map[string]string
	// Calls restricts the alias to function calls. In a command line, the name can be the name of a program or of the
	// tool itself.
	Calls bool
	// Convert converts the arguments of a call and returns the role of the tool to call, which can depend on the
	// arguments. A nil Convert only renames the parameters according to Params.
	Convert func(args Args) (to tool.Role, out Args, err error)
}

// Args maps parameter names to the arguments of a call.
type Args = map[string]json.RawMessage

// Converter returns the conversion function of an alias in a preset. For an alias without a conversion, it returns nil.
func Converter(preset, name string) func(args Args) (to tool.Role, out Args, err error) {
	for _, a := range Presets[preset] {
		if a.Name == name {
			return a.Convert
		}
	}
	return nil
}

// call is a call during its conversion. The methods text, integer, truth and take remove the argument that they return.
// The zero value is not usable.
type call struct {
	args     Args
	problems []string
}

// converter returns a conversion for a fixed role. The conversion first renames the parameters and then runs the steps.
func converter(role tool.Role, params map[string]string, steps ...func(c *call)) func(Args) (tool.Role, Args, error) {
	return switching(params, func(c *call) tool.Role {
		for _, step := range steps {
			step(c)
		}
		return role
	})
}

// switching returns a conversion whose function "convert" selects the role. The conversion first renames the
// parameters.
func switching(params map[string]string, convert func(c *call) tool.Role) func(Args) (tool.Role, Args, error) {
	return func(args Args) (tool.Role, Args, error) {
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
		role := convert(c)
		if len(c.problems) > 0 {
			return "", nil, errors.New(strings.Join(c.problems, "; "))
		}
		return role, c.args, nil
	}
}

// similar finds a parameter whose old or new name differs from the given name only in case, dashes and underscores. It
// returns the new name of that parameter. If no parameter matches or the name is a short flag, it returns the given
// name.
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

// set sets an argument. If the parameter already has a value, the method records a problem.
func (c *call) set(name string, value any) {
	raw, isRaw := value.(json.RawMessage)
	if !isRaw {
		raw, _ = json.Marshal(value) // ignore the error: strings, numbers, and lists and maps of strings and numbers can be encoded
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

// text removes and returns a string argument. If the argument is missing or null, ok is false.
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

// integer removes and returns an integer argument. The integer can be written as a string. If the argument is missing,
// ok is false.
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

// truth removes and returns a boolean argument. The boolean can be written as a string. If the argument is missing, ok
// is false.
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

// take removes an argument and returns it. If the argument is missing or null, ok is false.
func (c *call) take(name string) (raw json.RawMessage, ok bool) {
	raw, ok = c.args[name]
	delete(c.args, name)
	return raw, ok && string(raw) != "null"
}

// unquoted returns the content of a JSON string. It returns any other JSON value unchanged.
func unquoted(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
