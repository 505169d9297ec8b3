package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Category says where a tool comes from.
type Category string

// The categories.
const (
	CategoryBuiltin Category = "builtin"
	CategoryCustom  Category = "custom"
	CategoryMCP     Category = "mcp"
)

// Definition is everything a caller needs to know to use a tool.
type Definition struct {
	// Name is unique in its layer: lower-case letters, digits, '_', '-' and '.',
	// beginning with a letter, at most 64 characters.
	Name string `json:"name"`
	// Description says to a model what the tool does and when to use it.
	Description string `json:"description"`
	// Input is the JSON Schema of the arguments, of type object. The order of its
	// "required" and "properties" is the order of positional arguments.
	Input json.RawMessage `json:"input_schema"`
	// Output is the JSON Schema of Result.Data; nil: not described.
	Output   json.RawMessage `json:"output_schema,omitempty"`
	Traits   Traits          `json:"traits"`
	Category Category        `json:"category"`
	// Version of the tool; empty: the plugin's.
	Version string `json:"version,omitempty"`
	// Examples are whole command lines, shown in the help.
	Examples []string `json:"examples,omitempty"`
	// StdinParameter names the parameter that a heredoc or standard input fills.
	StdinParameter string `json:"stdin_parameter,omitempty"`
	// DefaultTimeout of a call. 0: the host's default. Negative: the tool keeps
	// its own time, and the host applies only its upper limit.
	DefaultTimeout time.Duration `json:"default_timeout,omitempty"`
}

// Traits tell the host how it may treat a tool. The zero value is the careful one.
type Traits struct {
	// ReadOnly tools change nothing. They may be retried after a crash.
	ReadOnly bool `json:"read_only"`
	// ConcurrencySafe tools may run beside other calls.
	ConcurrencySafe bool `json:"concurrency_safe"`
	// Dangerous tools need a confirmation unless policy allows the call.
	Dangerous bool `json:"dangerous"`
	// AutoExecute tells an agent that it need not ask before calling.
	AutoExecute bool `json:"auto_execute"`
	// Disabled tools are off until the operator enables them.
	Disabled bool `json:"disabled,omitempty"`
	// Cacheable tools are ReadOnly, and what they answer depends on nothing but their arguments,
	// the call's working directory and roots, and the contents of files that are all in
	// Result.Effects: not on other files being there, nor on time, session or network. The host
	// may give an earlier answer, once it has found these files to hold what they held.
	Cacheable bool `json:"cacheable,omitempty"`
	// Idempotent tools do the same when run twice with the same arguments.
	Idempotent bool `json:"idempotent"`
}

var nameRE = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)

// ValidName reports whether s can name a tool, a plugin or a field namespace.
func ValidName(s string) bool { return nameRE.MatchString(s) }

const maxName = 64

// NameOf makes a valid name of one that tools have elsewhere, such as "getWeather": letters
// in lower case, '_' for what a name cannot have. Two names may become the same; see
// [DistinctName]. An empty one stays empty.
func NameOf(s string) string {
	if s == "" {
		return ""
	}
	valid := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r):
			return r
		}
		return '_'
	}, s)
	if valid[0] < 'a' || valid[0] > 'z' {
		valid = "t" + valid
	}
	if len(valid) > maxName {
		return DistinctName(valid, s)
	}
	return valid
}

// DistinctName marks a name that [NameOf] made with a hash of the original, to tell it from
// another that became the same.
func DistinctName(name, original string) string {
	sum := sha256.Sum256([]byte(original))
	mark := "_" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), maxName-len(mark))] + mark
}

// Validate reports everything that is wrong with the definition, joined.
func (d *Definition) Validate() error {
	var errs []error
	fail := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch {
	case d.Name == "":
		fail("the name is empty")
	case !ValidName(d.Name):
		fail("the name %q is not valid: use lower-case letters, digits, '_', '-' and '.', beginning with a letter, at most 64 characters", d.Name)
	}
	if strings.TrimSpace(d.Description) == "" {
		fail("the description is empty")
	}
	switch d.Category {
	case CategoryBuiltin, CategoryCustom, CategoryMCP, "":
	default:
		fail("the category %q is not one of builtin, custom, mcp", d.Category)
	}
	schema, err := ParseSchema(d.Input)
	if err != nil {
		fail("the input schema is not valid: %w", err)
	} else if d.StdinParameter != "" && schema.Param(d.StdinParameter) == nil {
		fail("the stdin parameter %q is not a property of the input schema", d.StdinParameter)
	}
	return errors.Join(errs...)
}
