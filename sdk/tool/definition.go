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

// Category is the origin of a tool.
type Category string

// The categories.
const (
	CategoryBuiltin Category = "builtin"
	CategoryCustom  Category = "custom"
	CategoryMCP     Category = "mcp"
)

// Definition is everything a caller needs to know to use a tool.
type Definition struct {
	// Name is unique in its layer. See [ValidName] for its form.
	Name string `json:"name"`
	// Description tells a model what the tool does and when to use it.
	Description string `json:"description"`
	// Input is the JSON Schema of the arguments, of type object. Positional arguments fill the
	// parameters in the order of "required", then of "properties".
	Input json.RawMessage `json:"input_schema"`
	// Output is the JSON Schema of [Result.Data]. If it is nil the data is not described.
	Output   json.RawMessage `json:"output_schema,omitempty"`
	Traits   Traits          `json:"traits"`
	Category Category        `json:"category"`
	// Version is the version of the tool. If it is empty the tool has the plugin's.
	Version string `json:"version,omitempty"`
	// Examples are whole command lines, shown in the help.
	Examples []string `json:"examples,omitempty"`
	// StdinParameter names the parameter that a heredoc or standard input fills.
	StdinParameter string `json:"stdin_parameter,omitempty"`
	// DefaultTimeout limits a call. Zero means the host's default. If it is negative the tool
	// limits its calls itself, and the host applies only its upper limit.
	DefaultTimeout time.Duration `json:"default_timeout,omitempty"`
}

// Traits are promises about a tool, by which the host decides how to treat it. The zero value
// promises nothing, so the host is most careful.
type Traits struct {
	// ReadOnly tools change nothing. The host may retry them after a crash.
	ReadOnly bool `json:"read_only"`
	// ConcurrencySafe tools may run beside other calls.
	ConcurrencySafe bool `json:"concurrency_safe"`
	// Dangerous tools need a confirmation unless policy allows the call.
	Dangerous bool `json:"dangerous"`
	// AutoExecute tools may be called by an agent that does not ask first.
	AutoExecute bool `json:"auto_execute"`
	// Disabled tools are off until the operator enables them.
	Disabled bool `json:"disabled,omitempty"`
	// Cacheable tools are ReadOnly, and their results depend only on the arguments, on the call's
	// working directory and roots, and on the contents of the files in [Result.Effects]. They do
	// not depend on whether other files exist, nor on time, session or network. The host may
	// return an earlier result after it has checked that these files are unchanged.
	Cacheable bool `json:"cacheable,omitempty"`
	// Idempotent tools have the same effect whether a call runs once or twice.
	Idempotent bool `json:"idempotent"`
}

var nameRE = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)

// ValidName reports whether s can name a tool, a plugin or a field namespace: lower-case letters,
// digits, '_', '-' and '.', beginning with a letter, at most 64 characters.
func ValidName(s string) bool { return nameRE.MatchString(s) }

const maxName = 64

// NameOf turns a name from another system, such as "getWeather", into a valid name. It converts
// letters to lower case and replaces other characters by '_'. An empty name stays empty. Two names
// may become the same: see [DistinctName].
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

// DistinctName appends a hash of the original to a name that [NameOf] returned. It keeps apart two
// names that became the same.
func DistinctName(name, original string) string {
	sum := sha256.Sum256([]byte(original))
	mark := "_" + hex.EncodeToString(sum[:3])
	return name[:min(len(name), maxName-len(mark))] + mark
}

// Validate returns an error that joins everything that is wrong with the definition, or nil.
func (d *Definition) Validate() error {
	var errs []error
	fail := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch {
	case d.Name == "":
		fail("the name is empty")
	case !ValidName(d.Name):
		fail("invalid name %q; use lower-case letters, digits, '_', '-' and '.', beginning with a letter, at most 64 characters", d.Name)
	}
	if strings.TrimSpace(d.Description) == "" {
		fail("the description is empty")
	}
	switch d.Category {
	case CategoryBuiltin, CategoryCustom, CategoryMCP, "":
	default:
		fail("unknown category %q; use builtin, custom or mcp", d.Category)
	}
	schema, err := ParseSchema(d.Input)
	if err != nil {
		fail("the input schema is not valid: %w", err)
	} else if d.StdinParameter != "" && schema.Param(d.StdinParameter) == nil {
		fail("the stdin parameter %q is not a property of the input schema", d.StdinParameter)
	}
	return errors.Join(errs...)
}
